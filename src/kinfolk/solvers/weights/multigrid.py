"""A multigrid cycle on many columns at once: one sparse product serves all unknowns of all tasks.

The matrices are M = diag(excess) + Laplacian(A): symmetric, diagonally dominant, with A >= 0 the weights between nodes.
A level is a matrix and the way up from the next, coarser one. One cycle, from x = 0:

    x = omega D^-1 r;    x += P cycle(P'(r - M x)), repeated;    x += omega D^-1 (r - M x)

With omega D^-1 M below 2, which diagonal dominance gives for omega < 1, the cycle B is symmetric positive definite and
B M has its eigenvalues in (0, 1], however often the coarse correction is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy import sparse
from scipy.sparse.linalg import splu

from kinfolk.rows.gram import Array

DAMPING = 2 / 3


@dataclass(frozen=True, eq=False)
class Level:
    """One matrix, the interpolation from the next level to it, and how often that level is visited."""

    M: sparse.csr_array
    P: sparse.csr_array
    Pt: sparse.csr_array
    smoother: Array
    repeats: int

    @classmethod
    def of(cls, M: sparse.csr_array, P: sparse.csr_array, repeats: int) -> Level:
        """A level from its matrix and interpolation."""
        return cls(M, P, sparse.csr_array(P.T), (DAMPING / M.diagonal())[:, None], repeats)


class Multigrid:
    """Levels, finest first, and a sparse factorisation of the coarsest matrix.

    `Multigrid.solve(r)` is one cycle, for r of shape (T, any number of columns): an approximate solution of M x = r.
    """

    def __init__(self, levels: list[Level], coarsest: sparse.csr_array) -> None:
        self.levels = levels
        self.bottom: Any = splu(sparse.csc_array(coarsest))
        self.sizes = [level.M.shape[0] for level in levels] + [coarsest.shape[0]]
        work = sum(level.M.nnz for level in levels) + coarsest.nnz
        self.complexity = work / (levels[0].M.nnz if levels else max(coarsest.nnz, 1))

    def __repr__(self) -> str:
        return f"Multigrid(sizes={self.sizes}, complexity={self.complexity:.2f})"

    def solve(self, r: Array) -> Array:
        """One cycle from zero."""
        return self._cycle(0, r)

    def _cycle(self, depth: int, r: Array) -> Array:
        if depth == len(self.levels):
            return self.bottom.solve(r)
        level = self.levels[depth]
        x = level.smoother * r
        left = level.Pt @ (r - level.M @ x)
        up = self._cycle(depth + 1, left)
        for _ in range(level.repeats - 1):
            up += self._cycle(depth + 1, left - self._matrix(depth + 1) @ up)
        x += level.P @ up
        x += level.smoother * (r - level.M @ x)
        return x

    def _matrix(self, depth: int) -> sparse.csr_array:
        return self.levels[depth].M
