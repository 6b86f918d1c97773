"""One set of rules by which the columns of a table become numbers: in Python, on the command line, at every size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from kinfolk.rows.folds import Gap
from kinfolk.rows.gram import Array
from kinfolk.rows.levels import Levels, Observed, effects
from kinfolk.rows.table import Table
from kinfolk.rows.texts import (
    MISSING,
    NUMBERS,
    ZEROS,
    as_written,
    day_format,
    kind_of_texts,
    look_like_amounts,
    looks_like_dates,
    mark_of,
    number_in,
    parsed,
    unusual_number,
)
from kinfolk.words import counted, listed

ID = re.compile(r"(?i)(.*[_ .-])?(id|ids|uuid|guid|index|rownames|row|rownumber|row_number|key|unnamed: 0)|[a-z]+I[dD]")
COUNTED = 20  # rows from which on a column that counts them is seen as one
AT_ONCE = 100  # columns in a question: engines plan thousands of expressions badly
CODE = re.compile(
    r"(?i)(.*[_ .-])?(id|code|type|kind|category|zip|zipcode|postcode|plz|fips)|(?-i:[a-z]+(Id|ID|Code|Type))"
)
CODES = range(3, 51)  # different values that codes have: two need no categories, and more are rarely a few kinds
MICROSECONDS = 86_400_000_000  # of a day
CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}  # days


def only_numbers(table: Table) -> bool:
    """Whether all columns are numbers to be taken as they are: none missing, no category, none counts the rows."""
    frame = None if table.names is None else nw.from_native(table.native, pass_through=True)
    if isinstance(frame, nw.DataFrame) and any(map(is_category, frame.collect_schema().values())):
        return False
    for k in range(table.width):
        values = table.column(k)
        if values.dtype.kind not in "iufb" or (values.dtype.kind == "f" and np.isnan(values).any()):
            return False
        if values.dtype.kind in "iu" and counts_rows(values, table.names[k] if table.names else ""):
            return False
    return True


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


class TextCounts(NamedTuple):
    """How often each text of a column occurs, and how many are missing."""

    texts: dict[str, int]
    missing: int


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds words."""
    return kind in (nw.String, nw.Categorical, nw.Enum, nw.Time) or kind == nw.Object


def is_category(kind: Any) -> bool:
    """Whether a column of this type holds categories, whatever their labels look like."""
    return kind in (nw.Categorical, nw.Enum)


def is_date(kind: Any) -> bool:
    """Whether a column of this type holds dates, or dates with times."""
    return kind in (nw.Date, nw.Datetime)


def is_number(kind: Any) -> bool:
    """Whether a column of this type holds numbers, true and false, or durations, which count in days."""
    return bool(kind.is_numeric()) or kind in (nw.Boolean, nw.Duration)


def text_counts(frame: Any, name: str) -> TextCounts:
    """How often each text of a column occurs; of lazy frames the engine counts."""
    kind = frame.collect_schema()[name]
    kept = is_text(kind)  # numbers that are taken for categories came as floats
    stripped = kind == nw.String and frame.implementation.is_polars()  # a hundred times as fast as one by one
    text = frame.select(nw.col(name).str.strip_chars() if stripped else nw.col(name).cast(nw.String))
    counted = here(text.group_by(name, drop_null_keys=False).agg(nw.len().alias("_rows")))
    texts = dict(zip(counted[name].to_list(), counted["_rows"].to_list(), strict=True))
    if stripped:
        return TextCounts(texts, sum(texts.pop(word, 0) for word in (None, *MISSING)))
    counts: Counter[str | None] = Counter()
    for text, count in texts.items():
        counts[as_written(text, kept)] += count
    missing = counts.pop(None, 0)
    return TextCounts({text: count for text, count in counts.items() if text is not None}, missing)


