"""Standard deviations of predictions: formulas against plain references, and intervals that hold what they say."""

import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge

import kinfolk.methods.gamtl.coupling
import kinfolk.methods.uncertainty
from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import MTRL, Independent, RandomSlopes
from kinfolk.graph import laplacian
from kinfolk.methods.uncertainty import Uncertainty, error_covariance, likelihood, moderated, uncertainty

FACTOR = 1.6449  # of the standard deviation, for 90 %


def simulate(seed, *, T=24, d=8, rows=(5, 30), groups=3, spread=0.2, noise=1.0):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(groups, d))[rng.integers(groups, size=T)] + spread * rng.normal(size=(T, d))
    level, sizes = 2 * rng.normal(size=T), rng.integers(*rows, size=T)

    def draw(task):
        X = rng.normal(size=(len(task), d))
        y = np.einsum("nd,nd->n", X, W[task]) + level[task] + noise * rng.normal(size=len(task))
        return np.column_stack([task, X]), y

    return draw(np.repeat(np.arange(T), sizes)), draw(np.repeat(np.arange(T), 100)), sizes


def coverage(make, seeds):
    """Share of new observations inside, of all tasks and of the quarter with the fewest rows."""
    shares = []
    for seed in seeds:
        train, (X, y), sizes = simulate(seed)
        mean, std = make().fit(*train).predict(X, return_std=True)
        inside = np.abs(y - mean) <= FACTOR * std
        poor = sizes[X[:, 0].astype(int)] <= np.quantile(sizes, 0.25)
        shares.append([inside.mean(), inside[poor].mean()])
    return np.mean(shares, axis=0)


@pytest.mark.parametrize(
    ("make", "seeds"),
    [
        (lambda: GAMTL(task=0), range(6)),
        (lambda: GAMTL(task=0, intercept="shrunk", metric="learned"), range(4)),
        (lambda: RandomSlopes(task=0), range(4)),
        (lambda: GAMTLCV(task=0, strengths=(1.0,), metrics=("identity",), anchors=(0.0,)), range(6)),
    ],
    ids=["gamtl", "learned", "slopes", "cv"],
)
def test_ninety_percent_intervals_hold_ninety_percent(make, seeds):
    everywhere, poor = coverage(make, seeds)
    assert 0.87 <= everywhere <= 0.93
    assert 0.87 <= poor <= 0.93


