"""What is told about features: columns that follow from others, and searches that would take hours."""

import re
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTLCV, GAMTLClassifier
from kinfolk.baselines import Independent, Pooled
from kinfolk.cli import main
from kinfolk.methods.remarks import check_work


def table(rng, n=60):
    """Three columns of numbers and three tasks."""
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    return frame.assign(task=np.arange(n) % 3, y=frame["a"] + rng.normal(size=n))


MADE = {
    "sum": (lambda t: t["a"] + 2 * t["b"] - t["task"], {"a", "b", "made"}),
    "copy": (lambda t: 3 * t["c"] + 7, {"c", "made"}),
}


@pytest.mark.parametrize("name", MADE)
def test_a_column_that_follows_from_others_within_tasks_is_named(name):
    make, involved = MADE[name]
    frame = table(np.random.default_rng(0))
    with pytest.warns(UserWarning, match="follows from .* within every task") as caught:
        Independent(task="task").fit(frame.assign(made=make(frame)), "y")
    assert set(re.findall("'(\\w+)'", str(caught[0].message))) == involved and len(caught) == 1


def test_a_scaler_hides_no_column_that_follows_from_others():
    frame = table(np.random.default_rng(3)).assign(made=lambda t: 3 * t["c"] + 7)
    with pytest.warns(UserWarning, match="'(c|made)' follows from '(c|made)' within every task"):
        Independent(task="task", features=StandardScaler()).fit(frame, "y")


def test_columns_that_only_resemble_each_other_and_categories_are_not_named():
    rng = np.random.default_rng(1)
    frame = table(rng)
    frame["near"] = frame["a"] + 1e-3 * rng.normal(size=60)
    Independent(task="task").fit(frame, "y")
    frame["kind"] = rng.choice(["p", "q", "r"], 60)
    with pytest.warns(UserWarning, match="one-hot encoded") as caught:
        Independent(task="task").fit(frame, "y")
    assert len(caught) == 1


def test_thousands_of_columns_are_refused_at_once_with_a_remedy():
    X = np.zeros((20, 4901))
    X[:, 0] = np.arange(20) % 5
    started = time.process_time()
    with pytest.raises(ValueError, match="4,900 features of 5 tasks: a search over folds will take about 327 hours"):
        GAMTLCV(task=0).fit(X, np.arange(20.0))
    assert time.process_time() - started < 5


def test_a_search_of_hours_is_announced_and_one_of_minutes_is_not():
    with pytest.warns(UserWarning, match="hours.*features=PCA"):
        check_work(5, 1000)
    check_work(28, 100)


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "with text"])
def test_beside_curves_and_walks_the_notice_names_columns_of_the_table_alone(text):
    rng = np.random.default_rng(1)
    T, n = 6, 20
    walk = np.tile(np.cumsum(rng.normal(size=n)), T)
    frame = pd.DataFrame(
        {"task": np.repeat(np.arange(T), n), "year": np.tile(np.arange(n), T), "x": rng.normal(size=T * n)}
    )
    frame["made"] = 2 * frame["x"] + 1
    frame = frame.assign(town=rng.choice(["Bonn", "Rome", "Oslo"], size=T * n)) if text else frame
    with pytest.warns(UserWarning) as caught:
        model = GAMTLCV(task="task", strengths=(1.0,), ridges=(0.1,), anchors=(0.0,)).fit(frame, frame["x"] + 3 * walk)
    assert model.model_.feature_names[0] == "walk 1 of year"
    said = [str(note.message) for note in caught if "follows from" in str(note.message)]
    assert len(said) == 1 and set(re.findall("'(\\w+)'", said[0])) == {"x", "made"}


