"""The only place that meets user input: tables, targets and weights come in, checked arrays and task codes go out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing, check_array

from kinfolk.declared import holds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.texts import NUMBERS, as_written, is_missing, kind_of_texts, number_in, plain_number
from kinfolk.words import counted, warn_user

JOINT = " / "  # between the names, and the labels, of several task columns
NULLABLE = re.compile(r"U?Int\d+|Float\d+|boolean")  # numbers of pandas that may be missing


def task_name(task: Any) -> Any:
    """The name of the task column; several columns make one, whose name is theirs, joined.

    >>> task_name(["region", "shop"]), task_name("shop"), joint_parts("region / shop", ["shop", "region"])
    ('region / shop', 'shop', ['region', 'shop'])
    """
    if not isinstance(task, (list, tuple)):
        return task
    if not task or not all(isinstance(part, str) for part in task):
        raise ValueError(f"task={task!r}: several task columns are given by their names")
    return JOINT.join(task)


def joint_parts(name: Any, names: Iterable[str]) -> list[str]:
    """The columns that a name like "region / shop" stands for, if it is no column itself."""
    parts = name.split(JOINT) if isinstance(name, str) else []
    names = set(names)
    return parts if len(parts) > 1 and name not in names and names.issuperset(parts) else []


def joint_trouble(name: str) -> str:
    """What is wrong with labels that hold the mark between the parts of a joint one."""
    return (
        f"labels of {name!r} hold {JOINT!r} themselves, so that different tasks would be called alike: write another "
        "mark in its place"
    )


class Table:
    """A table of columns, with or without names; those of `names` are taken from what the user passed, if named."""

    def __init__(self, passed: Any, names: tuple[str, ...] | None, height: int, width: int, name: str = "X") -> None:
        self.passed = passed
        self.names = names
        self.height = height
        self.width = width
        self.name = name

    @cached_property
    def native(self) -> Any:
        """The columns in the form in which they came; taken out when asked for: that costs more than a prediction."""
        if self.names is None or self.passed.shape[1] == self.width:
            return self.passed
        return _select(self.passed, self.names)

    def column(self, key: int) -> NDArray[Any]:
        """One column as a NumPy array; categories and dictionaries as their values."""
        if self.names is None:
            return np.asarray(self.passed[:, key])
        return _column_values(self.passed, self.names[key])

    def take(self, index: NDArray[np.intp]) -> Table:
        """Some of the rows, by position."""
        return Table(_safe_indexing(self.native, index), self.names, len(index), self.width, self.name)

    def position(self, key: str | int) -> int:
        """Where a column is, by name or position, or an error that lists what there is."""
        if self.names is not None and key in self.names:
            return self.names.index(str(key))
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and -self.width <= key < self.width:
            return int(key) % self.width
        if self.names is None:
            raise ValueError(
                f"no column {key!r}: {self.name} has {self.width} columns without names. Give the task column by "
                "position, e.g. task=0, or pass a data frame."
            )
        listed = ", ".join(map(repr, self.names[:8])) + (", ..." if self.width > 8 else "")
        raise ValueError(f"{self.name} has no column {key!r}. Its columns are {listed}.")

    def split(self, key: str | int) -> tuple[Table, NDArray[Any]]:
        """The table without one column, and that column."""
        position = self.position(key)
        if self.width < 2:
            raise ValueError(
                f"{self.name} has only the task column {key!r}: 0 feature(s) while a minimum of 1 is required"
            )
        if self.names is None:
            rest = Table(np.delete(self.native, position, axis=1), None, self.height, self.width - 1, self.name)
            return rest, self.column(position)
        names = self.names[:position] + self.names[position + 1 :]
        return Table(self.passed, names, self.height, self.width - 1, self.name), self.column(position)

    def with_joint(self, name: Any) -> Table:
        """The table with one column in place of those that `name` joins, if it does."""
        parts = joint_parts(name, self.names or ())
        if self.names is None or not parts:
            return self
        columns = [self.column(self.names.index(part)).tolist() for part in parts]
        rows = [
            None if any(map(is_missing, row)) else tuple(plain_number(str(value)) for value in row)
            for row in zip(*columns, strict=True)
        ]
        labels = [None if row is None else JOINT.join(row) for row in rows]
        if len(set(labels)) < len(set(rows)):
            raise ValueError(joint_trouble(name))
        frame = nw.from_native(self.native, eager_only=True)
        joint = nw.new_series(name, labels, nw.String(), backend=frame.implementation)
        native = frame.drop(parts).with_columns(joint).to_native()
        names = (*(n for n in self.names if n not in parts), name)
        return Table(native, names, self.height, len(names), self.name)

    def matched(self, names: tuple[str, ...]) -> Table:
        """The columns of these names, in this order; others are left aside."""
        there = set(self.names or ())
        missing = [name for name in names if name not in there]
        if missing:
            raise ValueError(
                "The feature names should match those that were passed during fit.\n"
                f"Feature names seen at fit time, yet now missing:\n{_bullets(missing)}"
                f"{self.name} has the columns {', '.join(map(repr, (self.names or ())[:8]))}."
            )
        if names == self.names:
            return self
        return Table(_select(self.native, names), names, self.height, len(names), self.name)

    def to_array(self) -> Array:
        """All columns as finite-or-NaN floats, or an error that names the column that is not numeric."""
        if self.names is None and self.native.dtype != object:
            return np.asarray(self.native, dtype=np.float64)
        columns = [self._numeric(k) for k in range(self.width)]
        return np.column_stack(columns)

    def _numeric(self, key: int) -> Array:
        values = self.column(key)
        if values.dtype.kind in "iufb":
            return values.astype(np.float64)
        if values.dtype.kind == "m":
            return values / np.timedelta64(1, "D")
        name = repr(self.names[key]) if self.names else key
        if values.dtype.kind == "M":
            raise ValueError(
                f"column {name} of {self.name} holds dates. Turn them into numbers first (days since a start, "
                "hour of day, ...), or drop the column."
            )
        if values.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: column {name} of {self.name}")
        try:
            return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        except TypeError as error:
            raise TypeError(f"column {name} of {self.name} is not numeric: {error}") from None
        except ValueError:
            text = next(v for v in values if not _is_number(v))
            raise ValueError(
                f"column {name} of {self.name} is not numeric: could not convert string to float: {text!r}. Encode it "
                "(e.g. sklearn.preprocessing.OneHotEncoder as `features`), drop it, or name it as the task column."
            ) from None

    def features(self, *, gaps: bool = False) -> Array:
        """All columns as finite floats; with NaN for missing values, if it may have `gaps`."""
        X = self.to_array()
        bad = np.isinf(X) if gaps else ~np.isfinite(X)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            kind = "NaN" if np.isnan(X[row, column]) else "infinity or a value too large for dtype('float64')"
            remedy = "Drop those rows or fill them in, e.g. with sklearn.impute.SimpleImputer."
            if kind != "NaN" and self.names:
                remedy = "Correct those values, or set them to NaN: missing values of a data frame are filled in."
            name = repr(self.names[column]) if self.names else int(column)
            raise ValueError(
                f"Input {self.name} contains {kind} (column {name}, row {row}; "
                f"{counted(int(bad.any(axis=1).sum()), 'row')} in all). {remedy}"
            )
        return X

    def check_against(self, names: tuple[str, ...] | None, width: int, estimator: str) -> None:
        """Hold the columns against those of fit; the first sentences are scikit-learn's."""
        if names is not None and self.names is not None and names != self.names:
            unseen = sorted(set(self.names).difference(names))
            missing = sorted(set(names).difference(self.names))
            text = "The feature names should match those that were passed during fit.\n"
            if unseen:
                text += "Feature names unseen at fit time:\n" + _bullets(unseen)
            if missing:
                text += "Feature names seen at fit time, yet now missing:\n" + _bullets(missing)
            if not unseen and not missing:
                text += "Feature names must be in the same order as they were in fit.\n"
            raise ValueError(text + "Select the columns of fit: X[list(model.feature_names_in_)].")
        if self.width != width:
            raise ValueError(f"X has {self.width} features, but {estimator} is expecting {width} features as input")


