"""Cross errors: all that a search needs to know of its members, whatever they are and whatever features they have.

With the residuals r_m of member m on held-out rows,

    E_mk = <r_m, r_k>    by fold and task,

the squared error of every mixture p of the members is p'Ep, so shares, guards and gains are functions of E alone.
Linear members give E from statistics of the held-out rows; trees, which have no coefficients, from their predictions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.gram import Array, GramStats
from kinfolk.search.errors import Errors
from kinfolk.search.rbf_search import TaskRows


@dataclass(frozen=True, eq=False)
class CrossErrors:
    """Products of residuals E (k, T, M, M) by fold and task, of the members `keys`, and the rows (k, T) behind them."""

    keys: tuple[str, ...]
    E: Array
    rows: Array

    @classmethod
    def of_coefficients(
        cls, keys: Sequence[str], held_out: Sequence[GramStats], lines: Iterator[tuple[Array, Array]]
    ) -> CrossErrors:
        """From slopes (M, T, d) and intercepts (M, T) of every fold, and statistics of the rows it holds out."""
        E = np.stack([cross_errors(part, W, c) for part, (W, c) in zip(held_out, lines, strict=True)])
        return cls(tuple(keys), E, np.stack([part.n for part in held_out]))

    @classmethod
    def of_predictions(
        cls,
        keys: Sequence[str],
        residuals: Array,
        codes: NDArray[np.intp],
        fold: NDArray[np.intp],
        shape: tuple[int, int],
        weight: Array | None = None,
    ) -> CrossErrors:
        """From residuals (M, n) of rows of the tasks `codes` held out in `fold`s, -1 for rows that never are.

        `shape` are the numbers of folds and tasks.

        Examples
        --------
        >>> residuals = np.array([[1.0, 2.0], [3.0, -1.0]])
        >>> CrossErrors.of_predictions("ab", residuals, np.array([0, 0]), np.array([0, 0]), (1, 1)).E[0, 0]
        array([[ 5.,  1.],
               [ 1., 10.]])
        """
        judged = fold >= 0
        k, T = shape
        cell = (codes + T * fold)[judged]
        residuals = residuals[:, judged]
        weight = np.ones(len(cell)) if weight is None else weight[judged]
        M = len(keys)
        E = np.empty((k * T, M, M))
        for m in range(M):
            weighted = weight * residuals[m]
            for j in range(m + 1):
                E[:, m, j] = E[:, j, m] = np.bincount(cell, weighted * residuals[j], minlength=k * T)
        rows = np.bincount(cell, weight, minlength=k * T).reshape(k, T)
        return cls(tuple(keys), E.reshape(k, T, M, M), rows)

    def among(self, keys: Sequence[str]) -> CrossErrors:
        """Those of some members."""
        at = [self.keys.index(key) for key in keys]
        return CrossErrors(tuple(keys), self.E[:, :, np.array(at)[:, None], at], self.rows)

    def by_task(self) -> Array:
        """Sums over folds (T, M, M)."""
        return np.asarray(self.E.sum(axis=0))

    def around(self, shares: Array) -> CrossErrors:
        """Those by which the mixture with these shares can be made better; squared errors are the same everywhere."""
        return self

    def errors_of(self, key: str) -> Errors:
        """Held-out errors of one member."""
        m = self.keys.index(key)
        return Errors(np.maximum(self.E[:, :, m, m], 0.0), self.rows)

    def errors(self, shares: Array) -> Errors:
        """Held-out errors of the mixture with these shares, (M,) or (T, M)."""
        return Errors(np.stack([mixture_errors(E, shares) for E in self.E]), self.rows)


@dataclass(frozen=True, eq=False)
class CrossLosses(CrossErrors):
    """Those of a family of classes or counts: E of working targets, by which shares are found, and the losses of rows.

    Attributes
    ----------
    predictors : (M, n), what members predicted for held-out rows on the scale of the linear predictor, without offsets
    data : the rows
    """

    predictors: Array
    data: TaskRows

    @classmethod
    def of_predictors(cls, keys: Sequence[str], predictors: Array, data: TaskRows, k: int) -> CrossLosses:
        """From predictors (M, n) of rows that k folds hold out."""
        return cls._of(keys, predictors, data, k, *data.as_held_out())

    @classmethod
    def _of(
        cls, keys: Sequence[str], predictors: Array, data: TaskRows, k: int, z: Array, weight: Array | None
    ) -> CrossLosses:
        """With working targets and their weights."""
        shape = k, len(data.labels)
        found = CrossErrors.of_predictions(keys, z - predictors, data.codes, data.fold, shape, weight)
        return cls(found.keys, found.E, found.rows, predictors, data)

    def around(self, shares: Array) -> CrossLosses:
        """Those of working targets at the predictors of a mixture, near which they have the shape of its losses."""
        data = self.data
        held_out = data.fold >= 0
        eta = np.where(held_out, self._predictor(shares), 0.0)
        offset = np.zeros(len(eta)) if data.offset is None else data.offset
        z, weight = data.family.working(data.y, eta + offset, data.weight)
        return self._of(self.keys, self.predictors, data, len(self.rows), z - offset, weight)

    def _predictor(self, shares: Array) -> Array:
        """That of a mixture (n,) without offsets; NaN for rows that are never held out."""
        by_task = np.broadcast_to(shares, (self.rows.shape[1], len(self.keys)))
        return np.einsum("nm,mn->n", by_task[self.data.codes], self.predictors)

    def among(self, keys: Sequence[str]) -> CrossLosses:
        """Those of some members."""
        found = super().among(keys)
        at = [self.keys.index(key) for key in keys]
        return CrossLosses(found.keys, found.E, found.rows, self.predictors[at], self.data)

    def errors_of(self, key: str) -> Errors:
        """Held-out losses of one member."""
        return self.errors((np.array(self.keys) == key).astype(np.float64))

    def errors(self, shares: Array) -> Errors:
        """Held-out losses of the mixture with these shares, (M,) or (T, M), of its members' predictors."""
        return self._summed(self.data.family.score, shares)

    def pearson(self, shares: Array) -> Errors:
        """The same with squared errors over the variance that the family gives each mean."""
        return self._summed(self.data.family.pearson, shares)

    def _summed(self, measure: Callable[[Array, Array], Array], shares: Array) -> Errors:
        data = self.data
        k, T = self.rows.shape
        judged = np.flatnonzero(data.fold >= 0)
        codes = data.codes[judged]
        eta = self._predictor(shares)[judged]
        eta += 0.0 if data.offset is None else data.offset[judged]
        weight = np.ones(len(judged)) if data.weight is None else data.weight[judged]
        cell = codes + T * data.fold[judged]
        sums = np.bincount(cell, weight * measure(data.y[judged], eta), minlength=k * T)
        rows = np.bincount(cell, weight, minlength=k * T)
        return Errors(sums.reshape(k, T), rows.reshape(k, T), roots=False)