def test_one_task_is_bayesian_ridge_regression():
    """With the penalty that Bayesian ridge regression settles at, both give the same standard deviations."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.7 * rng.normal(size=60)
    bayes = BayesianRidge(tol=1e-10, max_iter=5000, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0).fit(X, y)
    model = GAMTL(ridge=bayes.lambda_ / bayes.alpha_).fit(X, y)
    known = model.model_.uncertainty
    assert known.kappa == pytest.approx(1.0, abs=0.15)
    _, theirs = bayes.predict(X, return_std=True)
    # Theirs leaves out the uncertainty of the intercept, and divides by n where the intercept takes a row.
    ours = np.sqrt((known.std(X, np.zeros(60, int)) ** 2 / known.noise[0] - 1 / 60) * 60 / 60)
    np.testing.assert_allclose(ours, theirs * np.sqrt(bayes.alpha_), rtol=0.02)


def test_at_the_right_prior_the_covariance_is_the_posterior_one():
    """kappa = 1: sigma2 times the inverse of the weight system, formed densely here."""
    train, (X, _), _ = simulate(3, T=5, d=2)
    model = GAMTL(task=0, strength=1.0, ridge=1.0).fit(*train)
    (part,) = model.model_.maps
    T, d = model.coef_.shape
    L = 2 * model.gamma_ * laplacian(model.coupling_).toarray()
    M = np.kron(L, np.eye(d))
    for t in range(T):
        at = slice(t * d, (t + 1) * d)
        M[at, at] += model.gram_.G[t] + model.ridge * np.eye(d)
    N = np.linalg.inv(M)
    exact = np.stack([N[t * d : (t + 1) * d, t * d : (t + 1) * d] for t in range(T)])
    np.testing.assert_allclose(error_covariance(part, np.arange(T), 1.0), exact, atol=1e-12)
    known = Uncertainty([part], np.full(T, 2.0), 1.0, 1 + 1 / model.gram_.n)
    codes, dx = X[:, 0].astype(int), X[:, 1:] - model.gram_.x_mean[X[:, 0].astype(int)]
    variance = 2.0 * (1 + 1 / model.gram_.n[codes] + np.einsum("np,npq,nq->n", dx, exact[codes], dx))
    np.testing.assert_allclose(known.std(X[:, 1:], codes), np.sqrt(variance), rtol=1e-10)


def test_the_likelihood_finds_the_noise_and_the_spread_it_was_drawn_with():
    """Coefficients drawn from the prior itself, four times as wide as the penalties say."""
    rng = np.random.default_rng(8)
    T, d = 60, 4
    task = np.repeat(np.arange(T), 15)
    X = rng.normal(size=(len(task), d))
    model = GAMTL(task=0, ridge=1.0).fit(np.column_stack([task, X]), rng.normal(size=len(task)))
    precision = 2 * model.gamma_ * laplacian(model.coupling_).toarray() + np.eye(T)
    sigma2, kappa = 0.49, 4.0
    W = np.linalg.cholesky(np.linalg.inv(precision)) @ rng.normal(size=(T, d)) * np.sqrt(sigma2 * kappa)
    y = np.einsum("nd,nd->n", X, W[task]) + np.sqrt(sigma2) * rng.normal(size=len(task))
    gram = type(model.gram_).from_rows(X, y, task)
    found = likelihood(model.model_.parts[0].map(gram), gram.n)
    assert found[0] == pytest.approx(sigma2, rel=0.15)
    assert found[1] == pytest.approx(kappa, rel=0.5)


def test_large_systems_agree_with_small_ones(monkeypatch):
    train, (X, _), _ = simulate(4, T=6, d=2)
    model = GAMTL(task=0).fit(*train)
    exact = model.predict(X, return_std=True)[1]
    monkeypatch.setattr(kinfolk.methods.gamtl.coupling, "DENSE_UNKNOWNS", 0)
    again = GAMTL(task=0).fit(*train)
    np.testing.assert_allclose(again.predict(X, return_std=True)[1], exact, rtol=1e-6)


def test_a_sample_of_tasks_tells_about_the_same_noise(monkeypatch):
    train, (X, _), _ = simulate(4, T=40, d=3, rows=(15, 30))
    model = GAMTL(task=0).fit(*train)
    exact = model.predict(X, return_std=True)[1]
    monkeypatch.setattr(kinfolk.methods.uncertainty, "LIKELIHOOD_UNKNOWNS", 60)
    again = GAMTL(task=0).fit(*train)
    np.testing.assert_allclose(again.predict(X, return_std=True)[1].mean(), exact.mean(), rtol=0.15)


def test_noisy_tasks_get_wide_intervals():
    rng = np.random.default_rng(6)
    task = np.repeat(np.arange(12), 40)
    X = np.column_stack([task, rng.normal(size=(480, 2))])
    loud = task < 4
    y = X[:, 1] + np.where(loud, 5.0, 0.5) * rng.normal(size=480)
    _, std = GAMTL(task=0).fit(X, y).predict(X, return_std=True)
    assert 4.0 < std[loud].mean() < 6.0
    assert 0.4 < std[~loud].mean() < 0.7


def test_equal_variances_are_not_torn_apart_by_chance():
    ratio = np.random.default_rng(0).chisquare(10, size=50) / 10
    assert np.ptp(moderated(ratio, np.full(50, 10.0))) < 0.5 * np.ptp(ratio)


def test_unseen_tasks_and_wide_targets_have_standard_deviations():
    train, (X, _), _ = simulate(1)
    model = GAMTL(task=0, unseen="mean").fit(*train)
    strange = X.copy()
    strange[:, 0] = 99
    assert (model.predict(strange, return_std=True)[1] > model.predict(X, return_std=True)[1]).mean() > 0.9
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(30, 2))
    targets = inputs @ rng.normal(size=(2, 3)) + rng.normal(size=(30, 3))
    mean, std = GAMTL().fit(inputs, targets).predict(inputs, return_std=True)
    assert mean.shape == std.shape == (30, 3)
    assert (std > 0.5).all() and (std < 2.0).all()


def test_independent_ridge_has_them_and_methods_that_are_not_linear_say_so():
    train, (X, _), _ = simulate(2)
    assert (Independent(task=0, penalty=1.0).fit(*train).predict(X, return_std=True)[1] > 0).all()
    with pytest.raises(ValueError, match="MTRL is not a linear function"):
        MTRL(task=0).fit(*train).predict(X, return_std=True)


def test_exact_fits_have_almost_no_spread():
    rng = np.random.default_rng(3)
    task = np.repeat([0, 1, 2], 10)
    X = rng.normal(size=(30, 2))
    model = GAMTL(task=0, ridge=1e-9).fit(np.column_stack([task, X]), X @ [1.0, 2.0])
    known = uncertainty(model.model_.maps, model.gram_, model.coef_, model.intercept_)
    assert np.isfinite(known.noise).all() and known.noise.max() < 1e-6


@pytest.mark.parametrize("metric", ["identity", "learned"])
@pytest.mark.parametrize("flaw", ["zero target", "huge column", "copied column"])
def test_standard_deviations_are_finite_where_directions_are_free(metric, flaw):
    rng = np.random.default_rng(2)
    task = np.repeat(np.arange(8), 6)
    X = rng.normal(size=(48, 3)) + 1e6
    y = 0.0 * X[:, 0] if flaw == "zero target" else rng.normal(size=48)
    X[:, 2] *= 1e20 if flaw == "huge column" else 1.0
    X[:, 1] = X[:, 0] if flaw == "copied column" else X[:, 1]
    model = GAMTL(task=0, metric=metric, strength=100.0, anchor=1.0, ridge=0.0)
    std = model.fit(np.column_stack([task, X]), y).predict(np.column_stack([task, X]), return_std=True)[1]
    assert np.isfinite(std).all() and (std >= 0).all()


def test_quantiles_are_those_of_the_normal_distribution_around_the_prediction():
    train, (X, y), _ = simulate(1)
    model = GAMTL(task=0).fit(*train)
    mean, std = model.predict(X, return_std=True)
    low, middle, high = model.predict(X, quantiles=(0.05, 0.5, 0.95)).T
    np.testing.assert_allclose(middle, mean)
    np.testing.assert_allclose(high - low, 2 * 1.6448536 * std)
    assert 0.85 < ((low <= y) & (y <= high)).mean() < 0.95
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(30, 2))
    assert GAMTL().fit(inputs, rng.normal(size=(30, 3))).predict(inputs, quantiles=[0.1, 0.9]).shape == (30, 3, 2)
    with pytest.raises(ValueError, match=r"quantiles=\(5, 95\) must be numbers between 0 and 1"):
        model.predict(X, quantiles=(5, 95))


@pytest.mark.parametrize("method", [GAMTL, RandomSlopes], ids=lambda method: method.__name__)
def test_intervals_of_unseen_tasks_hold_what_they_say(method):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(160), 5)
    X = np.column_stack([task, rng.normal(size=(len(task), 2))])
    slopes = rng.normal(size=2) + 0.5 * rng.normal(size=(160, 2))
    y = rng.normal(size=160)[task] + (X[:, 1:] * slopes[task]).sum(axis=1) + rng.normal(size=len(task))
    known = task < 80
    model = method(task=0, unseen="mean").fit(X[known], y[known])
    low, high = model.predict(X[~known], quantiles=(0.05, 0.95)).T
    assert 0.86 < ((low <= y[~known]) & (y[~known] <= high)).mean() < 0.94


def test_standard_deviations_of_an_exact_fit_of_huge_targets_are_finite():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(18, 1))
    model = GAMTL(metric="learned", intercept="shrunk")
    std = model.fit(X, np.full((18, 9), -1.85354547e37)).predict(X, return_std=True)[1]
    assert np.isfinite(std).all() and (std >= 0).all()
