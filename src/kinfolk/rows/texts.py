"""What texts say: numbers as people write them, dates, truth values, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import product
from typing import Any

TRUTH = {"true": 1.0, "false": 0.0}
MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
AMOUNT = re.compile(r"[-+]?\d[\d.,]*\s*([^\W\d_]\D{0,9})")  # a number, and its unit
DATE = re.compile(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3\d{4}|\d{1,2}([/.])\d{1,2}\4\d{2})([ T].*)?"
    rf"|({MONTH}\.? \d{{1,2}},? \d{{4}}|\d{{1,2}}([ -]){MONTH}\7(\d{{4}}|\d{{2}}))( .*)?"
    rf"|{MONTH}[ -]\d{{4}}|\d{{4}}-\d{{2}}|\d{{1,2}}:\d{{2}}(:\d{{2}}.*)?",
    re.IGNORECASE,
)
NAMED = ("{} %d %Y", "{} %d, %Y", "%d {} %Y", "%d-{}-%Y", "%d {} %y", "%d-{}-%y", "{} %Y", "{}-%Y")  # month by name
DAYS = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%Y-%m"),
    *(form.format(month) for month in ("%b", "%B") for form in NAMED),
    "",
)
HOURS = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%H:%M:%SZ", "%H:%M:%S%z")
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "?", "-", "--", "n.a.")
# A number as people write it, by its decimal mark: thousands apart, a currency or per cent, a loss in brackets.
WRITTEN = {
    mark: re.compile(
        rf"\(?[-+]?\s?[$€£¥]?\s?(?:\d{{1,3}}(?:[{thousands}'\s]\d{{3}})+|\d+)(?:[{mark}]\d*)?(?:[eE][-+]?\d+)?\s?[%$€£¥]?\)?"
    )
    for mark, thousands in ((".", ","), (",", "."))
}
PLAIN = re.compile(r"[-+]?[\d.]+([eE][-+]?\d+)?|[-+]?(inf|nan)")
NO_DIGITS = re.compile(r"[^\d.,eE+-]")
NUMBERS = ("number", "comma", "truth")  # kinds of columns that become one number each
ZEROS = re.compile(r"0\d+")  # a code, as postcodes are, not a number
WORDS = ("category", "learned")  # kinds of columns that hold words
DIGITS = re.compile(r"\d+")
FIRST = 1000  # texts that are looked at before all are


def kind_of_texts(texts: list[str], decimal: str = ".") -> str:
    """What the different texts of a column are: category, truth, date, number, mixed (numbers and some text), comma
    (numbers with a decimal comma) or empty; `decimal` is the mark of numbers that can have either.

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
    # Of many different texts the first show whether these are numbers at all.
    if not any(number_in(text, mark) is not None for text in texts[:FIRST] for mark in WRITTEN):
        return "category"
    numeric = 0
    for mark in sorted(WRITTEN, key=lambda mark: mark != decimal):
        numeric = max(numeric, sum(number_in(text, mark) is not None for text in texts))
        if numeric == len(texts):
            return "comma" if mark == "," else "number"
    return "mixed" if 2 * numeric >= len(texts) else "category"


def day_format(texts: list[str]) -> str | None:
    """How these texts write their days, the day before the month where both can be; None if some are no dates.

    >>> day_format(["1/2/2024", "1/13/2024 10:30"]), day_format(["1/2/2024"]), day_format(["Monday"])
    ('%m/%d/%Y', '%d/%m/%Y', None)
    >>> day_format(["2024-05-01", "13.5.2024"]), day_format(["3/1/22", "3/31/22"]), day_format(["Jun 12 1998"])
    ('%Y-%m-%d|%d.%m.%Y', '%m/%d/%y', '%b %d %Y')
    """
    left = texts if all(map(DATE.fullmatch, texts)) else []
    found: list[str] = []
    # Texts that begin alike, as 2024- or 13., write their days alike.
    for start in dict.fromkeys(map(_start, left)):
        alike = [text for text in left if _start(text) == start]
        day = next((day for day in DAYS if all(parsed(text, day) is not None for text in alike)), None)
        if day is None:
            return None
        found.append(day)
    return "|".join(sorted(set(found), key=DAYS.index)) if found else None


