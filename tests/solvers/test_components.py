"""Variance components: found where rows tell them, and left open where they do not."""

import numpy as np
import pytest

from kinfolk.rows.gram import GramStats
from kinfolk.solvers.mixed import components, integrated_components, mixed_model


def drawn(seed, *, T=40, n=2, sd=(1.0, 0.5, 0.0), noise=1.0, level=2.0):
    """Tasks whose slopes are drawn around (1, 1, ...) with these standard deviations, and their levels around 3."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, len(sd)))
    W = 1 + rng.normal(size=(T, len(sd))) * sd
    y = np.einsum("nd,nd->n", X, W[task]) + (3 + level * rng.normal(size=T))[task] + noise * rng.normal(size=T * n)
    return X, y, task


def test_many_rows_give_back_what_was_drawn():
    found = integrated_components(GramStats.from_rows(*drawn(0, T=400, n=15)))
    assert found.noise == pytest.approx(1.0, rel=0.05)
    np.testing.assert_allclose(np.diagonal(found.covariance), [1.0, 0.25, 0.0, 4.0], rtol=0.2, atol=0.02)
    np.testing.assert_allclose(found.mean[:3], 1.0, atol=4 * np.sqrt(found.mean_error.diagonal()[:3].max()))
    assert found.mean[3] + found.y0 - found.x0 @ found.mean[:3] == pytest.approx(3.0, abs=0.5)


def test_many_rows_leave_the_estimates_of_greatest_likelihood():
    gram = GramStats.from_rows(*drawn(1, T=300, n=20))
    found, best = integrated_components(gram), mixed_model(gram, tol=1e-5)
    assert found.noise == pytest.approx(best.sigma2, rel=0.01)
    np.testing.assert_allclose(found.covariance.diagonal()[:2], best.covariance.diagonal()[:2], rtol=0.05)


def test_two_rows_per_task_do_not_say_that_there_is_no_noise():
    """Of these 20 tables the likelihood is greatest at less than a quarter of the true noise in several."""
    grams = [GramStats.from_rows(*drawn(seed, sd=(1.5, 1.5, 1.5))) for seed in range(20)]
    best = np.array([mixed_model(gram, tol=1e-5).sigma2 for gram in grams])
    found = np.array([integrated_components(gram).noise for gram in grams])
    assert (best < 0.25).sum() >= 4
    assert (found < 0.25).sum() == 0
    assert 0.7 < np.median(found) < 2.0


def test_noise_that_differs_between_tasks_may_be_told():
    """A third of the tasks has five times the noise; their slopes seem to differ until that is known."""
    X, y, task = drawn(3, T=60, n=10, sd=(0.3, 0.3), level=1.0)
    noisy = task % 3 == 0
    y = y + np.where(noisy, 5.0, 0.0) * np.random.default_rng(9).normal(size=len(y))
    gram = GramStats.from_rows(X, y, task)
    known = integrated_components(gram, np.where(np.arange(60) % 3 == 0, 26.0, 1.0))
    assert known.noise == pytest.approx(1.0, rel=0.15)
    np.testing.assert_allclose(known.covariance.diagonal()[:2], 0.09, atol=0.05)


def test_some_of_many_tasks_stand_for_all(monkeypatch):
    gram = GramStats.from_rows(*drawn(2, T=200, n=6))
    whole = integrated_components(gram)
    monkeypatch.setattr(components, "MOST_TASKS", 100)
    some = integrated_components(gram)
    assert some.noise == pytest.approx(whole.noise, rel=0.2)
    order = np.random.default_rng(0).permutation(200)
    assert integrated_components(gram.select(order)).noise == pytest.approx(some.noise, rel=1e-6)


ODD = {
    "constant target": lambda X, y, task: (X, np.full_like(y, 7.0), task),
    "one row per task": lambda X, y, task: (X, y, np.arange(len(y))),
    "one task": lambda X, y, task: (X, y, np.zeros(len(y), int)),
    "two tasks": lambda X, y, task: (X, y, task % 2),
    "wide": lambda X, y, task: (np.random.default_rng(0).normal(size=(len(y), 200)), y, task),
    "copied column": lambda X, y, task: (np.column_stack([X, X[:, 0]]), y, task),
    "constant column": lambda X, y, task: (np.column_stack([X, np.ones(len(y))]), y, task),
    "exact fit": lambda X, y, task: (X, X @ [1.0, 2.0, 3.0], task),
    "one row": lambda X, y, task: (X[:1], y[:1], task[:1]),
    "huge": lambda X, y, task: (1e20 * X, 1e30 * y, task),
    "tiny": lambda X, y, task: (1e-20 * X, 1e-30 * y, task),
}


@pytest.mark.parametrize("flaw", ODD)
def test_odd_tables_have_finite_components(flaw):
    found = integrated_components(GramStats.from_rows(*ODD[flaw](*drawn(4))))
    assert np.isfinite(found.noise) and found.noise >= 0
    for value in (found.mean, found.covariance, found.mean_error):
        assert np.isfinite(value).all()
    assert (found.covariance.diagonal() >= 0).all()


def test_a_variance_beside_one_that_is_far_larger_is_no_less_than_zero():
    """Slopes of 1e8 beside slopes that do not vary: their mean, less all of it again, is 0 only to rounding."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(20), 9)
    X = rng.normal(size=(180, 3))
    for size in 10.0 ** np.arange(4, 12):
        W = np.column_stack([size * rng.normal(size=20), np.ones(20), np.ones(20)])
        gram = GramStats.from_rows(X, np.einsum("nd,nd->n", X, W[task]) + 0.1 * rng.normal(size=180), task)
        law = integrated_components(gram)
        assert np.isfinite(law.covariance).all() and (np.diagonal(law.covariance) >= 0).all()
