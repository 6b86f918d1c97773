"""Features that do not vary within tasks: one coefficient for all, a population that is identified, and a notice."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pandas as pd
import pytest

from kinfolk import GAMTL, GAMTLCV, load
from kinfolk.baselines import Independent, MeanShrunk, Pooled, RandomSlopes
from kinfolk.explain import group_profile, group_sentences
from kinfolk.methods.ridges import TaskMean
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats
from kinfolk.search.members import SLOPES, Member
from kinfolk.search.shares import best_mixture
from kinfolk.search.tries import Search

KINDS = {"a": 0.0, "b": 2.0, "c": -1.0}
METHODS = [
    RandomSlopes(task="task", unseen="mean"),
    RandomSlopes(task="task", unseen="mean", intercept="free"),
    RandomSlopes(task="task", unseen="mean", covariance="full"),
    Independent(task="task", unseen="mean"),
    Independent(task="task", unseen="mean", penalty="cv"),
    MeanShrunk(task="task", unseen="mean"),
    Pooled(task="task", unseen="mean"),
    TaskMean(task="task", unseen="mean"),
    GAMTL(task="task", unseen="mean"),
    GAMTL(task="task", unseen="mean", intercept="shrunk"),
    GAMTLCV(task="task", unseen="mean", trunk=None),
]


def levels_by_age_and_kind(T=60, n=5, seed=0):
    """Every task has an age and a kind, which make its level; 45 of 60 tasks are for training."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(list(KINDS), T)
    age = rng.normal(40, 10, T)
    level = 0.1 * age + np.array([KINDS[k] for k in kind]) + 0.3 * rng.normal(size=T)
    slope = 1 + 0.5 * rng.normal(size=T)
    task = np.repeat(np.arange(T), n)
    x, other, noise = rng.normal(size=(3, T * n))
    y = level[task] + slope[task] * x + 0.3 * noise
    return pd.DataFrame({"task": task, "x": x, "other": other, "kind": kind[task], "age": age[task], "y": y})


def quietly(model, table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(table, "y")


def error(model, table):
    return float(np.mean((model.predict(table.drop(columns="y")) - table.y) ** 2))


TABLE = levels_by_age_and_kind()
TRAIN = TABLE[TABLE.task < 45]
UNSEEN = TABLE[TABLE.task >= 45]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: repr(method)[:60])
def test_tasks_nobody_has_seen_are_predicted_with_their_own_values_of_such_columns(method):
    model = quietly(method, TRAIN)
    level = UNSEEN.groupby("task").mean(numeric_only=True).y.var()
    # What is left: the slopes of tasks (variance 0.25), their levels beside age and kind (0.09), and noise (0.09).
    assert error(model, UNSEEN) < 0.4 * level + (1.0 if isinstance(method, TaskMean) else 0.0)
    np.testing.assert_allclose(model.population_coef_[-1], 0.1, atol=0.05)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: repr(method)[:60])
def test_no_task_has_a_slope_of_its_own_for_such_columns(method):
    coef = quietly(method, TRAIN).coef_[:, 2:]
    np.testing.assert_allclose(coef, np.tile(coef[0], (len(coef), 1)), rtol=1e-9, atol=1e-12)


def test_unseen_tasks_are_predicted_as_well_as_by_the_mixed_model():
    mixed = quietly(METHODS[0], TRAIN)
    assert error(quietly(METHODS[-1], TRAIN), UNSEEN) < 1.02 * error(mixed, UNSEEN)


def test_a_mixed_model_has_no_variance_there_and_the_likelihood_is_at_its_maximum():
    model = quietly(RandomSlopes(task="task"), TRAIN)
    assert model.converged_
    assert (model.relevance_[2:] == 0).all()
    assert model.relevance_[0] > 0.3


def test_own_intercepts_leave_predictions_of_seen_tasks_as_they_were():
    with_them = quietly(Independent(task="task"), TRAIN)
    without = quietly(Independent(task="task"), TRAIN.drop(columns=["kind", "age"]))
    expected = without.predict(TRAIN.drop(columns=["kind", "age", "y"]))
    np.testing.assert_allclose(with_them.predict(TRAIN.drop(columns="y")), expected, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS[:-1], ids=lambda method: repr(method)[:60])
def test_parts_give_back_the_coefficients(method):
    model = quietly(method, TRAIN).model_
    part = model.parts[0]
    equations = part.equations(model.known)
    W, c = part.coefficients(equations, part.map(model.known).unknowns())
    np.testing.assert_allclose(W[:, :2], model.coef[:, :2], rtol=1e-5, atol=1e-6)
    # Dummies of all categories and a level are not unique, what they add up to is.
    x = model.known.x_mean
    expected = model.intercept + np.einsum("td,td->t", x, model.coef)
    np.testing.assert_allclose(c + np.einsum("td,td->t", x, W), expected, rtol=1e-5)


@pytest.mark.parametrize("method", [METHODS[0], METHODS[5], METHODS[-1]], ids=lambda method: type(method).__name__)
def test_errors_of_coefficients_in_common_are_the_same_for_all_tasks(method):
    found = quietly(method, TRAIN).model_.uncertainty.of_coefficients()[:, 3:]
    assert (found > 0).all()
    np.testing.assert_allclose(found, np.tile(found[0], (len(found), 1)))


def test_unseen_tasks_lie_within_their_intervals():
    mean, std = quietly(METHODS[-1], TRAIN).predict(UNSEEN.drop(columns="y"), return_std=True)
    assert np.mean(np.abs(UNSEEN.y - mean) <= 1.645 * std) > 0.8


