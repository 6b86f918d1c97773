"""Independent: one ridge regression per task, nothing shared but the penalty."""

from __future__ import annotations

from typing import ClassVar

from kinfolk.methods.couplings import Alone, HubCoupling
from kinfolk.methods.parameters import parameters
from kinfolk.methods.penalised import Penalised
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.batched import relative, times
from kinfolk.solvers.ridge import Spectrum


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