def read_table(X: Any, name: str = "X") -> Table:
    """Wrap a table; rows and columns must be there, column names must be unique."""
    if isinstance(X, Table):
        return X
    if sparse.issparse(X):
        raise TypeError(f"Sparse data was passed for {name}, but dense data is required. Use '.toarray()' to convert.")
    columns = getattr(X, "column_names", None) or getattr(X, "columns", None)
    if columns is not None and not callable(columns) and hasattr(X, "shape") and len(X.shape) == 2:
        return _read_frame(X, list(columns), name)
    array = without_mask(X)
    if array.dtype.kind not in "OUS" and array.ndim == 2 and array.size:
        array = check_array(array, dtype="numeric", ensure_all_finite=False, input_name=name)
    elif array.dtype.kind in "OUS" and array.ndim == 2 and array.size:
        array = array.astype(object)
    else:
        array = check_array(array, dtype=None, ensure_all_finite=False, input_name=name)
    height, width = array.shape
    return Table(array, None, height, width, name)


def without_mask(values: Any) -> NDArray[Any]:
    """An array, with NaN where a masked array of numbers hides its values; `asarray` would show them."""
    if not np.ma.is_masked(values):
        return np.asarray(values)
    return np.asarray(values.filled() if values.dtype.kind not in "iufb" else values.astype(np.float64).filled(np.nan))


