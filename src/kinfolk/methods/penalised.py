"""What the methods with one penalty share: a number, or the number of least cross-validated error."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kinfolk.methods.method import Fit, MultiTaskRegressor, warn_of_lost_features
from kinfolk.methods.smoother import HubInverse, Smoother
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.ridge import Choice, Model, choose_penalty


class _Penalised(MultiTaskRegressor):
    """A method is `_prepare(gram) -> model`, where model(penalty) are its coefficients and intercepts.

    `_residual(gram, W, penalty)` is the gradient of its objective relative to the gradient at zero.
    """

    penalty: float | str
    penalty_: float
    scoring: str = "pooled"
    default_grid: ClassVar[dict[str, tuple[float, ...]]] = {"penalty": (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4)}

    def _prepare(self, gram: GramStats) -> Model:
        raise NotImplementedError

    def _residual(self, gram: GramStats, W: Array, penalty: float) -> float:
        raise NotImplementedError

    def _inverse(self, gram: GramStats, penalty: float) -> HubInverse:
        raise NotImplementedError

    def _smoother(self, gram: GramStats, penalty: float) -> Smoother:
        equations = normal_equations(gram, "free")
        return Smoother(equations, self._inverse(gram, penalty), np.ones(gram.n_features))

    def _smoothers(self) -> list[Smoother]:
        return [self._smoother(self._seen(), self.penalty_)]

    def _wants_folds(self) -> bool:
        return isinstance(self.penalty, str) and self.penalty == "cv"

    def _fit_gram(self, gram: GramStats) -> Fit:
        if isinstance(self.penalty, str):
            raise ValueError(f'penalty={self.penalty!r} must be a number or "cv"')
        check_at_least_zero("penalty", self.penalty)
        return self._at(gram, float(self.penalty), {})

    def _fit_folds(self, folds: Folds) -> Fit:
        choice: Choice = choose_penalty(self._prepare, folds, self.scoring)
        path = {"penalties_": choice.penalties, "cv_errors_": choice.errors}
        return self._at(folds.total, choice.best, path)

    def _at(self, gram: GramStats, penalty: float, attributes: dict[str, Any]) -> Fit:
        warn_of_lost_features(gram)
        W, c = self._prepare(gram)(penalty)
        residual = {"residual": self._residual(gram, W, penalty)}
        return Fit(W, intercept=c, attributes={"penalty_": penalty, "optimality_": residual, **attributes})


def check_at_least_zero(name: str, value: Any) -> None:
    """Penalties are finite and not negative."""
    if isinstance(value, bool) or not np.isfinite(value) or value < 0:
        raise ValueError(f"{name}={value} must be at least 0 and finite")
