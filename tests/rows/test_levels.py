"""Text of many values: one number per value, learned from rows that are not those it is used for."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kinfolk
from kinfolk import GAMTL, GAMTLCV, compare, tune
from kinfolk.baselines import Independent, Pooled, RandomSlopes
from kinfolk.cli import main
from kinfolk.large import fit_file
from kinfolk.report.errors import task_errors
from kinfolk.report.summary import _read
from kinfolk.rows.columns import TableRules
from kinfolk.rows.levels import CrossFitted, Levels, Observed, effects
from kinfolk.rows.schema import Columns, ruled
from kinfolk.rows.table import read_rows

pytestmark = pytest.mark.filterwarnings(
    "ignore:text with many categories:UserWarning", "ignore:missing values:UserWarning"
)


def town_table(n=1200, towns=120, tasks=6, size=1.0, seed=0):
    """A text with `towns` values whose effects have the deviation `size`, a number, and the target."""
    rng = np.random.default_rng(seed)
    town = rng.integers(towns, size=n)
    shop = rng.integers(tasks, size=n)
    x = rng.normal(size=n)
    added = size * np.random.default_rng(99).normal(size=towns)
    y = rng.normal(size=n) + x + added[town] + np.arange(tasks)[shop]
    return pd.DataFrame({"shop": shop, "town": [f"town {k}" for k in town], "x": x}), y


def rmse(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def test_effects_are_those_of_the_mixed_model_with_tasks_and_values():
    rng = np.random.default_rng(1)
    n, T, L = 4000, 8, 40
    task, level = rng.integers(T, size=n), rng.integers(L, size=n)
    u, v = rng.normal(size=T), 0.5 * rng.normal(size=L)
    y = u[task] + v[level] + rng.normal(size=n)
    Z = np.column_stack([task[:, None] == np.arange(T), level[:, None] == np.arange(L)]).astype(float)
    pull = np.concatenate([np.full(T, 1.0), np.full(L, 1 / 0.25)])  # noise over the variance of each
    exact = np.linalg.solve(Z.T @ Z + np.diag(pull), Z.T @ (y - y.mean()))[T:]
    found = effects([Levels(0, level, L)], Observed.of(y, task), np.zeros((n, 0)))[0]
    assert np.corrcoef(found, exact)[0, 1] > 0.999
    assert np.abs(found - exact).max() < 0.1 * np.abs(exact).max()


def test_effects_are_beyond_the_task_and_do_not_follow_its_level():
    X, y = town_table()
    rules = [
        TableRules().fit(X.drop(columns="shop"), y + far * X["shop"].to_numpy(), X["shop"].to_numpy()).rules_["town"]
        for far in (0.0, 1000.0)
    ]
    np.testing.assert_allclose(rules[0]["effects"], rules[1]["effects"], atol=0.05)


def test_weights_are_rows_and_rows_without_a_target_tell_nothing():
    X, y = town_table(600)
    level = np.unique(X["town"], return_inverse=True)[1]
    task = X["shop"].to_numpy()
    twice = np.arange(len(y)) % 3 == 0
    gone = np.arange(len(y)) % 3 == 1
    holed = np.where(gone, np.nan, y)
    x = X[["x"]].to_numpy()
    (weighted,) = effects([Levels(0, level, 120)], Observed.of(holed, task, np.where(twice, 2.0, 1.0)), x)
    rows = np.concatenate([np.flatnonzero(~gone), np.flatnonzero(twice)])
    (repeated,) = effects([Levels(0, level[rows], 120)], Observed.of(y[rows], task[rows]), x[rows])
    np.testing.assert_allclose(weighted, repeated, atol=1e-10)


def test_effects_of_several_columns_are_found_beside_each_other_and_beside_numbers():
    rng = np.random.default_rng(7)
    n, L = 3000, 100
    one = rng.integers(L, size=n)
    two = np.where(rng.random(n) < 0.5, one, rng.integers(L, size=n))  # two columns that tell much the same
    x = rng.normal(size=n) + one / L
    v = rng.normal(size=(2, L))
    y = v[0, one] + v[1, two] + 5 * x + rng.normal(size=n)
    found = effects([Levels(0, one, L), Levels(1, two, L)], Observed.of(y), x[:, None])
    for effect, exact in zip(found, v, strict=True):
        assert np.corrcoef(effect, exact)[0, 1] > 0.95


@pytest.mark.parametrize("in_time", [False, True])
def test_no_row_learns_from_its_own_fold_nor_from_the_fold_that_is_held_out(in_time):
    rng = np.random.default_rng(2)
    n = 300
    fold = rng.integers(4, size=n) - in_time
    level = rng.integers(20, size=n)
    task = rng.integers(3, size=n)
    y = rng.normal(size=n)
    X = np.zeros((n, 2))

    def found(y, f):
        return CrossFitted([Levels(1, level, 20)], Observed.of(y, task), fold).inputs(X, f)[:, 1]

    for f in range(3):
        for g in np.unique(fold):
            spoiled = np.where(fold == g, rng.normal(size=n), y)
            changed = found(y, f) != found(spoiled, f)
            assert not changed[fold == g].any()
            trains = g < f if in_time else g != f
            assert changed.any() == changed[fold == f].any() == trains


def test_statistics_of_a_fold_are_those_of_rules_fitted_to_its_training_rows():
    X, y = town_table(400, towns=60)
    rows = read_rows(X, y, task="shop")
    columns = ruled(Columns(rows.schema), rows)
    features = columns.features(rows.table)
    gram = rows.gram(features, None)
    fold = np.random.default_rng(4).integers(3, size=len(y))
    folds = columns.folds(rows, features, gram, fold, False)
    for f in range(3):
        trains = rows.take(np.flatnonzero(fold != f))
        rules = TableRules(kinds=columns.transformer.found_kinds).fit(trains.table.native, trains.y, trains.codes)
        rest = rows.take(np.flatnonzero(fold == f))
        expected = rest.gram(rules.transform(rest.table.native), None)
        np.testing.assert_allclose(folds.held_out[f].G, expected.G, atol=1e-9)
        np.testing.assert_allclose(folds.held_out[f].b, expected.b, atol=1e-9)
        # The same levels would be known in the training rows if these had learned from themselves.
        in_sample = trains.gram(rules.transform(trains.table.native), None)
        assert np.abs(folds.training(f).b[:, 0]).sum() < np.abs(in_sample.b[:, 0]).sum()


@pytest.mark.parametrize("of", ["GAMTLCV", "Pooled"])
def test_values_that_say_nothing_are_found_to_say_nothing(of):
    """Mean over tables of what cross-validation reports, beside the error on fresh rows."""
    reported, fresh = [], []
    for seed in range(6):
        X, y = town_table(size=0.0, seed=seed)
        new, y_new = town_table(6000, size=0.0, seed=seed + 100)
        if of == "GAMTLCV":
            model = GAMTLCV(task="shop").fit(X, y)
            rows = np.bincount(X["shop"])
            reported.append(np.sqrt(rows @ model.cv_errors_**2 / rows.sum()))
        else:
            found = tune(Pooled(task="shop"), {"penalty": [0.1, 1.0]}, X, y)
            model = found.best_estimator_
            reported.append(found.best_error_)
        fresh.append(rmse(model, new, y_new))
    assert np.mean(reported) == pytest.approx(np.mean(fresh), rel=0.03)
    assert np.mean(fresh) < 1.02


def test_many_values_reach_the_error_that_their_effects_allow():
    X, y = town_table(6000, towns=300, size=2.0)
    new, y_new = town_table(3000, towns=300, size=2.0, seed=1)
    model = RandomSlopes(task="shop").fit(X, y)
    assert rmse(model, new, y_new) < 1.06
    assert model.coef_.shape[1] == 2
    rules = TableRules(learn=False, kinds=None)
    one_hot = RandomSlopes(task="shop", features=rules).fit(X, y)
    assert rmse(one_hot, new, y_new) > 1.5


def test_all_doors_learn_the_same(tmp_path, capsys):
    X, y = town_table(900)
    by_frame = [
        RandomSlopes(task="shop").fit(frame, y).coef_ for frame in (X, pl.from_pandas(X), pl.from_pandas(X).to_arrow())
    ]
    np.testing.assert_allclose(by_frame[0], by_frame[1], rtol=1e-9)
    np.testing.assert_allclose(by_frame[0], by_frame[2], rtol=1e-9)
    rows = tmp_path / "rows.csv"
    X.assign(y=y).to_csv(rows, index=False)
    out = tmp_path / "rows.kin"
    command = ["fit", str(rows), "--task", "shop", "--target", "y", "--method", "random-slopes", "--out", str(out)]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "text with many categories becomes one number, what each category adds to the target" in said
    stored = kinfolk.load(out)
    np.testing.assert_allclose(stored.predict(X), RandomSlopes(task="shop").fit(X, y).predict(X), rtol=1e-6)


def test_files_in_blocks_say_what_they_do_instead(tmp_path):
    X, y = town_table(900)
    rows = tmp_path / "rows.csv"
    X.assign(y=y).to_csv(rows, index=False)
    with pytest.warns(UserWarning, match="the 50 most frequent of 120 categories.*in memory"):
        model = fit_file(Pooled(task="shop"), rows, target="y")
    assert model.coef_.shape[1] == 52


def test_new_rows_with_other_values_and_none_get_the_mean_and_are_counted(tmp_path):
    X, y = town_table(900)
    X.loc[:30, "town"] = None
    model = Pooled(task="shop").fit(X, y)
    model.save(tmp_path / "model.kin")
    new = pd.DataFrame({"shop": [0, 0, 0], "town": ["Atlantis", "town 3", None], "x": [0.0, 0.0, 0.0]})
    for one in (model, kinfolk.load(tmp_path / "model.kin")):
        with pytest.warns(UserWarning, match="'town': 1 row with categories that fit has not seen .'Atlantis'.*mean"):
            unseen, known, missing = one.predict(new)
        rule = one.features_.rules_["town"]
        slope = one.coef_[0, list(one.get_feature_names_out()).index("town")]
        assert known - unseen == pytest.approx(slope * rule["effects"][rule["levels"].index("town 3")])
        assert missing != unseen  # a column marks it


@pytest.mark.parametrize("spoil", [{"effects": [0.0]}, {"std": 0.0}, {"std": float("nan")}, {"levels": "abc"}])
def test_a_file_whose_effects_make_no_sense_is_refused(spoil, tmp_path):
    X, y = town_table(900)
    model = Pooled(task="shop").fit(X, y)
    model.features_.rules_["town"] |= spoil
    model.save(tmp_path / "model.kin")
    with pytest.raises(ValueError, match="the rule of column 'town'"):
        kinfolk.load(tmp_path / "model.kin")


def test_a_report_of_the_rows_of_fit_is_cross_validated_and_not_a_test():
    X, y = town_table(size=0.0)
    for method in (GAMTL(task="shop", strength=1.0, ridge=1.0, alpha=None), Independent(task="shop", penalty=1.0)):
        model = method.fit(X, y).model_
        seen = _read(model, X, y, None)
        errors = task_errors(model, seen.rows, seen.X, seen.gram)
        assert "5-fold cross-validation" in errors.protocol
        assert np.sqrt(np.mean(errors.model**2)) > 0.98  # noise alone is 1


def test_ids_stay_left_out_and_few_values_stay_columns():
    X, y = town_table(300, towns=40)
    rules = TableRules().fit(X.assign(name=[f"row {k}" for k in range(300)]).drop(columns="shop"), y)
    assert rules.left_out_ == {"name": "names"}
    assert rules.rules_["town"]["kind"] == "category"


def test_wide_targets_streams_curves_trunks_and_comparisons_take_it():
    X, y = town_table(300, towns=60)
    inputs = X.drop(columns="shop")
    wide = np.column_stack([y, 2 * y, np.where(np.arange(300) % 2, np.nan, y)])
    assert Pooled().fit(inputs, wide).coef_.shape == (3, 2)
    first, rest = slice(0, 200), slice(200, 300)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*categories that fit has not seen")
        grown = GAMTLCV(task="shop").partial_fit(X[first], y[first]).partial_fit(X[rest], y[rest])
        assert grown.score(X, y) > 0.5
    for options in ({"nonlinear": "auto", "cv": 3}, {"trunk": "auto", "cv": 3}, {"cv": 4}):
        model = GAMTLCV(task="shop", **options).fit(X, y, **({"time": np.arange(300)} if len(options) == 1 else {}))
        assert np.nanmean(model.cv_errors_) > 0.9
    found = tune(GAMTLCV(task="shop", cv=3), {"guard": [2.0]}, X, y, cv=3)
    assert 0.9 < found.best_error_ < 2.0
    judged = compare(X, y, task="shop", methods=["pooled", "task-mean"], cv=3).judged
    assert judged["pooled"].tasks() < judged["task-mean"].tasks()


@pytest.mark.parametrize("written", [{}, {"sep": ";", "decimal": ","}])
def test_codes_with_leading_zeros_are_text_in_frames_and_files(written, tmp_path, capsys):
    rng = np.random.default_rng(8)
    code = rng.integers(400, size=900)
    y = rng.normal(size=400)[code] + 0.1 * rng.normal(size=900)
    table = pd.DataFrame({"shop": rng.integers(3, size=900), "zip": [f"{k:05d}" for k in 97 * code], "x": y, "n": code})
    assert TableRules().fit(table[["zip", "n"]], y).found_kinds == {"zip": "learned", "n": "number"}
    rows = tmp_path / "rows.csv"
    table.assign(y=y, x=rng.normal(size=900)).to_csv(rows, index=False, **written)
    command = [
        "fit",
        str(rows),
        "--task",
        "shop",
        "--target",
        "y",
        "--method",
        "pooled",
        "--out",
        str(tmp_path / "a.kin"),
    ]
    assert main(command) == 0
    assert "'zip' (" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "a.kin"), str(rows), "--out", str(tmp_path / "out.csv")]) == 0
    assert "has not seen" not in capsys.readouterr().err
    predicted = pd.read_csv(tmp_path / "out.csv")["prediction"]
    assert np.corrcoef(predicted, y)[0, 1] > 0.5


def test_dates_that_end_after_the_first_rows_are_read_as_text(tmp_path):
    days = [f"2024-01-{1 + k % 28:02d}" for k in range(150)] + ["soon", "later"] * 75
    rows = tmp_path / "rows.csv"
    pd.DataFrame({"shop": np.arange(300) % 3, "day": days, "y": np.arange(300.0) % 7}).to_csv(rows, index=False)
    with pytest.warns(UserWarning, match="column 'day' is text and is one-hot encoded .30 categories"):
        fit_file(Pooled(task="shop"), rows, target="y")