def _read_frame(X: Any, columns: list[Any], name: str) -> Table:
    height, width = X.shape
    if len(set(columns)) < width:
        twice = Counter(columns).most_common(1)[0][0]
        raise ValueError(f"{name} has two columns named {twice!r}: rename or drop one")
    if height == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape=({height}, {width})) while a minimum of 1 is required.")
    if width == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape=({height}, {width})) while a minimum of 1 is required.")
    if not all(isinstance(c, str) for c in columns):
        if any(isinstance(c, tuple) for c in columns):
            raise TypeError(
                f"the columns of {name} have several levels, like {columns[0]!r}: make them one, e.g. "
                "X.columns = ['_'.join(map(str, column)) for column in X.columns]"
            )
        if any(isinstance(c, str) for c in columns):
            raise TypeError(
                f"Feature names are only supported if all input features have string names, but {name} mixes them "
                f"with other types. Convert them, e.g. X.columns = X.columns.astype(str)."
            )
        values = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        return Table(values, None, height, width, name)
    return Table(X, tuple(columns), height, width, name)


def _select(native: Any, names: tuple[str, ...]) -> Any:
    return native.select(list(names)) if hasattr(native, "select") else native[list(names)]


def _column_values(native: Any, name: str) -> NDArray[Any]:
    column = native[name]
    if hasattr(column, "combine_chunks"):  # pyarrow
        column = column.combine_chunks()
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()
        return column.to_numpy(zero_copy_only=False)
    if NULLABLE.fullmatch(str(getattr(column, "dtype", ""))) and hasattr(column, "isna"):
        if column.dtype.kind in "iub" and not column.hasnans:  # labels may have more digits than floats
            return column.to_numpy(dtype={"i": np.int64, "u": np.uint64, "b": np.bool_}[column.dtype.kind])
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if getattr(getattr(column, "dtype", None), "tz", None) is not None:  # pandas would give objects of its own
        return column.to_numpy(dtype="datetime64[us]")
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None
    return True


def _bullets(names: list[str]) -> str:
    shown = "".join(f"- {n}\n" for n in sorted(names)[:5])
    return shown + ("- ...\n" if len(names) > 5 else "")


SMALLEST, LARGEST = 1e-35, 1e40  # sizes of inputs and targets
LONGEST_LABEL = 1000  # characters


