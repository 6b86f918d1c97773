"""Ridge regressions: one per task, drawn to the mean of all, or one for all; and the mean target of every task.

The first three have one penalty, a number or that of least held-out error, and share one eigendecomposition for all
penalties that are tried (`solvers.ridge`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from kinfolk.methods.constant_within import beside_facts, path_beside
from kinfolk.methods.couplings import Alone, Hub, HubCoupling, ToMean
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Course, Model, Part
from kinfolk.methods.parameters import choice, number, parameters
from kinfolk.methods.uncertainty import HeldOut
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.batched import relative, times
from kinfolk.solvers.centre import are_uneven
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.ridge import Path, Spectrum, choose_penalty, own_intercepts, shrink_to_mean
from kinfolk.words import warn_user

FOLDS = 5  # that choose the penalty of one line for all


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

    def path(self, gram: GramStats) -> Path:
        """The same beside what facts about tasks say."""
        return path_beside(self.prepare, gram, self.fact_products())

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

    def finds_numbers(self, gram: GramStats) -> bool:
        """With penalty="cv", or where coefficients are taken out before."""
        common = self.leaves_out_common(gram) and bool(gram.common().any())
        return self.wants_folds() or common or gram.roles is not None

    def wants_folds(self) -> bool:
        """With penalty="cv"."""
        return isinstance(self.penalty, str)

    def learn(self, gram: GramStats) -> Model:
        """The model at the given penalty."""
        return self._at(gram, float(self.penalty))

    def learn_folds(self, folds: Folds) -> Model:
        """The model at the penalty of least held-out error."""
        chosen = choose_penalty(self.path, folds, self.scoring)
        rows = np.sum([part.n for part in folds.held_out], axis=0)
        # In time, the rows of a task may all come before the first that is held out.
        errors = np.divide(chosen.squared, rows, out=np.full_like(rows, np.nan), where=rows > 0)
        held_out = HeldOut(np.sqrt(errors), training=folds.trained_on)
        extras = {"penalties_": chosen.penalties, "penalty_errors_": chosen.errors}
        at_best = partial(self._at, penalty=chosen.best, held_out=held_out, extras=extras)
        return beside_facts(self.beside_common(at_best), folds.total, self.fact_products())

    def _at(self, gram: GramStats, penalty: float, **known: Any) -> Model:
        W, c = self.prepare(gram)(penalty)
        # V is W in the unknowns of the normal equations: the linear map must give back exactly these coefficients.
        equations = normal_equations(gram, self.intercept_treatment())
        V = equations.unknowns(W, c)
        part = Part.of(self.name, self.coupling(gram, penalty), equations, V, self.intercept_treatment())
        extras = {"penalty_": penalty, **known.pop("extras", {})}
        course = Course({"residual": self.residual(gram, W, penalty)})
        return Model.of(gram, W, c, parts=(part,), course=course, extras=extras, **known)


@parameters
class Independent(Penalised):
    """One ridge regression per task, each with an intercept of its own.

    Minimises, for every task t on its own,

        ||y_t - X_t w_t - c_t||^2 + penalty ||w_t||^2.

    What multi-task methods have to beat, with the penalty chosen well: penalty="cv".

    Parameters
    ----------
    penalty : a number; or "cv", the one number for all tasks of least held-out error, among multiples of the mean of
        tr(G_t) / d, on a grid that grows while its edge is best

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    penalty_ : the number used; penalties_, penalty_errors_ : those tried and their errors, cv_errors_ : those of
        every task (T,), for "cv"
    optimality_ : residual of the normal equations

    Examples
    --------
    Two rows at x = -1 and 1 have G = 2; a penalty of 2 halves their slope.

    >>> import numpy as np
    >>> X = np.array([["a", -1.0], ["a", 1.0], ["b", -1.0], ["b", 1.0]], dtype=object)
    >>> Independent(task=0, penalty=2.0).fit(X, [0.0, 4.0, 5.0, 5.0]).coef_.ravel()
    array([1., 0.])
    """

    shares: ClassVar[str] = "nothing shared"
    alone: ClassVar[bool] = True
    simplicity: ClassVar[int] = 20

    def slopes(self, spectrum: Spectrum, penalty: float) -> Array:
        return spectrum.ridge(penalty)

    def coupling(self, gram: GramStats, penalty: float) -> HubCoupling:
        """None."""
        return Alone(penalty)

    def residual(self, gram: GramStats, W: Array, penalty: float) -> float:
        return relative(times(gram.G, W) + penalty * W - gram.b, gram.b)


@parameters
class MeanShrunk(Penalised):
    """Ridge regressions whose penalty pulls towards the mean of all tasks instead of zero.

    Minimises over all w_t together, each task with an intercept of its own,

        sum_t ||y_t - X_t w_t - c_t||^2 + penalty sum_t ||w_t - mean(w)||^2 + ridge sum_t ||w_t||^2.

    Between `Independent` (penalty = 0) and `Pooled` (penalty to infinity). Solved exactly by T systems of size d and
    one more for the mean. Of many minimisers (ridge = 0, inputs of lower rank than d) the one of least norm.

    Parameters
    ----------
    penalty : a number; or "cv", the number of least held-out error, among multiples of the mean of tr(G_t) / d, on a
        grid that grows while its edge is best
    ridge : the pull towards zero, a number

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    penalty_ : the number used; penalties_, penalty_errors_ : those tried and their errors, cv_errors_ : those of
        every task (T,), for "cv"
    optimality_ : residual of the normal equations

    Examples
    --------
    Slopes of 1 and 3 with G = 2 each: a penalty of 2 moves both half-way to their mean.

    >>> X = np.array([["a", -1.0], ["a", 1.0], ["b", -1.0], ["b", 1.0]], dtype=object)
    >>> MeanShrunk(task=0, penalty=2.0).fit(X, [-1.0, 1.0, 7.0, 13.0]).coef_.ravel()
    array([1.5, 2.5])
    """

    shares: ClassVar[str] = "mean of the tasks"
    simplicity: ClassVar[int] = 30
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "penalty": (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4),
        "ridge": (1e-3, 1e-1, 1.0, 10.0),
    }

    ridge: float = number(0.0, at_least=0)

    def slopes(self, spectrum: Spectrum, penalty: float) -> Array:
        return shrink_to_mean(spectrum, penalty, self.ridge)

    def coupling(self, gram: GramStats, penalty: float) -> HubCoupling:
        """The mean of all tasks."""
        return ToMean(penalty, self.ridge)

    def residual(self, gram: GramStats, W: Array, penalty: float) -> float:
        gradient = times(gram.G, W) + self.ridge * W - gram.b
        return relative(gradient + penalty * (W - W.mean(axis=0)), gram.b)


@parameters
class Pooled(Penalised):
    """One set of slopes for all tasks.

    Minimises over w and the intercepts c_t (one per task, or one for all)

        sum_t ||y_t - X_t w - c_t||^2 + penalty ||w||^2 + shrinkage sum_t (c_t - c)^2.

    Parameters
    ----------
    penalty : a number; or "cv", the number of least held-out error, on a grid that grows while its edge is best
    own_intercepts : whether every task has its own level; if not, the tasks are one
    shrinkage : rows at which a task's level is halfway between its own and the common one: a mixed model with random
        intercepts. Above 0 columns that are constant within every task keep a coefficient: a town's tax explains its
        level

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d), all rows equal, and (T,); tasks_ : their labels
    penalty_ : the number used; penalties_, penalty_errors_ : those tried and their errors, cv_errors_ : those of
        every task (T,), for "cv"
    optimality_ : residual of the normal equations

    Examples
    --------
    Slopes of 1 and 3 on like inputs pool to 2; the levels 0 and 10 stay.

    >>> X = np.array([["a", -1.0], ["a", 1.0], ["b", -1.0], ["b", 1.0]], dtype=object)
    >>> model = Pooled(task=0, penalty=0.0).fit(X, [-1.0, 1.0, 7.0, 13.0])
    >>> model.coef_.ravel(), model.intercept_
    (array([2., 2.]), array([ 0., 10.]))
    """

    shares: ClassVar[str] = "one model"
    simplicity: ClassVar[int] = 10

    own_intercepts: bool = True
    shrinkage: float = number(0.0, at_least=0)

    def needs_two_rows(self) -> bool:
        """Only own intercepts take a row of every task."""
        return self.own_intercepts and self.shrinkage == 0

    def leaves_out_common(self, gram: GramStats) -> bool:
        """Only beside own intercepts: else one line has one coefficient for all anyway."""
        return self.own_intercepts and self.shrinkage == 0

    def prepare(self, gram: GramStats) -> Path:
        G, b, level = self._sums(gram)
        uneven = are_uneven(G[None])
        spectrum = Spectrum.of(G[None], b[None])
        own_part = gram.n / (gram.n + self.shrinkage) if self.own_intercepts else np.zeros(gram.n_tasks)

        def model(penalty: float) -> tuple[Array, Array]:
            if uneven or penalty == 0:  # of many minimisers that of least norm in units of the columns
                return self.in_units_of_columns(gram, penalty)
            w = spectrum.ridge(penalty)[0]
            W = np.tile(w, (gram.n_tasks, 1))
            own = own_intercepts(gram, W)
            common = 0.0 if level is None else level[1] - level[0] @ w
            return W, common + own_part * (own - common)

        return model

    def _sums(self, gram: GramStats) -> tuple[Array, Array, tuple[Array, float] | None]:
        """G and b of all tasks, and the means (x, y) that the levels of tasks are about, if they have any in common."""
        if self.own_intercepts and self.shrinkage == 0:
            return gram.G.sum(axis=0), gram.b.sum(axis=0), None
        # With its best intercept, a task's mean counts as n k / (n + k) rows (k: shrinkage); as n without intercepts.
        rows = gram.n * self.shrinkage / (gram.n + self.shrinkage) if self.own_intercepts else gram.n
        one = np.zeros(gram.n_tasks, np.intp)
        between = GramStats.from_codes(gram.x_mean, gram.y_mean, one, np.arange(1), weight=rows)
        level = between.x_mean[0], float(between.y_mean[0])
        return gram.G.sum(axis=0) + between.G[0], gram.b.sum(axis=0) + between.b[0], level

    def intercept_treatment(self) -> str:
        """Without own intercepts a column of ones, whose coefficient is pooled as well."""
        return "free" if self.own_intercepts and self.shrinkage == 0 else "coupled"

    def coupling(self, gram: GramStats, penalty: float) -> HubCoupling:
        """A centre, and around it at most the levels."""
        d = gram.n_features
        p = d + (self.intercept_treatment() == "coupled")
        around = np.zeros(p)
        if self.own_intercepts and self.shrinkage > 0:
            around[d] = 1 / self.shrinkage
        return Hub(np.diag(around), np.diag(np.where(np.arange(p) < d, penalty, 0.0)))

    def residual(self, gram: GramStats, W: Array, penalty: float) -> float:
        G, b, _ = self._sums(gram)
        return relative(G @ W[0] + penalty * W[0] - b, b)


def one_line(method: MultiTaskRegressor, gram: GramStats, folds: Folds | None = None) -> Model:
    """One line for all rows, where no task has rows enough to learn slopes from; folds choose its penalty."""
    if gram.n.sum() <= 1:
        raise ValueError("got n_samples=1 in every task: a line needs at least 2 rows")
    few = "every task has a single row" if gram.n.max() <= 1 else "a fold leaves every task a single row to train on"
    warn_user(f"{few}: all tasks get one line, that of all rows together")
    if folds is None:
        # Every row is a task of its own, so tasks are dealt to folds, by their targets and not by what they are called.
        turn = np.argsort(np.argsort(gram.y_mean, kind="stable")) % min(FOLDS, gram.n_tasks)
        folds = Folds.of_parts([gram.emptied(turn != f) for f in range(turn.max() + 1)])
    one = np.zeros(gram.n_tasks, np.intp)
    rows = GramStats.from_codes(gram.x_mean, gram.y_mean, one, np.arange(1), weight=gram.n)
    squares = np.einsum("tjj->j", gram.G) + np.diagonal(rows.G[0])
    scale = np.where(squares > 0, np.sqrt(squares / gram.n.sum()), 1.0)
    pooled = Pooled(own_intercepts=False, penalty="cv")
    model = pooled.model_of(gram.rescaled(scale), folds.rescaled(scale)).in_units(scale).among(gram)
    return replace(model, method=method.unfitted())


@parameters
class TaskMean(MultiTaskRegressor):
    """Predicts every task by the mean of its training targets, whatever the inputs.

    Parameters
    ----------
    features : a transformer for the non-task columns, which do not matter here

    Attributes
    ----------
    coef_, intercept_ : zeros (T, d), and the means (T,); tasks_ : their labels

    Examples
    --------
    >>> X = np.array([["a", 1.0], ["a", 2.0], ["b", 3.0]], dtype=object)
    >>> TaskMean(task=0).fit(X, [0.0, 4.0, 5.0]).intercept_
    array([2., 5.])
    """

    shares: ClassVar[str] = "nothing shared, no features"
    alone: ClassVar[bool] = True
    simplicity: ClassVar[int] = 0

    def needs_two_rows(self) -> bool:
        """One row has a mean."""
        return False

    def levels_are_free(self) -> bool:
        """They are all that there is."""
        return True

    def leaves_out_common(self, gram: GramStats) -> bool:
        """What features of whole tasks say of levels is all that is known of unseen tasks."""
        return True

    def learn(self, gram: GramStats) -> Model:
        """No slopes, and the means as intercepts."""
        W = np.zeros_like(gram.b)
        part = Part.of(self.name, Alone(np.inf), normal_equations(gram, "free"), W, "free")
        return Model.of(gram, W, gram.y_mean.copy(), parts=(part,), course=Course({"residual": 0.0}))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # a mean explains nothing by the inputs, as in DummyRegressor
        return tags
