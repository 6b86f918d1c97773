"""Preconditioned conjugate gradients on arrays of any shape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinfolk.rows.gram import Array
from kinfolk.solvers.solution import Solution

Operator = Callable[[Array], Array]


def conjugate_gradients(
    apply: Operator, b: Array, precondition: Operator, *, start: Array | None = None, tol: float, max_iter: int
) -> Solution:
    """Solve apply(x) = b for a symmetric positive definite operator.

    Stops when ||b - apply(x)|| <= tol ||b||. The residual reported is recomputed from x, not the recurrence.

    Differs from `scipy.sparse.linalg.cg`: x keeps the shape of b (one row per task, no reshaping of a flat
    vector), and the true residual is the certificate.

    Examples
    --------
    >>> x = conjugate_gradients(lambda v: 2 * v, np.array([2.0, 4.0]), lambda r: r, tol=1e-12, max_iter=9)
    >>> x.value, x.n_iter
    (array([1., 2.]), 1)
    """
    scale = np.sqrt(inner(b, b))
    x = np.zeros_like(b) if start is None else start.copy()
    r = b - apply(x) if start is not None else b.copy()
    if scale == 0.0:
        return Solution(np.zeros_like(b), 0, 0.0, True)
    s = precondition(r)
    p = s
    rs = inner(r, s)
    k = 0
    while np.sqrt(inner(r, r)) > tol * scale and k < max_iter:
        q = apply(p)
        curvature = inner(p, q)
        if not (rs > 0 and curvature > 0):  # what is left is rounding, or in a direction that has no curvature
            break
        step = rs / curvature
        x += step * p
        r -= step * q
        s = precondition(r)
        rs_old = rs
        rs = inner(r, s)
        p = s + (rs / rs_old) * p
        k += 1
    residual = float(np.linalg.norm(b - apply(x)) / scale)
    return Solution(x, k, residual, residual <= 10 * tol)


def inner(a: Array, b: Array) -> float:
    """Sum of products. BLAS would wake its threads for it, which on a busy machine costs more than the sum.

    Examples
    --------
    >>> inner(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    11.0
    """
    return float(np.einsum("i,i->", a.ravel(), b.ravel()))