@holds(labels="names S", number_names="texts m", numbers="S m any", text_names="texts l", texts="names S l")
@dataclass(frozen=True, eq=False)
class TaskFacts:
    """Columns with one value per task, for tables to be joined with, by label: NaN or None where nothing is known.

    Attributes
    ----------
    labels : (S,), sorted
    numbers, number_names : (S, m) and the names of these columns
    texts, text_names : (S, l), or None if there are none

    Examples
    --------
    >>> import pandas as pd
    >>> shops = pd.DataFrame({"shop": ["b", "a", "c"]})
    >>> known = TaskFacts.of(shops.assign(size=[5, 3, 1]), "shop", read_table(shops))
    >>> known.joined(read_table(pd.DataFrame({"shop": ["c", "new"]})), "shop").column(1)
    array([ 1., nan])
    """

    labels: NDArray[Any]
    number_names: tuple[str, ...]
    numbers: Array
    text_names: tuple[str, ...] = ()
    texts: NDArray[Any] | None = None

    @classmethod
    def of(cls, frame: Any, task: Any, table: Table) -> Self:
        """Those of a frame with the task column, or with the tasks as index of pandas, for all tasks of a table."""
        if not isinstance(task, str) or table.names is None:
            raise ValueError("facts as a frame are joined by the name of the task column: pass X as a frame with it")
        if task not in frame.columns and getattr(getattr(frame, "index", None), "name", None) == task:
            frame = frame.reset_index()
        facts, column = read_table(frame, name="facts").with_joint(task).split(task)
        assert facts.names is not None
        labels, row, count = np.unique(checked_labels(column, task), return_index=True, return_counts=True)
        asked = table.column(table.position(task))
        asked = np.unique(checked_labels(asked[~missing_labels(asked)], task))
        check_same_kind(labels, asked)
        missing, twice = np.setdiff1d(asked, labels), labels[count > 1]
        wrong = [f"column {name!r} is in X and in facts" for name in facts.names if name in table.names]
        wrong += [f"{counted(len(twice), 'task')} twice ({_first(twice)})"] if len(twice) else []
        wrong += [f"no row for {counted(len(missing), 'task')} of X ({_first(missing)})"] if len(missing) else []
        if wrong:
            raise ValueError(f"facts: {'; '.join(wrong)}. Give one row per task, and every column once")
        columns = {name: facts.column(k)[row] for k, name in enumerate(facts.names)}
        numbers = {name: values for name, values in columns.items() if values.dtype.kind in "iufb"}
        texts = np.empty((len(labels), len(columns) - len(numbers)), dtype=object)
        for k, name in enumerate(name for name in columns if name not in numbers):
            texts[:, k] = [None if is_missing(value) else str(value) for value in columns[name].tolist()]
        values = np.array([*numbers.values()], dtype=np.float64).reshape(len(numbers), len(labels)).T
        names = tuple(name for name in columns if name not in numbers)
        return cls(labels, tuple(numbers), values, names, texts if texts.size else None)

    def of_tasks(self, labels: NDArray[Any]) -> Self:
        """Only those of some tasks."""
        kept = np.isin(self.labels, labels)
        texts = None if self.texts is None else self.texts[kept]
        return replace(self, labels=self.labels[kept], numbers=self.numbers[kept], texts=texts)

    def joined(self, table: Table, task: Any) -> Table:
        """The table with the columns that it has not, for the tasks of its rows."""
        new = [name for name in (*self.number_names, *self.text_names) if name not in (table.names or ())]
        if table.names is None or not new or task not in table.names:
            return table
        column = table.column(table.position(task))
        there = ~missing_labels(column)
        labels = checked_labels(np.where(there, column, column[there][:1]), task) if there.any() else self.labels[:1]
        check_same_kind(labels, self.labels)
        place = np.minimum(np.searchsorted(self.labels, labels), len(self.labels) - 1)
        there &= self.labels[place] == labels
        frame = nw.from_native(table.native, eager_only=True)
        columns = []
        for name in new:
            if name in self.number_names:
                number = np.where(there, self.numbers[place, self.number_names.index(name)], np.nan)
                columns.append(nw.new_series(name, number.tolist(), nw.Float64(), backend=frame.implementation))
            else:
                assert self.texts is not None
                text = self.texts[place, self.text_names.index(name)]
                text[~there] = None
                columns.append(nw.new_series(name, text.tolist(), nw.String(), backend=frame.implementation))
        names = (*table.names, *new)
        return Table(frame.with_columns(*columns).to_native(), names, table.height, len(names), table.name)


def _first(labels: NDArray[Any]) -> str:
    return ", ".join(repr(_plain(label)) for label in labels[:8]) + (", ..." if len(labels) > 8 else "")