def summaries(frame: Any, names: list[str], schema: Any) -> dict[str, dict[str, Any]]:
    """Counts, means and extremes of columns of numbers and dates, those of many columns in one question."""
    if len(names) > AT_ONCE:
        return summaries(frame, names[:AT_ONCE], schema) | summaries(frame, names[AT_ONCE:], schema)
    asked: dict[str, Any] = {}
    for j, name in enumerate(names):
        parts = (_of_dates if is_date(schema[name]) else _of_numbers)(name, schema[name])
        asked |= {f"{j}_{key}": value.alias(f"{j}_{key}") for key, value in parts.items()}
    if not asked:
        return {}
    with np.errstate(over="ignore", invalid="ignore"):  # squares of values beyond 1e154
        row = here(frame.select(*asked.values())).row(0)
    answers: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in zip(asked, row, strict=True):
        place, what = key.split("_")
        answers[names[int(place)]][what] = None if str(value) == "<NA>" else value  # what pandas says of nothing
    # Different values are counted, which takes longest, only where they can be those of every row.
    whole = [name for name in names if answers[name].get("fraction") == 0.0]
    whole = [name for name in whole if answers[name]["max"] - answers[name]["min"] + 1 >= answers[name]["count"]]
    if whole:
        different = [as_float(nw.col(name), schema[name]).n_unique().alias(name) for name in whole]
        counts = here(frame.select(*different)).row(0)
        for name, count in zip(whole, counts, strict=True):
            answers[name]["distinct"] = count
    return answers


def codes_among(frame: Any, names: Iterable[str]) -> dict[str, int]:
    """Those of these columns of numbers that look like codes, by name and few whole values; and how many values.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"shop_type": [1, 2, 7] * 2, "rooms": [1, 2, 7] * 2, "price_code": [0.5, 1, 2] * 2})
    >>> codes_among(nw.from_native(table), table.columns)
    {'shop_type': 3}
    """
    schema = frame.collect_schema()
    found = {}
    for name in names:
        if CODE.fullmatch(name) and schema[name].is_numeric():
            asked = _of_numbers(name, schema[name])
            asked["values"] = nw.col(name).n_unique()
            parts = [asked[key].alias(key) for key in ("fraction", "count", "rows", "values")]
            fraction, count, rows, values = here(frame.select(*parts)).row(0)
            different = int(values or 0) - (count < rows)  # none is a value too
            if fraction == 0 and different in CODES and 2 * different <= count:
                found[name] = different
    return found


def as_float(column: Any, kind: Any) -> Any:
    """A column or expression of numbers of this type as floats; durations in days."""
    if kind == nw.Duration:
        return column.dt.total_microseconds().cast(nw.Float64) / MICROSECONDS
    return column.cast(nw.Float64)


def _of_numbers(name: str, kind: Any) -> dict[str, Any]:
    number = as_float(nw.col(name), kind)
    number = nw.when(~number.is_nan()).then(number)
    return {
        "min": number.min(),
        "max": number.max(),
        "mean": number.mean(),
        "std": number.std(ddof=0),
        "fraction": (number - number.floor()).max(),
        "count": number.count(),
        "rows": nw.len(),
    }


def _of_dates(name: str, kind: Any) -> dict[str, Any]:
    date = nw.col(name)
    time = date.dt.timestamp("us")
    parts = {"min": time.min(), "max": time.max(), "count": date.count(), "rows": nw.len()}
    parts |= {"year": date.dt.ordinal_day().n_unique(), "week": date.dt.weekday().n_unique()}
    return parts | ({"day": date.dt.hour().n_unique()} if kind == nw.Datetime else {})


def here(frame: Any) -> Any:
    """The rows of a lazy frame."""
    return frame.collect() if isinstance(frame, nw.LazyFrame) else frame


