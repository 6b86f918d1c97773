"""BMSL: Bayesian multi-task learning with a task covariance and shared feature selection (Goncalves et al. 2019)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Course, Model
from kinfolk.methods.parameters import number, parameters
from kinfolk.methods.search_report import ByTask
from kinfolk.methods.structures import TaskCovariance
from kinfolk.progress import Callback
from kinfolk.rivals.solvers.gibbs import ChainData, Prior, diagnose, sample
from kinfolk.rows.gram import Array, GramStats
from kinfolk.words import warn_user

RHAT = 1.05  # chains that differ by more have not forgotten their starts
OWN_SCALE_ROWS = 3.0  # rows of the average task mixed into the variance of each task's target


@parameters
class BMSL(MultiTaskRegressor):
    """Bayesian multi-task learning: coefficients of related tasks covary, and features are in or out for all tasks.

    In units where features and targets have variance about 1 within tasks, with an own intercept c_t (flat prior),

        y_t ~ N(c_t + X_t (s o w_t), 1 / tau_t)     tau_t ~ Gamma(noise_prior: shape, rate)
        W_.j ~ N(0, Phi^-1) for every feature j     Phi ~ Wishart(T + dof, I / ((dof - 1) prior_scale))
        s_j ~ Bernoulli(pi), the same for all t     pi ~ Beta(inclusion_prior)

    so that a priori the mean of Phi^-1, the covariance between tasks, is prior_scale I. Features are scaled by their
    pooled standard deviation within tasks, each target by its own (steadied by three rows of the pooled variance): the
    answer does not depend on units. A Gibbs sampler on Gram statistics draws from the posterior; mathematics in
    `rivals/solvers/gibbs.py`, whose steps 2, 3 and 4 go beyond the paper.

    Parameters
    ----------
    prior_scale : prior variance of a coefficient in scaled units; None: 1 / d, so that all features together explain
        about the variance of y
    dof : > 1; how firmly the prior of Phi is held, in features
    noise_prior : shape and rate of tau; the default weighs one row and expects a tenth of the variance to be noise
    inclusion_prior : the two numbers of the Beta prior
    n_samples, n_burn, n_chains : sweeps kept and discarded per chain; chains. They start from draws of the prior, and
        over the first half of n_burn the data come in gradually: begun cold, chains settle in poor sets of features
    interval : posterior probability within `coef_interval_`
    random_state : seed; the same seed gives the same numbers
    callback : called with a `Progress` after every hundred sweeps

    Attributes
    ----------
    coef_, intercept_ : posterior means, arrays of shape (T, d) and (T,); tasks_ : their labels
    coef_interval_ : lower and upper ends, (2, T, d), of the tasks that have rows
    inclusion_probability_ : posterior mean of s, (d,); 0 for a feature that is constant within every task
    structure_ : `TaskCovariance`, posterior mean of Phi^-1: how coefficients of scaled features covary, in units of y
    noise_ : posterior mean of the noise standard deviation, (T,)
    diagnostics_ : `rhat` and `ess` (dicts by quantity: coef, coef_norm, fitted, log_precision, log_det, n_active),
        and over all but coef `rhat_max` and `ess_min`
    converged_ : whether rhat_max < 1.05; n_iter_ : sweeps per chain

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> Y = np.column_stack([2 * X[:, 0], 3 * X[:, 0]]) + 0.1 * rng.normal(size=(60, 2))
    >>> model = BMSL(n_samples=200, n_burn=100, random_state=0).fit(X, Y)
    >>> model.coef_.round(1) + 0.0
    array([[2., 0.],
           [3., 0.]])
    """

    shares: ClassVar[str] = "task covariance, Bayesian"
    simplicity: ClassVar[int] = 120
    only_numbers: ClassVar[str] = (
        "its sampler draws from normal observations, and there is no other to draw from in closed form"
    )
    quick: ClassVar[dict[str, Any]] = {"n_samples": 500, "n_burn": 500, "n_chains": 2}
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {}  # the posterior weighs what others tune

    facts: Any = None
    prior_scale: float | None = number(None, above=0, also=(None,))
    dof: float = number(2.0, above=1)
    noise_prior: tuple[float, float] = (0.5, 0.05)
    inclusion_prior: tuple[float, float] = (1.0, 1.0)
    n_samples: int = number(2000, at_least=4, whole=True)
    n_burn: int = number(500, at_least=0, whole=True)
    n_chains: int = number(4, at_least=1, whole=True)
    interval: float = 0.95
    random_state: Any = None
    callback: Callback | None = None

    def learn(self, gram: GramStats) -> Model:
        self._check_priors()
        data, unit_x, unit_y = scaled_moments(gram)
        varies = unit_x > 0
        T, d = gram.n_tasks, int(varies.sum())
        scale = 1 / max(d, 1) if self.prior_scale is None else self.prior_scale
        prior = Prior(*self.noise_prior, T + self.dof, (self.dof - 1) * scale, *self.inclusion_prior)
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        rng = np.random.default_rng(seed)
        draws = sample(data, prior, rng, self.n_chains, self.n_burn, self.n_samples, self.callback)

        unit = np.divide(unit_y[:, None], unit_x, out=np.zeros((T, len(unit_x))), where=varies)
        tails = [(1 - self.interval) / 2, (1 + self.interval) / 2]
        bounds = np.quantile(np.concatenate(draws.B), tails, axis=0)
        covariance = draws.covariance * np.outer(unit_y, unit_y)
        included = np.zeros(len(varies))
        included[varies] = draws.active.mean(axis=(0, 1))
        diagnostics = diagnose(draws, data)
        self._warn(diagnostics)
        return Model.of(
            gram,
            _placed(draws.B.mean(axis=(0, 1)), varies) * unit,
            structure=TaskCovariance(covariance, gram.labels),
            course=Course({}, None, self.n_burn + self.n_samples, diagnostics["rhat_max"] < RHAT),
            extras={
                "coef_interval_": ByTask(_placed(bounds, varies) * unit, axis=1),
                "inclusion_probability_": included,
                "noise_": ByTask(unit_y * np.exp(-0.5 * draws.log_tau).mean(axis=(0, 1))),
                "diagnostics_": diagnostics,
            },
        )

    def _warn(self, diagnostics: dict[str, Any]) -> None:
        if diagnostics["rhat_max"] >= RHAT:
            warn_user(
                f"the chains of BMSL disagree: split R-hat {diagnostics['rhat_max']:.3f} (below {RHAT} wanted), "
                f"{diagnostics['ess_min']:.0f} effective draws. Raise n_samples and n_burn, or drop features "
                "that repeat others.",
                ConvergenceWarning,
            )

    def _check_priors(self) -> None:
        for name, pair in (("noise_prior", self.noise_prior), ("inclusion_prior", self.inclusion_prior)):
            if len(pair) != 2 or not all(0 < value < np.inf for value in pair):
                raise ValueError(f"{name}={pair} must be two numbers greater than 0 and finite")
        if not 0 < self.interval < 1:
            raise ValueError(f"interval={self.interval} must be between 0 and 1")


def scaled_moments(gram: GramStats) -> tuple[ChainData, Array, Array]:
    """Statistics in units of 1, without features that never vary; the units of x (d,) and of y (T,)."""
    freedom = np.maximum(gram.n - 1, 0.0)
    rows = max(freedom.sum(), np.finfo(float).tiny)
    diagonal = np.diagonal(gram.G, axis1=1, axis2=2)
    # Rounding leaves something like 1e-32 of the level where a feature is constant.
    varies = diagonal.max(axis=0) > 1e-20 * np.abs(gram.x_mean).max(axis=0) ** 2
    unit_x = np.where(varies, np.sqrt(diagonal.sum(axis=0) / rows), 0.0)
    pooled = gram.yy.sum() / rows
    unit_y = np.sqrt((gram.yy + OWN_SCALE_ROWS * pooled) / (freedom + OWN_SCALE_ROWS))
    unit_y = np.where(unit_y > 0, unit_y, 1.0)
    x = unit_x[varies]
    G = gram.G[:, varies][:, :, varies] / np.outer(x, x)
    b = gram.b[:, varies] / x / unit_y[:, None]
    return ChainData(G, b, gram.yy / unit_y**2, freedom), unit_x, unit_y


def _placed(values: Array, varies: NDArray[np.bool_]) -> Array:
    """The values at the features that vary, 0 at the others."""
    placed = np.zeros((*values.shape[:-1], len(varies)))
    placed[..., varies] = values
    return placed
