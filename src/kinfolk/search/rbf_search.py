"""The choice of RBF features by cross-validation: input weights, centres, widths and linear terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinfolk.declared import holds
from kinfolk.methods.outer import pilot
from kinfolk.methods.rbf import RBFFeatures, Setting, slope_scale
from kinfolk.methods.search_report import CurvesTried, Gain
from kinfolk.methods.splines import SplineFeatures
from kinfolk.rows.families import FAMILIES, Family
from kinfolk.rows.folds import Folds, Gap, filled_in, folds_as_seen, train_on_the_past
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.schema import Columns
from kinfolk.rows.splits import check_fold_numbers, generator, trains
from kinfolk.rows.table import Rows
from kinfolk.rows.working import WorkingRows

EXPONENTS = (0.0, 0.5, 1.0, 2.0, 3.0)
CENTERS = (20, 50, 100)
WIDTHS = (1.0, 2.0, 4.0, 8.0)
LINEAR = (False, True)
SEARCHED = 2  # folds on which settings are compared; the one that is chosen is judged on all
Basis = RBFFeatures | SplineFeatures
BLOCK_BYTES = 2**23  # of features that are held at a time
LEAST = 1e-6  # weight of inputs that the target does not follow: no distance, but a line may still use them


class Axes(NamedTuple):
    """The values that may be combined, ascending; the search moves by one step on them."""

    exponent: tuple[Any, ...] = EXPONENTS
    n_centers: tuple[Any, ...] = CENTERS
    width: tuple[Any, ...] = WIDTHS
    linear: tuple[Any, ...] = LINEAR

    def nearest(self, setting: Setting) -> Setting:
        """The combination closest to a setting."""
        pairs = zip(self, setting, strict=True)
        return Setting(*(axis[int(np.argmin(np.abs(np.array(axis, float) - at)))] for axis, at in pairs))

    def neighbours(self, setting: Setting) -> Iterator[Setting]:
        """One step on one axis, or on exponent and width together: the larger the one, the larger the other."""
        for steps in product((-1, 0, 1), repeat=4):
            e, p, q, linear = map(abs, steps)
            if e + p + q + linear == 1 or (e and q and not p and not linear):
                at = [axis.index(value) + step for axis, value, step in zip(self, setting, steps, strict=True)]
                if all(0 <= i < len(axis) for i, axis in zip(at, self, strict=True)):
                    yield Setting(*(axis[i] for i, axis in zip(at, self, strict=True)))


@dataclass(frozen=True, eq=False)
class InBasis:
    """Functions of the inputs X of rows, `width` of them, made when they are asked for.

    Those of all rows at once would take many times the memory of the table.
    """

    features: Basis
    X: Array
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and functions."""
        return len(self.X), self.width

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, rows: Any) -> Array:
        return _with_width(self.features, self.X[rows], self.width)

    def some(self, rows: Any) -> InBasis:
        """Those of some of the rows."""
        return replace(self, X=self.X[rows])