Rule = dict[str, Any]  # what is done with a column, in numbers and texts, so that it can be stored
# What a rule holds, by the kind of its column; fields in brackets may be missing.
_NUMBER = {
    "mean": "number",
    "std": "number >0",
    "gaps": "truth",
    "[days]": "truth",
    "[codes]": "whole",
    "[unusual]": "a text or None",
}
RULES: dict[str, dict[str, str]] = {
    "number": _NUMBER,
    "comma": _NUMBER,
    "truth": _NUMBER,
    "date": {
        "mean": "number",
        "std": "number >0",
        "origin": "whole",
        "cycles": "cycles",
        "gaps": "truth",
        "[day]": "a way to write days",
    },
    "category": {
        "levels": "texts",
        "[rows]": "rows of levels",
        "others": "truth",
        "gaps": "truth",
        "[dates]": "truth",
        "[given]": "truth",
        "[found]": "whole",
        "[rare]": "number",
    },
    "learned": {
        "levels": "texts",
        "[rows]": "rows of levels",
        "effects": "numbers",
        "std": "number >0",
        "gaps": "truth",
    },
}


def names_of(name: str, rule: Rule) -> list[str]:
    """Names of the features of a column."""
    gaps = [f"{name}_missing"] if rule["gaps"] else []
    if rule["kind"] == "category":
        others = [f"{name}_(other)"] if rule["others"] else []
        return [*(f"{name}_{level}" for level in _own_columns(rule)), *others, *gaps]
    if rule["kind"] == "date":
        return [f"{name}_days", *(f"{name}_{w}_of_{c}" for c in rule["cycles"] for w in ("sin", "cos")), *gaps]
    return [name, *gaps]


def _own_columns(rule: Rule) -> list[str]:
    """Levels with a column of their own: of two, one says it all."""
    levels: list[str] = rule["levels"]
    return levels[1:] if len(levels) == 2 and not rule["others"] and not rule["gaps"] else levels


def encoded(series: Any, rule: Rule, scale: bool) -> list[Array]:
    """The features of one column."""
    if rule["kind"] == "category":
        missing = missing_in(series)
        columns = _one_hot(np.array(texts_of(series), dtype=object), rule, missing)
    elif rule["kind"] == "learned":
        number = level_numbers(series, rule)
        missing = missing_in(series)
        columns = [np.append(rule["effects"], 0.0)[number] / (rule["std"] if scale else 1.0)]
    else:
        values = _floats(series, rule)
        missing = np.isnan(values)
        shift, unit = (rule["mean"], rule["std"]) if scale else (0.0, 1.0)
        columns = [(np.where(missing, rule["mean"], values) - shift) / unit]
        if rule["kind"] == "date":
            angles = [2 * np.pi * (values + rule["origin"] / MICROSECONDS) / CYCLES[c] for c in rule["cycles"]]
            waves = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
            columns += [np.where(missing, 0.0, wave) for wave in waves]
    return [*columns, missing.astype(float)] if rule["gaps"] else columns


def level_numbers(series: Any, rule: Rule) -> NDArray[np.intp]:
    """The number of every row's value among those of a rule; -1 for none and for one that fit has not seen."""
    place = {level: k for k, level in enumerate(rule["levels"])}
    return np.array([place.get(text, -1) for text in texts_of(series)], dtype=np.intp)


def _one_hot(values: NDArray[Any], rule: Rule, missing: NDArray[np.bool_]) -> list[Array]:
    columns = [(values == level).astype(float) for level in _own_columns(rule)]
    if rule["others"]:
        columns.append(1.0 - sum(columns) - missing)
    return columns


def _floats(series: Any, rule: Rule) -> Array:
    """A column of numbers, truth values or dates as floats, NaN where nothing stands; dates as days since the first."""
    if rule["kind"] != "date":
        if not is_text(series.dtype):
            return _as_floats(series)
        return _from_texts(series, lambda text: number_in(text, mark_of(rule["kind"])), "a number")
    if is_text(series.dtype):
        day = rule.get("day") or day_format([text for text in set(texts_of(series)) if text is not None]) or ""
        times = _from_texts(series, lambda text: parsed(text, day), "a date")
    else:
        times = _as_floats(series.dt.timestamp("us"))
    return (times - rule["origin"]) / MICROSECONDS


