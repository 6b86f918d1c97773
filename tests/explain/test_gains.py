"""What tasks gain from neighbours, against plain refits on rows."""

import numpy as np
import pytest

from kinfolk import GAMTL, GAMTLCV
from kinfolk.datasets import make_groups
from kinfolk.explain import task_gains
from kinfolk.explain.gains import _jackknife
from problems import frame


def pairs_of(n, k, seed=0):
    fold = np.random.default_rng(seed).permutation(n) % k
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(k)]


def rmse_by_task(table, y, predicted):
    squared = (y - predicted) ** 2
    return np.sqrt([squared[table["who"] == name].mean() for name in np.unique(table["who"])])


@pytest.mark.parametrize("kwargs", [{}, {"alpha": 1.0, "beta": 0.5, "gamma": 0.3}, {"metric": "learned"}], ids=str)
def test_errors_with_neighbours_are_those_of_refits_on_the_rows_of_every_fold(kwargs):
    table, y = frame(0, T=5, d=3, n=(12, 18))
    model, cv = GAMTL(task="who", tol=1e-10, strength=1.0, **kwargs).fit(table, y), pairs_of(len(y), 3)
    predicted = np.empty(len(y))
    for train, test in cv:
        # Errors from statistics are those of the lines, wherever they lead.
        plain = GAMTL(task="who", tol=1e-10, strength=1.0, extrapolate="linear", **kwargs)
        predicted[test] = plain.fit(table.iloc[train], y[train]).predict(table.iloc[test])
    found = task_gains(model, table, y, cv=cv)
    np.testing.assert_allclose(found.with_neighbors, rmse_by_task(table, y, predicted), rtol=1e-6)


def test_errors_without_neighbours_are_those_of_a_ridge_per_task():
    table, y = frame(1, T=5, d=3, n=(12, 18))
    cv, predicted = pairs_of(len(y), 3), np.empty(len(y))
    X, task = table[["x0", "x1", "x2"]].to_numpy(), table["who"].to_numpy()
    for train, test in cv:
        for name in np.unique(task):
            here, there = train[task[train] == name], test[task[test] == name]
            x_mean, y_mean = X[here].mean(axis=0), y[here].mean()
            centred = X[here] - x_mean
            w = np.linalg.solve(centred.T @ centred + 2.0 * np.eye(3), centred.T @ (y[here] - y_mean))
            predicted[there] = (X[there] - x_mean) @ w + y_mean
    found = task_gains(GAMTL(task="who", ridge=2.0).fit(table, y), table, y, cv=cv)
    np.testing.assert_allclose(found.without, rmse_by_task(table, y, predicted), rtol=1e-8)


def test_tasks_in_groups_gain_and_outliers_do_not_gain_as_much():
    syn = make_groups(random_state=3)
    found = task_gains(GAMTL(task=syn.task).fit(syn.data, syn.target), syn.data, syn.target)
    relative = found.gain / found.without
    assert relative[:18].min() > relative[18:].max()
    assert found.total.mean > 2 * found.total.standard_error
    assert found.table()[0]["gain"] == found.gain.max()


def test_the_standard_error_is_the_jackknife_over_folds():
    rng = np.random.default_rng(0)
    errors, counts = rng.uniform(1, 2, size=(2, 4, 3)), rng.integers(3, 6, size=(4, 3)).astype(float)
    left_out = []
    for f in range(4):
        rest = [g for g in range(4) if g != f]
        without, with_ = np.sqrt(errors[:, rest].sum(axis=1) / counts[rest].sum(axis=0))
        left_out.append(without - with_)
    expected = np.sqrt(3 / 4 * ((np.array(left_out) - np.mean(left_out, axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(_jackknife(errors, counts), expected)


def test_gamtlcv_without_rows_shows_the_errors_of_its_own_search():
    table, y = frame(2, T=6, d=3, n=(12, 20))
    model = GAMTLCV(task="who", strengths=(1.0,), ridges=(1.0,), anchors=(0.0,), metrics=("identity",)).fit(table, y)
    found = task_gains(model)
    np.testing.assert_array_equal(found.with_neighbors, model.cv_errors_)
    np.testing.assert_array_equal(found.without, model.limit_errors_)
    assert found.standard_error is None
    assert found.table()[0]["standard_error"] is None


def test_whole_groups_stay_on_one_side():
    table, y = frame(3, T=4, d=2, n=(12, 13))
    groups = np.arange(len(y)) % 3
    cv = [(np.flatnonzero(groups != g), np.flatnonzero(groups == g)) for g in range(3)]
    model = GAMTL(task="who").fit(table, y)
    by_groups, by_pairs = task_gains(model, table, y, cv=3, groups=groups), task_gains(model, table, y, cv=cv)
    np.testing.assert_allclose(by_groups.gain, by_pairs.gain)


def test_a_task_without_targets_has_no_gain():
    table, y = frame(4, T=5, d=2, n=(10, 12))
    y[table["who"] == "task_04"] = np.nan
    found = task_gains(GAMTL(task="who").fit(table, y), table, y, cv=3)
    assert np.isnan(found.gain[4])
    assert np.isfinite(found.gain[:4]).all()
    assert np.isfinite(found.total.mean)
    assert found.table()[-1]["task"] == "task_04"


def test_representation_and_progress():
    table, y = frame(5, T=4, d=2, n=(10, 12))
    seen = []
    found = task_gains(GAMTL(task="who").fit(table, y), table, y, cv=3, callback=seen.append)
    assert [p.done for p in seen] == [1, 2, 3]
    assert "of 4 tasks gain" in repr(found)
    assert "the same model without edges" in repr(found)


def test_gamtl_without_rows_is_told_to_pass_them():
    model = GAMTL(task="who").fit(*frame(0))
    with pytest.raises(ValueError, match="task_gains of GAMTL needs rows to cross-validate: pass X and y"):
        task_gains(model)
