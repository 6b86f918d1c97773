"""Rows of several classes: one linear predictor per class, and the deviance of all of them together.

    p_ik = e^(eta_ik) / sum_l e^(eta_il),    eta_ik = x_i'w_tk + c_tk

Half the deviance has the gradient p_i - y_i and the curvature diag(p_i) - p_i p_i' in eta_i. Newton's step is that of a
task with K d coefficients, class by class, whose K levels have been eliminated: every method that fits numbers, and its
graph, then serve for the coefficients of all classes together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax, xlogy

from kinfolk.rows.families import FARTHEST_TARGET
from kinfolk.rows.gram import SAME_MATRIX, TINY, Array, GramStats, check_size
from kinfolk.rows.working import HALF_EVENT, MOST_ROWS, Quadratic, WorkingRows


@dataclass(frozen=True, eq=False)
class SoftmaxRows(WorkingRows):
    """Rows whose targets y (n, K) are the shares of the classes: 1 for that of the row, 0 for others."""

    @classmethod
    def of_codes(cls, rows: WorkingRows, K: int) -> SoftmaxRows:
        """Rows whose targets are numbers of classes."""
        return cls(**vars(rows) | {"y": np.eye(K)[rows.y.astype(np.intp)]})

    @property
    def K(self) -> int:
        """How many classes there are."""
        return self.y.shape[1]

    def of_class(self, k: int, eta: Array | None = None) -> WorkingRows:
        """This class versus all others; given the predictors of the others, which are then part of the offset."""
        offset = self.offset if eta is None else -logsumexp(np.delete(eta, k, axis=1), axis=1)
        return WorkingRows(**vars(self) | {"y": self.y[:, k], "offset": offset})

    def predictor(self, W: Array, c: Array) -> Array:
        """The linear predictors (n, K), for coefficients (T, K d) and intercepts (T, K)."""
        by_class = W.reshape(len(W), self.K, -1)[self.codes]
        return np.einsum("nd,nkd->nk", self.X, by_class) + c[self.codes]

    def loss(self, eta: Array) -> float:
        """The deviance of all rows."""
        each = logsumexp(eta, axis=1) - (self.y * eta).sum(axis=1) + xlogy(self.y, self.y).sum(axis=1)
        return 2 * float(self.weight @ each)

    def level(self) -> Array:
        """Intercepts (K,) that are best for all rows, without features; about 0."""
        logs = np.log(self._shares())
        return np.asarray(logs - logs.mean())

    def even(self) -> Array:
        """The predictors of all rows with one level per class and no features."""
        return np.tile(self.level(), (len(self.y), 1))

    def _shares(self) -> Array:
        """Of the classes in all rows, with half an event more of each: none has a finite level."""
        total = self.weight @ self.y + HALF_EVENT
        return np.asarray(total / total.sum())

    def one_sided(self) -> NDArray[np.bool_]:
        """Tasks (T,) in which a class is missing."""
        return np.any([self.sums(y) <= 0 for y in self.y.T], axis=0) & (self.counts() > 0)

    def with_levels_of_all(self, tasks: NDArray[np.bool_]) -> Self:
        """With one row more for each of some tasks, at the mean of its inputs: half an event of its rarest class."""
        where = np.flatnonzero(tasks)
        if not len(where):
            return self
        shares = self._shares()
        missing = np.stack([self.sums(y)[where] <= 0 for y in self.y.T], axis=1)
        rarest = np.where(missing, shares, np.inf).min(axis=1)
        total = np.maximum(self.sums(np.ones(len(self.y))), TINY)[where]
        X = np.column_stack([self.sums(column)[where] for column in self.X.T]) / total[:, None]
        return replace(
            self,
            X=np.vstack([self.X, X]),
            y=np.vstack([self.y, np.tile(shares, (len(where), 1))]),
            codes=np.append(self.codes, where),
            weight=np.append(self.weight, np.minimum(HALF_EVENT / rarest, MOST_ROWS)),
            offset=np.append(self.offset, np.zeros(len(where))),
            row=np.append(self.row, np.full(len(where), -1)),
        )

    def quadratic(self, eta: Array, farthest: float = FARTHEST_TARGET) -> Quadratic:
        """Statistics of K d features per task, class by class, from which the levels have been eliminated."""
        T, K, d = len(self.labels), self.K, self.X.shape[1]
        check_size(T, K * d)
        p = softmax(eta, axis=1)
        slope = p - self.y
        # A class that is unlikely where it is seen counts as likelier, so that no working target is far away.
        curved = np.maximum(p, np.abs(slope) / farthest)
        A = curved[:, :, None] * np.eye(K) - p[:, :, None] * p[:, None, :]
        target = np.einsum("nkl,nl->nk", A, eta) - slope
        # About the mean of the task, so that little is taken out with the levels.
        mean = self._by_task(self.X) / np.maximum(self.sums(np.ones(len(self.y))), TINY)[:, None]
        X1 = np.column_stack([self.X - mean[self.codes], np.ones(len(self.X))])
        H = np.zeros((T, K, d + 1, K, d + 1))
        b = np.zeros((T, K, d + 1))
        for k in range(K):
            b[:, k] = self._by_task(X1 * target[:, k, None])
            for m in range(k + 1):
                H[:, k, :, m] = self._products(X1, A[:, k, m])
                H[:, m, :, k] = H[:, k, :, m].transpose(0, 2, 1)
        # Levels are free: what they take of the curvature and of the targets is taken out.
        between = H[:, :, :d, :, d].reshape(T, K * d, K)
        # What is added to all levels changes no probability: there H is rounding.
        inverse = np.linalg.pinv(H[:, :, d, :, d], rcond=SAME_MATRIX, hermitian=True)
        back = between @ inverse
        # Of a feature that hardly varies rounding may leave less than nothing.
        G = H[:, :, :d, :, :d].reshape(T, K * d, K * d) - back @ between.transpose(0, 2, 1)
        nothing = np.einsum("tjj->tj", G)
        np.maximum(nothing, 0.0, out=nothing)
        right = b[:, :, :d].reshape(T, K * d) - np.einsum("tpk,tk->tp", back, b[:, :, d])

        def levels(W: Array, c: Array) -> Array:
            at_mean = np.einsum("tkl,tl->tk", inverse, b[:, :, d] - np.einsum("tpk,tp->tk", between, W))
            return at_mean - np.einsum("tkd,td->tk", W.reshape(T, K, d), mean)

        def square(step: Array) -> float:
            # A sum of squares: differences of large numbers might be negative.
            apart = step - (p * step).sum(axis=1, keepdims=True)
            return float(self.weight @ (p * apart**2 + (curved - p) * step**2).sum(axis=1))

        errors = float(self.weight @ np.minimum(slope**2 / np.maximum(curved, TINY), farthest).sum(axis=1))
        size = square(eta) + errors
        yy = self.sums(np.einsum("nk,nkl,nl->n", eta, A, eta)) - 2 * self.sums((eta * slope).sum(axis=1))
        yy += self.sums((slope**2 / np.maximum(curved, TINY)).sum(axis=1))
        yy -= np.einsum("tk,tkl,tl->t", b[:, :, d], inverse, b[:, :, d])
        names = None if self.names is None else tuple(f"{name} {k}" for k in range(K) for name in self.names)
        zero = np.zeros((T, K * d))
        rows = self.sums(np.ones(len(self.y)))
        gram = GramStats(self.labels, rows, zero, np.zeros(T), G, right, np.maximum(yy, 0.0), names, dispersion=1.0)
        return Quadratic(gram, levels, square, errors, size)

    def _by_task(self, values: Array) -> Array:
        return np.column_stack([self.sums(column) for column in values.T])

    def _products(self, X1: Array, w: Array) -> Array:
        """Sums of w x x' over the rows of every task."""
        d = X1.shape[1]
        weighted = X1 * (w * self.weight)[:, None]
        order = np.argsort(self.codes, kind="stable")
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.labels)))[:-1]
        parts = np.split(order, ends)
        return np.stack([X1[part].T @ weighted[part] for part in parts]) if d else np.zeros((len(parts), 0, 0))