@holds(labels="names T", names="texts w", columns="integers k <T", known="record")
@dataclass(frozen=True, eq=False)
class Schema:
    """What fit learned about the table, for predict to hold new tables against.

    `known` are facts about tasks that were joined to it.
    `task` is the column of task labels by name or position, or None for wide targets and for a single task. `labels`
    are sorted; `columns` says which of them each column of a wide target was.
    """

    task: str | int | None
    names: tuple[str, ...] | None
    width: int
    labels: NDArray[Any]
    columns: NDArray[np.intp] | None = None
    known: TaskFacts | None = None


class Targets(NamedTuple):
    """Targets with the positions of their rows, the codes of their tasks and their weights."""

    row: NDArray[np.intp]
    codes: NDArray[np.intp]
    y: Array
    weight: Array | None


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows: what fit works on. For wide targets `y` is (n, T) and `codes` is None.

    `offset` (n,) is what columns beside the features add to the linear predictor, or None. Where targets are labels of
    `classes`, y has their numbers.
    """

    table: Table
    y: Array
    codes: NDArray[np.intp] | None
    weight: Array | None
    schema: Schema
    offset: Array | None = None
    classes: NDArray[Any] | None = None

    def gram(self, X: Array, feature_names: tuple[str, ...] | None) -> GramStats:
        """Statistics of these rows with the features X."""
        check_magnitudes(X, self.y, feature_names)
        labels = self.schema.labels
        if self.codes is None:
            return GramStats.from_wide(X, self.y, labels, weight=self.weight, feature_names=feature_names)
        observed = ~np.isnan(self.y)
        if observed.all():
            return GramStats.from_codes(X, self.y, self.codes, labels, weight=self.weight, feature_names=feature_names)
        weight = None if self.weight is None else self.weight[observed]
        return GramStats.from_codes(
            X[observed], self.y[observed], self.codes[observed], labels, weight=weight, feature_names=feature_names
        )

    def take(self, index: NDArray[np.intp]) -> Self:
        """Some of the rows, by position."""
        return replace(
            self,
            table=self.table.take(index),
            y=self.y[index],
            codes=None if self.codes is None else self.codes[index],
            weight=None if self.weight is None else self.weight[index],
            offset=None if self.offset is None else self.offset[index],
        )

    def targets(self) -> Targets:
        """The observed targets one by one, also those of a wide table."""
        seen = ~np.isnan(self.y)
        if self.weight is not None:
            seen[self.weight == 0] = False
        row, *code = np.nonzero(seen)
        weight = None if self.weight is None else self.weight[row]
        return Targets(row, code[0] if self.codes is None else self.codes[row], self.y[seen], weight)


def read_rows(X: Any, y: Any, *, task: Any, sample_weight: Any = None, facts: Any = None, y_names: Any = None) -> Rows:
    """Check a training table and its targets once, and code the tasks; a frame of `facts` is joined to it.

    `y_names` are those of wide targets that come without.
    """
    task = task_name(task)
    table = read_table(X).with_joint(task)
    known = None
    if hasattr(facts, "columns"):
        known = TaskFacts.of(facts, task, table)
        table = known.joined(table, task)
    rows = _read_rows(table, y, task, sample_weight, y_names)
    return rows if known is None else replace(rows, schema=replace(rows.schema, known=known))


def _read_rows(table: Table, y: Any, task: Any, sample_weight: Any, y_names: Any) -> Rows:
    if isinstance(y, str):
        table, y = table.split(y)
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None: pass one target per row")
    y, own_names = _read_target(y)
    y_names = own_names if y_names is None else y_names
    _check_lengths(table, y)
    weight = _read_weight(sample_weight, len(y))
    return _wide_rows(table, y, y_names, weight) if task is None else _long_rows(table, y, task, weight)


def with_tasks(rows: Rows, more: NDArray[Any]) -> Rows:
    """The same rows among more tasks, which have none."""
    labels = rows.schema.labels
    check_same_kind(more, labels)
    every = np.union1d(labels, more)
    if rows.codes is None or len(every) == len(labels):
        return rows
    codes = np.searchsorted(every, labels)[rows.codes]
    return replace(rows, codes=codes, schema=replace(rows.schema, labels=every))


def _wide_rows(table: Table, y: Array, y_names: Any, weight: Array | None) -> Rows:
    """A table without a task column: one column of targets per task, in the order of their labels."""
    count = y.shape[1] if y.ndim == 2 else 1
    labels = np.arange(count) if y_names is None else np.asarray(y_names)
    if labels.dtype.kind == "U":
        labels = _texts(np.asarray(y_names, dtype=object), "y")
    codes = None if y.ndim == 2 else np.zeros(len(y), np.intp)
    order = np.argsort(labels, kind="stable")
    labels = labels[order]
    y = y[:, order] if y.ndim == 2 else y
    _check_targets(y, codes, labels, named=False)
    return Rows(table, y, codes, weight, Schema(None, table.names, table.width, labels, np.argsort(order)))


def _long_rows(table: Table, y: Array, task: Any, weight: Array | None) -> Rows:
    """A table with a task column, one target per row."""
    if y.ndim == 2 and y.shape[1] != 1:
        raise ValueError(
            f"y has {y.shape[1]} columns although task={task!r} names a column of X. Pass one target per row, "
            "or leave out `task` for one target column per task."
        )
    y = y.ravel()
    features, column = table.split(task)
    absent = missing_labels(column)
    if absent.any() and not absent.all():
        warn_user(f"left out {absent.sum():,} of {len(y):,} rows without a task, the first is row {absent.argmax()}")
        column = np.where(absent, column[~absent][0], column)
    labels, codes = np.unique(checked_labels(column, task), return_inverse=True)
    _warn_of_look_alikes(labels, task)
    _check_targets(y, codes, labels, named=True)
    y = np.where(absent, np.nan, y)  # what has no target takes no part, and every row keeps its place
    return Rows(features, y, codes, weight, Schema(task, table.names, table.width, labels, None))


def read_for_predict(
    table: Table, schema: Schema, estimator: str, *, by_name: bool = False
) -> tuple[Table, NDArray[Any] | None]:
    """A new table, checked against the one of fit: its features, and its task labels if it has a task column."""
    table = matched_table(table, schema, estimator, by_name=by_name)
    if schema.task is None:
        return table, None
    features, column = table.split(schema.task)
    labels = checked_labels(column, schema.task)
    check_same_kind(labels, schema.labels)
    return features, labels


def check_same_kind(labels: NDArray[Any], known: NDArray[Any]) -> None:
    """Refuse labels of another type than those of fit: 7 and "7" would be two tasks, or one, by who asks."""
    if labels.dtype.kind != known.dtype.kind and {labels.dtype.kind, known.dtype.kind} - {"i", "u"}:
        raise ValueError(
            f"task labels were like {_plain(known[0])!r} in fit but are like {_plain(labels[0])!r} now: "
            "convert one of them to the type of the other"
        )


def matched_table(table: Table, schema: Schema, estimator: str, *, by_name: bool = False) -> Table:
    """A table with the columns of fit.

    Columns with names are found by these if one of them is the task, or `by_name` if fit has left some of them out:
    the table of fit can then be predicted as it is. Shared inputs of wide targets are held against those of fit.
    """
    if schema.names is not None and table.names is not None and (schema.task is not None or by_name):
        table = table.with_joint(schema.task)
        table = table if schema.known is None else schema.known.joined(table, schema.task)
        return table.matched(schema.names)
    table.check_against(schema.names, schema.width, estimator)
    return table


def task_codes(labels: NDArray[Any], known: NDArray[Any], unseen: str) -> NDArray[np.intp]:
    """Position of every label among the known ones; -1 for those of unseen tasks, unless they are an "error"."""
    position = np.minimum(np.searchsorted(known, labels), len(known) - 1)
    strange = known[position] != labels
    if strange.any() and unseen != "mean":
        names = np.unique(labels[strange])
        one = len(names) == 1
        who = f"task {_plain(names[0])!r}" if one else f"tasks {_plain(names[0])!r} and {len(names) - 1:,} more"
        strangers = f"{who}, not seen in fit ({len(known):,} tasks: {_plain(known[0])!r}, ...)"
        if unseen == "error":
            raise ValueError(
                f'predict got {strangers}. Use unseen="mean" to predict by the population, or fit their rows.'
            )
        warn_user(f"{strangers}, {'is' if one else 'are'} predicted by the population")
    return np.where(strange, -1, position)


def check_magnitudes(X: Array, y: Array, names: tuple[str, ...] | None) -> None:
    """Refuse numbers so large or small that their fourth powers, which fits compute, leave the range of floats."""
    for values, name in ((X, "column"), (y if y.ndim == 2 else y[:, None], "target")):
        size = np.nan_to_num(np.abs(values)).max(axis=0, initial=0.0)
        beyond = (size > LARGEST) | ((size > 0) & (size < SMALLEST))
        if beyond.any():
            j = int(np.argmax(beyond))
            which = "target y"
            if name == "column":
                which = f"column {names[j]!r}" if names else f"column {j} of X"
            raise ValueError(
                f"{which} has values up to {size[j]:.3g}, but sizes from {SMALLEST:g} to {LARGEST:g} can be fitted: "
                "change its unit, e.g. divide it by its standard deviation"
            )


def _plain(label: Any) -> Any:
    """A label for messages, without the types of NumPy; long ones are cut."""
    label = label.item() if isinstance(label, np.generic) else label
    return f"{label[:50]}..." if isinstance(label, str) and len(label) > 60 else label


def _read_target(y: Any) -> tuple[Array, list[Any] | None]:
    """y as (n,) or (n, T) floats, and the names of its columns if it has any."""
    if sparse.issparse(y):
        raise TypeError("y is a sparse matrix; pass a dense array with NaN where a target is not observed")
    names = None
    if hasattr(y, "columns") or hasattr(y, "column_names"):
        table = read_table(y, name="y")
        values, names = table.to_array(), None if table.names is None else list(table.names)
    else:
        values = check_array(
            _numbers(without_mask(y)),
            ensure_2d=False,
            allow_nd=False,
            dtype="numeric",
            ensure_all_finite=False,
            input_name="y",
        )
    if values.ndim not in (1, 2):
        raise ValueError(f"y must have one or two dimensions, got shape {values.shape}")
    return np.asarray(values, dtype=np.float64), names


def _numbers(y: NDArray[Any]) -> NDArray[Any]:
    """Targets that came as texts like "$1,250" as numbers, NaN where nothing stands; durations as days."""
    if y.dtype.kind == "m":
        return y / np.timedelta64(1, "D")
    if y.dtype.kind == "M":
        raise ValueError(f"y holds dates like {y.ravel()[0]}: turn them into numbers, e.g. days since a start")
    if y.dtype.kind not in "OU":
        return y
    values = y.ravel().tolist()
    texts = [as_written(value) for value in values]
    known = list(dict.fromkeys(text for text in texts if text is not None))
    kind = kind_of_texts(known)
    if kind in NUMBERS:
        mark = "," if kind == "comma" else "."
        numbers = [np.nan if text is None else number_in(text, mark) for text in texts]
        return np.array(numbers, dtype=np.float64).reshape(y.shape)
    strange = [text for text in known if number_in(text) is None]
    if strange and any(isinstance(value, str) for value in values):
        raise ValueError(f"y holds text like {_plain(strange[0])!r}: give numbers, and NaN where a target is missing")
    return y


def _check_lengths(table: Table, y: Array) -> None:
    if len(y) != table.height:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {table.height} rows, y has {len(y)}"
        )


def _check_targets(y: Array, codes: NDArray[np.intp] | None, labels: NDArray[Any], *, named: bool) -> None:
    """No infinite target anywhere; NaN is a target that was not observed."""

    def where(row: int, column: int) -> str:
        if codes is None:
            return f" (target {_plain(labels[column])!r}, row {row})"
        return f" (task {_plain(labels[codes[row]])!r}, row {row})" if named else f" (row {row})"

    infinite = np.argwhere(np.isinf(y))
    if len(infinite):
        row, column = infinite[0][0], infinite[0][-1]
        raise ValueError(f"Input y contains infinity or a value too large for dtype('float64'){where(row, column)}.")
    missing = np.isnan(y)
    if not missing.any():
        return
    if missing.all():
        raise ValueError("Input y contains NaN only: there is no observed target.")
    if codes is None:
        return
    count, gaps = np.bincount(codes, minlength=len(labels)), np.bincount(codes, missing, len(labels))
    # A task without any target is asked for on purpose: it is predicted by the population model.
    left_out = int(gaps[gaps < count].sum())
    if left_out:
        warn_user(f"left out {left_out:,} of {len(y):,} rows without a target")


def _read_weight(sample_weight: Any, n: int) -> Array | None:
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers, one per row: {error}") from None
    weight = np.full(n, float(weight)) if weight.ndim == 0 else weight
    if weight.shape != (n,):
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected ({n},): one weight per row")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    if not weight.any():
        raise ValueError("sample_weight is zero everywhere: at least one non-zero weight is needed")
    return weight


def missing_labels(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a task column has no label."""
    if column.dtype.kind in "fmM":
        return column != column
    if column.dtype.kind != "O":
        return np.zeros(len(column), dtype=bool)
    return np.array([is_missing(value) for value in column], dtype=bool)


