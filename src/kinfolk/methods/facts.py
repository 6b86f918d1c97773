"""What facts about tasks make of their levels and slopes: a record that models, their parts and new tasks share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kinfolk.declared import holds
from kinfolk.rows.gram import Array


@holds(columns="integers q <d", mean="q", origin="d", slopes="q d", levels="q", errors="q e >=0")
@dataclass(frozen=True, eq=False)
class FactEffects:
    """Products of facts and features, (f - mean)' slopes (x - origin), beside what facts do to the level.

    Attributes
    ----------
    columns : (q,), the features that are facts
    mean : (q,), of every fact over tasks
    origin : (d,), mean of the features over all rows
    slopes : (q, d), what a unit of each fact adds to every slope
    levels : (q,), what it adds to the level at the mean features; these are the coefficients of the facts
    errors : (q, d + 1), standard errors of the slopes, and of the level

    Examples
    --------
    A fact f, the first feature, adds its distance to 1 to the slope of the second, which is counted from 2.

    >>> none = np.zeros(1), np.zeros((1, 3))
    >>> known = FactEffects(np.array([0]), np.array([1.0]), np.array([0.0, 2.0]), np.array([[0.0, 1.0]]), *none)
    >>> known.of_rows(np.array([[4.0, 3.0]])), known.lines(np.array([[4.0, 0.0]]))
    (array([3.]), (array([[0., 3.]]), array([-6.])))
    """

    columns: NDArray[np.intp]
    mean: Array
    origin: Array
    slopes: Array
    levels: Array
    errors: Array

    @classmethod
    def mixed(cls, known: Sequence[Self | None], shares: Array) -> Self | None:
        """The sum of several, by their shares; all are about the same means."""
        present = [(one, share) for one, share in zip(known, shares.tolist(), strict=True) if one is not None]
        if not present:
            return None
        # Outside its own columns a part has an origin of 0, and no slopes.
        most = max((one for one, _ in present), key=lambda one: int(np.count_nonzero(one.origin)))
        slopes, levels, errors = (
            np.sum([share * getattr(one, name) for one, share in present], axis=0)
            for name in ("slopes", "levels", "errors")
        )
        return replace(most, slopes=slopes, levels=levels, errors=errors)

    @property
    def move_slopes(self) -> bool:
        """Whether they do more than move levels."""
        return bool(self.slopes.any())

    def of_rows(self, X: Array) -> Array:
        """What the products add to the predictions of rows."""
        moved = (X[:, self.columns] - self.mean) @ self.slopes
        return np.asarray(np.einsum("nd,nd->n", moved, X - self.origin))

    def lines(self, x_mean: Array) -> tuple[Array, Array]:
        """Slopes (T, d) and intercepts (T,) that products add to tasks with these means of their features."""
        slopes = (x_mean[:, self.columns] - self.mean) @ self.slopes
        return slopes, -slopes @ self.origin

    def in_units(self, scale: Array) -> Self:
        """The same, if features were divided by `scale` before."""
        own = scale[self.columns]
        return replace(
            self,
            mean=self.mean * own,
            origin=self.origin * scale,
            slopes=self.slopes / own[:, None] / scale,
            levels=self.levels / own,
            errors=self.errors / own[:, None] / np.append(scale, 1.0),
        )

    def on_columns(self, columns: NDArray[np.intp], d: int) -> Self:
        """The same, if the features are `columns` of d."""
        q = len(self.columns)
        slopes, errors, origin = np.zeros((q, d)), np.zeros((q, d + 1)), np.zeros(d)
        slopes[:, columns] = self.slopes
        errors[:, np.append(columns, d)] = self.errors
        origin[columns] = self.origin
        return replace(self, columns=columns[self.columns], origin=origin, slopes=slopes, errors=errors)

    def without(self, features: NDArray[np.intp]) -> Self:
        """The same as if some features were 0 in all rows, and nothing were known of them as facts."""
        hidden = np.isin(self.columns, features)
        slopes = np.where(hidden[:, None], 0.0, self.slopes)
        slopes[:, features] = 0.0
        levels, errors = np.where(hidden, 0.0, self.levels), np.where(hidden[:, None], 0.0, self.errors)
        return replace(self, slopes=slopes, levels=levels, errors=errors)

    def attributes(self, names: Sequence[str], skipped: int) -> dict[str, Array]:
        """As fitted attributes of features with these names, without the first so many."""
        return {
            "fact_names_": np.array([names[j] for j in self.columns], dtype=object),
            "fact_coef_": np.column_stack([self.levels, self.slopes[:, skipped:]]),
            "fact_coef_se_": np.column_stack([self.errors[:, -1], self.errors[:, skipped:-1]]),
        }
