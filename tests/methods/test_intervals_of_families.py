"""Intervals of predicted counts, amounts and probabilities hold what they say, also in tasks of five rows."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import MeanShrunk, RandomSlopes
from kinfolk.rows.families import FAMILIES
from kinfolk.rows.intervals import quantiles

T = 30
# What is unusual about a table of few events is told, and not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
ENDS = (0.05, 0.95)


def table(X, task):
    return pd.DataFrame({"task": task, "a": X[:, 0], "b": X[:, 1]})


def draw(n, seed, level=1.5):
    """Training rows, n for every task, new rows, and the true predictors of both."""
    rng = np.random.default_rng(seed)
    slopes = [0.3, -0.2] + 0.4 * rng.normal(size=(T, 2))
    levels = level + 0.6 * rng.normal(size=T)

    def rows(task):
        X = rng.normal(size=(len(task), 2))
        return table(X, task), (X * slopes[task]).sum(axis=1) + levels[task]

    return rng, *rows(np.repeat(np.arange(T), n)), *rows(rng.integers(0, T, 2000))


def counts(rng, eta, dispersion):
    mean = np.exp(eta)
    if dispersion == 1:
        return rng.poisson(mean).astype(float)
    return rng.negative_binomial(mean / (dispersion - 1), 1 / dispersion).astype(float)


@pytest.mark.parametrize("method", [RandomSlopes, MeanShrunk, GAMTL])
@pytest.mark.parametrize(("n", "dispersion"), [(5, 1.0), (40, 1.0), (40, 3.0)])
def test_intervals_of_counts_hold_what_they_say(method, n, dispersion):
    inside = []
    for seed in range(4):
        rng, train, eta, new, new_eta = draw(n, seed)
        model = method(task="task", family="poisson", extrapolate="linear").fit(train, counts(rng, eta, dispersion))
        low, high = model.predict(new, quantiles=ENDS).T
        y = counts(rng, new_eta, dispersion)
        inside.append(((low <= y) & (y <= high)).mean())
    assert 0.87 < np.mean(inside) < 0.935


def test_intervals_of_a_search_are_scaled_by_held_out_counts_and_keep_their_dispersion():
    inside = []
    for seed in range(2):
        rng, train, eta, new, new_eta = draw(40, seed)
        model = GAMTLCV(task="task", family="poisson", trunk=None, nonlinear=False, extrapolate="linear")
        model.fit(train, counts(rng, eta, 3.0))
        low, high = model.predict(new, quantiles=ENDS).T
        y = counts(rng, new_eta, 3.0)
        inside.append(((low <= y) & (y <= high)).mean())
        assert 2.0 < model.dispersion_ < 4.0
        assert 0.1 < model.model_.uncertainty.scale <= 1.2
        np.testing.assert_allclose(model.model_.held_out.rows, 40)
    assert 0.87 < np.mean(inside) < 0.95


def test_losses_of_classes_do_not_scale_intervals():
    rng, train, eta, *_ = draw(20, 0, level=-0.3)
    y = (rng.random(len(eta)) < expit(eta)).astype(float)
    model = GAMTLCV(task="task", family="binomial", trunk=None, nonlinear=False).fit(train, y)
    assert model.model_.held_out.pearson is None
    assert model.model_.uncertainty.scale == 1


@pytest.mark.parametrize("method", [RandomSlopes, GAMTL])
def test_intervals_of_probabilities_hold_the_true_ones(method):
    inside = []
    for seed in range(4):
        rng, train, eta, new, new_eta = draw(40, seed, level=-0.3)
        y = (rng.random(len(eta)) < expit(eta)).astype(float)
        low, high = (
            method(task="task", family="binomial", extrapolate="linear").fit(train, y).predict(new, quantiles=ENDS).T
        )
        inside.append(((low <= expit(new_eta)) & (expit(new_eta) <= high)).mean())
        assert ((low > 0) & (high < 1)).all()
    assert 0.84 < np.mean(inside) < 0.96


def test_intervals_of_amounts_hold_what_they_say():
    inside = []
    for seed in range(4):
        rng, train, eta, new, new_eta = draw(10, seed)
        model = RandomSlopes(task="task", family="gamma", extrapolate="linear").fit(
            train, rng.gamma(4, np.exp(eta) / 4)
        )
        low, high = model.predict(new, quantiles=ENDS).T
        y = rng.gamma(4, np.exp(new_eta) / 4)
        inside.append(((low <= y) & (y <= high)).mean())
    assert 0.87 < np.mean(inside) < 0.935


def test_intervals_of_new_tasks_are_wider_and_hold_them():
    rng, train, eta, new, new_eta = draw(20, 3)
    known = train["task"] < 24
    y = counts(rng, eta, 1.0)
    model = RandomSlopes(task="task", family="poisson", unseen="mean").fit(train[known], y[known])
    low, high = model.predict(train, quantiles=ENDS).T
    assert (high - low)[~known].mean() > 1.2 * (high - low)[known].mean()
    assert ((low <= y) & (y <= high))[~known].mean() > 0.8


def test_wide_targets_have_quantiles_by_task():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    Y = rng.poisson(np.exp(X[:, :1] + rng.normal(size=3))).astype(float)
    found = RandomSlopes(family="poisson").fit(X, Y).predict(X, quantiles=(0.1, 0.5, 0.9))
    assert found.shape == (40, 3, 3)
    assert (np.diff(found, axis=2) >= 0).all()


def test_exposure_moves_intervals_with_it():
    rng, train, eta, *_ = draw(20, 1)
    train = train.assign(hours=rng.uniform(1, 5, len(train)))
    model = RandomSlopes(task="task", family="poisson", exposure="hours")
    model.fit(train, counts(rng, eta + np.log(train["hours"].to_numpy()), 1.0))
    once, often = (model.predict(train.assign(hours=hours), quantiles=(0.5,)) for hours in (1.0, 50.0))
    np.testing.assert_allclose(often, 50 * once, rtol=0.3, atol=25)


@pytest.mark.parametrize("family", ["poisson", "gamma"])
@pytest.mark.parametrize("dispersion", [1.0, 9.5, 1e32])
@pytest.mark.parametrize("std", [500.0, 1e12])
def test_quantiles_are_finite_however_little_is_known(family, dispersion, std):
    eta = np.array([-300.0, 0.0, 66.0, 200.0])
    found = quantiles(FAMILIES[family], eta, np.full(4, std), dispersion, np.array([0.05, 0.5, 0.95]))
    assert np.isfinite(found).all() and (np.diff(found) >= 0).all()