def checked_labels(column: NDArray[Any], task: str | int) -> NDArray[Any]:
    """Task labels as one sortable array: integers, strings, booleans or dates."""
    missing = missing_labels(column)
    if missing.any():
        raise ValueError(_missing_label(missing, task))
    if column.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # of what is too large for a whole number
            whole = column.astype(np.int64)
        if (whole != column).any():
            raise ValueError(
                f"task column {task!r} holds fractions like {column[whole != column][0]}: is it a feature? "
                "Task labels are integers, strings, categories, booleans or dates."
            )
        return whole
    if column.dtype.kind != "O":
        return column
    kinds = sorted({type(value).__name__ for value in column})
    if kinds == ["str"]:
        check_lengths(max(map(len, column)), task)
        return _texts(column, f"task column {task!r}")
    if any(np.ndim(value) for value in column):
        raise ValueError(
            f"task column {task!r} has labels of type {kinds[0]}: task labels are integers, strings, categories, "
            "booleans or dates. Several columns that name a task together are given as task=[...]."
        )
    as_numbers = np.array(column.tolist())
    if len(kinds) == 1 or (as_numbers.dtype.kind in "iuf" and "bool" not in kinds):  # True is not task 1
        return checked_labels(as_numbers, task) if as_numbers.dtype.kind != "O" else as_numbers
    raise ValueError(
        f"task column {task!r} mixes labels of type {' and '.join(kinds)}: "
        "make them all one type, e.g. with astype(str)"
    )


