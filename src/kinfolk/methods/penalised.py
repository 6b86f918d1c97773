"""What the methods with one penalty share: a number, or the number of least cross-validated error."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from kinfolk.methods.constant_within import beside_common
from kinfolk.methods.couplings import HubCoupling
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Course, Model, Part
from kinfolk.methods.parameters import choice, number, parameters
from kinfolk.methods.uncertainty import HeldOut
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.centre import are_uneven
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.ridge import Path, Spectrum, choose_penalty, own_intercepts


@parameters
class Penalised(MultiTaskRegressor):
    """A method is `slopes(spectrum, penalty)`, the coefficients of every task, whose lines go through their means.

    One with other intercepts is `prepare(gram) -> path`, where path(penalty) are coefficients and intercepts.
    `residual(gram, W, penalty)` is the gradient of its objective relative to the gradient at zero, and
    `coupling(gram, penalty)` what ties the tasks.

    Parameters
    ----------
    cv, scoring : folds (a number, or (train, test) pairs of row positions that share out all rows), and their error:
        "pooled", "tasks" or "normalised" (see `kinfolk.rows.folds.cv_error`)
    random_state : draws the folds
    """

    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {"penalty": (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4)}

    penalty: float | str = number(1.0, at_least=0, also=("cv",))
    cv: Any = 5
    scoring: str = choice("pooled", "tasks", "normalised")
    random_state: Any = 0

    def prepare(self, gram: GramStats) -> Path:
        """What all penalties have in common, computed once."""
        if are_uneven(gram.G):
            return partial(self.in_units_of_columns, gram)
        spectrum = gram.once_if_small("spectrum", lambda: Spectrum.of(gram.G, gram.b))

        def model(penalty: float) -> tuple[Array, Array]:
            W = self.slopes(spectrum, penalty)
            return W, own_intercepts(gram, W)

        return model

    def in_units_of_columns(self, gram: GramStats, penalty: float) -> tuple[Array, Array]:
        """Coefficients and intercepts at one penalty by the linear map of the targets.

        Eigenvalues of G_t, which serve all penalties at once, are exact relative to the largest column only.
        """
        equations = normal_equations(gram, self.intercept_treatment())
        return equations.coefficients(self.coupling(gram, penalty).inverse(equations).unknowns(equations.b))

    def slopes(self, spectrum: Spectrum, penalty: float) -> Array:
        """Coefficients (T, d) at one penalty."""
        raise NotImplementedError

    def residual(self, gram: GramStats, W: Array, penalty: float) -> float:
        """How far the normal equations are from holding."""
        raise NotImplementedError

    def coupling(self, gram: GramStats, penalty: float) -> HubCoupling:
        """What ties the tasks together."""
        raise NotImplementedError

    def intercept_treatment(self) -> str:
        """As in `normal_equations`."""
        return "free"

    def leaves_out_common(self, gram: GramStats) -> bool:
        """Beside own intercepts nothing tells their coefficients."""
        return True

    def wants_folds(self) -> bool:
        """With penalty="cv"."""
        return isinstance(self.penalty, str)

    def learn(self, gram: GramStats) -> Model:
        """The model at the given penalty."""
        return self._at(gram, float(self.penalty))

    def learn_folds(self, folds: Folds) -> Model:
        """The model at the penalty of least held-out error."""
        chosen = choose_penalty(self.prepare, folds, self.scoring)
        rows = np.sum([part.n for part in folds.held_out], axis=0)
        # In time, the rows of a task may all come before the first that is held out.
        errors = np.divide(chosen.squared, rows, out=np.full_like(rows, np.nan), where=rows > 0)
        held_out = HeldOut(np.sqrt(errors), training=folds.trained_on)
        details = {"penalties_": chosen.penalties, "penalty_errors_": chosen.errors}
        at_best = partial(self._at, penalty=chosen.best, held_out=held_out, details=details)
        return beside_common(at_best, folds.total) if self.leaves_out_common(folds.total) else at_best(folds.total)

    def _at(self, gram: GramStats, penalty: float, **known: Any) -> Model:
        W, c = self.prepare(gram)(penalty)
        # V is W in the unknowns of the normal equations: the linear map must give back exactly these coefficients.
        equations = normal_equations(gram, self.intercept_treatment())
        V = equations.unknowns(W, c)
        part = Part.of(self.name, self.coupling(gram, penalty), equations, V, self.intercept_treatment())
        details = {"penalty_": penalty, **known.pop("details", {})}
        course = Course({"residual": self.residual(gram, W, penalty)})
        return Model.of(gram, W, c, parts=(part,), course=course, details=details, **known)