def cross_errors(gram: GramStats, W: Array, c: Array) -> Array:
    """<r_m, r_k> of every task over the rows behind `gram`: (T, M, M) for models W (M, T, d), c (M, T).

    Examples
    --------
    Two rows with y = 0 and 2 at x = 0: the models c = 0 and c = 1 miss by (0, 2) and (-1, 1).

    >>> gram = GramStats.from_rows([[0.0], [0.0]], [0.0, 2.0])
    >>> cross_errors(gram, np.zeros((2, 1, 1)), np.array([[0.0], [1.0]]))[0]
    array([[4., 2.],
           [2., 2.]])
    """
    # r = (y - mean) - (x - mean)'w + off: the first two parts are centred, so only off meets itself.
    off = gram.y_mean - c - np.einsum("mtd,td->mt", W, gram.x_mean)
    GW = np.matmul(gram.G, W[:, :, :, None])[:, :, :, 0]
    bw = np.einsum("mtd,td->mt", W, gram.b)
    inside = np.einsum("mtd,ktd->tmk", W, GW)
    E = gram.yy[:, None, None] - bw.T[:, :, None] - bw.T[:, None, :] + inside
    return E + np.einsum("t,mt,kt->tmk", gram.n, off, off)


def mixture_errors(E: Array, p: Array) -> Array:
    """Squared errors of every task (T,) for the mixture p, (M,) or (T, M), of the models behind E (T, M, M)."""
    p = np.broadcast_to(p, E.shape[:2])
    return np.maximum(np.einsum("tm,tmk,tk->t", p, E, p), 0.0)
