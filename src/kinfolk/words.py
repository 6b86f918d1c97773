"""Words for the user: counts, lists and percentages alike for command line, page, notebook and JSON, and warnings."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Sequence
from html import escape
from statistics import median
from typing import Any

LOST = ";color:#b3261e"


def counted(n: int, noun: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(5875, "row"), counted(2, "community")
    ('1 row', '5,875 rows', '2 communities')
    """
    if n == 1:
        return f"1 {noun}"
    return f"{n:,} {noun[:-1]}ies" if noun.endswith("y") else f"{n:,} {noun}s"


def shortened(text: str, most: int) -> str:
    """A text of at most about `most` characters: of a longer one the beginning, the end, and how much is left out.

    Examples
    --------
    >>> shortened("a" * 30 + "b" * 500 + "c" * 10, 40)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa [... 500 characters left out ...] cccccccccc'
    """
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]} [... {len(text) - most:,} characters left out ...] {text[len(text) - end :]}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names as a list in words, the first few of many.

    Examples
    --------
    >>> listed(["a", "b"]), listed(["a", "b", "c"], most=2)
    ('a and b', 'a, b and c')
    >>> listed(["a", "b", "c", "d"], most=2)
    'a, b and 2 more'
    """
    if len(names) > most + 1:  # one more name takes no more room than to say that there is one
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def sizes_of(sizes: Sequence[int]) -> str:
    """How many tasks the groups have: all numbers if they are few, else the least and the largest.

    Examples
    --------
    >>> sizes_of([12, 8]), sizes_of([9, 8, 7, 6, 5, 4, 3])
    ('12 and 8', '3 to 9')
    """
    return listed([f"{size:,}" for size in sizes]) if len(sizes) <= 6 else f"{min(sizes):,} to {max(sizes):,}"


def beginning(lines: Sequence[str], most: int, where: str) -> list[str]:
    """The first of many lines, and where the others are.

    Examples
    --------
    >>> beginning(["a", "b", "c"], 1, "summary()"), beginning(["a"], 1, "summary()")
    (['a', '... and 2 more: see summary()'], ['a'])
    """
    hidden = len(lines) - most
    return [*lines[:most], f"... and {hidden:,} more: see {where}"] if hidden > 0 else list(lines)


def cut(name: str, longest: int = 40) -> str:
    """A name in a sentence: one line, and not too long.

    Examples
    --------
    >>> cut("a  b" + "c" * 100, 8)
    'a bcccc…'
    """
    name = " ".join(name.split())
    return name if len(name) <= longest else name[: longest - 1] + "…"


def written(value: float) -> str:
    """A number as people write it.

    Examples
    --------
    >>> [written(v) for v in (0.123456, 12.0, 5875.0, 123456.7, 1e-9)]
    ['0.1235', '12', '5,875', '123,457', '1e-09']
    """
    return f"{value:,.0f}" if abs(value) >= 1e4 or (abs(value) >= 1000 and value == round(value)) else f"{value:.4g}"


def decimals(values: Sequence[float], digits: int = 4) -> int:
    """Decimals that show the least of some sizes with so many digits, and all of them below each other.

    Examples
    --------
    >>> decimals([11.8, 120.0]), decimals([0.0439]), decimals([5e4]), decimals([0.0])
    (2, 5, 0, 3)
    """
    least = min((abs(value) for value in values if value and math.isfinite(value)), default=1.0)
    return min(max(digits - 1 - math.floor(math.log10(least)), 0), 12)


def middle_decimals(values: Iterable[float], digits: int) -> int:
    """Decimals that show the middle one of some sizes with so many digits: for a column, in which a few may be tiny.

    Examples
    --------
    >>> middle_decimals([120.0, 11.8, 0.001, math.nan], 4)
    2
    """
    return decimals([median([abs(value) for value in values if math.isfinite(value)] or [0.0])], digits)


def percent(share: float, *, sign: bool = False) -> str:
    """A share in per cent, with one decimal, and never a minus before a zero.

    Examples
    --------
    >>> percent(0.1234), percent(-0.0001, sign=True), percent(0.05, sign=True), percent(12.3)
    ('12.3 %', '0.0 %', '+5.0 %', '1,230 %')
    """
    value = round(100 * share, 1) + 0.0  # plus zero: minus zero becomes zero
    plus = "+" if sign and value else ""
    return f"{value:{plus},.1f} %" if abs(value) < 1000 else f"{value:{plus},.0f} %"


def amount(share: float, standard_error: float = math.nan) -> str:
    """The size of a change, with its standard error where there is one.

    Examples
    --------
    >>> amount(-0.031, 0.0042), amount(0.0002, 0.0)
    ('3.1 % (standard error 0.4)', 'less than 0.1 %')
    """
    size = percent(abs(share))
    if size == "0.0 %":
        size = "less than 0.1 %"
    is_known = math.isfinite(standard_error) and round(100 * standard_error, 1) > 0
    return f"{size} (standard error {100 * standard_error:.1f})" if is_known else size


def aligned(rows: list[list[str]]) -> list[str]:
    """Cells as lines of text, the first column to the left, decimal points below each other in the others.

    Examples
    --------
    >>> print("\\n".join(aligned([["task", "error"], ["a", "12.5"], ["bb", "0.75"]])))
    task  error
    a     12.5
    bb     0.75
    """
    columns = [_at_the_point(list(column)) for column in zip(*rows, strict=True)]
    columns[0] = [cell.strip() for cell in columns[0]]
    widths = [max(map(len, column)) for column in columns]
    first = [cell.ljust(widths[0]) for cell in columns[0]]
    others = [[cell.ljust(w) for cell in column] for column, w in zip(columns[1:], widths[1:], strict=True)]
    return ["  ".join(cells).rstrip() for cells in zip(first, *others, strict=True)]


def _at_the_point(column: list[str]) -> list[str]:
    """Numbers with spaces in front, so that their decimal points stand below each other; the head stays."""
    before = [len(cell.split(" ")[0].split(".")[0]) for cell in column[1:]]
    most = max(before, default=0)
    return [column[0], *(" " * (most - size) + cell for size, cell in zip(before, column[1:], strict=True))]


def captioned(title: str, *remarks: str) -> str:
    """A title with what is to be known about the table below it, in brackets.

    Examples
    --------
    >>> captioned("Tasks", "", "the first 30"), captioned("Tasks", "")
    ('Tasks (the first 30)', 'Tasks')
    """
    known = "; ".join(remark for remark in remarks if remark)
    return f"{title} ({known})" if known else title


def html_table(rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table for notebooks, the head first: text to the left, numbers to the right, losses coloured.

    Examples
    --------
    >>> html_table([["gain"], ["-5 %"]])
    '<table><tr><th>gain</th></tr><tr><td style="white-space:nowrap;color:#b3261e">-5 %</td></tr></table>'
    """
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    lines = ["".join(f"<th>{escape(name)}</th>" for name in rows[0])]
    lines += [
        "".join(f'<td style="white-space:nowrap{_style(cell)}">{escape(cell)}</td>' for cell in row) for row in rows[1:]
    ]
    return f"<table>{title}{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _style(cell: str) -> str:
    if cell.startswith("-") and cell.endswith("%"):
        return LOST
    return "" if cell[:1] in "+-–0123456789" else ";text-align:left"


def plain(value: Any, digits: int | None = None) -> Any:
    """A value as JSON has it: arrays become lists, NaN and infinity null, what JSON does not know its text.

    Examples
    --------
    >>> plain({"gain": float("inf"), "rmse": [1.5, float("nan")]})
    {'gain': None, 'rmse': [1.5, None]}
    >>> plain((1 / 3, 12), digits=3)
    [0.333, 12]
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, digits) for item in value]
    if isinstance(value, float) and math.isfinite(value):
        return value if digits is None else float(f"{value:.{digits}g}")
    if isinstance(value, float):
        return None
    return value if isinstance(value, str | int | None) else str(value)


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that asked for the work, however deep inside it the reason was found."""
    depth = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("kinfolk."):
        frame = frame.f_back
        depth += 1
    warnings.warn(text, category, stacklevel=depth + 1)
