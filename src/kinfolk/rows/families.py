"""Families of targets: numbers, classes, counts and positive amounts, each with one link between mean and predictor.

A family says what a target may be, and gives the deviance (twice the loss in likelihood) of a predictor eta with its
first two derivatives. A Newton step of any penalised deviance is then a penalised weighted least-squares fit,

    sum_i w_i (z_i - eta_i)^2,     w = d2 / d eta2,   z = eta - (d / d eta) / w      (of half the deviance),

so that every method that fits numbers fits these: its statistics are those of working targets z with the weights w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, gammaln, xlogy

from kinfolk.rows.gram import TINY, Array

FLAT = 1e-14  # of the mean curvature: flatter rows are taken for so curved, which shortens a step and moves no optimum
FARTHEST_TARGET = 1e3  # of a working target from the predictor, by default
STEEPEST = 600.0  # of |eta|: exponentials beyond leave the range of floats
LEAST_AMOUNT = 1e-35  # that can be fitted, as of the sizes of all targets: logarithms of smaller ones rule the others
INSIDE = 1e-12  # of a probability from 0 and 1, for its link


@dataclass(frozen=True, eq=False)
class Family:
    """One kind of target.

    Attributes
    ----------
    name, link : as users write them, and from the mean to the linear predictor
    takes : what targets may be, for errors
    error : what its mean held-out loss is called
    dispersion : variance over that of the family, where it is known: 1 for shares and counts; None if it is estimated
    least, most, open : range of the targets, and whether its ends are no targets themselves
    mean, variance : of a predictor, and of a mean
    slope, curvature : derivatives of half the deviance by the predictor
    bend : derivative of the logarithm of the curvature
    deviance : of single targets; 0 for a perfect prediction
    peak : log-likelihood of single targets with these weights, over the dispersion, where the deviance is 0
    predictor : of a mean
    """

    name: str
    link: str
    takes: str
    error: str
    dispersion: float | None
    least: float
    most: float
    open: bool
    mean: Callable[[Array], Array]
    variance: Callable[[Array], Array]
    slope: Callable[[Array, Array], Array]
    curvature: Callable[[Array, Array], Array]
    bend: Callable[[Array], Array]
    deviance: Callable[[Array, Array], Array]
    peak: Callable[[Array, Array], Array]
    predictor: Callable[[Array], Array]

    @property
    def is_plain(self) -> bool:
        """Whether this is squared error: fits then need no working targets."""
        return self.name == "gaussian"

    @property
    def measure(self) -> str:
        """The same in a sentence."""
        return "error" if self.is_plain else self.error

    @property
    def has_exposure(self) -> bool:
        """Whether a mean may be proportional to something."""
        return self.link == "log"

    @property
    def ratio(self) -> str:
        """What the exponential of a coefficient is: by how many times the odds, or the mean, are larger."""
        return {"identity": "", "logit": "odds ratio", "log": "rate ratio"}[self.link]

    def read(self, y: Array) -> Array:
        """Checked targets; NaN where none was observed."""
        beyond = (y < self.least) | (y > self.most)
        if self.open:
            beyond |= (y == self.least) | (y == self.most)
        if beyond.any():
            where = np.argwhere(beyond)[0].tolist()
            raise ValueError(
                f"family={self.name!r} takes {self.takes}, but y has {y[tuple(where)]:g} in row {where[0]} "
                f"({int(beyond.sum()):,} such values in all): choose another family, or correct them"
            )
        if self.open and (y < LEAST_AMOUNT).any():
            raise ValueError(
                f"the target y has values down to {np.nanmin(y):.3g}, but amounts from {LEAST_AMOUNT:g} can be fitted: "
                "change its unit, or leave out rows of nearly nothing"
            )
        return y

    def working(
        self, y: Array, eta: Array, weight: Array | None = None, farthest: float = FARTHEST_TARGET
    ) -> tuple[Array, Array | None]:
        """Working targets z and weights w at the predictor eta; for numbers y and the weights themselves.

        No target is farther from the predictor than `farthest`: rows that are flat where they are wrong count as more
        curved, which moves no optimum.

        >>> FAMILIES["binomial"].working(np.array([1.0, 0.0]), np.zeros(2))
        (array([ 2., -2.]), array([0.25, 0.25]))
        """
        if self.is_plain:
            return y, weight
        curvature = self.curvature(y, eta)
        some = len(y) > 0 and (weight is None or weight.sum() > 0)  # a fold may hold out rows without weight alone
        flat = max(FLAT * float(np.average(curvature, weights=weight)), TINY) if some else TINY
        slope = self.slope(y, eta)
        curvature = np.maximum(curvature, np.maximum(np.abs(slope) / farthest, flat))
        z = eta - slope / curvature
        return z, curvature if weight is None else weight * curvature

    def steepness(self, mean: Array) -> Array:
        """Derivative of the mean by the predictor."""
        return {"identity": np.ones_like(mean), "logit": mean * (1 - mean), "log": mean}[self.link]

    def loss(self, y: Array, eta: Array) -> Array:
        """What is summed up in objectives: the deviance of every target."""
        return self.deviance(y, eta)

    def score(self, y: Array, eta: Array) -> Array:
        """What people read of held-out targets: log-loss, or the deviance."""
        return (0.5 if self.error == "log-loss" else 1.0) * self.deviance(y, eta)

    def pearson(self, y: Array, eta: Array) -> Array:
        """Squared errors over the variance that the family gives each mean."""
        mean = self.mean(eta)
        return (y - mean) ** 2 / np.maximum(self.variance(mean), TINY)


def explained_deviance(family: Family, y: Array, mean: Array, weight: Array | None = None) -> float:
    """The share of the deviance about the mean of all targets that predictions explain."""
    seen = ~np.isnan(y)
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    w = np.broadcast_to(w.reshape(-1, *[1] * (y.ndim - 1)), y.shape)[seen]
    y = y[seen]
    all_alike = family.predictor(np.full(len(y), np.average(y, weights=w)))
    left, total = (float(w @ family.deviance(y, eta)) for eta in (family.predictor(mean[seen]), all_alike))
    return 1 - left / total if total > 0 else 0.0


def _exp(eta: Array) -> Array:
    return np.exp(np.clip(eta, -STEEPEST, STEEPEST))


def _logit(mean: Array) -> Array:
    mean = np.clip(mean, INSIDE, 1 - INSIDE)
    return np.log(mean / (1 - mean))


def _log(mean: Array) -> Array:
    return np.log(np.maximum(mean, TINY))


def _binomial_deviance(y: Array, eta: Array) -> Array:
    """2 (log(1 + e^eta) - y eta), less the same at the best eta: -log p of what was seen, without cancellation."""
    entropy = xlogy(y, y) + xlogy(1 - y, 1 - y)
    return 2 * (y * np.logaddexp(0, -eta) + (1 - y) * np.logaddexp(0, eta) + entropy)


def _binomial_peak(y: Array, weight: Array) -> Array:
    """Of shares of `weight` trials, in any order."""
    orders = gammaln(weight + 1) - gammaln(weight * y + 1) - gammaln(weight * (1 - y) + 1)
    return orders + weight * (xlogy(y, y) + xlogy(1 - y, 1 - y))


def _poisson_deviance(y: Array, eta: Array) -> Array:
    """2 (mu - y - y log(mu / y)) = 2 y (e^s - 1 - s) with s = eta - log y: no two large numbers are subtracted."""
    s = np.clip(eta - _log(y), -2 * STEEPEST, STEEPEST)
    return np.where(y > 0, 2 * y * (np.expm1(s) - s), 2 * _exp(eta))


def _gamma_deviance(y: Array, eta: Array) -> Array:
    """2 (y / mu - 1 - log(y / mu))."""
    s = np.clip(_log(y) - eta, -STEEPEST, STEEPEST)
    return 2 * (np.expm1(s) - s)


FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="gaussian",
            link="identity",
            takes="numbers",
            error="RMSE",
            dispersion=None,
            least=-np.inf,
            most=np.inf,
            open=False,
            mean=lambda eta: eta,
            variance=np.ones_like,
            slope=lambda y, eta: eta - y,
            curvature=lambda y, eta: np.ones_like(eta),
            bend=np.zeros_like,
            deviance=lambda y, eta: (y - eta) ** 2,
            peak=lambda y, weight: np.log(weight / (2 * np.pi)) / 2,
            predictor=lambda mean: mean,
        ),
        Family(
            name="binomial",
            link="logit",
            takes="0 and 1, or shares between them with the trials as sample_weight",
            error="log-loss",
            dispersion=1.0,
            least=0.0,
            most=1.0,
            open=False,
            mean=expit,
            variance=lambda mean: mean * (1 - mean),
            # Of a row that is right, 1 - mean is all that is left: not by subtraction.
            slope=lambda y, eta: (1 - y) * expit(eta) - y * expit(-eta),
            curvature=lambda y, eta: expit(eta) * expit(-eta),
            bend=lambda eta: -np.tanh(eta / 2),
            deviance=_binomial_deviance,
            peak=_binomial_peak,
            predictor=_logit,
        ),
        Family(
            name="poisson",
            link="log",
            takes="counts, 0 or more",
            error="deviance",
            dispersion=1.0,
            least=0.0,
            most=np.inf,
            open=False,
            mean=_exp,
            variance=lambda mean: mean,
            slope=lambda y, eta: _exp(eta) - y,
            curvature=lambda y, eta: _exp(eta),
            bend=np.ones_like,
            deviance=_poisson_deviance,
            peak=lambda y, weight: weight * (xlogy(y, y) - y - gammaln(y + 1)),
            predictor=_log,
        ),
        Family(
            name="gamma",
            link="log",
            takes="amounts above 0",
            error="deviance",
            dispersion=None,
            least=0.0,
            most=np.inf,
            open=True,
            mean=_exp,
            variance=np.square,
            slope=lambda y, eta: -np.expm1(np.clip(_log(y) - eta, -STEEPEST, STEEPEST)),
            curvature=lambda y, eta: _exp(_log(y) - eta),
            bend=lambda eta: -np.ones_like(eta),
            deviance=_gamma_deviance,
            peak=lambda y, weight: xlogy(weight, weight) - weight - gammaln(weight) - np.log(y),
            predictor=_log,
        ),
    )
}
