"""Radial basis functions over the inputs of all tasks: centres by k-means, widths by the scatter around them."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight, check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from kinfolk.declared import holds
from kinfolk.methods.gamtl.calibrate import input_moments
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.batched import mean_diagonal
from kinfolk.solvers.tolerances import MARGIN

MANY_ROWS = 20_000  # above, k-means works on batches
DIGITS = 10  # rows that agree to so many digits of the largest are one
FLOOR = 0.25  # least scatter of a cluster, in distances to the nearest other centre; even rows on a line have 0.29


class Centers(NamedTuple):
    """Centres of clusters (P, d), and the scatter of their members (P,), greater than 0."""

    position: Array
    scatter: Array


@holds()
class Setting(NamedTuple):
    """One set of features: exponent of `slope_scale`, and parameters of `RBFFeatures`."""

    exponent: float = 1.0
    n_centers: int = 50
    width: float = 4.0
    linear: bool = True


@holds(mean_="n", size_="number >0", centers_="P n", spreads_="P >=0", widths_="P >0")
class RBFFeatures(TransformerMixin, BaseEstimator):
    """Gaussian bumps around k-means centres, with widths in proportion to the scatter of the clusters.

    With z the inputs times `scale`, c_p the centres and s_p the root mean squared distance of cluster p's members to
    its centre,

        phi_p(x) = exp(-||z - c_p||^2 / (2 sigma_p^2)),     sigma_p = width s_p.

    Distances are over all inputs together, not per input: inputs of scale zero change nothing. A cluster tighter than
    a quarter of the distance to the nearest other centre (a single row, or copies of one) has that as its scatter.
    There are no more centres than distinct rows.

    The scale of the inputs decides what is near what: standardise them, or weigh them with `slope_scale`.

    Parameters
    ----------
    n_centers : number of centres, at most
    width : factor q between the scatter of a cluster and the width of its bump; of the order of 1 to 10
    linear : whether the scaled inputs, centred and over their common root mean square, follow the bumps
    scale : factor for every input, array of shape (d,); None for 1
    random_state : starts k-means

    Attributes
    ----------
    centers_, spreads_, widths_ : arrays of shape (P, d), in scaled and centred inputs, (P,) and (P,)
    mean_ : means of the inputs, (d,)
    size_ : root mean squared norm of the scaled and centred rows; 1 if all are zero

    References
    ----------
    N. Benoudjit, M. Verleysen (2003), On the kernel widths in radial-basis function networks, Neural Processing
    Letters 18: one factor for the widths of all clusters.

    Examples
    --------
    Two clusters around 2 and 6, whose members are 1 away: exp(-1 / 2) from their own centre.

    >>> X = np.array([[1.0], [3.0], [5.0], [7.0]])
    >>> features = RBFFeatures(n_centers=2, width=1.0, random_state=0).fit(X)
    >>> features.spreads_, features.transform(X).max(axis=1).round(3)
    (array([1., 1.]), array([0.607, 0.607, 0.607, 0.607]))
    """

    def __init__(
        self,
        n_centers: int = 50,
        *,
        width: float = 4.0,
        linear: bool = False,
        scale: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_centers = n_centers
        self.width = width
        self.linear = linear
        self.scale = scale
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Place the centres; y is not used."""
        X = validate_data(self, X, dtype=np.float64)
        self._check_parameters()
        scale = self._scale()
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        X, weight = X[weight > 0], weight[weight > 0]
        self.mean_ = np.average(X, axis=0, weights=weight)
        Z = (X - self.mean_) * scale
        self.size_ = float(np.sqrt(np.average(np.square(Z).sum(axis=1), weights=weight))) or 1.0
        self.centers_, self.spreads_ = place_centers(Z, self.n_centers, weight=weight, random_state=self.random_state)
        self.widths_ = self.width * self.spreads_
        return self

    def transform(self, X: Any) -> Array:
        """The bumps, (n, P); with `linear` then the inputs, (n, P + d)."""
        check_is_fitted(self, "centers_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        Z = (X - self.mean_) * self._scale()
        phi = bumps(Z, self.centers_, self.widths_)
        return np.hstack([phi, Z / self.size_]) if self.linear else phi

    def with_width(self, width: float, *, linear: bool) -> Self:
        """The same centres with other widths, without k-means: for a search over widths."""
        check_is_fitted(self, "centers_")
        other = copy(self).set_params(width=width, linear=linear)
        other._check_parameters()
        other.widths_ = width * other.spreads_
        return other

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """`rbf0`, `rbf1`, ...; with `linear` then the names of the inputs."""
        check_is_fitted(self, "centers_")
        names = [f"rbf{p}" for p in range(len(self.centers_))]
        inputs = _check_feature_names_in(self, input_features)
        return np.array([*names, *inputs] if self.linear else names, dtype=object)

    def of_lines(self) -> tuple[Array, Array]:
        """Factors of the linear terms, and what is taken away from the inputs before."""
        check_is_fitted(self, "centers_")
        return self._scale() / self.size_, self.mean_

    def _check_parameters(self) -> None:
        if isinstance(self.n_centers, bool) or int(self.n_centers) != self.n_centers or self.n_centers < 1:
            raise ValueError(f"n_centers={self.n_centers!r} must be a whole number, at least 1")
        if not np.isfinite(self.width) or self.width <= 0:
            raise ValueError(f"width={self.width!r} must be greater than 0 and finite")

    def _scale(self) -> Array:
        d = self.n_features_in_
        scale = np.ones(d) if self.scale is None else np.asarray(self.scale, dtype=np.float64)
        if scale.shape != (d,) or not np.isfinite(scale).all():
            raise ValueError(f"scale has shape {scale.shape}, expected ({d},): one finite factor per input")
        return scale


def place_centers(Z: Array, n_centers: int, *, weight: Array | None = None, random_state: Any = None) -> Centers:
    """k-means centres of the rows of Z and the scatter of their members; at most as many as there are distinct rows."""
    first = distinct_rows(Z)
    weight = np.ones(len(Z)) if weight is None else weight
    position = Z[first] if len(first) <= n_centers else _k_means(Z, n_centers, weight, random_state)
    nearest = euclidean_distances(Z, position, squared=True).argmin(axis=1)
    size = np.bincount(nearest, weight, len(position))
    offset = weight * np.square(Z - position[nearest]).sum(axis=1)
    used = size > 0
    squared = np.bincount(nearest, offset, len(position)) / np.where(used, size, 1.0)
    return Centers(position[used], _floored(np.sqrt(squared[used]), position[used]))


def distinct_rows(Z: Array) -> NDArray[np.intp]:
    """Positions of one row of each kind; differences at rounding level do not make a kind."""
    size = np.abs(Z).max(initial=0.0)
    rounded = np.round(Z / size, DIGITS) if size > 0 else np.zeros_like(Z)
    # The sum with zero makes one of 0 and -0.
    return np.unique(rounded + 0.0, axis=0, return_index=True)[1]


def bumps(Z: Array, centers: Array, widths: Array) -> Array:
    """exp(-||z - c_p||^2 / (2 sigma_p^2)) for every row and centre, (n, P).

    Examples
    --------
    >>> bumps(np.array([[0.0], [2.0]]), np.array([[0.0]]), np.array([1.0])).ravel().round(4)
    array([1.    , 0.1353])
    """
    phi = euclidean_distances(Z, centers, squared=True)
    phi /= -2.0 * widths**2
    return np.exp(phi, out=phi)


def slope_scale(gram: GramStats, *, exponent: float = 1.0, penalty: float = 0.1, least: float = 0.0) -> Array:
    """Factors that weigh every input by how strongly the target follows it within the tasks.

    With s_j the standard deviation of input j over all rows, and r_j the root mean square over tasks of the slopes of
    a ridge regression per task in standardised inputs,

        scale_j = max((r_j / max r)^exponent, least) / s_j,

    rounded to 10 digits: k-means breaks ties by the last digit, and rows in another order must not move its centres.
    Exponent 0 standardises; 1 multiplies inputs by their slopes, so that distances are differences of the target;
    2 and more leave out what hardly matters. Inputs that never vary get 0.

    Parameters
    ----------
    gram : statistics of the training rows
    exponent : how much the slopes count, at least 0
    penalty : of the ridge, in multiples of the mean of tr(G_t) / d
    least : weight of inputs that the target does not follow

    Examples
    --------
    The target follows the first of two inputs, three times as steep in one task as in the other.

    >>> X = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]] * 2)
    >>> y = X[:, 0] * np.repeat([1.0, 3.0], 4)
    >>> slope_scale(GramStats.from_rows(X, y, np.repeat(["a", "b"], 4)))
    array([1., 0.])
    """
    for name, value in (("exponent", exponent), ("penalty", penalty), ("least", least)):
        if not np.isfinite(value) or value < 0:
            raise ValueError(f"{name}={value!r} must be at least 0 and finite")
    sd = input_deviations(gram)
    inverse = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    slope = _root_mean_square_slopes(gram, inverse, penalty)
    largest = slope.max(initial=0.0)
    # A target that follows nothing gives no weights: standardise.
    share = slope / largest if largest > 0 else np.ones_like(slope)
    return rounded(np.maximum(share**exponent, least) * inverse)


def rounded(values: Array, digits: int = 10) -> Array:
    """Values with so many significant digits.

    >>> rounded(np.array([0.0, 1 / 3, 200.0 / 3]), 3)
    array([ 0.   ,  0.333, 66.7  ])
    """
    size = np.floor(np.log10(np.abs(values), where=values != 0, out=np.zeros_like(values)))
    unit = 10.0 ** (size - digits + 1)
    return np.round(values / unit) * unit


def input_deviations(gram: GramStats) -> Array:
    """Standard deviations of the inputs over the rows of all tasks, (d,); 0 where it is rounding only."""
    mean, covariance = input_moments(gram)
    sd = np.sqrt(np.diagonal(covariance))
    return np.where(sd > MARGIN * np.abs(mean), sd, 0.0)


def _root_mean_square_slopes(gram: GramStats, factor: Array, penalty: float) -> Array:
    """Over tasks, of ridge slopes for inputs times `factor`."""
    seen = gram.n > 0
    G, b = gram.G[seen] * np.outer(factor, factor), gram.b[seen] * factor
    unit = mean_diagonal(G).mean()
    # Least squares of least norm where neither rows nor penalty decide.
    W = np.linalg.pinv(G + penalty * unit * np.eye(len(factor)), hermitian=True) @ b[:, :, None]
    return np.sqrt(np.square(W[:, :, 0]).mean(axis=0))


def _k_means(Z: Array, n_centers: int, weight: Array, random_state: Any) -> Array:
    from sklearn.cluster import KMeans, MiniBatchKMeans  # a tenth of a second that lines need not wait for

    if len(Z) > MANY_ROWS:
        method = MiniBatchKMeans(n_centers, batch_size=4096, n_init=1, random_state=random_state)
    else:
        method = KMeans(n_centers, n_init=1, random_state=random_state)
    # Its threads spin while they wait for each other: on two cores half of the processor time of small problems.
    with warnings.catch_warnings(), threadpool_limits(1, user_api="openmp"):
        # Too few distinct rows after rounding inside k-means: the empty clusters are dropped by the caller.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(method.fit(Z, sample_weight=weight).cluster_centers_)


def _floored(scatter: Array, position: Array) -> Array:
    """At least FLOOR times the distance to the nearest other centre, and never zero."""
    if len(position) > 1:
        between = euclidean_distances(position)
        np.fill_diagonal(between, np.inf)
        scatter = np.maximum(scatter, FLOOR * between.min(axis=1))
    return np.where(scatter > 0, scatter, 1.0)
