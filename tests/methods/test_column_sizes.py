"""Columns whose sizes differ by many powers of ten: nothing but the units of the coefficients changes."""

import numpy as np
import pytest

from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import Independent, MeanShrunk, Pooled, RandomSlopes, TaskMean
from kinfolk.explain import contributions
from kinfolk.methods.part import Scatter
from kinfolk.solvers.centre import blocks_around_centre, inverse_for_centre

FREE_OF_UNITS = {
    "random slopes": RandomSlopes(task=0),
    "random slopes, free intercepts": RandomSlopes(task=0, intercept="free"),
    "random slopes, full": RandomSlopes(task=0, covariance="full", tol=1e-8),
    "task mean": TaskMean(task=0),
    "gamtl": GAMTL(task=0),
    "gamtlcv": GAMTLCV(task=0, trunk=None, strengths=(1.0,), ridges=(0.1,), anchors=(0.0,)),
}
PENALTY, RIDGE = 1.0, 0.1
RAW = {
    "independent": Independent(task=0, penalty=PENALTY),
    "mean shrunk": MeanShrunk(task=0, penalty=PENALTY),
    "mean shrunk with a ridge": MeanShrunk(task=0, penalty=PENALTY, ridge=RIDGE),
    "pooled": Pooled(task=0, penalty=PENALTY),
}