def _texts(labels: NDArray[Any], where: str) -> NDArray[Any]:
    """Texts as an array of them, which would cut zero characters off their ends: "a" and "a\\0" would become one."""
    cut = [label for label in labels.tolist() if label.endswith("\0")]
    if cut:
        raise ValueError(f"{where} has the label {cut[0]!r}, which ends in a zero character: strip it from the labels")
    return labels.astype(str)


def check_lengths(longest: int, column: Any) -> None:
    """Labels are names: all rows together take the memory of the longest."""
    if longest > LONGEST_LABEL:
        raise ValueError(
            f"task column {column!r} has a label of {longest:,} characters, more than {LONGEST_LABEL:,}: is it text "
            "rather than a name?"
        )


def _warn_of_look_alikes(labels: NDArray[Any], task: Any) -> None:
    """Warn of tasks whose names differ only in spaces around them."""
    if labels.dtype.kind != "U":
        return
    plain, count = np.unique(np.char.strip(labels), return_counts=True)
    if len(plain) < len(labels):
        name = str(plain[np.argmax(count)])
        alike = ", ".join(repr(str(label)) for label in labels if label.strip() == name)
        warn_user(
            f"task column {task!r} has labels that differ only in spaces ({alike}) and are different tasks: strip "
            "them, if they mean the same"
        )


def _missing_label(missing: NDArray[np.bool_], task: str | int) -> str:
    row = int(np.argmax(missing))
    return f"task column {task!r} has a missing label in row {row}: fill it in or drop the row"