def looks_like_dates(texts: Iterable[str]) -> bool:
    """Whether a person would read these texts as dates.

    >>> looks_like_dates(["Sept 3 1998", "Jun 12 1998"]), looks_like_dates(["3 May 1998", "Mayor"])
    (True, False)
    """
    return all(map(DATE.fullmatch, texts))


def look_like_amounts(texts: Iterable[str]) -> bool:
    """Whether these texts are numbers, each with the same unit behind it.

    >>> look_like_amounts(["20.3 C", "7 C"]), look_like_amounts(["3 rooms", "12B"]), look_like_amounts(["ok"])
    (True, False, False)
    """
    found = [AMOUNT.fullmatch(text) for text in texts]
    return len({match[1] if match else None for match in found} - {None}) == 1 and all(found)


def _start(text: str) -> tuple[bool, str]:
    """Whether the year comes first, and what follows the first number; texts that begin with a month are alike."""
    digits = DIGITS.match(text)
    end = digits.end() if digits else 0
    return end == 4, text[end : end + 1] if digits else ""


def parsed(text: str, days: str) -> int | None:
    """A date or time, whose day is written in one of these ways, as microseconds since 1970; None if it is neither."""
    mark = "T" if "T" in text[:-1] and text[text.index("T") + 1].isdigit() else " "
    for day, hour in product(days.split("|"), HOURS):
        try:
            time = datetime.strptime(text, f"{day}{mark if day and hour else ''}{hour}")
        except ValueError:
            continue
        zone = time.utcoffset() or timedelta()
        return round((time.replace(tzinfo=None) - zone - datetime(1970, 1, 1)) / timedelta(microseconds=1))
    return None


def as_written(value: Any, text: bool = True) -> str | None:
    """A value as text without spaces around it; None for what stands for no value. Numbers as people write them.

    >>> as_written(" Rome "), as_written("n/a"), as_written(None), as_written("7.0", False)
    ('Rome', None, None, '7')
    """
    if is_missing(value):
        return None
    word = (value.decode(errors="replace") if isinstance(value, bytes) else str(value)).strip()
    if word in MISSING:
        return None
    return word if text else plain_number(word)


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


def number_in(text: str, mark: str = ".") -> float | None:
    """A text as a number with this decimal mark, true and false as 1 and 0; None if it is neither.

    >>> [number_in(text) for text in ("1e3", "True", "1_000", "$1,250.50", "(7)", "12 %", "1,5")]
    [1000.0, 1.0, None, 1250.5, -7.0, 12.0, None]
    >>> [number_in(text, ",") for text in ("1,5", "1.250,50 €", "2.5")]
    [1.5, 1250.5, None]
    """
    low = text.lower()
    if low in TRUTH:
        return TRUTH[low]
    if WRITTEN[mark].fullmatch(text):
        return float(_plain_digits(text, mark))
    try:
        return float(text) if "_" not in text and mark == "." else None
    except ValueError:
        return None


def unusual_number(texts: Iterable[str]) -> str | None:
    """The first, by the alphabet, of these texts that computers would not write for a number.

    >>> unusual_number(["12", "-1.5e3"]), unusual_number(["12", "2,500", "1,250"])
    (None, '1,250')
    """
    return min((text for text in texts if not PLAIN.fullmatch(text) and text.lower() not in TRUTH), default=None)


def _plain_digits(text: str, mark: str) -> str:
    digits = NO_DIGITS.sub("", text)
    digits = digits.replace(".", "").replace(",", ".") if mark == "," else digits.replace(",", "")
    return f"-{digits}" if text.startswith("(") else digits


def mark_of(kind: str) -> str:
    """The decimal mark of a column of numbers."""
    return "," if kind == "comma" else "."
