"""What the columns of a table hold: summaries of numbers and dates, and what texts are."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import narwhals as nw

TRUTH = {"true": 1.0, "false": 0.0}
DATE = re.compile(r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4})([ T].*)?|\d{1,2}:\d{2}(:\d{2}.*)?")
DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "")
HOURS = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%H:%M:%SZ", "%H:%M:%S%z")
DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+")
AT_ONCE = 100  # columns in a question: engines plan thousands of expressions badly
FIRST = 1000  # texts that are looked at before all are
MICROSECONDS = 86_400_000_000  # of a day
CYCLES = {"year": 365.2425, "week": 7.0, "day": 1.0}  # days


def kind_of_texts(texts: list[str]) -> str:
    """What the different texts of a column are: category, truth, date, number, mixed (numbers and some text), comma
    (numbers with a decimal comma) or empty.

    Examples
    --------
    >>> [kind_of_texts(v) for v in (["a"], ["true", "False"], ["2024-05-01"], ["1", "2", "x"], ["1,5", "2"], [])]
    ['category', 'truth', 'date', 'mixed', 'comma', 'empty']
    """
    if not texts:
        return "empty"
    if len(texts) <= 6 and {text.lower() for text in texts} <= set(TRUTH):
        return "truth"
    if day_format(texts) is not None:
        return "date"
    # Of many different texts the first tell whether these are numbers at all.
    if not any(number_in(text) is not None for text in texts[:FIRST]):
        return "category"
    numeric = sum(number_in(text) is not None for text in texts)
    if numeric == len(texts):
        return "number"
    if any(map(DECIMAL_COMMA.fullmatch, texts)) and all(number_in(t.replace(",", ".")) is not None for t in texts):
        return "comma"
    return "mixed" if 2 * numeric >= len(texts) else "category"


def day_format(texts: list[str]) -> str | None:
    """How all of these texts write their days, the day before the month where both can be; None if they are no dates.

    >>> day_format(["1/2/2024", "1/13/2024 10:30"]), day_format(["1/2/2024"]), day_format(["Monday"])
    ('%m/%d/%Y', '%d/%m/%Y', None)
    """
    if not all(map(DATE.fullmatch, texts)):
        return None
    return next((day for day in DAYS if all(parsed(text, day) is not None for text in texts)), None)


def parsed(text: str, day: str) -> int | None:
    """A date or time, whose day is written like this, as microseconds since 1970; None if it is neither."""
    mark = "T" if "T" in text else " "
    for hour in HOURS:
        try:
            time = datetime.strptime(text, f"{day}{mark if day and hour else ''}{hour}")
        except ValueError:
            continue
        zone = time.utcoffset() or timedelta()
        return round((time.replace(tzinfo=None) - zone - datetime(1970, 1, 1)) / timedelta(microseconds=1))
    return None


class TextCounts(NamedTuple):
    """How often each text of a column occurs, and how many are missing."""

    texts: dict[str, int]
    missing: int


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds words."""
    return kind in (nw.String, nw.Categorical, nw.Enum) or kind == nw.Object


def text_counts(frame: Any, name: str) -> TextCounts:
    """How often each text of a column occurs; of lazy frames the engine counts."""
    kept = is_text(frame.collect_schema()[name])  # numbers that are taken for categories came as floats
    text = frame.select(nw.col(name).cast(nw.String))
    counted = here(text.group_by(name, drop_null_keys=False).agg(nw.len().alias("_rows")))
    texts = dict(zip(counted[name].to_list(), counted["_rows"].to_list(), strict=True))
    gone = [text for text in texts if is_missing(text) or (text == "nan" and not kept)]
    missing = sum(texts.pop(text) for text in gone)
    if not kept:
        texts = {plain_number(text): count for text, count in texts.items()}
    return TextCounts(texts, missing)


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: pandas writes None, NaN, NaT or NA.

    >>> is_missing(None), is_missing(float("nan")), is_missing("nan"), is_missing(0)
    (True, True, False, False)
    """
    return not isinstance(value, str) and str(value) in ("None", "nan", "NaT", "<NA>")


def plain_number(text: str) -> str:
    """Whole numbers that came as floats, as people write them.

    >>> plain_number("7.0"), plain_number("7.5")
    ('7', '7.5')
    """
    return text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text


def summaries(frame: Any, names: list[str], schema: Any) -> dict[str, dict[str, Any]]:
    """Counts, means and extremes of columns of numbers and dates, those of many columns in one question."""
    if len(names) > AT_ONCE:
        return summaries(frame, names[:AT_ONCE], schema) | summaries(frame, names[AT_ONCE:], schema)
    asked: dict[str, Any] = {}
    for j, name in enumerate(names):
        parts = _of_dates(name, schema[name]) if schema[name] in (nw.Date, nw.Datetime) else _of_numbers(name)
        asked |= {f"{j}_{key}": value.alias(f"{j}_{key}") for key, value in parts.items()}
    if not asked:
        return {}
    row = here(frame.select(*asked.values())).row(0)
    answers: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in zip(asked, row, strict=True):
        place, what = key.split("_")
        answers[names[int(place)]][what] = value
    # Different values are counted, which takes longest, only where they can be those of every row.
    whole = [name for name in names if answers[name].get("fraction") == 0.0]
    if whole:
        counts = here(frame.select(*(_number(name).n_unique().alias(name) for name in whole))).row(0)
        for name, count in zip(whole, counts, strict=True):
            answers[name]["distinct"] = count
    return answers


def _number(name: str) -> Any:
    number = nw.col(name).cast(nw.Float64)
    return nw.when(~number.is_nan()).then(number)


def _of_numbers(name: str) -> dict[str, Any]:
    number = _number(name)
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


def number_in(text: str) -> float | None:
    """A text as a number, true and false as 1 and 0; None if it is neither.

    >>> number_in("1e3"), number_in("True"), number_in("1_000")
    (1000.0, 1.0, None)
    """
    low = text.lower()
    if low in TRUTH:
        return TRUTH[low]
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None
