"""Boosted trees, or a given regressor of all rows: what they predict for rows held out, and their fit to all rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from kinfolk.methods.trunk import CATEGORIES, Trunk
from kinfolk.progress import Callback, report
from kinfolk.rows.gram import Array
from kinfolk.rows.splits import trains
from kinfolk.search.boosters import LEAVES, ONE_THREAD, ROUNDS, Boosted, booster, can_boost
from kinfolk.search.rbf_search import InBasis, TaskRows, block_by_block
from kinfolk.threads import single_threaded

STEP = 10  # rounds between two looks at the errors
LOOKS = 5  # that show no less error, one after the other, and trees stop to grow
PARTS = 5  # of the rows, each told the means of the others
SEED = 0  # of the cross-fitting of means; the rest of boosting draws nothing
MOST_JUDGED = 200_000  # rows that tell whether trees pay; of more a sample does
GRID = 2.0**-20  # of the standard deviation: the target in numbers that single precision holds exactly


@dataclass(frozen=True, eq=False)
class TreesTrial:
    """A regressor of all rows: what it predicted for every row when that was held out, and how to fit it to all.

    `prediction` (n,) is NaN for rows that are never held out; `setting` is what was chosen. `fit` takes rows, which may
    be more than those that were predicted.
    """

    prediction: Array
    setting: dict[str, Any]
    fit: Callable[[TaskRows], tuple[Any, Array, float]]  # -> regressor, inputs of tasks and of new ones


def check_trees(asked: Any) -> None:
    """Raise a ValueError for what cannot be a trunk."""
    usable = hasattr(asked, "fit") and hasattr(asked, "predict") and not isinstance(asked, type)
    if not (asked is None or usable or (isinstance(asked, str) and asked == "auto")):
        raise ValueError(f'trunk={asked!r} must be None, "auto", or a regressor with fit and predict')


def try_trees(data: TaskRows, asked: Any, *, callback: Callback | None = None) -> TreesTrial | None:
    """Out-of-fold predictions of boosted trees ("auto") or of a given regressor; None if no trees grow for targets.

    Those of a family are on the scale of its linear predictor, without the offset.
    """
    folds = range(int(data.fold.max()) + 1)
    if isinstance(asked, str) and not all(can_boost(_targets(data, trains(data.fold, f))) for f in folds):
        return None
    with _threads(len(data.y)):
        return _try_boosted(data, callback) if isinstance(asked, str) else _try_given(data, asked, callback)


def _threads(rows: int) -> AbstractContextManager[None]:
    return single_threaded() if rows <= ONE_THREAD else nullcontext()


def _try_given(data: TaskRows, asked: Any, callback: Callback | None) -> TreesTrial:
    """A regressor whose first input is the number of the task."""
    prediction = np.full(len(data.y), np.nan)
    k = int(data.fold.max()) + 1
    for f in range(k):
        held_out = data.fold == f
        Z = np.column_stack([data.codes, data.inputs(f)])
        prediction[held_out] = _fitted(asked, data, Z, trains(data.fold, f)).predict(Z[held_out])
        report(callback, "trees", f + 1, k)

    def fit(data: TaskRows) -> tuple[Any, Array, float]:
        Z = np.column_stack([data.codes, data.X])
        fitted = _fitted(asked, data, Z, slice(None))
        inputs = np.arange(float(len(data.labels)))[:, None]
        return fitted, inputs, -1.0

    return TreesTrial(prediction, {}, fit)


def _fitted(regressor: Any, data: TaskRows, Z: Array, rows: NDArray[np.bool_] | slice) -> Any:
    weight = {}
    if data.weight is not None:
        if not has_fit_parameter(regressor, "sample_weight"):
            raise ValueError(f"trunk={type(regressor).__name__} takes no sample_weight: leave the weights out")
        weight = {"sample_weight": data.weight[rows]}
    return clone(regressor).fit(Z[rows], data.y[rows], **weight)


def _targets(data: TaskRows, rows: NDArray[np.bool_]) -> Boosted:
    """The targets of some rows; trees of a family begin with the level that is best for these."""
    weight = None if data.weight is None else data.weight[rows]
    if data.family.is_plain:
        return Boosted(data.y[rows], weight, data.family, None)
    some = data.observed(rows)
    return Boosted(some.y, weight, data.family, some.offset, some.level())


def _rates(targets: Boosted) -> Array:
    """Targets per unit of exposure: what the levels of tasks are told by."""
    if targets.offset is None or not targets.family.has_exposure:
        return targets.y
    return targets.y / np.exp(targets.offset)


class _Staged:
    """Boosted trees of the training rows of one fold, that grow step by step."""

    def __init__(self, data: TaskRows, X: Array, rows: NDArray[np.bool_], leaves: int) -> None:
        targets = _targets(data, rows)
        told, self.inputs, category = task_inputs(data.codes[rows], _rates(targets), len(data.labels))
        Z = np.column_stack([told, X[rows]])
        self.booster = booster(Z, targets, category=category, leaves=leaves, seed=SEED)

    def predict(self, X: Array, codes: NDArray[np.intp], first: int, last: int) -> Array:
        """The sum of the trees from number `first` up to `last`."""
        return self.booster.predict(np.column_stack([self.inputs[codes], X]), first, last)


def task_inputs(codes: NDArray[np.intp], y: Array, T: int) -> tuple[Array, Array, list[int] | None]:
    """What boosted trees are told about tasks: by row, by task (T, q), and which of the columns are categories.

    That is the number of the task, by its mean target, so that the order of tasks changes no tree; and, as
    scikit-learn's trees do not split off categories of very few rows and know 255 at most, that mean, drawn to that of
    all. The mean that a row is told is that of other rows (cross-fitting), so that trees do not rely on it more than
    they can with new rows.
    """
    part = np.random.default_rng(SEED).permutation(len(y)) % PARTS
    told = np.empty(len(y))
    for one in range(PARTS):
        told[part == one] = task_levels(codes[part != one], y[part != one], T)[codes[part == one]]
    if np.isnan(told).all():  # one row per task has no others; and trees refuse a column without numbers
        told[:] = y.mean()
    level = task_levels(codes, y, T)
    rows = np.bincount(codes, minlength=T)
    seen = np.flatnonzero(rows)
    if len(seen) >= CATEGORIES:
        return told[:, None], level[:, None], None
    mean = np.bincount(codes, y, minlength=T)[seen] / rows[seen]
    number = np.full(T, np.nan)
    number[seen[np.argsort(mean, kind="stable")]] = np.arange(len(seen))
    return np.column_stack([number[codes], told]), np.column_stack([number, level]), [0]


def task_levels(codes: NDArray[np.intp], y: Array, T: int) -> Array:
    """Mean target of every task (T,), drawn to that of all by the variances within and between; NaN without rows.

    Examples
    --------
    >>> task_levels(np.array([0, 0, 1, 1]), np.array([-2.0, 2.0, -2.0, 2.0]), 3)
    array([ 0.,  0., nan])
    """
    n = np.bincount(codes, minlength=T)
    mean = np.bincount(codes, y, minlength=T) / np.maximum(n, 1)
    whole = float(y.mean()) if len(y) else 0.0
    within = float(np.square(y - mean[codes]).sum()) / max(len(y) - int((n > 0).sum()), 1)
    # The means of tasks scatter by what lies between tasks, and by what is within over the rows of a task.
    between = max(float(np.square(mean - whole)[n > 0].mean()) - within * float((1 / n[n > 0]).mean()), 0.0)
    own = np.divide(n * between, n * between + within, out=np.zeros(T), where=n * between > 0)
    return np.where(n > 0, whole + own * (mean - whole), np.nan)


def _try_boosted(data: TaskRows, callback: Callback | None) -> TreesTrial:
    """Boosted trees; leaves and rounds for a fold's rows are chosen by the errors on the other folds."""
    data, mean, unit = _in_single_precision(data)
    k = int(data.fold.max()) + 1
    held_out = [np.flatnonzero(data.fold == f) for f in range(k)]
    grown: dict[int, list[_Staged]] = {n: [] for n in LEAVES}
    judged = []
    for f, rows in enumerate(held_out):  # what a fold makes of the inputs goes before the next one comes
        X = data.inputs(f)
        judged.append(X[rows])
        for n, trees in grown.items():
            trees.append(_Staged(data, X, trains(data.fold, f), n))
    curves = {}
    for step, (leaves, folds) in enumerate(grown.items()):
        curves[leaves] = _curves(data, folds, held_out, judged)
        report(callback, "trees", step + 1, len(LEAVES))
    prediction = np.full(len(data.y), np.nan)
    for f, rows in enumerate(held_out):
        others = [g for g in range(k) if g != f] or [f]
        leaves, rounds = _least(curves, others)
        prediction[rows] = grown[leaves][f].predict(judged[f], data.codes[rows], 0, rounds)
    leaves, rounds = _least(curves, list(range(k)))

    def fit(data: TaskRows) -> tuple[Any, Array, float]:
        data, mean, unit = _in_single_precision(data)
        whole = _Staged(data, data.X, np.ones(len(data.y), bool), leaves)
        whole.booster.grow(rounds)
        trees = whole.booster.trees()
        in_units = replace(trees, baseline=mean + unit * trees.baseline, values=unit * trees.values)
        return in_units, whole.inputs, np.nan

    return TreesTrial(mean + unit * prediction, {"max_leaf_nodes": leaves, "max_iter": rounds}, fit)


