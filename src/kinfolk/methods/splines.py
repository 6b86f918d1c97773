"""Natural splines of every input, for curves that cost little more than lines: knots need no target, so no search."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from kinfolk.declared import holds
from kinfolk.methods.walks import FADE, Walk
from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.tolerances import MARGIN

# Set on the tables of benchmarks/arena.py marked "tuned"; docs/lab-book.md has the numbers.
KNOTS = 5  # of every input, where tasks have few rows; inputs with fewer distinct values have no curve
MOST_KNOTS = 12
ROWS_PER_TERM = 2  # of the median task
OUTER = 0.05  # quantile of the first knot, and of the last one from above
AT_ONCE = 2**20  # cubes of knots that are held at a time, 8 MB
LEAST_GAP = 1e-6  # between knots, of the range: an input that is nearly one value has no curve


@holds(
    columns_="integers m <n",
    ends_="2 m",
    knots_="m K",
    weights_="m K k",
    lines_="m 2 k",
    walk_="record",
)
class SplineFeatures(TransformerMixin, BaseEstimator):
    """Natural cubic splines of every input without their lines, followed by the inputs as they are.

    With u an input in units of its range and k_1 < ... < k_K the knots, the terms are

        n_j(u) = d_j(u) - d_{K-1}(u),    d_j(u) = ((u - k_j)+^3 - (u - k_K)+^3) / (k_K - k_j),    j = 1, ..., K - 2,

    each minus its line of least squares over the distinct values of the input. They are turned to terms that are
    uncorrelated over these values, of variance 1, the smoothest first (the basis of Demmler and Reinsch): tasks may
    share a wide bend and differ in it by more than in ripples, which n_j mix. So coefficients of the terms say how a
    relation bends, and those of the inputs where it leads on average. Beyond the range of the input the terms are those
    of its end, and fade: a curve returns to its line. Before them come the terms of a walk (see `walks.Walk`) along one
    of the inputs, if that is asked for.

    Parameters
    ----------
    knots : K, of every input
    walk : position of the input with a walk, or None

    Attributes
    ----------
    walk_ : the walk, or None
    columns_ : (m,), positions of the inputs with at least K distinct values
    ends_ : (2, m), least and largest value of these
    knots_ : (m, K), in units of the range; weights_ : (m, K, K - 2), of the cubes; lines_ : (m, 2, K - 2)

    Examples
    --------
    A parabola is a line and a curve; the terms have no line of their own, and the first of them turns once.

    >>> x = np.linspace(-1, 1, 9)[:, None]
    >>> terms = SplineFeatures().fit(x).transform(x)
    >>> terms.shape, bool(np.abs(x.T @ terms[:, :3]).max() < 1e-9)
    ((9, 4), True)
    >>> terms[::2, 0].round(1)
    array([ 1.5, -0.4, -1.2, -0.4,  1.5])
    """

    linear: ClassVar[bool] = True  # the inputs follow the terms

    def __init__(self, knots: int = KNOTS, walk: int | None = None) -> None:
        self.knots = knots
        self.walk = walk

    @property
    def terms(self) -> int:
        """Features of every curve."""
        return self.knots - 2

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Place the knots; y is not used, and rows that are there twice count once."""
        X = validate_data(self, X, dtype=np.float64)
        X = X if sample_weight is None else X[np.asarray(sample_weight) > 0]
        values = {j: np.unique(column) for j, column in enumerate(X.T)}
        found = {j: _knots(v, self.knots) for j, v in values.items()}
        self.columns_ = np.array([j for j, knots in found.items() if knots is not None], np.intp)
        bent = [values[j] for j in self.columns_]
        m = len(bent)
        self.ends_ = np.array([[v[0] for v in bent], [v[-1] for v in bent]]).reshape(2, m)
        self.knots_ = np.array([found[j] for j in self.columns_]).reshape(m, self.knots)
        self.weights_ = np.array([_weights(k) for k in self.knots_]).reshape(m, self.knots, self.terms)
        self.lines_ = np.zeros((m, 2, self.terms))
        self.walk_ = None if self.walk is None else Walk.along(X[:, self.walk])
        for i, v in enumerate(bent):
            self._take_line_away(i, (v - v[0]) / (v[-1] - v[0]))
        return self

    def _take_line_away(self, i: int, u: Array) -> None:
        """Terms of the i-th bent input minus their lines, uncorrelated and the smoothest first."""
        terms = _cubes(u, self.knots_[i]) @ self.weights_[i]
        ones = np.column_stack([np.ones(len(u)), u])
        line = np.linalg.lstsq(ones, terms, rcond=None)[0]
        turn = _uncorrelated(terms - ones @ line)
        turn = turn @ np.linalg.eigh(_roughness(self.knots_[i], self.weights_[i] @ turn))[1]
        # Eigenvectors have no sign of their own: every term ends above 0.
        turn = np.where((terms - ones @ line)[-1] @ turn < 0, -turn, turn)
        self.weights_[i] = self.weights_[i] @ turn
        self.lines_[i] = line @ turn

    def among(self, X: Array) -> SplineFeatures:
        """The same curves with knots among other rows; an input that has too few values there has terms of 0."""
        found = SplineFeatures(self.knots).fit(X)
        there = copy(self)
        # Some rows may carry a curve that all rows together do not: waves of whole days have ties among more of them.
        known = np.isin(found.columns_, self.columns_)
        at = np.searchsorted(self.columns_, found.columns_[known])
        there.ends_ = self.ends_.copy()
        there.ends_[:, at] = found.ends_[:, known]
        for name in ("knots_", "weights_", "lines_"):
            values = np.zeros_like(getattr(self, name))
            values[at] = getattr(found, name)[known]
            setattr(there, name, values)
        if self.walk_ is not None:
            there.walk_ = self.walk_.among(X[:, self.walk])
        return there

    def transform(self, X: Any) -> Array:
        """The terms of the walk and of all bent inputs, (n, m (K - 2)), and then the inputs."""
        check_is_fitted(self, "columns_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        features = np.empty((len(X), self.n_terms + X.shape[1]))
        step = max(1, AT_ONCE // max(self.knots_.size, 1))
        for start in range(0, len(X), step):
            features[start : start + step] = self._of_block(X[start : start + step])
        return features

    def _of_block(self, X: Array) -> Array:
        """The same for so few rows that the cubes of all knots take little memory."""
        low, high = self.ends_
        u = (X[:, self.columns_] - low) / (high - low)
        edge = np.clip(u, 0.0, 1.0)
        cubes = _cubes(edge[:, :, None], self.knots_)
        lines = self.lines_[:, 0] + edge[:, :, None] * self.lines_[:, 1]
        terms = np.einsum("nik,ikj->nij", cubes, self.weights_) - lines
        terms *= np.exp(-np.abs(u - edge) / FADE)[:, :, None]
        walk = [] if self.walk_ is None else [self.walk_.terms(X[:, self.walk])]
        return np.hstack([*walk, terms.reshape(len(X), -1), X])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """`walk 1 of x`, ..., `curve 1 of x`, `curve 2 of x`, ..., and then the names of the inputs."""
        check_is_fitted(self, "columns_")
        inputs = _check_feature_names_in(self, input_features)
        terms = [f"walk {j} of {inputs[self.walk]}" for j in range(1, self.walk_terms + 1)]
        terms += [f"curve {j} of {inputs[i]}" for i in self.columns_ for j in range(1, self.terms + 1)]
        return np.array([*terms, *inputs], dtype=object)

    @property
    def n_terms(self) -> int:
        """How many features come before the inputs."""
        return self.walk_terms + self.terms * len(self.columns_)

    @property
    def input_of_term(self) -> NDArray[np.intp]:
        """The input that every term is a function of (n_terms,)."""
        of_walk = [] if self.walk is None else [self.walk] * self.walk_terms
        return np.array([*of_walk, *np.repeat(self.columns_, self.terms)], np.intp)

    @property
    def walk_terms(self) -> int:
        """How many of these are terms of the walk, which come first."""
        return 0 if self.walk_ is None else self.walk_.values.shape[1]

    def of_lines(self) -> tuple[Array, Array]:
        """Factors of the inputs among the features, and what is taken away from them before."""
        d = self.n_features_in_
        return np.ones(d), np.zeros(d)


def knots_for(X: Array, rows: Array) -> int:
    """How many knots inputs X (n, d) carry, of tasks with so many `rows` (T,), so that no input loses its curve.

    Every term has some rows of the median task, and every knot a value of its own.

    Examples
    --------
    >>> x = np.arange(1000.0)[:, None]
    >>> [knots_for(x, np.array([n])) for n in (3.0, 12.0, 1000.0)], knots_for(x % 7, np.array([1000.0]))
    ([5, 8, 12], 7)
    """
    carried = int(np.clip(np.median(rows) // ROWS_PER_TERM + 2, KNOTS, MOST_KNOTS))
    values = [len(np.unique(column)) for column in X.T]
    return min([carried, *(count for count in values if count >= KNOTS)])


def _knots(values: Array, count: int) -> Array | None:
    """Knots among distinct values, ascending, in units of their range; None where these do not carry a curve."""
    if len(values) < count or not np.isfinite(values[-1] - values[0]):
        return None
    knots = np.quantile((values - values[0]) / (values[-1] - values[0]), np.linspace(OUTER, 1 - OUTER, count))
    return np.asarray(knots) if np.diff(knots).min() > LEAST_GAP else None


def _cubes(u: Array, knots: Array) -> Array:
    """(u - k)+^3 for every knot."""
    return np.asarray(np.maximum((u if u.ndim > 1 else u[:, None]) - knots, 0.0) ** 3)


def _weights(k: Array) -> Array:
    """Weights (K, K - 2) of the cubes in the terms of a natural spline with knots k."""
    K = len(k)
    W = np.zeros((K, K - 2))
    before = 1 / (k[-1] - k[-2])
    for j in range(K - 2):
        own = 1 / (k[-1] - k[j])
        W[j, j] = own
        W[-2, j] = -before
        W[-1, j] = before - own
    return W


def _roughness(k: Array, W: Array) -> Array:
    """Integrals of the products of the terms' second derivatives, which are linear between knots k and 0 beyond."""
    second = 6 * np.maximum(k[:, None] - k, 0.0) @ W
    gap = np.diff(k)
    mass = np.diag(np.append(gap, 0.0) + np.append(0.0, gap)) / 3 + (np.diag(gap, 1) + np.diag(gap, -1)) / 6
    return np.asarray(second.T @ mass @ second)


def _uncorrelated(terms: Array) -> Array:
    """What turns terms (n, m) with means of 0 to uncorrelated ones of variance 1."""
    size = np.maximum(terms.std(axis=0), TINY)
    # Of the terms and not of their products: on a skewed input these lose half of all digits.
    _, value, vector = np.linalg.svd(terms / size, full_matrices=False)
    # Terms of knots that nearly coincide differ by rounding alone: such a difference stays small.
    return np.asarray(vector.T / size[:, None] / np.maximum(value, MARGIN * value[0]) * np.sqrt(len(terms)))
