"""Quantiles of predicted probabilities, counts and amounts, against draws and against laws in closed form."""

import numpy as np
import pytest
from scipy.special import expit, ndtri
from scipy.stats import gamma, norm, poisson

from kinfolk.rows.families import FAMILIES
from kinfolk.rows.intervals import quantiles

Q = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def one(family, eta, std, dispersion=1.0, q=Q):
    return quantiles(FAMILIES[family], np.array([float(eta)]), np.array([float(std)]), dispersion, q)[0]


def drawn(family, eta, std, dispersion):
    """Targets of a mean whose predictor is normal."""
    rng = np.random.default_rng(0)
    mean = np.exp(eta + std * rng.normal(size=200_000))
    if family == "gamma":
        return rng.gamma(1 / dispersion, dispersion * mean)
    if dispersion == 1:
        return rng.poisson(mean)
    return rng.negative_binomial(mean / (dispersion - 1), 1 / dispersion)


def share_up_to(y, x):
    """P(y <= x); of counts the middle of its steps, between whole numbers on straight lines."""
    below = np.floor(x)
    at = [((y < k).mean() + (y <= k).mean()) / 2 for k in (below, below + 1)]
    return at[0] + (x - below) * (at[1] - at[0])


@pytest.mark.parametrize(
    ("eta", "std", "dispersion"),
    [
        (1.5, 0.3, 1.0),
        (1.5, 1.0, 1.0),
        (3.0, 0.2, 3.0),
        (5.0, 0.0, 1.0),
        (5.0, 0.4, 5.0),
        (12.0, 0.1, 1.0),
        (3.0, 2.0, 2.0),
    ],
)
def test_quantiles_of_counts_are_those_of_draws(eta, std, dispersion):
    y = drawn("poisson", eta, std, dispersion)
    found = one("poisson", eta, std, dispersion)
    np.testing.assert_allclose([share_up_to(y, x) for x in found], Q, atol=0.015)


@pytest.mark.parametrize(
    ("eta", "std", "dispersion"),
    [(0.0, 0.0, 1.0), (0.0, 0.5, 0.3), (3.0, 2.0, 0.2), (-3.0, 0.3, 0.01), (14.0, 0.1, 1.0), (1.0, 0.3, 4.0)],
)
def test_quantiles_of_amounts_are_those_of_draws(eta, std, dispersion):
    y = drawn("gamma", eta, std, dispersion)
    found = one("gamma", eta, std, dispersion)
    np.testing.assert_allclose([(y <= x).mean() for x in found], Q, atol=0.015)


def test_amounts_without_anything_open_have_the_quantiles_of_their_law():
    np.testing.assert_allclose(one("gamma", 1.0, 0.0, 0.5), gamma.ppf(Q, 2, scale=np.e / 2), rtol=0.03)


def test_large_counts_without_anything_open_are_those_of_poisson():
    found = one("poisson", np.log(1e6), 0.0)
    np.testing.assert_allclose(found, poisson.ppf(Q, 1e6), atol=5)


def test_rare_counts_have_a_lower_end_of_zero():
    low, high = one("poisson", np.log(0.5), 0.2, q=np.array([0.05, 0.95]))
    assert low == 0
    assert 1 < high < 3


def test_quantiles_of_probabilities_are_those_of_the_predictor():
    np.testing.assert_allclose(one("binomial", 0.5, 2.0), expit(0.5 + 2 * ndtri(Q)))


def test_quantiles_of_numbers_are_those_of_the_normal_distribution():
    np.testing.assert_allclose(one("gaussian", 0.5, 2.0), norm.ppf(Q, 0.5, 2.0))


@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_dispersion_widens_intervals(family):
    narrow, wide = (one(family, 2.0, 0.1, dispersion) for dispersion in (1.5, 4.0))
    assert wide[0] < narrow[0] < narrow[-1] < wide[-1]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
def test_quantiles_are_finite_and_rise_for_any_predictor(family):
    eta, std, dispersion = (
        a.ravel() for a in np.meshgrid([-900.0, -30, 0, 3, 30, 500], [0.0, 1e-9, 1, 30], [0.01, 50])
    )
    found = np.array([one(family, *row) for row in zip(eta, std, dispersion, strict=True)])
    assert np.isfinite(found).all()
    assert (np.diff(found, axis=1) >= 0).all()


def test_rows_in_blocks_and_axes_keep_their_places():
    rng = np.random.default_rng(0)
    eta = rng.normal(size=(2500, 2))
    std = rng.uniform(0, 1, size=(2500, 2))
    whole = quantiles(FAMILIES["poisson"], eta, std, 1.0, Q)
    assert whole.shape == (2500, 2, 5)
    np.testing.assert_allclose(whole[2400, 1], one("poisson", eta[2400, 1], std[2400, 1]))