def table(seed, fewest=2):
    """Tasks of `fewest` to 12 rows, their inputs of size 1, the target, and sizes to multiply the columns by."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(8), rng.integers(fewest, 12, size=8))
    X = rng.normal(size=(len(task), 4))
    W = rng.normal(size=4) + 0.5 * rng.normal(size=(8, 4))
    y = np.einsum("nd,nd->n", X, W[task]) + rng.normal(size=8)[task] + 0.3 * rng.normal(size=len(task))
    return task, X, y, 10 ** rng.uniform(-8, 8, size=4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("model", FREE_OF_UNITS.values(), ids=FREE_OF_UNITS)
def test_predictions_their_std_and_their_sources_are_free_of_the_sizes_of_columns(model, seed):
    task, X, y, size = table(seed)
    plain, other = (np.column_stack([task, inputs]) for inputs in (X, X * size))
    ends = []
    for rows, unit in ((plain, 1.0), (other, size)):
        prediction, std = model.fit(rows, y).predict(rows, return_std=True)
        split = contributions(model)
        ends.append((prediction, std, split.coef * unit, split.shares))
    for expected, found in zip(*ends, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.ptp(y))


def solve(A, B):
    """A^-1 B in extended precision: Cholesky's factor of A in units of its diagonal."""
    d = 1 / np.sqrt(np.diagonal(A))
    A = A * d * d[:, None]
    n = len(A)
    L = np.zeros_like(A)
    for j in range(n):
        L[j, j] = np.sqrt(A[j, j] - L[j, :j] @ L[j, :j])
        L[j + 1 :, j] = (A[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    Y = d[:, None] * B
    for i in range(n):
        Y[i] = (Y[i] - L[i, :i] @ Y[:i]) / L[i, i]
    for i in reversed(range(n)):
        Y[i] = (Y[i] - L[i + 1 :, i] @ Y[i + 1 :]) / L[i, i]
    return d[:, None] * Y


class Plain:
    """Moments of every task, and the matrix M of all unknowns with M vec W = b, in extended precision."""

    def __init__(self, name, task, X, y):
        X, y = X.astype(np.longdouble), y.astype(np.longdouble)
        self.T, self.d = task.max() + 1, X.shape[1]
        self.x_mean, self.y_mean = (np.array([Z[task == t].mean(axis=0) for t in range(self.T)]) for Z in (X, y))
        X, y = X - self.x_mean[task], y - self.y_mean[task]
        self.G = np.array([X[task == t].T @ X[task == t] for t in range(self.T)])
        self.b = np.array([X[task == t].T @ y[task == t] for t in range(self.T)])
        self.inverse = getattr(self, name.split()[0] + "_inverse")(RIDGE if "ridge" in name else 0.0)
        self.W = np.einsum("tpsq,sq->tp", self.inverse, self.b)

    def mean_inverse(self, ridge):
        T, d = self.T, self.d
        one = np.eye(d, dtype=np.longdouble)
        M = -PENALTY / np.longdouble(T) * np.tile(one, (T, T))
        for t in range(T):
            M[t * d : t * d + d, t * d : t * d + d] += self.G[t] + (PENALTY + ridge) * one
        return solve(M, np.eye(T * d, dtype=np.longdouble)).reshape(T, d, T, d)

    def independent_inverse(self, _):
        found = np.zeros((self.T, self.d, self.T, self.d), np.longdouble)
        one = np.eye(self.d, dtype=np.longdouble)
        for t in range(self.T):
            found[t, :, t] = solve(self.G[t] + PENALTY * one, one)
        return found

    def pooled_inverse(self, _):
        one = np.eye(self.d, dtype=np.longdouble)
        whole = solve(self.G.sum(axis=0) + PENALTY * one, one)
        return np.broadcast_to(whole[None, :, None, :], (self.T, self.d, self.T, self.d))

    def errors(self, scatter):
        """(N G N)_tt, and the second moments of sum_s (N_ts G_s - [s = t]) u_s for tasks that lie as `scatter`."""
        NG = np.einsum("tpsq,sqr->tpsr", self.inverse, self.G)
        noise = np.einsum("tpsr,tqsr->tpq", NG, self.inverse)
        each = np.arange(self.T)
        NG[each, :, each] -= np.eye(self.d)
        off = NG.sum(axis=2) @ scatter.mean
        pulled = np.einsum("tpsr,rk,tqsk->tpq", NG, scatter.covariance, NG) + off[:, :, None] * off[:, None, :]
        return noise, pulled


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", RAW)
def test_a_penalty_in_raw_units_gives_the_exact_solution(name, seed):
    task, X, y, size = table(seed)
    exact = Plain(name, task, X * size, y)
    rows = np.column_stack([task, X * size])
    model = RAW[name].fit(rows, y)
    expected = np.einsum("nd,nd->n", X * size - exact.x_mean[task], exact.W[task]) + exact.y_mean[task]
    np.testing.assert_allclose(model.predict(rows), expected.astype(float), rtol=0, atol=1e-6 * np.ptp(y))
    split = contributions(model).split(rows).sum(axis=1)
    np.testing.assert_allclose(split, expected.astype(float), rtol=0, atol=1e-6 * np.ptp(y))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", RAW)
def test_what_the_errors_are_made_of_is_exact_too(name, seed):
    """Standard deviations are sums of these, over rows in the units of the columns.

    Of tasks with fewer rows than columns no formula with G_t has enough digits to compare with.
    """
    task, X, y, size = table(seed, fewest=6)
    exact = Plain(name, task, X * size, y)
    (part,) = RAW[name].fit(np.column_stack([task, X * size]), y).model_.maps
    scatter = Scatter(np.arange(1.0, 5.0) / size, np.diag(1 / size**2))
    found = part.inverse.diagonal(np.arange(exact.T), scatter)
    units = size * size[:, None]
    for block, expected in zip((found.noise, found.pulled), exact.errors(scatter), strict=True):
        expected = (expected * units).astype(float)
        np.testing.assert_allclose(block * units, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_a_penalty_of_zero_is_least_squares_at_any_size():
    rng = np.random.default_rng(0)
    task, size = np.repeat(np.arange(4), 9), np.array([1e-7, 1.0, 1e8])
    X = rng.normal(size=(36, 3))
    y = np.einsum("nd,nd->n", X, rng.normal(size=(4, 3))[task])
    for model in (Independent(task=0, penalty=0.0), MeanShrunk(task=0, penalty=0.0)):
        rows = np.column_stack([task, X * size])
        np.testing.assert_allclose(model.fit(rows, y).predict(rows), y, atol=1e-9)


def test_blocks_around_a_centre_keep_their_digits_however_large_the_covariance():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(5, 6, 3)).astype(np.longdouble)
    G = A.transpose(0, 2, 1) @ A
    variance = np.array([1e12, 1.0, 1e-12])
    found = blocks_around_centre(G.astype(float), np.diag(variance))
    for t in range(5):
        # In units of the standard deviations; H by (P^-1 + G)^-1, which subtracts nothing.
        root = np.sqrt(variance).astype(np.longdouble)
        M = G[t] * root * root[:, None]
        K = solve(M + np.eye(3, dtype=np.longdouble), np.eye(3, dtype=np.longdouble))
        H = (np.eye(3) - K) / root / root[:, None]
        for block, expected in ((found.K[t], K * root * root[:, None]), (found.H[t], H)):
            unit = np.sqrt(np.diagonal(expected)) * np.sqrt(np.diagonal(expected))[:, None]
            np.testing.assert_allclose((block / unit).astype(float), (expected / unit).astype(float), atol=1e-8)


def test_the_inverse_for_a_centre_keeps_a_direction_that_somebody_has_seen():
    found = inverse_for_centre(np.diag([1e-15, 1.0, 0.0]), np.diag([2.0, 3.0, 0.0]))
    np.testing.assert_allclose(found, np.diag([1e15, 1.0, 0.0]), rtol=1e-12)
