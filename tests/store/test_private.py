"""What can be rebuilt from a model file: rows from an ordinary one, none from one that was saved with private=True."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL
from kinfolk.baselines import Independent, RandomSlopes
from kinfolk.cli import main
from kinfolk.explain import edge_confidence, kinship
from kinfolk.report import summarize, write_report
from kinfolk.store import ModelFileError, load, save
from kinfolk.store.private import LEAST_ROWS, SPARE_ROWS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore:feature .* is constant")

RNG = np.random.default_rng(8)
N = 160
PERSON = 37  # the only row with the diagnosis "rare"
QUICK = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "neighbors": (2,), "cv": 2, "trunk": None}


def table():
    """Four tasks of 40 rows; one person has a diagnosis that nobody else has."""
    X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["age", "weight", "dose"])
    X["diagnosis"] = np.resize(["common", "frequent", "usual"], N)
    X["clinic"] = np.repeat(["north", "south", "east", "west"], N // 4)
    X.loc[PERSON, "diagnosis"] = "rare"
    return X


X = table()
Y = X["age"].to_numpy() * 2 - X["dose"].to_numpy() + RNG.normal(size=N)
Y[PERSON] = 4.321


@pytest.fixture(scope="module")
def model():
    return GAMTLCV(task="clinic", **QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def files(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return {
        "ordinary": save(model, folder / "ordinary.kin"),
        "private": save(model, folder / "private.kin", private=True),
    }


def arrays_in(path):
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        return [np.load(io.BytesIO(archive.read(name))) for name in names]


def matrices_of_tasks(path):
    """All that can be second moments: arrays (T, d, d)."""
    found = [a for a in arrays_in(path) if a.ndim == 3 and a.shape[1] == a.shape[2]]
    return [a for a in found if len(a) == 4]


def rebuilt_person(path):
    """Inputs of single rows, from the products of a column of 0 and 1 with the others: sum of a row less the mean."""
    rows = []
    for G in matrices_of_tasks(path):
        means = [a for a in arrays_in(path) if a.shape == G.shape[:2]]
        rows += [G[t, :, j] + mean[t] for mean in means for t in range(len(G)) for j in range(G.shape[2])]
    return rows


def rebuilds(path, row):
    return any(
        np.allclose(row, found[: len(row)] if len(found) == len(row) else np.inf) for found in rebuilt_person(path)
    )


def person(model):
    return model.model_.columns.features(model.model_.columns.read_with_targets(X, Y, "test")[0].table)[PERSON]


def test_the_row_of_a_person_with_a_rare_category_is_rebuilt_from_an_ordinary_file_and_not_from_a_private_one(
    model, files
):
    row = person(model)
    assert rebuilds(files["ordinary"], row)
    assert not rebuilds(files["private"], row)
    assert not matrices_of_tasks(files["private"])


def test_a_row_of_a_one_row_task_is_in_an_ordinary_file_and_refused_by_a_private_one(tmp_path):
    small = pd.concat([X, X.iloc[[PERSON]].assign(clinic="tiny", diagnosis="usual")], ignore_index=True)
    model = Independent(task="clinic", penalty=1.0).fit(small, np.append(Y, 77.25))
    gram = load(save(model, tmp_path / "ordinary.kin")).gram_
    t = gram.labels.tolist().index("tiny")
    np.testing.assert_allclose(gram.x_mean[t, :3], X.loc[PERSON, ["age", "weight", "dose"]].astype(float))
    assert gram.y_mean[t] == 77.25
    with pytest.raises(
        ModelFileError, match=r"private=True refuses 1 task with fewer than .* 'tiny' \(1\)\. .* Drop or"
    ):
        save(model, tmp_path / "private.kin", private=True)
    assert not (tmp_path / "private.kin").exists()


def test_no_observed_number_and_no_rare_name_is_in_a_private_file(model, files):
    seen = {kind: np.concatenate([a.ravel() for a in arrays_in(p) if a.dtype.kind == "f"]) for kind, p in files.items()}
    values = X[["age", "weight", "dose"]].to_numpy()
    extremes = np.isin(values, [values.min(axis=0), values.max(axis=0)])  # said in docs/privacy.md
    assert not np.isin(Y, seen["private"]).any()
    assert not np.isin(values[~extremes], seen["private"]).any()
    assert b'"rare"' in files["ordinary"].read_bytes() and b'"rare"' not in files["private"].read_bytes()
    assert b"rare" not in json.dumps(load(files["private"]).features_.rules_["diagnosis"]["levels"]).encode()


def test_a_private_model_predicts_others_the_same_and_a_rare_category_as_an_unknown_one(model, files):
    private = load(files["private"])
    others = X.drop(index=PERSON)
    np.testing.assert_allclose(private.predict(others), model.predict(others), rtol=1e-12)
    unknown = model.predict(X.iloc[[PERSON]].assign(diagnosis="never seen"))
    np.testing.assert_allclose(private.predict(X.iloc[[PERSON]]), unknown, rtol=1e-12)
    assert (private.adjacency_ != model.adjacency_).nnz == 0 and private.tasks_.tolist() == model.tasks_.tolist()
    assert save(private, files["private"].parent / "again.kin").read_bytes() == files["private"].read_bytes()


def test_a_rare_first_of_two_categories_moves_the_level_of_all(tmp_path):
    two = X.assign(diagnosis=np.where(np.arange(N) == PERSON, "a rare one", "usual"))
    model = RandomSlopes(task="clinic").fit(two, Y)
    private = load(save(model, tmp_path / "two.kin", private=True))
    others = two.drop(index=PERSON)
    np.testing.assert_allclose(private.predict(others), model.predict(others), rtol=1e-12)
    as_usual = model.predict(two.iloc[[PERSON]].assign(diagnosis="usual"))
    np.testing.assert_allclose(private.predict(two.iloc[[PERSON]]), as_usual, rtol=1e-12)
    assert b"a rare one" not in (tmp_path / "two.kin").read_bytes()


def test_effects_of_rare_categories_of_many_are_left_out(tmp_path):
    town = np.resize([f"town {k:02}" for k in range(52)], N).astype(object)
    town[:30] = "capital"
    model = Independent(task="clinic", penalty=1.0).fit(X.assign(town=town), Y)
    path = save(model, tmp_path / "towns.kin", private=True)
    rule = load(path).features_.rules_["town"]
    assert rule["levels"] == ["capital"] and len(rule["effects"]) == 1 and b"town 33" not in path.read_bytes()


WHAT_NEEDS_MORE = {
    "std": lambda m: m.predict(X, return_std=True),
    "quantiles": lambda m: m.predict(X, quantiles=(0.1,)),
    "contributions": lambda m: m.contributions(),
    "adopt": lambda m: m.adopt(X.assign(clinic="new"), Y),
    "drop": lambda m: m.drop(["north"]),
    "edge_confidence": edge_confidence,
    "report": lambda m: summarize(m, X, Y),
}


@pytest.mark.parametrize("name", WHAT_NEEDS_MORE)
def test_what_needs_more_than_a_private_file_says_so(name, files):
    with pytest.raises(ValueError, match="needs statistics of the rows of fit, .* saved with private=True"):
        WHAT_NEEDS_MORE[name](load(files["private"]))


def test_partial_fit_of_a_private_model_says_so(tmp_path):
    path = save(GAMTL(task="clinic", strength=1.0, ridge=1.0).fit(X, Y), tmp_path / "g.kin", private=True)
    with pytest.raises(ValueError, match="partial_fit needs statistics .* private=True"):
        load(path).partial_fit(X, Y)


def test_what_does_without_statistics_goes_on(model, files):
    private = load(files["private"])
    assert kinship(private) is None and len(private.summary().groups) >= 0
    names = [name for name in model.model_.feature_names if "rare" not in name]
    assert [name for name in private.model_.feature_names if "left out" not in name] == names


def test_tasks_need_more_rows_than_coefficients(tmp_path):
    rows = 3 + 1 + SPARE_ROWS
    few = pd.DataFrame(RNG.normal(size=(3 * rows, 3)), columns=list("abc")).assign(who=np.repeat(list("xyz"), rows))
    y = RNG.normal(size=len(few))
    save(Independent(task="who", penalty=1.0).fit(few, y), tmp_path / "enough.kin", private=True)
    with pytest.raises(ModelFileError, match=f"fewer than {max(rows, LEAST_ROWS)} different rows: 'z' .{rows - 1}."):
        save(Independent(task="who", penalty=1.0).fit(few[:-1], y[:-1]), tmp_path / "few.kin", private=True)


def test_curves_around_centres_which_may_be_rows_are_refused(tmp_path):
    numbers = X.drop(columns="diagnosis")
    model = RBFGAMTL(task="clinic", cv=2).fit(numbers, Y)
    assert model.model_.columns.basis is not None
    with pytest.raises(ModelFileError, match="private=True stores no RBFFeatures, which may hold rows"):
        save(model, tmp_path / "rbf.kin", private=True)


def test_the_private_report_holds_no_observed_target_and_no_rare_name(model, tmp_path):
    open_page = summarize(model, X, Y)
    page = summarize(model, X, Y, private=True)
    assert open_page["points"] is not None and page["points"] is None
    written = {p: write_report(model, X, Y, tmp_path / f"{p}.html", private=p).read_text() for p in (False, True)}
    assert "4.321" in written[False] and "4.321" not in written[True]
    assert "diagnosis_rare" in written[False] and "diagnosis_rare" not in written[True]


def test_the_command_line_writes_private_files(tmp_path, capsys):
    X.assign(score=Y).to_csv(tmp_path / "t.csv", index=False)
    fit = ["fit", f"{tmp_path}/t.csv", "--task", "clinic", "--target", "score", "--method", "independent", "--private"]
    assert main([*fit, "--out", f"{tmp_path}/m.kin", "--report", f"{tmp_path}/r.html"]) == 0
    assert "4.321" not in (tmp_path / "r.html").read_text() and load(tmp_path / "m.kin").model_.private
    assert main(["predict", f"{tmp_path}/m.kin", f"{tmp_path}/t.csv", "--std"]) == 1
    assert "saved with private=True" in capsys.readouterr().err