def block_by_block(X: Array | InBasis, of: Callable[[Array, slice], Array]) -> Array:
    """What a function makes of the features of some rows, for all rows: few of them are held at a time."""
    step = max(1, BLOCK_BYTES // (8 * X.shape[1]))
    blocks = [slice(start, start + step) for start in range(0, max(len(X), 1), step)]
    return np.concatenate([of(X[rows], rows) for rows in blocks])


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Rows (n, d) with targets, task numbers (`labels[codes]` are the tasks), numbers of folds, weights, and names.

    Folds are numbered from 0; in the order of time -1 are rows that are never held out.
    """

    X: Any  # an array, or functions of it that are made block by block
    y: Array
    codes: NDArray[np.intp]
    labels: NDArray[Any]
    fold: NDArray[np.intp]
    weight: Array | None = None
    names: tuple[str, ...] | None = None  # of the columns of X
    learned: Callable[[int], Any] | None = None  # X of a fold, where some of it is learned from what trains the fold
    gaps: Sequence[Gap] = ()  # columns of X to be filled in by what trains a fold
    family: Family = FAMILIES["gaussian"]
    offset: Array | None = None  # what is added to the predictor of a family
    pilots: Array | None = None  # (k + 1, n), predictors that rows of a family are seen at, by fold and by them all

    @classmethod
    def of(
        cls,
        rows: Rows,
        X: Array,
        gram: GramStats,
        fold: NDArray[np.intp],
        *,
        in_time: bool,
        columns: Columns,
        family: Family = FAMILIES["gaussian"],
    ) -> TaskRows:
        """Checked rows with the features X, whose statistics are `gram`; numbers are those beside their offset."""
        at = rows.targets()
        check_fold_numbers(fold[at.row])
        # In time, rows that are never held out have the number -1.
        number = np.unique(fold[at.row], return_inverse=True)[1].reshape(-1) - int(in_time)
        crossed = columns.cross_fitted(rows, fold)
        learned = None if crossed is None else lambda f: crossed.inputs(X, f)[at.row]
        total = X[at.row] if crossed is None else crossed.inputs(X)[at.row]
        names = gram.feature_names
        offset = None if rows.offset is None else rows.offset[at.row]
        y = family.read(at.y)
        if family.is_plain and offset is not None:
            y, offset = y - offset, None
        gaps = columns.gaps
        return cls(
            total, y, at.codes, gram.labels, number, at.weight, names, learned, gaps, family=family, offset=offset
        )

    def inputs(self, f: int) -> Any:
        """The inputs of all rows as fold f is judged by: nothing in them comes from what it holds out."""
        X = self.X if self.learned is None else self.learned(f)
        return filled_in(X, self.gaps, trains(self.fold, f), self.weight)

    def targets(self, f: int | None = None) -> tuple[Array, Array | None]:
        """Targets and weights of all rows as fold f sees them; those of a family are of a Newton step at a pilot fit.

        The pilot of a fold has seen its training rows alone.
        """
        if self.pilots is None:
            return self.y, self.weight
        z, w = self.family.working(self.y, self.pilots[-1 if f is None else f], self.weight)
        return (z if self.offset is None else z - self.offset), w

    def at_pilots(self) -> TaskRows:
        """The rows of a family with the predictors that every fold, and all of them, see them at."""
        pilots = []
        for f in (*range(int(self.fold.max()) + 1), None):
            X = self.X if f is None else self.inputs(f)
            used = slice(None) if f is None else trains(self.fold, f)
            first = pilot(self.observed(used, X[used]))
            pilots.append(self.observed(slice(None), X).predictor(first.W, first.c))
        return replace(self, pilots=np.array(pilots))

    def as_held_out(self) -> tuple[Array, Array | None]:
        """The same of every row as the fold sees it that holds it out."""
        z, w = self.targets()
        if self.pilots is None or w is None:
            return z, w
        for f in range(len(self.pilots) - 1):
            own = self.fold == f
            of_fold, weight = self.targets(f)
            assert weight is not None
            z[own] = of_fold[own]
            w[own] = weight[own]
        return z, w

    def observed(self, rows: NDArray[Any] | slice, X: Array | None = None) -> WorkingRows:
        """Some of the rows, one by one, with their inputs or others."""
        y, codes = self.y[rows], self.codes[rows]
        weight = np.ones(len(y)) if self.weight is None else self.weight[rows]
        offset = np.zeros(len(y)) if self.offset is None else self.offset[rows]
        X = self.X[rows] if X is None else X
        row = np.arange(len(self.y))[rows]
        return WorkingRows(X, y, codes, self.labels, weight, offset, row, self.family, self.names, len(y))

    def sample(self, most: int, random_state: Any) -> TaskRows:
        """So many of the rows, drawn at random; all of them, if they are no more."""
        if len(self.y) <= most:
            return self
        rows = np.sort(generator(random_state).choice(len(self.y), most, replace=False))
        learned = self.learned
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            codes=self.codes[rows],
            fold=self.fold[rows],
            weight=None if self.weight is None else self.weight[rows],
            offset=None if self.offset is None else self.offset[rows],
            pilots=None if self.pilots is None else self.pilots[:, rows],
            learned=None if learned is None else lambda f: learned(f)[rows],
        )

    def in_basis(self, features: SplineFeatures, by_fold: Sequence[SplineFeatures]) -> TaskRows:
        """The same rows with other features, by name; folds have their own."""
        names = tuple(map(str, features.get_feature_names_out(self.names)))
        differ = self.learned is not None or self.gaps or any(own is not features for own in by_fold)
        learned = (lambda f: InBasis(by_fold[f], self.inputs(f), len(names))) if differ else None
        return replace(self, X=InBasis(features, self.X, len(names)), names=names, learned=learned, gaps=())

    def with_rows(self) -> TaskRows:
        """The same with the tasks that have rows alone."""
        seen, codes = np.unique(self.codes, return_inverse=True)
        return replace(self, codes=codes.reshape(-1), labels=self.labels[seen])

    def gram(self, X: Array | InBasis, rows: NDArray[Any] | slice, f: int | None = None) -> GramStats:
        """Statistics of some rows with the features X (n, p), as fold f sees them."""
        y, weight = self.targets(f)
        weight = None if weight is None else weight[rows]
        part = X.some(rows) if isinstance(X, InBasis) else X[rows]
        gram = GramStats.from_codes(part, y[rows], self.codes[rows], self.labels, weight=weight)
        return replace(gram, dispersion=self.family.dispersion)

    def folds(self, k: int | None = None) -> Folds:
        """Folds of the inputs as they are; k of them, if some may be empty."""
        first = min(int(self.fold.min()), 0)
        about: dict[str, Any] = {"feature_names": self.names, "k": k}

        def of(X: Array | InBasis, f: int | None = None) -> Folds:
            y, weight = self.targets(f)
            parts = Folds.of_rows(X, y, self.codes, self.labels, self.fold - first, weight=weight, **about)
            parts = parts.of_dispersion(self.family.dispersion)
            return train_on_the_past(parts) if first < 0 else parts

        whole = of(self.X)
        by_fold = self.learned is not None or self.gaps or self.pilots is not None
        seen = folds_as_seen(whole, lambda f: of(self.inputs(f), f)) if by_fold else whole
        return seen if self.pilots is None else self._with_prior(seen)

    def _with_prior(self, folds: Folds) -> Folds:
        """Folds of a family whose training parts have a prior on slopes that is worth one row."""
        rows = np.bincount(self.codes, self.weight, minlength=len(self.labels)).astype(np.float64)
        ridge = folds.total.worth_of_a_row(rows)
        own = tuple(folds.training(f).with_ridge(ridge) for f in range(len(folds)))
        return replace(folds, total=folds.total.with_ridge(ridge), own=own)


@holds(folds="record T")
@dataclass(frozen=True, eq=False)
class FeatureSearch:
    """What `search_features` found, or splines, for which there is nothing to search.

    Attributes
    ----------
    best : the setting of least error; None of splines
    features : its transformer, fitted on all rows, bumps or curves first and then linear terms
    by_fold : the same, fitted on the training rows of every fold
    folds : statistics of all these features, every fold with its own
    errors : setting -> cross-validated error, for all that were tried, in their order
    """

    best: Setting | None
    features: Basis
    by_fold: tuple[Basis, ...]
    folds: Folds
    errors: dict[Setting, float]

    @property
    def columns(self) -> NDArray[np.intp]:
        """The features that the best setting uses: without linear terms the bumps alone."""
        if isinstance(self.features, SplineFeatures) or (self.best is not None and self.best.linear):
            return np.arange(self.folds.total.n_features)
        return np.arange(len(self.features.centers_))

    def tried(self, gain: Gain) -> CurvesTried:
        """What is reported of these features, if they take part."""
        if isinstance(self.features, SplineFeatures):
            return CurvesTried(gain, splines=self.features)
        return CurvesTried(gain, rbf=self.features, rbf_setting=self.best, rbf_errors=self.errors)

    def folds_of(self, data: TaskRows) -> Folds:
        """Statistics of other rows in the features that were found, which stay as they are."""
        if isinstance(self.features, SplineFeatures):
            return data.in_basis(self.features, self.by_fold).folds(len(self.by_fold))
        makers: list[tuple[Basis, Any, Any, int]] = [
            (features, data.fold != f, data.fold == f, f) for f, features in enumerate(self.by_fold)
        ]
        return _folds_in(data, self.features, slice(None), makers)

    def of_fold(self, f: int, X: Array) -> InBasis:
        """The features of rows X that fold f was judged by."""
        return InBasis(self.by_fold[f], X, self.folds.total.n_features)


def search_features(
    data: TaskRows,
    error: Callable[[Folds], float],
    *,
    axes: Axes | None = None,
    start: Setting | None = None,
    random_state: Any = None,
) -> FeatureSearch:
    """Walk from setting to best neighbouring setting until none is better.

    Input weights and centres are fitted to the training rows of every fold, so that errors are those of features that
    have not seen the held-out rows. A head that shrinks tasks to their mean should penalise that mean too (1e-4 times
    the mean of tr(G_t) / d will do): wide bumps are nearly collinear, and a free mean has errors of many times the
    range of y where rows differ from those of the folds.

    Parameters
    ----------
    data : training rows with their folds
    error : cross-validated error of a head, least over its own penalties, as a function of the statistics of folds
    axes, start : the values to combine, and where to begin
    random_state : starts k-means
    """
    axes = axes or Axes()
    seed = int(generator(random_state).integers(2**31 - 1))
    numbers = range(int(data.fold.max()) + 1)
    makers = [_Maker(data, slice(None), seed), *(_Maker(data, trains(data.fold, f), seed, f) for f in numbers)]
    searched = makers[-SEARCHED:]  # in time, those with the most rows to train on
    errors: dict[Setting, float] = {}
    best = axes.nearest(start or Setting())
    errors[best] = error(_folds(data, best, searched))
    while True:
        for setting in axes.neighbours(best):
            if setting not in errors:
                errors[setting] = error(_folds(data, setting, searched))
        winner = min(errors, key=errors.__getitem__)
        if winner == best:
            break
        best = winner
    whole = best._replace(linear=True)  # linear terms are there in any case, for methods that use nothing else
    total, *by_fold = [make(whole) for make in makers]
    return FeatureSearch(best, total, tuple(by_fold), _folds(data, whole, makers[1:], makers[0]), errors)


class _Maker:
    """Transformers that were fitted to some rows, by setting; k-means runs once per exponent and number of centres."""

    def __init__(self, data: TaskRows, rows: NDArray[np.bool_] | slice, seed: int, fold: int | None = None) -> None:
        self.data = data
        self.rows = rows
        self.seed = seed
        self.fold = fold or 0
        self.held_out = data.fold == self.fold
        self.X = data.X if fold is None else data.inputs(fold)
        self.gram = data.gram(self.X, rows, fold).with_rows()
        self.placed: dict[tuple[float, int], RBFFeatures] = {}

    def __call__(self, setting: Setting) -> RBFFeatures:
        key = setting.exponent, setting.n_centers
        if key not in self.placed:
            scale = slope_scale(self.gram, exponent=setting.exponent, least=LEAST)
            features = RBFFeatures(setting.n_centers, scale=scale, random_state=self.seed)
            weight = None if self.data.weight is None else self.data.weight[self.rows]
            self.placed[key] = features.fit(self.X[self.rows], sample_weight=weight)
        return self.placed[key].with_width(setting.width, linear=setting.linear)


def _folds(data: TaskRows, setting: Setting, makers: list[_Maker], total: _Maker | None = None) -> Folds:
    """Folds whose features were fitted to their training rows; without a `total` that of what is held out."""
    judged = slice(None) if total else np.any([make.held_out for make in makers], axis=0)
    by_fold = [(make(setting), make.rows, make.held_out, make.fold) for make in makers]
    return _folds_in(data, (total or makers[0])(setting), judged, by_fold)


def _folds_in(data: TaskRows, total: Basis, judged: Any, by_fold: list[tuple[Basis, Any, Any, int]]) -> Folds:
    """Folds in given features: of the total with its rows, and of every fold with its training and held-out rows."""
    first = InBasis(total, data.X, len(total.get_feature_names_out()))
    trained = []
    held_out = []
    for features, rows, others, f in by_fold:
        X = InBasis(features, data.inputs(f), first.width)
        trained.append(data.gram(X, rows, f))
        held_out.append(data.gram(X, others, f))
    return Folds(data.gram(first, judged), tuple(held_out), tuple(trained))


def _with_width(features: Basis, X: Array, width: int) -> Array:
    """Features with so many columns: a fold with fewer distinct rows has fewer bumps, and zeros in their place."""
    terms = X.shape[1] * features.linear
    phi = features.transform(X)
    P = phi.shape[1] - terms
    wanted = width - terms
    bumps = phi[:, : min(P, wanted)]
    return np.hstack([bumps, np.zeros((len(X), wanted - bumps.shape[1])), phi[:, P:]])
