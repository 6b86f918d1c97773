"""The tables: rows of plain values first, then CSV and Markdown from them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kinfolk.reproduce.methods import METHODS
from kinfolk.reproduce.referee import Difference, paired, pooled_over, spread
from kinfolk.reproduce.runner import Results
from kinfolk.reproduce.settings import Setting

Row = dict[str, Any]
REFERENCES = ("GAMTLCV", "GAMTL")
SPARSE_LOTS = ("BHMBRCBRG01", "BHMBRCBRG02", "BHMBRCBRG03", "Bull Ring")  # one training day each
RECOVERY = {
    "edge_auc": "AUC of true edges",
    "coefficient_auc": "AUC by coefficients",
    "rand_index": "adjusted Rand index",
    "outliers_found": "outliers found",
    "outliers_false": "false outliers",
}


def error_rows(setting: Setting, results: Mapping[str, Any]) -> list[Row]:
    """One row per method of a setting: published and own errors, differences to both forms of GAMTL, and time."""
    rows = []
    for name in dict.fromkeys([*METHODS, *setting.published]):
        cells = results.get(name)
        published = setting.published.get(name)
        if not cells and not published:
            continue
        row: Row = {"method": name, "paper": published[0] if published else None}
        row["paper_sd"] = published[1] if published else None
        if cells:
            row |= _errors(cells)
            for reference in REFERENCES:
                row |= _difference(
                    cells, results.get(reference), setting.metric, reference if reference != name else ""
                )
            row["cpu_seconds"] = float(np.mean([cell["cpu_seconds"] for cell in cells.values()]))
            row["unfinished"] = sum(bool(cell["messages"]) for cell in cells.values())
        rows.append(row)
    return rows


def _errors(cells: Mapping[int, Any]) -> Row:
    row: Row = {"runs": len(cells)}
    for metric in ("tasks", "pooled"):
        row[metric], row[f"{metric}_sd"], _ = spread([cell[metric] for cell in cells.values()])
    return row


def _difference(cells: Any, reference: Any, metric: str, name: str) -> Row:
    found: Difference | None = paired(cells, reference, metric) if name and reference else None
    return {f"minus_{name}": found.mean, f"minus_{name}_se": found.standard_error} if found else {}


def recovery_rows(results: Mapping[str, Any]) -> list[Row]:
    """One row per method of a setting with planted structure: means over runs."""
    rows = []
    for name in METHODS:
        found = [c["recovery"] for c in results.get(name, {}).values() if c.get("recovery")]
        if found:
            row: Row = {"method": name, "runs": len(found)}
            for measure in (*RECOVERY, "outliers_planted", "correlation_auc"):
                values = [f[measure] for f in found if measure in f]
                if values:
                    row[measure] = float(np.mean(values))
                    row[f"{measure}_sd"] = spread(values).sd
            rows.append(row)
    return rows


def sparse_rows(results: Mapping[str, Any]) -> list[Row]:
    """Birmingham: pooled error over the four lots with one training day."""
    return [
        {"method": name, "pooled": spread([pooled_over(c, SPARSE_LOTS) for c in results[name].values()]).mean}
        for name in METHODS
        if name in results
    ]


def time_rows(settings: Iterable[Setting], results: Results) -> list[Row]:
    """Processor seconds of all cells, by part."""
    total: dict[str, list[float]] = {}
    for setting in settings:
        for cells in results.get(setting.key, {}).values():
            total.setdefault(setting.part, []).extend(c["cpu_seconds"] for c in cells.values())
    rows: list[Row] = [{"part": part, "cells": len(s), "cpu_minutes": sum(s) / 60} for part, s in total.items()]
    every = [seconds for part in total.values() for seconds in part]
    return [*rows, {"part": "all", "cells": len(every), "cpu_minutes": sum(every) / 60}]


def to_csv(rows: Sequence[Row]) -> str:
    """All columns that any row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    return text.getvalue()


Cells = list[list[str]]  # a header and rows of text; Markdown and HTML are made of it


def error_cells(setting: Setting, rows: Sequence[Row]) -> Cells:
    """The table of errors as text, the paper's column only where it has numbers."""
    digits = 4 if setting.part in ("birmingham", "wiener") else 3
    mark = {"tasks": "mean over tasks", "pooled": "pooled"}
    first, second = (setting.metric, "pooled" if setting.metric == "tasks" else "tasks")
    paper = any(row["paper"] is not None for row in rows)
    header = ["method", *(["paper"] if paper else []), mark[first], mark[second], *(f"minus {r}" for r in REFERENCES)]
    table = [[*header, "runs", "CPU s"]]
    for row in rows:
        values = [row["method"], *([_pm(row["paper"], row["paper_sd"], digits)] if paper else [])]
        values += [_pm(row.get(m), row.get(f"{m}_sd"), digits) for m in (first, second)]
        values += [_pm(row.get(f"minus_{r}"), row.get(f"minus_{r}_se"), digits, sign=True) for r in REFERENCES]
        values += [str(row.get("runs", "")), _number(row.get("cpu_seconds"), 1)]
        table.append(values)
    return table


def recovery_cells(rows: Sequence[Row]) -> Cells:
    """The table of structure recovery as text."""
    shown = [m for m in RECOVERY if any(m in row for row in rows)]
    if not any(row.get("outliers_planted") for row in rows):
        shown = [m for m in shown if m != "outliers_found"]
    header = ["method", *(RECOVERY[m] for m in shown), "runs"]
    return [header, *([r["method"], *(_recovery_cell(r, m) for m in shown), str(r["runs"])] for r in rows)]


def _recovery_cell(row: Row, measure: str) -> str:
    if measure == "outliers_found" and measure in row:
        return f"{row[measure]:.1f} of {row['outliers_planted']:.0f}"
    if measure == "outliers_false":
        return _number(row.get(measure), 1)
    return _pm(row.get(measure), row.get(f"{measure}_sd"), 2)


def plain_cells(rows: Sequence[Row], digits: int) -> Cells:
    """Any rows as text."""
    names = list(rows[0])
    text = [[_number(v, digits) if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    return [[name.replace("_", " ") for name in names], *text]


def to_markdown(cells: Cells) -> str:
    """A pipe table; numbers to the right."""
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
    lines = [_line([v.rjust(w) for v, w in zip(row, widths, strict=True)], widths[0]) for row in cells]
    rule = _line(["-" * (w - 1) + ":" for w in widths], widths[0])
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def _line(values: list[str], width: int) -> str:
    first = values[0].strip().rstrip(":")
    first = "-" * width if set(first) == {"-"} else first.ljust(width)
    return "| " + " | ".join([first, *values[1:]]) + " |"


def _number(value: float | None, digits: int, *, sign: bool = False) -> str:
    if value is None or not np.isfinite(value):
        return ""
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


def _pm(mean: float | None, off: float | None, digits: int, *, sign: bool = False) -> str:
    """Mean ± spread, as far as there are any."""
    one, two = _number(mean, digits, sign=sign), _number(off, digits)
    return f"{one} ± {two}" if one and two else one