def _as_floats(series: Any) -> Array:
    return np.asarray(as_float(series, series.dtype).to_numpy(), dtype=np.float64)


def _from_texts(series: Any, read: Any, what: str) -> Array:
    """Each different text is read once."""
    texts = texts_of(series)
    known = {text: np.nan if text is None else read(text) for text in set(texts)}
    for text, value in known.items():
        if value is None:
            raise ValueError(f"column {series.name!r} holds {text!r}, but it was {what} in fit: correct or empty it")
    return np.array([known[text] for text in texts], dtype=float)


def texts_of(series: Any) -> list[str | None]:
    """Values as text, None where nothing stands."""
    words = is_text(series.dtype)
    values = series.to_list() if words else series.cast(nw.String).to_list()
    known = {value: as_written(value, words) for value in set(values)}
    return [known[value] for value in values]


def missing_in(series: Any) -> NDArray[np.bool_]:
    """Where nothing stands."""
    if is_text(series.dtype):
        return np.array([text is None for text in texts_of(series)])
    return np.isnan(_as_floats(series)) if series.dtype.is_float() else series.is_null().to_numpy()


REASONS = {
    "constant": "left out, since the same in all rows: {}",
    "empty": "left out, since empty: {}",
    "id": "left out, since it numbers or names the rows and tells nothing about others: {}",
    "dates": "left out, since it looks like dates, but not all in one way of writing (write 2024-05-31): {}",
    "amounts": "left out, since it looks like numbers with a unit (write 20.3, not 20.3 C): {}",
    "names": "left out, since nearly every row has a text of its own: {}",
}


class Trouble(NamedTuple):
    """Why a column can neither be used nor left out without asking, and a value that shows it."""

    text: str
    value: Any = None


