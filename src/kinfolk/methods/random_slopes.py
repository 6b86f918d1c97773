"""Random slopes: the linear mixed model, the statistician's way to let tasks learn from each other."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kinfolk.methods.method import Fit, MultiTaskRegressor
from kinfolk.methods.smoother import HubInverse, Smoother
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.random_effects import RANDOM_INTERCEPTS, RandomEffects, fit_random_effects


class RandomSlopes(MultiTaskRegressor):
    """Linear mixed model: every task's coefficients are drawn around common ones.

        y_t = X_t w_t + c_t + e,    w_t ~ N(mu, Sigma),    e ~ N(0, sigma2 I)

    mu, Sigma and sigma2 maximise the likelihood; then w_t is its conditional mean given the rows (the BLUP), which is
    the minimiser of

        sum_t ||y_t - X_t w_t - c_t||^2 + sigma2 sum_t (w_t - mu)' Sigma^-1 (w_t - mu).

    There is nothing to tune. Units of the features do not matter, and tasks may have a single row with random
    intercepts. Tasks not seen in fit are predicted by mu (unseen="mean").

    Parameters
    ----------
    task : name or position of the task column of X; None if y has one column per task
    covariance : "diagonal", coefficients vary independently; or "full", which can win on correlated inputs and many
        tasks, and has d (d + 1) / 2 variances to learn
    intercept : "random", c_t ~ N(c0, s^2) at the average input of all rows; or "free", one fixed effect per task
    features : a transformer for the non-task columns
    unseen : "error" or "mean": what predict does with tasks that fit has not seen
    tol, max_iter : largest gradient of the log-likelihood per task, in parameters without units; steps at most

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    population_coef_, population_intercept_ : the fixed effects mu and c0
    relevance_ : standard deviation between tasks of every coefficient; 0 for those that all tasks have in common
    covariance_ : Sigma (d, d); intercept_sd_ : s, NaN for free intercepts; sigma2_ : variance of the noise
    log_likelihood_, objective_history_ : at the end, and its negative after every step
    n_iter_, converged_, optimality_ : steps taken, the start included; whether, and how nearly, the gradient is zero

    Examples
    --------
    Two tasks with slopes 1 and 3, hardly any noise: the common slope is 2, and slopes vary by 1 about it.

    >>> import numpy as np
    >>> X = np.column_stack([np.repeat([0, 1], 50), np.tile(np.linspace(-1, 1, 50), 2)])
    >>> y = X[:, 1] * (1 + 2 * X[:, 0]) + 0.01 * np.tile([1, -1], 50)
    >>> model = RandomSlopes(task=0, intercept="free").fit(X, y)
    >>> model.population_coef_.round(2), model.relevance_.round(2), model.coef_.ravel().round(2)
    (array([2.]), array([1.]), array([1., 3.]))
    """

    default_grid: ClassVar[dict[str, tuple[str, ...]]] = {"covariance": ("diagonal", "full")}

    def __init__(
        self,
        task: str | int | None = None,
        *,
        covariance: str = "diagonal",
        intercept: str = "random",
        features: Any = None,
        unseen: str = "error",
        tol: float = 1e-5,
        max_iter: int = 1000,
    ) -> None:
        self.task = task
        self.covariance = covariance
        self.intercept = intercept
        self.features = features
        self.unseen = unseen
        self.tol = tol
        self.max_iter = max_iter

    @property
    def needs_two_rows(self) -> bool:  # type: ignore[override]
        """Only a free intercept takes a row of its own; but one row in all says nothing about the noise."""
        return self.intercept == "free"

    def _fit_gram(self, gram: GramStats) -> Fit:
        if gram.n.sum() <= 1 and gram.n_tasks == 1:
            raise ValueError("got n_samples=1, but a mixed model needs at least 2 rows")
        model = fit_random_effects(
            gram, covariance=self.covariance, intercept=self.intercept, tol=self.tol, max_iter=self.max_iter
        )
        self._warn_of(model)
        return Fit(
            model.coef,
            intercept=model.intercept,
            population=(model.mean, model.intercept_mean),
            attributes=_attributes(model),
        )

    def _smoother(self, gram: GramStats, relative_covariance: Array) -> Smoother:
        equations = normal_equations(gram, RANDOM_INTERCEPTS[self.intercept])
        nothing = np.zeros_like(relative_covariance)
        inverse = HubInverse.of(equations.G, relative_covariance, nothing)
        return Smoother(equations, inverse, np.ones(gram.n_features))

    def _smoothers(self) -> list[Smoother]:
        return [self._smoother(self._seen(), self.relative_covariance_)]

    def _warn_of(self, model: RandomEffects) -> None:
        if model.bounded:
            warnings.warn(
                "the rows do not tell the noise: no task has more rows than coefficients, and the likelihood grows "
                "without end towards an exact fit. The variance of the noise was held at a hundredth of that of y "
                'within tasks. Use covariance="diagonal", fewer features, or more rows.',
                ConvergenceWarning,
                stacklevel=5,
            )
        if model.converged:
            return
        warnings.warn(
            f"the mixed model stopped after {len(model.history) - 1} steps at a gradient of {model.residual:.1e}, "
            f"above tol={self.tol:g}. The likelihood rises all the same; raise max_iter, drop redundant features, "
            'or use covariance="diagonal".',
            ConvergenceWarning,
            stacklevel=5,
        )


def _attributes(model: RandomEffects) -> dict[str, Any]:
    return {
        "relevance_": model.relevance,
        "covariance_": model.covariance,
        "relative_covariance_": model.relative_covariance,
        "intercept_sd_": model.intercept_sd,
        "sigma2_": model.sigma2,
        "log_likelihood_": float(model.history[-1]),
        "objective_history_": -model.history,
        "n_iter_": len(model.history),
        "converged_": model.converged and not model.bounded,
        "optimality_": {"gradient": model.residual},
    }