KINDS = {
    "two values": (lambda y: y > 0, "the target has two values, 0 and 1: squared error is used"),
    "counts": (lambda y: np.floor(np.exp(y / 2)), "the target is counts, 0 to .*: squared error is used"),
    "shares": (lambda y: 1 / (1 + np.exp(-y)), "the target lies between 0 and 1: squared error is used"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [Independent, GAMTLCV])
def test_a_target_that_is_no_measurement_is_named_once(kind, method):
    make, said = KINDS[kind]
    frame = table(np.random.default_rng(4), n=150)
    with pytest.warns(UserWarning, match=said) as caught:
        method(task="task").fit(frame.assign(y=make(frame["y"]).astype(float)), "y")
    assert sum("squared error" in str(note.message) for note in caught) == 1


def test_the_command_line_names_a_target_that_is_no_measurement(tmp_path, capsys):
    frame = table(np.random.default_rng(4), n=150)
    frame.assign(y=(frame["y"] > 0) * 1).to_csv(tmp_path / "t.csv", index=False)
    main(["fit", str(tmp_path / "t.csv"), "--task", "task", "--target", "y", "--method", "independent"])
    assert capsys.readouterr().err.count("note: the target has two values, 0 and 1") == 1


@pytest.mark.parametrize("column", ["y", "b"])
def test_one_value_far_from_all_others_is_named_with_its_task(column):
    frame = table(np.random.default_rng(5), n=300)
    frame.loc[17, column] = 1e6
    name = {"y": "the target", "b": "column 'b'"}[column]
    with pytest.warns(UserWarning, match=f"{name} is 1e.06 in row 17 of task 2, more than 100 times as far") as caught:
        Independent(task="task").fit(frame, "y")
    assert len(caught) == 1


def test_heavy_tails_and_rare_values_are_not_named(recwarn):
    rng = np.random.default_rng(6)
    frame = table(rng, n=3000).assign(b=np.exp(3 * rng.normal(size=3000)), c=np.arange(3000) == 5)
    Independent(task="task").fit(frame, "y")
    assert not [note for note in recwarn if "slip" in str(note.message)]


def test_inputs_that_hold_the_target_are_asked_about():
    frame = table(np.random.default_rng(7), n=150)
    quick = {"strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,), "nonlinear": False}
    plain = GAMTLCV(task="task", **quick).fit(frame, "y")
    leaks = GAMTLCV(task="task", **quick).fit(frame.assign(total=3 * frame["y"] + 0.001 * frame["c"]), "y")
    sentences = [" ".join(model.summary().verdict) for model in (plain, leaks)]
    assert ["give the target away" in said for said in sentences] == [False, True]


def test_levels_of_tasks_do_not_give_the_target_away():
    frame = table(np.random.default_rng(7), n=150).assign(y=lambda t: t["y"] + 1000 * t["task"])
    model = GAMTLCV(task="task", strengths=(1.0,), nonlinear=False).fit(frame, "y")
    assert "give the target away" not in " ".join(model.summary().verdict)


def classes(change):
    """Rows of six tasks with targets of 0 and 1, changed."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"dose": rng.normal(size=240), "age": rng.normal(size=240)})
    X["clinic"] = np.repeat(["north", "south", "east", "west", "hill", "dale"], 40)
    return X, change(X, (rng.uniform(size=240) < 0.5).astype(float))


POOR = {
    "one kind": (
        lambda X, y: np.where(X.clinic == "north", 0, y),
        "task 'north' has only zeros: its level comes from",
    ),
    "two kinds": (
        lambda X, y: np.where(X.clinic == "north", 0, np.where(X.clinic < "hill", 1, y)),
        r"tasks 'dale', 'east' have only ones: their levels come from 3 others",
    ),
    "separation": (
        lambda X, y: np.where(X.clinic > "n", X.dose > 0.1, y),
        "'dose' separates the classes in 3 tasks: the size of its coefficient there is set by the penalty",
    ),
    "few events": (lambda X, y: np.arange(240) % 20 == 7, "12 events for 2 columns: expect wide intervals"),
}


@pytest.mark.parametrize("case", POOR)
def test_separation_and_poverty_are_remarks(case):
    change, message = POOR[case]
    X, y = classes(change)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Independent(task="clinic", family="binomial").fit(X, y)
    assert [str(one.message) for one in seen if re.search(message, str(one.message))]


def test_rich_classes_have_no_remark():
    X, y = classes(lambda X, y: y)
    Independent(task="clinic", family="binomial").fit(X, y)
    GAMTLClassifier(task="clinic").fit(X, np.where(y > 0, "ill", "well"))


def test_a_task_without_a_class_is_named_by_its_label():
    X, y = classes(lambda X, y: np.where(X.clinic == "hill", 1, y))
    with pytest.warns(UserWarning, match="task 'hill' has only 'well': its level comes from 5 others"):
        GAMTLClassifier(task="clinic").fit(X, np.where(y > 0, "well", "ill"))


def test_counts_that_scatter_are_said_to():
    X, _ = classes(lambda X, y: y)
    y = np.random.default_rng(0).negative_binomial(2, 0.1, size=240)
    with pytest.warns(UserWarning, match=r"the targets vary .* times as much as those of family='poisson'"):
        Pooled(task="clinic", family="poisson").fit(X, y)
