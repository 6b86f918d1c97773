"""The features of a column by its rule: one-hot columns, effects, dates as days and waves, gaps filled and marked."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from kinfolk.rows.kinds import CYCLES, MICROSECONDS, as_float, as_written, day_format, is_text, number_in, parsed

Array = NDArray[Any]
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


def mark_of(kind: str) -> str:
    """The decimal mark of a column of numbers."""
    return "," if kind == "comma" else "."
