"""Standard deviations of predictions: formulas against plain references, and intervals that hold what they say."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge

import kinfolk.methods.gamtl.coupling
import kinfolk.solvers.mixed.components
from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import MTRL, Independent, RandomSlopes
from kinfolk.methods.part import Scatter
from kinfolk.methods.uncertainty import HeldOut, PartErrors, Uncertainty, moderated, uncertainty

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


@pytest.mark.parametrize(
    ("make", "seeds"),
    [
        (lambda: GAMTL(task=0, unseen="mean"), range(10)),
        (lambda: RandomSlopes(task=0, unseen="mean"), range(20)),
        (lambda: GAMTLCV(task=0, unseen="mean"), range(4)),
    ],
    ids=["gamtl", "slopes", "cv"],
)
def test_intervals_of_tasks_with_two_rows_hold_what_they_say(make, seeds):
    """Forty tasks of two rows: the likelihood of their noise is greatest at zero in one set of four."""
    known, unseen = [], []
    for seed in seeds:
        train, (X, y), _ = simulate(seed, T=80, d=3, rows=(2, 3), groups=1, spread=0.5 + seed % 2)
        rows = train[0][:, 0] < 40
        model = make().fit(train[0][rows], train[1][rows])
        low, high = model.predict(X, quantiles=(0.05, 0.95)).T
        inside = (low <= y) & (y <= high)
        known.append(inside[X[:, 0] < 40].mean())
        unseen.append(inside[X[:, 0] >= 40].mean())
    assert 0.87 <= np.mean(known) <= 0.93
    assert 0.87 <= np.mean(unseen) <= 0.93


def test_intervals_of_adopted_tasks_with_two_rows_hold_what_they_say():
    inside = []
    for seed in range(10):
        train, (X, y), _ = simulate(seed, T=80, d=3, rows=(2, 3), groups=1, spread=0.5 + seed % 2)
        first, new = train[0][:, 0] < 40, X[:, 0] >= 40
        model = GAMTL(task=0).fit(train[0][first], train[1][first]).adopt(train[0][~first], train[1][~first])
        mean, std = model.predict(X[new], return_std=True)
        inside.append((np.abs(y[new] - mean) <= FACTOR * std).mean())
    assert 0.87 <= np.mean(inside) <= 0.93


@pytest.mark.parametrize("make", [GAMTL, RandomSlopes, Independent], ids=lambda method: method.__name__)
def test_standard_deviations_do_not_depend_on_the_order_of_tasks_nor_on_units(make):
    train, (X, _), _ = simulate(5, T=30, d=3, rows=(2, 6))
    expected = make(task=0, unseen="mean").fit(*train).predict(X, return_std=True)[1]
    turned = [np.column_stack([-rows[:, 0], rows[:, 1:]]) for rows in (train[0], X)]
    again = make(task=0, unseen="mean").fit(turned[0], 10 * train[1]).predict(turned[1], return_std=True)[1]
    np.testing.assert_allclose(again, 10 * expected, rtol=1e-3)


def test_held_out_errors_scale_intervals_as_far_as_they_clearly_differ_from_what_the_law_expects():
    """Errors of the expected size, clearly smaller ones (a graph has found who is kin), and clearly larger ones."""
    train, _, _ = simulate(0)
    model = GAMTL(task=0).fit(*train).model_
    gram, lines = model.known, (model.coef, model.intercept)
    plain = uncertainty(model.maps, gram, *lines)
    assert plain.scale == 1.0
    with_errors = lambda size: uncertainty(model.maps, gram, *lines, HeldOut(size * np.ones(gram.n_tasks)))  # noqa: E731
    lower = 1e-3 / with_errors(1e-3).scale  # between these sizes errors are the expected ones but for chance
    upper = 1e3 / with_errors(1e3).scale
    assert 1.02 * lower < upper
    assert with_errors(1.001 * lower).scale == with_errors(0.999 * upper).scale == 1.0
    assert with_errors(0.5 * lower).scale == pytest.approx(0.5)
    X, codes = train[0][:, 1:], train[0][:, 0].astype(int)
    np.testing.assert_allclose(with_errors(2.0 * upper).std(X, codes), 2.0 * plain.std(X, codes))


def test_one_task_is_bayesian_ridge_regression():
    """With the penalty that Bayesian ridge regression settles at, both give the same standard deviations."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.7 * rng.normal(size=60)
    bayes = BayesianRidge(tol=1e-10, max_iter=5000, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0).fit(X, y)
    model = GAMTL(ridge=bayes.lambda_ / bayes.alpha_).fit(X, y)
    known = model.model_.uncertainty
    _, theirs = bayes.predict(X, return_std=True)
    # Theirs leaves out the uncertainty of the intercept, and divides by n where the intercept takes a row.
    ours = np.sqrt((known.std(X, np.zeros(60, int)) ** 2 / known.noise[0] - 1 / 60) * 60 / 60)
    np.testing.assert_allclose(ours, theirs * np.sqrt(bayes.alpha_), rtol=0.02)


