"""One view of pandas, polars, pyarrow and NumPy tables, by what they have in common: named or numbered columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import _safe_indexing, check_array

from kinfolk.rows.gram import Array
from kinfolk.rows.kinds import is_category, is_missing, plain_number
from kinfolk.words import counted

JOINT = " / "  # between the names, and the labels, of several task columns
ID = re.compile(r"(?i)(.*[_ .-])?(id|ids|uuid|guid|index|rownames|row|rownumber|row_number|key|unnamed: 0)|[a-z]+I[dD]")
NULLABLE = re.compile(r"U?Int\d+|Float\d+|boolean")  # numbers of pandas that may be missing
COUNTED = 20  # rows from which on a column that counts them is seen as one


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

    def is_plain(self) -> bool:
        """Whether all columns are numbers to be taken as they are: none missing, no category, none counts the rows."""
        frame = None if self.names is None else nw.from_native(self.native, pass_through=True)
        if isinstance(frame, nw.DataFrame) and any(map(is_category, frame.collect_schema().values())):
            return False
        for k in range(self.width):
            values = self.column(k)
            if values.dtype.kind not in "iufb" or (values.dtype.kind == "f" and np.isnan(values).any()):
                return False
            if values.dtype.kind in "iu" and counts_rows(values, self.names[k] if self.names else ""):
                return False
        return True

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


def counts_rows(values: NDArray[Any], name: str = "") -> bool:
    """Whether whole numbers are a count of the rows, in any order, or differ in all rows and are called an id.

    They know nothing about the next row.

    >>> counts_rows(np.arange(30)[::-1]), counts_rows(np.arange(30) // 2), counts_rows(np.arange(5))
    (True, False, False)
    """
    n = len(values)
    return may_count_rows(n, int(values.max()) - int(values.min()), name) and len(np.unique(values)) == n


def may_count_rows(count: int, span: float, name: str) -> bool:
    """Whether so many different whole numbers count the rows: they have few gaps, or are called an id."""
    return count >= COUNTED and (span < 1.5 * count or ID.fullmatch(name) is not None)


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
