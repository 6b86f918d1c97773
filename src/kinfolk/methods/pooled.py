"""Pooled: one ridge regression for all tasks together."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from kinfolk.methods.couplings import Hub, HubCoupling
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Model
from kinfolk.methods.parameters import number, parameters
from kinfolk.methods.penalised import Penalised
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.batched import relative
from kinfolk.solvers.centre import are_uneven
from kinfolk.solvers.ridge import Path, Spectrum, own_intercepts
from kinfolk.words import warn_user

FOLDS = 5  # that choose the penalty of one line for all


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