def _in_single_precision(data: TaskRows) -> tuple[TaskRows, float, float]:
    """The rows with targets of mean 0 and variance 1, that mean, and that unit; those of a family as they are.

    Boosting keeps targets and gradients in single precision: in the user's unit, rounding would tell equal splits
    apart. So targets are rounded to numbers that it holds exactly, whatever their unit was.
    """
    if not data.family.is_plain:
        return data, 0.0, 1.0
    mean = float(data.y.mean())
    unit = float(np.std(data.y)) or 1.0
    return replace(data, y=np.round((data.y - mean) / unit / GRID) * GRID), mean, unit


def _curves(data: TaskRows, folds: list[_Staged], held_out: list[NDArray[np.intp]], judged: list[Array]) -> Array:
    """Losses (k, looks) on held-out rows with the inputs `judged`; more trees grow until they do not help."""
    weight = np.ones(len(data.y)) if data.weight is None else data.weight
    start = np.zeros(len(data.y)) if data.offset is None else data.offset
    predictor = [start[rows] for rows in held_out]
    looks: list[list[float]] = []
    for rounds in range(STEP, ROUNDS + 1, STEP):
        for f, (one, rows) in enumerate(zip(folds, held_out, strict=True)):
            one.booster.grow(rounds)
            predictor[f] = predictor[f] + one.predict(judged[f], data.codes[rows], rounds - STEP, rounds)
        losses = [data.family.loss(data.y[rows], eta) for rows, eta in zip(held_out, predictor, strict=True)]
        looks.append([float(weight[rows] @ loss) for rows, loss in zip(held_out, losses, strict=True)])
        total = np.sum(looks, axis=1)
        if len(looks) - 1 - total.argmin() >= LOOKS:
            break
    return np.transpose(looks)


def _least(curves: dict[int, Array], folds: list[int]) -> tuple[int, int]:
    """Leaves and rounds of least error on some folds."""
    total = {leaves: squared[folds].sum(axis=0) for leaves, squared in curves.items()}
    leaves = min(total, key=lambda n: float(total[n].min()))
    return leaves, STEP * (int(total[leaves].argmin()) + 1)


def fit_trees(trial: TreesTrial, share: float, task_shares: Array, X: Array | InBasis, data: TaskRows) -> Trunk:
    """The trees of all rows with their shares, whose features are the last ones of X (n, D): the inputs themselves."""
    D = X.shape[1]
    columns = np.arange(D - data.X.shape[1], D)
    data = replace(data, X=block_by_block(X, lambda block, _: block[:, columns]))
    with _threads(len(data.y)):
        regressor, inputs, stranger = trial.fit(data)
    reach = np.array([[-np.inf], [np.inf]]) * np.ones(len(columns))
    return Trunk(regressor, inputs, task_shares, share, columns, reach, np.ones_like(reach), stranger)