class TableRules(TransformerMixin, BaseEstimator):
    """Numbers from the columns of a table.

    ================  ==================================================================================
    column            becomes
    ================  ==================================================================================
    numbers           itself; missing values the mean, and a second column says where they were
    true and false    1 and 0
    text              one column of 0 and 1 per value
    the same of many  what each value adds to the target beyond the task; without a target, or if nothing is to be
    values            learned, one column per frequent value, `max_categories` at most, and the others together
    dates and times   days since the first; sine and cosine of the time of year, week and day, where they differ
    durations         days
    row numbers, ids  nothing: what counts the rows, or names each of them, knows nothing about the next
    one value, none   nothing
    ================  ==================================================================================

    Parameters
    ----------
    categorical : columns to take as categories, even if they hold numbers
    max_categories : values of a text column that get a column of their own
    learn : whether text of more values becomes what these add to the target
    scale : whether numbers and dates are put on one scale
    kinds : what columns hold, by name, as found in all rows; by default found in the rows of fit, and columns that
        carry nothing are left out

    Attributes
    ----------
    rules_ : what is done with each column that is used
    left_out_ : why the others are not, by name
    problems_ : columns that can neither be used nor left out without asking

    Examples
    --------
    >>> import pandas as pd
    >>> rules = TableRules().fit(pd.DataFrame({"size": [1.0, None, 3.0], "town": ["Bonn", "Rome", "Rome"]}))
    >>> rules.get_feature_names_out()
    array(['size', 'size_missing', 'town_Rome'], dtype=object)
    >>> rules.transform(pd.DataFrame({"size": [None, 2.0], "town": ["Rome", "Oslo"]}))
    array([[2., 1., 1.],
           [2., 0., 0.]])
    """

    def __init__(
        self,
        *,
        categorical: Iterable[str] = (),
        max_categories: int = 50,
        learn: bool = True,
        scale: bool = False,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        self.categorical = categorical
        self.max_categories = max_categories
        self.learn = learn
        self.scale = scale
        self.kinds = kinds

    def fit(
        self, X: Any, y: Any = None, task: NDArray[np.intp] | None = None, sample_weight: Array | None = None
    ) -> Self:
        """Find out what the columns hold; lazy frames are asked for summaries of their columns.

        With targets, also what each value of a text column of many adds to them, beyond the rows' tasks (by number).
        """
        self.read(X, learn=y is not None)
        if self.problems_:
            problems = ". ".join(problem.text for problem in self.problems_.values())
            names = list(self.problems_)
            told = f"take the columns as categories: categorical={names}, or drop them"
            raise ValueError(f"{problems}. Correct or empty these values, {told}")
        learned = [rule for rule in self.rules_.values() if rule["kind"] == "learned"]
        for rule in learned:
            rule |= {"effects": [0.0] * len(rule["levels"]), "std": 1.0}
        if learned:
            levels = self.levels(X)
            others = np.delete(self.transform(X), [column.place for column in levels], axis=1)
            found = effects(levels, Observed.of(np.asarray(y, dtype=np.float64), task, sample_weight), others)
            for rule, column, values in zip(learned, levels, found, strict=True):
                std = float(np.std(np.append(values, 0.0)[column.number])) or 1.0
                rule |= {"effects": values.tolist(), "std": std}
        return self

    def read(self, X: Any, decimal: str = ".", *, learn: bool = True) -> Self:
        """As `fit`, but problems are collected and nothing is raised; `decimal` is the likely mark of texts."""
        frame = nw.from_native(X)
        schema = frame.collect_schema()
        names = [name for name in schema if self.kinds is None or name in self.kinds]
        texts = [name for name in names if is_text(schema[name]) or name in self.categorical]
        summed = [name for name in names if name not in texts and (is_number(schema[name]) or is_date(schema[name]))]
        found = summaries(frame, summed, schema)
        said = {name for name in texts if name in self.categorical or is_category(schema[name])}
        verdicts: dict[str, Any] = {
            name: self._of_text(name, text_counts(frame, name), "" if name in said else decimal, learn and self.learn)
            for name in texts
        }
        verdicts |= {name: self._of_number(name, found[name], schema[name]) for name in summed}
        verdicts = {name: verdicts.get(name) or _of_strange_type(name, frame, schema[name]) for name in names}
        self.rules_ = {name: rule for name, rule in verdicts.items() if isinstance(rule, dict)}
        self.left_out_ = {name: why for name, why in verdicts.items() if isinstance(why, str)}
        self.problems_ = {name: problem for name, problem in verdicts.items() if isinstance(problem, Trouble)}
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        for name, count in codes_among(frame, [n for n, r in self.rules_.items() if r["kind"] == "number"]).items():
            self.rules_[name]["codes"] = count
        return self

    def transform(self, X: Any) -> Array:
        """The features of a data frame: columns are found by name, others are ignored."""
        frame = nw.from_native(X, eager_only=True)
        parts = [encoded(frame[name], rule, self.scale) for name, rule in self.rules_.items()]
        return np.column_stack([column for part in parts for column in part])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features."""
        return np.array([out for name, rule in self.rules_.items() for out in names_of(name, rule)], dtype=object)

    def sources(self) -> list[str]:
        """The column that every feature comes from."""
        return [name for name, rule in self.rules_.items() for _ in names_of(name, rule)]

    def column_of(self, feature: str) -> str:
        """The column of the table that a feature is made from."""
        return next(name for name, rule in self.rules_.items() if feature in names_of(name, rule))

    @property
    def plain(self) -> bool:
        """Whether the columns in use are numbers without gaps."""
        return all(rule["kind"] in NUMBERS and not rule["gaps"] for rule in self.rules_.values())

    @property
    def found_kinds(self) -> dict[str, str]:
        """What the columns in use hold, for `kinds` of a copy that is fitted to some of the rows."""
        return {name: rule["kind"] for name, rule in self.rules_.items()}

    def _places(self) -> list[tuple[Rule, int, int]]:
        """The rule of every column, and the places of its first and its last feature."""
        widths = [len(names_of(name, rule)) for name, rule in self.rules_.items()]
        ends = np.cumsum(widths).tolist()
        return [(r, end - w, end - 1) for r, w, end in zip(self.rules_.values(), widths, ends, strict=True)]

    def gaps(self) -> list[Gap]:
        """Where the features of numbers with missing values are, and what was filled in."""
        return [
            Gap(first, last, 0.0 if self.scale else rule["mean"])
            for rule, first, last in self._places()
            if rule["gaps"] and rule["kind"] in NUMBERS
        ]

    def levels(self, X: Any) -> list[Levels]:
        """Text of many values in a table: the places of its features, and the number of every row's value."""
        frame = nw.from_native(X, eager_only=True)
        found = []
        for name, (rule, first, _) in zip(self.rules_, self._places(), strict=True):
            if rule["kind"] == "learned":
                unit = rule["std"] if self.scale else 1.0
                found.append(Levels(first, level_numbers(frame[name], rule), len(rule["levels"]), unit))
        return found

    def numbers(self) -> NDArray[np.intp]:
        """Where the features of numbers are."""
        return np.array([first for rule, first, _ in self._places() if rule["kind"] in NUMBERS], dtype=np.intp)

    def categories(self) -> set[str]:
        """Names of the features that are 1 in the rows with one value of a text, and 0 in others."""
        return {out for name, r in self.rules_.items() if r["kind"] == "category" for out in names_of(name, r)}

    def notes(self) -> list[str]:
        """What is done with columns that are no plain numbers, in sentences."""
        of = {kind: [n for n, rule in self.rules_.items() if rule["kind"] == kind] for kind in ("truth", "date")}
        gaps = [name for name, rule in self.rules_.items() if rule["gaps"]]
        about = {
            **{REASONS[w]: [n for n, why in self.left_out_.items() if why == w] for w in REASONS},
            "true and false become 1 and 0: {}": of["truth"],
            "dates become days since the first, and the time of year, week and day where it varies: {}": of["date"],
            "durations are counted in days: {}": [name for name, rule in self.rules_.items() if rule.get("days")],
            "missing values are filled in, and a column says where they were: {}": gaps,
        }
        notes = []
        for name, rule in self.rules_.items():
            if rule["kind"] == "category":
                notes.append(_note_of_text(name, rule, self.learn))
            if rule.get("codes"):
                notes.append(note_of_codes(name, rule["codes"]))
            if rule.get("unusual"):
                number = number_in(rule["unusual"], mark_of(rule["kind"]))
                notes.append(f"column {name!r} is read as numbers: {rule['unusual']!r} is {number:.12g}")
            if not rule.get("given") and look_like_amounts(rule.get("levels", ())):
                told = f"as in {rule['levels'][0]!r}: without the unit they would be numbers"
                notes.append(f"column {name!r} looks like numbers with a unit, {told}")
        many = [f"{name!r} ({len(r['levels']):,})" for name, r in self.rules_.items() if r["kind"] == "learned"]
        if many:
            notes.append(
                "text with many categories becomes one number, what each category adds to the target, learned from "
                f"other rows: {listed(many)}"
            )
        return notes + [sentence.format(some(names)) for sentence, names in about.items() if names]

    def remarks(self, X: Any) -> list[str]:
        """What new rows have that those of fit had not: categories and gaps."""
        frame = nw.from_native(X, eager_only=True)
        said = []
        for name, rule in self.rules_.items():
            known = rule["kind"] == "learned" or (rule["kind"] == "category" and not rule["others"])
            values = texts_of(frame[name]) if known else []
            unknown = {value for value in values if value is not None} - set(rule.get("levels", ()))
            if unknown:
                rows = counted(sum(value in unknown for value in values), "row")
                count_as = "their mean" if rule["kind"] == "learned" else "none of the known ones"
                said.append(
                    f"column {name!r}: {rows} with categories that fit has not seen ({some(sorted(unknown))}), which "
                    f"count as {count_as}"
                )
            gaps = int(missing_in(frame[name]).sum())
            if gaps and not rule["gaps"]:
                said.append(note_of_gaps(name, gaps))
        return said

    def _of_number(self, name: str, found: dict[str, Any], kind: Any) -> Rule | str | Trouble:
        """What to do with a column of numbers, truth values or dates."""
        free = self.kinds is None
        gaps = found["count"] < found["rows"]
        if not found["count"]:
            return "empty" if free else {"kind": "number", "mean": 0.0, "std": 1.0, "gaps": True}
        if free and found["min"] == found["max"] and not gaps:
            return "constant"
        if is_date(kind):
            several = {cycle: (found.get(cycle) or 0) > 1 for cycle in CYCLES}
            return {"kind": "date", **_date_rule(found["min"], found["max"], several), "gaps": gaps}
        if not np.isfinite([found["min"], found["max"]]).all():
            return Trouble(f"column {name!r} is infinite there", float("inf"))
        if free and not gaps and _names_rows(name, found):
            return "id"
        what = "truth" if kind == nw.Boolean else "number"
        rule = {"kind": what, **_middle(found["mean"], found["std"], found["min"], found["max"]), "gaps": gaps}
        return rule | ({"days": True} if kind == nw.Duration else {})

    def _of_text(self, name: str, found: TextCounts, decimal: str, learn: bool) -> Rule | str | Trouble:
        """What to do with a column of texts; without a `decimal` mark, of categories, whatever they look like."""
        free = self.kinds is None
        texts, gaps = found.texts, found.missing > 0
        kind = kind_of_texts(list(texts), decimal) if decimal or not texts else "category"
        # The zeros of 01067 are part of its name.
        kind = "category" if kind in ("number", "comma") and any(map(ZEROS.fullmatch, texts)) else kind
        kind = kind if self.kinds is None else self.kinds[name]
        if kind == "empty" or (free and len(texts) == 1 and not gaps):
            return "empty" if kind == "empty" else "constant"
        if kind == "mixed":
            return trouble_with(name, list(texts))
        if kind == "learned" and learn:
            return {"kind": kind, **_counted(texts), "gaps": gaps}
        if not texts:
            return {"kind": "category", "levels": [], "rows": [], "others": False, "gaps": True}
        if kind == "date":
            day = day_format(list(texts))
            times = [time for text in texts if (time := parsed(text, day or "")) is not None]
            return {"kind": "date", "day": day, **_date_rule(min(times), max(times), _cycles(times)), "gaps": gaps}
        if kind in NUMBERS:
            return _of_numbers_as_text(name, kind, texts, gaps)
        many = len(texts) > self.max_categories
        if free and many and 2 * len(texts) > sum(texts.values()) and name not in self.categorical:
            if looks_like_dates(texts):
                return "dates"
            return "amounts" if look_like_amounts(texts) else "names"
        if free and many and learn:
            return {"kind": "learned", **_counted(texts), "gaps": gaps}
        frequent = sorted(texts, key=lambda text: (-texts[text], text))[: self.max_categories]
        used = {text: texts[text] for text in frequent} if many else texts
        rule = {"kind": "category", **_counted(used), "others": many, "gaps": gaps}
        rule |= {"dates": looks_like_dates(texts)} if decimal else {"given": True}
        if many:
            rule |= {"found": len(texts), "rare": 1 - sum(texts[text] for text in frequent) / sum(texts.values())}
        return rule


def _counted(texts: Mapping[str, int]) -> Rule:
    """The categories of a column in order, and the rows of each."""
    return {"levels": sorted(texts), "rows": [texts[text] for text in sorted(texts)]}


def _of_numbers_as_text(name: str, kind: str, texts: dict[str, int], gaps: bool) -> Rule | Trouble:
    values = np.array([number_in(text, mark_of(kind)) for text in texts], dtype=float)
    if not np.isfinite(values).all():
        return Trouble(f"column {name!r} is too large for a number there", max(texts, key=len)[:40])
    rows = np.array(list(texts.values()))
    mean = float(np.average(values, weights=rows))
    std = float(np.sqrt(np.average((values - mean) ** 2, weights=rows)))
    middle = _middle(mean, std, values.min(), values.max())
    return {"kind": kind, **middle, "gaps": gaps, "unusual": unusual_number(texts)}


def _of_strange_type(name: str, frame: Any, kind: Any) -> Trouble:
    """The trouble with a column whose type no rule knows: periods of pandas, complex numbers, lists, structures."""
    own = kind
    if kind == nw.Unknown and isinstance(frame, nw.DataFrame):  # narwhals has no name for it
        own = getattr(frame.to_native()[name], "dtype", kind)
    return Trouble(f"column {name!r} holds values of type {own}, which are neither numbers, dates nor text")


def _note_of_text(name: str, rule: Rule, learn: bool) -> str:
    levels = f"{len(rule['levels']):,}"
    count = f"{levels} categories"
    if rule["others"]:
        rest = f"the others, {100 * rule['rare']:.0f} % of the rows, share a column"
        count = f"the {levels} most frequent of {rule['found']:,} categories; {rest}"
        count += "" if learn else "; in memory it would be one number, learned from the target"
    what = "holds categories" if rule.get("given") else "is text"
    what = "looks like dates, but not all in one way of writing (write 2024-05-31)," if rule.get("dates") else what
    return f"column {name!r} {what} and is one-hot encoded ({count})"


def note_of_gaps(name: str, count: int) -> str:
    """How missing values of new rows are filled in, of a column that had none in fit."""
    return f"column {name!r}: {counted(count, 'missing value')}, filled in as the mean of fit"


def note_of_codes(name: str, count: int) -> str:
    """How to make categories of whole numbers that are called codes."""
    return (
        f"column {name!r} has {count} different whole numbers, which count as one number with one slope: if they are "
        f"codes, categorical=[{name!r}] (--categorical {name}) makes categories of them"
    )


def _names_rows(name: str, found: dict[str, Any]) -> bool:
    """Whether a column counts the rows, in any order, or is called an id and is different in every row."""
    unique = found["fraction"] == 0.0 and found.get("distinct") == found["count"]
    return unique and may_count_rows(found["count"], found["max"] - found["min"], name)


def _middle(mean: float, std: float, low: float, high: float) -> dict[str, float]:
    """Mean and unit of a column. Rounding must not fill a gap of a constant column with another value than its own."""
    if low == high:
        return {"mean": float(low), "std": 1.0}
    unit = float(std) if np.isfinite(std) and std > 0 else float(max(abs(low), abs(high)))
    return {"mean": float(np.clip(mean, low, high)), "std": unit}


def _date_rule(low: int, high: int, several: dict[str, bool]) -> Rule:
    """Days since the first date, and the cycles that the dates go through at least once and a half."""
    span = (high - low) / MICROSECONDS
    cycles = [cycle for cycle, days in CYCLES.items() if several[cycle] and span >= 1.5 * days]
    # The mean and the deviation of days spread evenly.
    return {"origin": int(low), "mean": span / 2, "std": float(span / np.sqrt(12)) or 1.0, "cycles": cycles}


def _cycles(times: list[Any]) -> dict[str, bool]:
    return {cycle: bool(np.ptp(np.array(times) / MICROSECONDS % length) > 1e-6) for cycle, length in CYCLES.items()}


def trouble_with(name: str, texts: list[str]) -> Trouble:
    """What is wrong with a column of numbers and some text."""
    strange = [text for text in texts if number_in(text) is None]
    more = f" (and {len(strange) - 1:,} more)" if len(strange) > 1 else ""
    return Trouble(f"column {name!r} holds numbers, but here {strange[0]!r}{more}", strange[0])


def some(names: Iterable[str]) -> str:
    """Up to eight names."""
    names = list(names)
    return ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
