"""Shrinkage towards the mean of all tasks, against one dense system and its limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinfolk.baselines import Independent, MeanShrunk, Pooled
from kinfolk.rows.gram import GramStats
from kinfolk.rows.splits import fold_of_rows
from kinfolk.rows.table import read_rows


def draw(sizes=(8, 15, 30), d=4, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(task), d))
    slopes = 1 + 0.5 * rng.normal(size=(len(sizes), d))
    return np.column_stack([task, X]), (X * slopes[task]).sum(axis=1) + 10 * task + rng.normal(size=len(task))


def dense(gram, penalty, ridge):
    """The dT x dT normal equations of the docstring's objective."""
    T, d = gram.b.shape
    pull = penalty * np.kron(np.eye(T) - np.ones((T, T)) / T, np.eye(d))
    H = pull + ridge * np.eye(T * d)
    for t in range(T):
        H[t * d : (t + 1) * d, t * d : (t + 1) * d] += gram.G[t]
    return np.linalg.lstsq(H, gram.b.ravel())[0].reshape(T, d)


@pytest.mark.parametrize("penalty", [0.0, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("ridge", [1e-3, 2.0])
def test_equals_the_dense_system(penalty, ridge):
    X, y = draw()
    model = MeanShrunk(task=0, penalty=penalty, ridge=ridge).fit(X, y)
    gram = GramStats.from_rows(X[:, 1:], y, X[:, 0])
    np.testing.assert_allclose(model.coef_, dense(gram, penalty, ridge), rtol=1e-8, atol=1e-10)
    assert model.optimality_["residual"] < 1e-10


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.floats(-6, 8), st.integers(1, 4))
def test_no_direction_lowers_the_objective(seed, exponent, T):
    X, y = draw(sizes=(5,) * T, seed=seed)
    penalty = 10.0**exponent
    model = MeanShrunk(task=0, penalty=penalty, ridge=1e-2).fit(X, y)
    gram = GramStats.from_rows(X[:, 1:], y, X[:, 0])

    def objective(W):
        loss = (gram.yy + np.einsum("ti,tij,tj->t", W, gram.G, W) - 2 * (gram.b * W).sum(axis=1)).sum()
        return loss + penalty * ((W - W.mean(axis=0)) ** 2).sum() + 1e-2 * (W**2).sum()

    best = objective(model.coef_)
    step = 1e-3 * np.random.default_rng(seed).normal(size=(4, *model.coef_.shape))
    slack = 1e-9 * (1 + abs(best)) * max(1.0, penalty * 1e-6)
    assert min(objective(model.coef_ + s) for s in step) >= best - slack


def test_no_penalty_is_independent_and_a_huge_one_pooled():
    X, y = draw()
    alone = MeanShrunk(task=0, penalty=0.0, ridge=2.0).fit(X, y)
    np.testing.assert_allclose(alone.coef_, Independent(task=0, penalty=2.0).fit(X, y).coef_, rtol=1e-9)
    together = MeanShrunk(task=0, penalty=1e12).fit(X, y)
    np.testing.assert_allclose(together.coef_, Pooled(task=0, penalty=0.0).fit(X, y).coef_, rtol=1e-7)


def test_identical_tasks_are_not_moved():
    X, y = draw(sizes=(20,))
    twice = np.vstack([X, X + np.eye(5)[0]]), np.concatenate([y, y])
    model = MeanShrunk(task=0, penalty=50.0).fit(*twice)
    np.testing.assert_allclose(
        model.coef_, np.tile(Independent(task=0, penalty=0.0).fit(X, y).coef_, (2, 1)), rtol=1e-8
    )


def test_one_task_is_a_ridge():
    X, y = draw(sizes=(20,))
    model = MeanShrunk(task=0, penalty=50.0, ridge=3.0).fit(X, y)
    np.testing.assert_allclose(model.coef_, Independent(task=0, penalty=3.0).fit(X, y).coef_, rtol=1e-9)


def test_without_ridge_the_least_norm_solution_is_the_limit_of_small_ridges():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(4, 6)), rng.normal(size=(4, 3))
    limit = MeanShrunk(penalty=1.0, ridge=1e-9).fit(X, Y)
    np.testing.assert_allclose(MeanShrunk(penalty=1.0).fit(X, Y).coef_, limit.coef_, atol=1e-6)


def test_shared_inputs_equal_the_same_rows_as_a_long_table():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(15, 3)), rng.normal(size=(15, 4))
    long = np.column_stack([np.repeat(np.arange(4), 15), np.tile(X, (4, 1))])
    one, two = MeanShrunk(penalty=2.0).fit(X, Y), MeanShrunk(task=0, penalty=2.0).fit(long, Y.T.ravel())
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-8)


def test_cross_validation_equals_direct_fold_fits():
    X, y = draw()
    model = MeanShrunk(task=0, penalty="cv", ridge=0.1).fit(X, y)
    rows = read_rows(X, y, task=0)
    fold = fold_of_rows(rows, X[:, 1:], rows.gram(X[:, 1:], None), cv=5, random_state=0)
    direct = MeanShrunk(task=0, penalty=model.penalty_, ridge=0.1, extrapolate="linear")
    squares = [(direct.fit(X[fold != f], y[fold != f]).predict(X[fold == f]) - y[fold == f]) ** 2 for f in range(5)]
    np.testing.assert_allclose(model.penalty_errors_.min(), np.sqrt(np.concatenate(squares).mean()), rtol=1e-8)


def test_texts_of_errors():
    X, y = draw()
    with pytest.raises(ValueError, match="ridge=-1 must be at least 0 and finite"):
        MeanShrunk(task=0, ridge=-1).fit(X, y)


@pytest.mark.parametrize("smallest", [1e-12, 1e-20, 1.0])
def test_features_of_very_different_size_do_not_make_it_worse_than_the_means(smallest):
    X, y = draw((6, 7), d=4, seed=8)
    X[:, 1:] *= 1e3 * smallest ** np.linspace(0, 1, 4)
    model = MeanShrunk(task=0).fit(X, y)
    assert ((y - model.predict(X)) ** 2).sum() <= model.gram_.yy.sum()