def test_models_with_common_coefficients_are_stored(tmp_path):
    model = quietly(METHODS[-1], TRAIN)
    model.save(tmp_path / "model.kinfolk")
    again = load(tmp_path / "model.kinfolk")
    X = TABLE.drop(columns="y")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_allclose(again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1])


def test_an_adopted_task_has_the_common_coefficients():
    model = quietly(GAMTL(task="task"), TRAIN)
    some = UNSEEN[UNSEEN.task == 50]
    before = model.coef_[0, 2:]
    model.adopt(some.drop(columns="y"), some.y)
    np.testing.assert_allclose(model.coef_[-1, 2:], before)
    assert error(model, some) < 0.3


@pytest.mark.parametrize("method", [METHODS[0], METHODS[3], METHODS[-1]], ids=lambda method: type(method).__name__)
def test_such_columns_are_named(method):
    with pytest.warns(UserWarning, match=r"feature 'age' is constant within every task"):
        method.fit(TRAIN.drop(columns="kind"), "y")


def test_the_command_line_names_them_too(tmp_path, capsys):
    from kinfolk.cli import main

    path = tmp_path / "table.csv"
    TRAIN.to_csv(path, index=False)
    main(["fit", str(path), "--task", "task", "--target", "y", "--out", str(tmp_path / "m.kinfolk")])
    said = capsys.readouterr()
    assert "'age' is constant within every task" in " ".join((said.out + said.err).split())


def test_groups_are_never_told_apart_by_them():
    model = quietly(METHODS[-1], TRAIN)
    said = io.StringIO()
    print(model.summary(), file=said)
    assert "age" not in " ".join(line for line in said.getvalue().splitlines() if "Group" in line or "alone" in line)
    assert "one for all" in said.getvalue()


def test_neither_groups_nor_tasks_alone_are_marked_by_them():
    """Their coefficients are one number, up to rounding: next to a spread of nothing that would tell most of all."""
    rng = np.random.default_rng(7)
    task = np.repeat(np.arange(12), 40)
    kind = np.array(["a", "b", "c"])[task % 3]
    x = rng.normal(size=(480, 2))
    slopes = np.where(task == 0, 8.0, np.where(task % 2, 2.0, -2.0))
    y = slopes * x[:, 0] + rng.normal(size=12)[task] + 0.3 * rng.normal(size=480)
    table = pd.DataFrame({"task": task, "x": x[:, 0], "z": x[:, 1], "kind": kind, "y": y})
    model = quietly(GAMTLCV(task="task", trunk=None, nonlinear=False), table)
    sentences = [said for part in group_sentences(model) for said in part]
    assert any("x" in said for said in sentences) and not any("kind" in said for said in sentences), sentences
    for profile in group_profile(model):
        assert {mark.feature for mark in profile.features} == {"x", "z"}
        assert all(abs(mark.distance) < 100 for mark in profile.features)


def test_few_tasks_cannot_tell_them_so_they_get_the_coefficient_zero():
    few = TABLE[TABLE.task < 5].drop(columns="kind")
    with pytest.warns(UserWarning, match="too few tasks"):
        model = RandomSlopes(task="task").fit(few, "y")
    assert (model.coef_[:, -1] == 0).all()


def test_which_features_are_common_is_judged_by_how_they_vary():
    rng = np.random.default_rng(3)
    task = np.repeat(np.arange(100), 6)
    age = rng.normal(size=100)[task]
    mistyped = age.copy()
    mistyped[7] += 0.1  # in one of a hundred tasks
    population = rng.normal(0, 1000, 100)[task] + rng.normal(size=600)  # differs far more between tasks than within
    X = np.column_stack([age, mistyped, population, rng.normal(size=600), np.ones(600)])
    gram = GramStats.from_rows(X, rng.normal(size=600), task)
    assert gram.common().tolist() == [True, True, False, False, False]
    assert gram.rescaled(np.array([1e-9, 1e9, 1.0, 1.0, 1.0])).common().tolist() == gram.common().tolist()


def test_statistics_beside_coefficients_are_those_of_the_rows():
    rng = np.random.default_rng(4)
    X, y, task = rng.normal(size=(40, 3)), rng.normal(size=40), np.repeat(np.arange(4), 10)
    coef = np.array([1.0, 0.0, -2.0])
    found = GramStats.from_rows(X, y, task).beside(coef)
    expected = GramStats.from_rows(X, y - X @ coef, task)
    for name in ("y_mean", "b", "yy", "G"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)


@pytest.mark.parametrize("size", [1e4, 1e18, 1e30])
def test_one_hopeless_model_changes_nothing_for_the_others(size):
    rng = np.random.default_rng(5)
    residuals = rng.normal(size=(30, 8, 3)) * [1.0, 1.2, 2.0]
    E = np.einsum("trm,trk->tmk", residuals, residuals)
    wild = np.concatenate([residuals, size * rng.normal(size=(30, 8, 1))], axis=2)
    found = best_mixture(np.einsum("trm,trk->tmk", wild, wild), np.ones(30))
    np.testing.assert_allclose(found, [*best_mixture(E, np.ones(30)), 0.0])


def test_the_same_member_is_not_kept_twice():
    rng = np.random.default_rng(6)
    codes = np.repeat(np.arange(6), 10)
    folds = Folds.of_rows(rng.normal(size=(60, 2)), rng.normal(size=60), codes, np.arange(6), np.arange(60) % 5)
    search = Search(folds, None, None)
    search.add([Member(SLOPES, "", RandomSlopes()), Member("again", "", RandomSlopes(noise="task"))])
    assert list(search.tried) == [SLOPES]