@pytest.mark.parametrize("method", [RandomSlopes, Independent], ids=lambda method: method.__name__)
def test_where_tasks_lie_as_the_penalties_say_the_covariance_is_the_posterior_one(method):
    """sigma2 times the inverse of the normal equations, which the diagonal blocks of N are."""
    train, (X, _), _ = simulate(3, T=6, d=2)
    model = method(task=0).fit(*train)
    (part,) = model.model_.maps
    p = part.equations.shape[1]
    coupling = model.model_.parts[0].coupling
    prior = coupling.covariance if method is RandomSlopes else np.eye(p) / coupling.penalty
    T = len(model.coef_)
    law = model.model_.uncertainty.law
    errors = PartErrors(part, Scatter(np.zeros(p), 2.0 * prior))
    known = Uncertainty([errors], law, np.full(T, 2.0), np.ones(T))
    exact = 2.0 * np.stack([part.inverse.columns(t)[t] for t in range(T)])
    np.testing.assert_allclose(known.covariance(errors, np.arange(T)), exact, atol=1e-10)
    codes = X[:, 0].astype(int)
    rows = part.design(X[:, 1:], codes)
    variance = 2.0 + np.einsum("np,npq,nq->n", rows, exact[codes], rows)
    np.testing.assert_allclose(known.std(X[:, 1:], codes), np.sqrt(variance), rtol=1e-10)


def test_errors_of_a_graph_are_those_of_drawn_coefficients():
    """Many draws of coefficients and noise for the inputs of one model: the spread of what its linear map makes."""
    train, _, _ = simulate(3, T=5, d=2, rows=(4, 8))
    model = GAMTL(task=0, strength=1.0, ridge=1.0).fit(*train)
    (part,) = model.model_.maps
    G, T = part.equations.G, len(model.coef_)
    scatter = Scatter(np.array([1.0, -2.0]), np.array([[2.0, 0.5], [0.5, 1.0]]))
    errors = PartErrors(part, scatter)
    known = Uncertainty([errors], model.model_.uncertainty.law, np.full(T, 0.5), np.ones(T))
    rng = np.random.default_rng(0)
    true = rng.multivariate_normal(scatter.mean, scatter.covariance, size=(40_000, T))
    noise = np.stack([rng.multivariate_normal(np.zeros(2), 0.5 * one, size=40_000) for one in G], axis=1)
    b = np.einsum("spq,nsq->nsp", G, true) + noise
    for t in range(T):
        miss = np.einsum("spq,nsp->nq", part.inverse.columns(t), b) - true[:, t]
        np.testing.assert_allclose(
            known.covariance(errors, np.array([t]))[0], miss.T @ miss / len(miss), rtol=0.05, atol=0.02
        )


@pytest.mark.parametrize("worth", [0, 40_000])
def test_large_systems_agree_with_small_ones(monkeypatch, worth):
    train, (X, _), _ = simulate(4, T=6, d=2)
    model = GAMTL(task=0).fit(*train)
    exact = model.predict(X, return_std=True)[1]
    monkeypatch.setattr(kinfolk.methods.gamtl.coupling, "DENSE_UNKNOWNS", 0)
    monkeypatch.setattr(kinfolk.methods.gamtl.coupling, "WORTH", worth)
    again = GAMTL(task=0).fit(*train)
    np.testing.assert_allclose(again.predict(X, return_std=True)[1], exact, rtol=1e-6)


def test_a_sample_of_tasks_tells_about_the_same_noise(monkeypatch):
    train, (X, _), _ = simulate(4, T=40, d=3, rows=(15, 30))
    model = GAMTL(task=0).fit(*train)
    exact = model.predict(X, return_std=True)[1]
    monkeypatch.setattr(kinfolk.solvers.mixed.components, "MOST_TASKS", 20)
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


def test_intervals_of_unseen_tasks_know_that_few_tasks_show_how_tasks_differ():
    """Levels of four tasks tell their variance with three degrees of freedom: as it is, 0.83 would be inside."""
    inside = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        task = np.repeat(np.arange(4), 10)
        x = rng.normal(size=40)
        y = x + 2 * rng.normal(size=4)[task] + 0.3 * rng.normal(size=40)
        model = RandomSlopes(task=0, unseen="mean").fit(np.column_stack([task, x]), y)
        new = rng.uniform(-1, 1, size=200)
        mean, std = model.predict(np.column_stack([np.full(200, 9), new]), return_std=True)
        actual = new + 2 * rng.normal(size=200) + 0.3 * rng.normal(size=200)
        inside.append((np.abs(actual - mean) <= FACTOR * std).mean())
    assert 0.87 <= np.mean(inside) <= 0.93


@pytest.mark.parametrize("task", [0, 99], ids=["known", "unseen"])
@pytest.mark.parametrize("size", [1e150, 1e160, 1e300])
def test_inputs_whose_squares_overflow_have_a_standard_deviation_too(task, size):
    (X, y), *_ = simulate(0)
    far = X[:2].copy()
    far[:, 0] = task
    far[:, 1] = 1e140, size
    for method in (GAMTL, RandomSlopes):
        model = method(task=0, unseen="mean", extrapolate="linear")
        std = model.fit(X, y).predict(far, return_std=True)[1]
        np.testing.assert_allclose(std[1] / std[0], size / 1e140, rtol=1e-6)


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


def test_what_a_model_without_intercept_cannot_fit_counts_as_noise():
    train, (X, y), _ = simulate(1, rows=(10, 30))
    mean, std = GAMTL(task=0, intercept=None).fit(*train).predict(X, return_std=True)
    assert 0.85 < (np.abs(y - mean) <= FACTOR * std).mean() < 0.98


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


def test_held_out_errors_widen_predictions_and_coefficients_alike():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat(np.arange(8), 12), rng.normal(size=(96, 2))])
    model = GAMTLCV(task=0, strengths=(1.0,), ridges=(1.0,), anchors=(0.0,)).fit(X, X[:, 1] + rng.normal(size=96))
    known = model.model_.uncertainty
    twice = replace(known, scale=2 * known.scale)
    codes = X[:, 0].astype(int)
    np.testing.assert_allclose(twice.std(X[:, 1:], codes), 2 * known.std(X[:, 1:], codes))
    np.testing.assert_allclose(twice.of_coefficients(), 2 * known.of_coefficients())
