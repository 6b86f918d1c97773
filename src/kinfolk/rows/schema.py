"""What a model remembers about tables: the rules by which one became features, for every table that comes later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from kinfolk.declared import holds
from kinfolk.rows.columns import TableRules, codes_among, note_of_codes, note_of_gaps, only_numbers, some
from kinfolk.rows.folds import Folds, Gap, folds_as_seen, numbered_folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.levels import PARTS, CrossFitted
from kinfolk.rows.offsets import NO_OFFSETS, Offsets
from kinfolk.rows.splits import InTime, fold_of_rows
from kinfolk.rows.table import (
    Rows,
    Schema,
    Table,
    check_same_kind,
    joint_parts,
    matched_table,
    read_for_predict,
    read_rows,
)
from kinfolk.words import warn_user

FAR = 1 / 2  # of the width between the limits: rows nearer to them are clipped without a word, as any sample has some


class ReadRows(NamedTuple):
    """Features of new rows, clipped to what a model trusts; their labels; which rows were clipped, and as they were.

    `inputs` are the features before the basis; `note` is a warning about rows far out, or empty. `offset` (n,) is added
    to the linear predictor, if there is any.
    """

    features: Array
    labels: NDArray[Any] | None
    clipped: NDArray[np.intp]
    unclipped: Array
    inputs: Array
    unclipped_inputs: Array
    note: str = ""
    offset: Array | None = None

    def some(self, rows: NDArray[np.intp], columns: Columns | None = None) -> ReadRows:
        """Some of the rows, by position, with the features of other `columns` if given."""
        clipped = np.isin(self.clipped, rows)
        inputs = self.inputs[rows]
        far = self.unclipped_inputs[clipped]
        features, unclipped = (self.features[rows], self.unclipped[clipped])
        if columns is not None:
            features, unclipped = columns.in_basis(inputs), columns.in_basis(far)
        place = np.searchsorted(rows, self.clipped[clipped])
        labels = None if self.labels is None else self.labels[rows]
        offset = None if self.offset is None else self.offset[rows]
        return ReadRows(features, labels, place, unclipped, inputs, far, self.note, offset)


@holds(schema="record T", limits="2 i infinite", means="i", offsets="record")
@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of the table of fit, and the fitted transformers between it and the features.

    Attributes
    ----------
    schema : names and order of the columns, and which of them is the task
    transformer : fitted, for the columns without the task; None for features as they are
    basis : fitted functions of these features, e.g. radial basis functions, or None
    single : whether fit had one target and no task column, so that predict gives one number per row
    limits : (2, d), least and largest value of the features before `basis` to predict with; None for any
    means : (d,), of the features before `basis` in the rows of fit, for gaps in new rows of columns that had none;
        None if not known
    offsets : columns of X beside those of the schema, which are added to the linear predictor
    """

    schema: Schema
    transformer: Any = None
    basis: Any = None
    single: bool = False
    limits: Array | None = None
    means: Array | None = None
    offsets: Offsets = NO_OFFSETS

    @property
    def task(self) -> str | int | None:
        """Name or position of the task column; None for wide targets."""
        return self.schema.task

    @property
    def inputs(self) -> int:
        """Number of columns that are not the task."""
        return self.schema.width - (self.schema.task is not None)

    @property
    def steps(self) -> list[Any]:
        """The fitted transformers, in order."""
        return [step for step in (self.transformer, self.basis) if step is not None]

    @property
    def has_rules(self) -> bool:
        """Whether the rules of the package read the columns; they know each by its name."""
        return isinstance(self.transformer, TableRules)

    @property
    def gaps(self) -> list[Gap]:
        """Features with missing values, and what was filled in."""
        return self.transformer.gaps() if isinstance(self.transformer, TableRules) else []

    def column_of(self, feature: str) -> str:
        """The column of the table that a feature before the basis is made from."""
        return self.transformer.column_of(feature) if isinstance(self.transformer, TableRules) else feature

    @property
    def categories(self) -> set[str]:
        """Names of the features that stand for one value of a text."""
        return self.transformer.categories() if isinstance(self.transformer, TableRules) else set()

    def cross_fitted(self, rows: Rows, fold: NDArray[np.intp]) -> CrossFitted | None:
        """How folds make what the features learn from the target; None if they learn nothing from it."""
        if not self.learns:
            return None
        return CrossFitted.of(self.transformer.levels(rows.table.native), rows, fold)

    def sources(self, gram: GramStats) -> list[Any]:
        """The column of the table that every feature comes from, by name or, without names, by position.

        Features of a transformer of the user's are columns of their own, by the names that it gives them.
        """
        if isinstance(self.transformer, TableRules):
            return self.transformer.sources()
        if gram.feature_names is not None:
            return list(gram.feature_names)
        task = self.schema.task if isinstance(self.schema.task, int) else self.schema.width
        return [j + (j >= task) for j in range(gram.n_features)]

    def learned_from_target(self) -> NDArray[np.bool_] | bool:
        """Which features are numbers that stand for the categories of a text."""
        if not isinstance(self.transformer, TableRules):
            return False
        kinds = self.transformer.found_kinds
        return np.array([kinds[source] == "learned" for source in self.transformer.sources()])

    @property
    def learns(self) -> bool:
        """Whether features are learned from the target."""
        return isinstance(self.transformer, TableRules) and "learned" in self.transformer.found_kinds.values()

    def of_training(self, rows: Rows, X: Array) -> Array:
        """The features X of training rows, so that none has seen the target of its own row."""
        if not self.learns:
            return X
        parts = fold_of_rows(rows, X, rows.gram(X, None), cv=PARTS, random_state=0)
        crossed = self.cross_fitted(rows, parts)
        assert crossed is not None
        return self.in_basis(crossed.inputs(self._before_basis(rows, X)))

    def _before_basis(self, rows: Rows, X: Array) -> Array:
        return X if self.basis is None else self._transformed(rows.table)

    def folds_of_rows(
        self, rows: Rows, X: Array, gram: GramStats, *, cv: Any, groups: Any = None, random_state: Any = None
    ) -> Folds:
        """Statistics of folds of training rows with the features X, drawn by `fold_of_rows`."""
        fold = fold_of_rows(rows, X, gram, cv=cv, groups=groups, random_state=random_state)
        return self.folds(rows, X, gram, fold, isinstance(groups, InTime))

    def folds(self, rows: Rows, X: Array, gram: GramStats, fold: NDArray[np.intp], in_time: bool) -> Folds:
        """Statistics of folds of training rows with the features X, each learned from what trains it."""
        crossed = self.cross_fitted(rows, fold)
        if crossed is None:
            return numbered_folds(rows, X, gram, fold, in_time)

        inputs = self._before_basis(rows, X)

        def of(f: int | None) -> Folds:
            seen = self.in_basis(crossed.inputs(inputs, f))
            return numbered_folds(rows, seen, rows.gram(seen, gram.feature_names), fold, in_time)

        return folds_as_seen(of(None), of)

    def seen_by(self, f: int | None, rows: Rows, X: Array, fold: NDArray[np.intp]) -> Array:
        """The features X of training rows as what trains fold f has learned them; None: as all rows have."""
        crossed = self.cross_fitted(rows, fold)
        return X if crossed is None else self.in_basis(crossed.inputs(self._before_basis(rows, X), f))

    def plain_features(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Places of those of the features with these names that are columns of numbers as they are.

        Terms of a basis are none of the user's columns.
        """
        plain: set[str] = set()
        if isinstance(self.transformer, TableRules):
            plain = set(self.transformer.get_feature_names_out()[self.transformer.numbers()])
        elif is_scaler(self.transformer):
            plain = set(self.schema.names or ()) - {self.task}
        return np.array([j for j, name in enumerate(names) if name in plain], dtype=np.intp)

    def features(self, table: Table) -> Array:
        """Features of a table without its task column."""
        return self.in_basis(self._transformed(table))

    @property
    def fills_gaps(self) -> bool:
        """Whether gaps in new rows of named columns, which are numbers as they are, get the means of fit."""
        return self.means is not None and self.schema.names is not None and is_scaler(self.transformer)

    def _transformed(self, table: Table) -> Array:
        fill = self.fills_gaps and table.names is not None
        if self.transformer is None:
            return self._filled(table.features(gaps=fill))
        return self._filled(applied(self.transformer, table.native, gaps=fill))

    def _filled(self, X: Array) -> Array:
        gaps = np.isnan(X)
        return np.where(gaps, np.asarray(self.means), X) if gaps.any() else X

    def in_basis(self, X: Array) -> Array:
        """Functions of features before the basis."""
        return X if self.basis is None or not len(X) else applied(self.basis, X)

    def clipped_features(self, table: Table) -> ReadRows:
        """Features to predict with, of a table without its task column."""
        X = self._transformed(table)
        if self.limits is None:
            return self._as_they_are(X)
        within = np.clip(X, *self.limits)
        rows = np.flatnonzero((within != X).any(axis=1))
        if not len(rows):
            return self._as_they_are(X)
        far = np.abs(within[rows] - X[rows]) > FAR * (self.limits[1] - self.limits[0])
        note = self._note(np.flatnonzero(far.any(axis=0)), table) if far.any() else ""
        return ReadRows(self.in_basis(within), None, rows, self.in_basis(X[rows]), within, X[rows], note)

    def _as_they_are(self, X: Array) -> ReadRows:
        features = self.in_basis(X)
        return ReadRows(features, None, np.empty(0, np.intp), features[:0], X, X[:0])

    def _note(self, which: NDArray[np.intp], table: Table) -> str:
        """The same for the same columns, so that a warning comes once, however many blocks of rows are predicted."""
        assert self.limits is not None
        names = table.names if self.transformer is None else names_out(self.transformer, table.names)
        shown = [
            f"{repr(names[j]) if names else f'feature {j}'} ({self.limits[0, j]:.4g} to {self.limits[1, j]:.4g})"
            for j in which[:3]
        ]
        more = f" and {len(which) - 3} more" if len(which) > 3 else ""
        return (
            f"some rows lie far beyond the training rows, and are predicted at the limits of {', '.join(shown)}{more}; "
            'extrapolate="linear" follows the line wherever it leads'
        )

    def read(self, X: Any, name: str) -> ReadRows:
        """Features of new rows, and their task labels if the table has a task column; `name` is for errors."""
        table, offset = self.offsets.split(X)
        table, labels = read_for_predict(table, self.schema, name, by_name=self.has_rules)
        self._warn_of_news(table)
        return self.clipped_features(table)._replace(labels=labels, offset=offset)

    def read_with_targets(self, X: Any, y: Any, name: str, sample_weight: Any = None) -> tuple[Rows, Array]:
        """Checked rows of a table like that of fit, with targets, and their features."""
        table, offset = self.offsets.split(X)
        table = matched_table(table, self.schema, name, by_name=self.has_rules)
        rows = read_rows(table.native, y, task=self.task, sample_weight=sample_weight)
        rows = replace(rows, offset=offset)
        if rows.schema.task is not None:
            check_same_kind(rows.schema.labels, self.schema.labels)
        self._warn_of_news(rows.table)
        return rows, self.features(rows.table)

    def _warn_of_news(self, table: Table) -> None:
        """Warn of what new rows have that those of fit had not: categories, gaps."""
        if isinstance(self.transformer, TableRules):
            remarks = self.transformer.remarks(table.native)
        else:
            remarks = self._gap_remarks(table) if self.fills_gaps else []
        for remark in remarks:
            warn_user(remark)

    def _gap_remarks(self, table: Table) -> list[str]:
        """How many values of each column of numbers are missing."""
        gaps = np.isnan(table.to_array()).sum(axis=0).tolist() if table.names is not None else []
        return [note_of_gaps(name, count) for name, count in zip(table.names or (), gaps, strict=True) if count]

    def including(self, table: Table) -> Self:
        """The same with limits that hold the rows of a table without its task column; none, if there were too few."""
        if self.limits is None or np.isinf(self.limits).all():
            return replace(self, limits=None)
        X = self._transformed(table)
        low = np.minimum(self.limits[0], X.min(axis=0))
        return replace(self, limits=np.array([low, np.maximum(self.limits[1], X.max(axis=0))]))

    def holding(self, gram: GramStats) -> Self:
        """The same with the means, and with limits that hold the rows, of statistics of more rows."""
        span = gram.span
        limits = self.limits
        if limits is not None and span is not None:
            limits = np.array([np.minimum(limits[0], span[0]), np.maximum(limits[1], span[1])])
        return replace(self, limits=limits, means=gram.mean_features())

    def with_labels(self, labels: NDArray[Any]) -> Self:
        """The same for other tasks."""
        return replace(self, schema=replace(self.schema, labels=labels))

    def attributes(self) -> dict[str, Any]:
        """What scikit-learn expects of a fitted estimator."""
        width = self.schema.width + len(self.offsets.columns)
        found: dict[str, Any] = {"n_features_in_": width, "features_": self.transformer}
        if self.schema.names is not None:
            found["feature_names_in_"] = np.asarray([*self.schema.names, *self.offsets.names], dtype=object)
        return found


def roles_of(facts: Any, common: Sequence[str | int], gram: GramStats, columns: Columns) -> NDArray[np.intp] | None:
    """What features (d,) are by `facts` and `common` of a method, see `GramStats`; everything wrong in one error."""
    if facts is None and not len(common):
        return None
    if hasattr(facts, "columns") and columns.schema.known is None:
        raise ValueError("facts as a frame are joined to rows in memory: join their columns to lazy frames and files")
    sources = columns.sources(gram)
    auto = isinstance(facts, str)
    named = [] if auto or facts is None else fact_names(facts, columns.schema.task)
    constant = gram.constant_within()
    is_fact = constant if auto else np.array([source in named for source in sources]) & ~columns.learned_from_target()
    is_common = np.array([source in common for source in sources])
    varies = is_fact & ~constant & (np.einsum("tjj->j", gram.G) > 0)

    wrong = [f'facts={facts!r}: give "auto", columns, a frame or None'] if auto and facts != "auto" else []
    for what, names in (("facts", named), ("common", common)):
        wrong += [f"{what}: there is no column {name!r} in use" for name in names if name not in sources]
    wrong += [f"facts: column {sources[j]!r} varies within tasks" for j in np.flatnonzero(varies)]
    wrong += [f"column {name!r} is in facts and in common" for name in named if name in common]
    if wrong:
        raise ValueError(f"{'; '.join(wrong)}. Columns in use: {some(map(str, dict.fromkeys(sources)))}")
    number = {source: k + 1 for k, source in enumerate(dict.fromkeys(sources))}
    of_column = np.array([number[source] for source in sources])
    return np.where(is_common, -1, np.where(is_fact & constant, of_column, 0))


def fact_names(facts: Any, task: Any) -> list[Any]:
    """The columns that are facts: those of a frame but the task, or the ones that are named."""
    if not hasattr(facts, "columns"):
        return list(facts)
    return [name for name in facts.columns if name not in (task, *joint_parts(task, facts.columns))]


def ruled(columns: Columns, rows: Rows, categorical: Sequence[str] = ()) -> Columns:
    """The columns with the rules of the package for whatever of a named table is no plain number."""
    schema = columns.schema
    table = rows.table
    check_categorical(categorical, table.names)
    if table.names is None or schema.names is None or (only_numbers(table) and not categorical):
        return columns
    rules = TableRules(categorical=tuple(categorical)).fit(table.native, rows.y, rows.codes, rows.weight)
    if not rules.rules_:
        raise ValueError("no column is left to predict from: " + "; ".join(rules.notes()))
    task = schema.task
    own = task if task is None or isinstance(task, str) else schema.names[task]
    used = tuple(name for name in schema.names if name == own or name in rules.rules_)
    # A position is the one among the columns that are used.
    place = own if own is None or isinstance(task, str) else used.index(own)
    return replace(columns, schema=replace(schema, task=place, names=used, width=len(used)), transformer=rules)


def rules_notes(columns: Columns, rows: Rows) -> list[str]:
    """What was done with the columns of a table by rules of the package, or could be done, in sentences."""
    if isinstance(columns.transformer, TableRules):
        return columns.transformer.notes()
    if rows.table.names is None:
        return []
    frame = nw.from_native(rows.table.native, pass_through=True)
    codes = codes_among(frame, rows.table.names) if isinstance(frame, nw.DataFrame) else {}
    return [note_of_codes(name, count) for name, count in codes.items()]


def check_categorical(categorical: Sequence[str], names: tuple[str, ...] | None) -> None:
    """Refuse what does not name columns of a table."""
    if isinstance(categorical, str) or not all(isinstance(name, str) for name in categorical):
        raise ValueError(f"categorical={categorical!r} must be a list of names of columns, e.g. categorical=['kind']")
    if categorical and names is None:
        raise ValueError(f"categorical={categorical!r}: X has no names of columns. Pass a data frame.")
    for name in categorical:
        if name not in (names or ()):
            listed = ", ".join(map(repr, (names or ())[:8]))
            raise ValueError(f"categorical={categorical!r}: X has no input {name!r}. Its inputs are {listed}.")


def applied(transformer: Any, X: Any, *, gaps: bool = False) -> Array:
    """What a fitted transformer makes of X. Whatever its code says about a table that it cannot take is a ValueError.

    Also if it comes from a model file whose values make no sense to it: only its own code can tell.
    """
    try:
        return as_features(transformer.transform(X), gaps=gaps)
    except (AttributeError, LookupError, OverflowError, TypeError) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ValueError(f"the `features` transformer {type(transformer).__name__} cannot take X ({said})") from error


def is_scaler(transformer: Any) -> bool:
    """Whether a transformer leaves every column what it is, but for its unit."""
    return transformer is None or isinstance(transformer, StandardScaler)


def as_features(X: Any, *, gaps: bool = False) -> Array:
    """The output of a transformer as a dense, finite array; with NaN for missing values, if it may have `gaps`."""
    X = X.toarray() if hasattr(X, "toarray") else X
    X = np.asarray(X, dtype=np.float64)
    if not (np.isfinite(X) | (gaps & np.isnan(X))).all():
        raise ValueError("the `features` transformer returned NaN or infinite values: impute them before or inside it")
    return X


def names_out(transformer: Any, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Names of the features that a transformer makes of columns with these names, if it names them."""
    try:
        return tuple(transformer.get_feature_names_out(None if names is None else np.asarray(names, dtype=object)))
    except (AttributeError, ValueError, TypeError):
        return None
