"""Normal equations under each treatment of the intercept, and the way back to coefficients.

    "free"      own and unpenalised: centred out per task, so d unknowns per task
    "coupled"   a column of ones that takes part in the graph like any feature
    "shrunk"    a column of ones, pulled towards the mean of all tasks' intercepts by its own penalty
    None        no intercept: moments about zero

A column of ones stands for the level at the average input of all rows, not at x = 0: two tasks then have
similar intercepts when they predict similar values where the data are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import TINY, Array, GramStats, is_shared
from kinfolk.solvers.batched import row_dots
from kinfolk.solvers.tolerances import LAST_DIGIT

INTERCEPTS = ("free", "coupled", "shrunk", None)


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """The quadratic w'G_t w - 2 b_t'w + yy_t of every task, in the unknowns that the solvers see.

    `has_ones` says whether the last unknown of each task is an intercept; `x0, y0` are the origin it refers to. With a
    `basis` the unknowns are v in w = basis v. `beside` are slopes and intercepts that were taken out before.
    """

    G: Array
    b: Array
    yy: Array
    has_ones: bool
    x0: Array
    y0: Array
    basis: Array | None = None
    beside: tuple[Array, Array] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(T, d): tasks and unknowns per task."""
        return self.b.shape

    def penalised(self) -> NDArray[np.float64]:
        """1 for every unknown that a ridge may shrink towards zero, 0 for an intercept."""
        weight = np.ones(self.b.shape[1])
        weight[self.b.shape[1] - self.has_ones :] = 0.0
        return weight

    def is_shared(self) -> bool:
        """Whether all tasks have the same G."""
        return is_shared(self.G)

    def in_basis(self, slopes: Array) -> Self:
        """The same problem in the unknowns v with w = slopes v, perhaps fewer; an intercept stays as it is."""
        d, p = slopes.shape
        B = np.zeros((d + self.has_ones, p + self.has_ones))
        B[:d, :p] = slopes
        B[d:, p:] = 1.0
        G = B.T @ (self.G[0] if self.is_shared() else self.G) @ B
        G = np.broadcast_to(G, (len(self.b), *G.shape[-2:]))
        return replace(self, G=G, b=self.b @ B, basis=B)

    def coefficients(self, V: Array) -> tuple[Array, Array]:
        """Slopes (T, d) and intercepts (T,) in the units of the rows."""
        V = V if self.basis is None else V @ self.basis.T
        W = V[:, : V.shape[1] - self.has_ones]
        level = V[:, -1] if self.has_ones else 0.0
        return np.ascontiguousarray(W), level + self.y0 - row_dots(self.x0, W)

    def unknowns(self, W: Array, c: Array) -> Array:
        """The way back from `coefficients`: unknowns (T, p) of slopes and intercepts."""
        level = c - self.y0 + row_dots(self.x0, W)
        V = np.column_stack([W, level]) if self.has_ones else W
        # A basis may leave out columns, whose slopes are 0.
        return V if self.basis is None else np.linalg.lstsq(self.basis, V.T, rcond=None)[0].T


def normal_equations(
    gram: GramStats, intercept: str | None, *, origin: tuple[Array, float] | None = None
) -> NormalEquations:
    """The unknowns' normal equations for one of the treatments in `INTERCEPTS`.

    A column of ones stands for the level at `origin` (x0, y0), the average of all rows if it is not given.

    Examples
    --------
    >>> gram = GramStats.from_rows([[1.0], [3.0]], [2.0, 6.0])
    >>> normal_equations(gram, "free").G.ravel(), normal_equations(gram, None).G.ravel()
    (array([2.]), array([10.]))
    """
    if intercept == "free":
        return NormalEquations(gram.G, gram.b, gram.yy, False, gram.x_mean, gram.y_mean)
    if intercept is None:
        return _about(gram, np.zeros(gram.n_features), 0.0, ones=False)
    total = max(gram.n.sum(), TINY)
    x0, y0 = origin or (gram.n @ gram.x_mean / total, gram.n @ gram.y_mean / total)
    return _about(gram, x0, y0, ones=True, share=None if origin else gram.n / total)


def _about(gram: GramStats, x0: Array, y0: float, *, ones: bool, share: Array | None = None) -> NormalEquations:
    """Second moments about (x0, y0), bordered by a column of ones if asked; `share` of rows if that is their mean."""
    T, d = gram.b.shape
    n = gram.n
    dx = _apart(gram.x_mean, x0, share)
    dy = _apart(gram.y_mean, y0, share)
    if ones:
        dx = np.column_stack([dx, np.ones(T)])
    G = (n[:, None] * dx)[:, :, None] * dx[:, None, :]
    b = (n * dy)[:, None] * dx
    G[:, :d, :d] += gram.G
    b[:, :d] += gram.b
    origin = np.broadcast_to(x0, (T, d)), np.full(T, y0)
    return NormalEquations(G, b, gram.yy + n * dy**2, ones, *origin)


def _apart(mean: Array, origin: Array | float, share: Array | None) -> Array:
    """Means minus the origin; exactly 0 in columns where every mean equals the origin up to rounding."""
    apart = mean - origin
    if share is not None:  # the origin is rounded; what is left is taken out, as large means would make tasks differ
        apart = apart - share @ apart
    return np.where(np.abs(apart).max(axis=0) <= LAST_DIGIT * np.abs(mean).max(axis=0), 0.0, apart)
