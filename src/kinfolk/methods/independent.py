"""Independent: one ridge regression per task, nothing shared but the penalty."""

from __future__ import annotations

from typing import ClassVar

from kinfolk.methods.couplings import Alone, Coupling
from kinfolk.methods.parameters import parameters
from kinfolk.methods.penalised import Penalised
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.batched import relative, times
from kinfolk.solvers.ridge import Path, Spectrum, own_intercepts


@parameters
class Independent(Penalised):
    """One ridge regression per task, each with an intercept of its own.

    Minimises, for every task t on its own,

        ||y_t - X_t w_t - c_t||^2 + penalty ||w_t||^2.

    What multi-task methods have to beat, with the penalty chosen well: penalty="cv".

    Parameters
    ----------
    task : name or position of the task column of X, or names of several that make it together; None if y has one column
        per task
    penalty : a number; or "cv", the one number for all tasks of least held-out error, among multiples of the mean of
        tr(G_t) / d, on a grid that grows while its edge is best
    cv, scoring : folds (a number, or (train, test) pairs of row positions that share out all rows), and their error:
        "pooled", "tasks" or "normalised" (see `kinfolk.rows.folds.cv_error`)
    features : a transformer for the non-task columns, e.g. StandardScaler()
    unseen : tasks that fit has not seen are predicted by the population, with a warning ("warn") or without ("mean"),
        or are an "error"
    extrapolate : "clip" or "linear": what predict does with inputs far beyond those of fit
    random_state : draws the folds

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
    simplicity: ClassVar[int] = 20

    def prepare(self, gram: GramStats) -> Path:
        spectrum = Spectrum.of(gram.G, gram.b)

        def model(penalty: float) -> tuple[Array, Array]:
            W = spectrum.ridge(penalty)
            return W, own_intercepts(gram, W)

        return model

    def coupling(self, gram: GramStats, penalty: float) -> Coupling:
        """None."""
        return Alone(penalty)

    def residual(self, gram: GramStats, W: Array, penalty: float) -> float:
        return relative(times(gram.G, W) + penalty * W - gram.b, gram.b)
