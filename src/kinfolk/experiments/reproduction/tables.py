"""The tables: rows of plain values first, then CSV, text and Markdown from them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.experiments.reproduction.cells import Results, structure_from_dict
from kinfolk.experiments.reproduction.methods import METHODS
from kinfolk.experiments.reproduction.referee import mean_and_sd, paired, pooled_over
from kinfolk.experiments.reproduction.settings import SETTINGS, Setting
from kinfolk.experiments.reproduction.yardsticks import judged
from kinfolk.rows.gram import Array

Row = dict[str, Any]
Table = list[list[str]]  # a header and rows of text; Markdown and HTML are made of it
REFERENCES = ("GAMTLCV", "GAMTL")
SPARSE_LOTS = ("BHMBRCBRG01", "BHMBRCBRG02", "BHMBRCBRG03", "Bull Ring")  # one training day each
MIXED = 1.1  # R-hat of chains that have mixed, at most
AGREEMENT = {
    "neighbours": ("neighbours per task", 1),
    "auc": ("AUC of near pairs", 2),
    "p_value": ("p-value", 3),
    "same_place": ("pairs of 8, 9, 17 joined", 1),
    "map_share": ("weight on near pairs of the map", 2),
    "map_chance": ("by chance", 2),
    "neighbours_30": ("neighbours of 30", 1),
    "neighbours_35": ("neighbours of 35", 1),
}
RECOVERY = {
    "edge_auc": "AUC of true edges",
    "coefficient_auc": "AUC by coefficients",
    "rand_index": "adjusted Rand index",
    "rand_index_cut": "the same, number of groups given",
    "edges": "edges",
    "outliers_found": "outliers found",
    "outliers_false": "false outliers",
}


def error_rows(setting: Setting, results: Mapping[str, Any]) -> list[Row]:
    """One row per method of a setting: published and own errors, differences to both forms of GAMTL, and time."""
    rows = []
    for name in dict.fromkeys([*METHODS, *setting.published]):
        if name in results or name in setting.published:
            mean, sd = setting.published.get(name, (None, None))
            rows.append({"method": name, "paper": mean, "paper_sd": sd, **_own_errors(name, setting.metric, results)})
    return rows


def _own_errors(name: str, metric: str, results: Mapping[str, Any]) -> Row:
    """What the cells of a method say; nothing without cells."""
    cells = results.get(name, {})
    if not cells:
        return {}
    row: Row = {"runs": len(cells)}
    for measure in ("tasks", "pooled"):
        row[measure], row[f"{measure}_sd"] = mean_and_sd([cell[measure] for cell in cells.values()])
    for reference in REFERENCES:
        found = paired(cells, results.get(reference, {}), metric)
        if found and reference != name:
            row |= {f"minus_{reference}": found.mean, f"minus_{reference}_se": found.standard_error}
    row["cpu_seconds"] = float(np.mean([cell["cpu_seconds"] for cell in cells.values()]))
    row["unfinished"] = sum(bool(cell["messages"]) for cell in cells.values())
    return row


def recovery_rows(results: Mapping[str, Any]) -> list[Row]:
    """One row per method of a setting with planted structure: means over runs."""
    rows = []
    for name in METHODS:
        found = [c["recovery"] for c in results.get(name, {}).values() if c.get("recovery")]
        row: Row = {"method": name, "runs": len(found)}
        for measure in (*RECOVERY, "outliers_planted", "correlation_auc"):
            values = [f[measure] for f in found if measure in f]
            if values:
                row[measure], row[f"{measure}_sd"] = mean_and_sd(values)
        if found:
            rows.append(row)
    return rows


def agreement_rows(key: str, results: Mapping[str, Any]) -> list[Row]:
    """One row per method with a structure: how it agrees with the yardstick of real data; means over runs."""
    setting = next(setting for setting in SETTINGS if setting.key == key)
    rows = []
    for name in METHODS:
        stored = [cell["structure"] for cell in results.get(name, {}).values() if "structure" in cell]
        found = [judged(setting, _scores(structure), structure["labels"]) for structure in stored]
        measures = [measure for measure in AGREEMENT if any(measure in one for one in found)]
        if found:
            means = {m: float(np.mean([one[m] for one in found if m in one])) for m in measures}
            rows.append({"method": name, **means, "runs": len(found)})
    return rows


def _scores(stored: dict[str, Any]) -> Array:
    return sparse.csr_array(structure_from_dict(stored, list(range(1 + max(stored["labels"])))).scores()).toarray()


def agreement_table(rows: Sequence[Row]) -> Table:
    """The agreement with the yardstick as text."""
    shown = [measure for measure in AGREEMENT if any(measure in row for row in rows)]
    header = ["method", *(AGREEMENT[measure][0] for measure in shown), "runs"]
    return [
        header,
        *([r["method"], *(_number(r.get(m), AGREEMENT[m][1]) for m in shown), str(r["runs"])] for r in rows),
    ]


def remarks(results: Mapping[str, Any]) -> list[str]:
    """What a reader of the errors must know about single rows: chains that have not mixed, and rows without a graph."""
    said = []
    for name, cells in results.items():
        params = [cell["params"] for cell in cells.values()]
        rhat = [found["rhat"] for found in params if found.get("rhat") is not None]
        if rhat and max(rhat) > MIXED:
            said.append(
                f"{name}: the chains have not mixed (R-hat {min(rhat):.1f} to {max(rhat):.1f}, {MIXED} is wanted), so "
                "its row is not that of a converged method."
            )
        helped = [found["graph_helps"] for found in params if "graph_helps" in found]
        if helped and not all(helped):
            said.append(f"{name}: the graph takes part in the predictions of {sum(helped)} of {len(helped)} runs.")
    return said


def sparse_rows(results: Mapping[str, Any]) -> list[Row]:
    """Birmingham: pooled error over the four lots with one training day."""
    return [
        {"method": name, "pooled": float(np.mean([pooled_over(c, SPARSE_LOTS) for c in results[name].values()]))}
        for name in METHODS
        if name in results
    ]


def time_rows(settings: Iterable[Setting], results: Results) -> list[Row]:
    """Processor seconds of all cells, by part."""
    seconds: dict[str, list[float]] = {}
    for setting in settings:
        for cells in results.get(setting.key, {}).values():
            seconds.setdefault(setting.part, []).extend(c["cpu_seconds"] for c in cells.values())
    seconds["all"] = [one for part in seconds.values() for one in part]
    return [{"part": part, "cells": len(s), "cpu_minutes": sum(s) / 60} for part, s in seconds.items()]


def to_csv(rows: Sequence[Row]) -> str:
    """All columns that any row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    return text.getvalue()


def error_table(setting: Setting, rows: Sequence[Row]) -> Table:
    """The errors as text, the paper's column only where it has numbers."""
    digits = 4 if setting.part in ("birmingham", "wiener") else 3
    words = {"tasks": "mean over tasks", "pooled": "pooled"}
    order = sorted(words, key=lambda metric: metric != setting.metric)  # the metric of the paper first
    paper = ["paper"] if any(row["paper"] is not None for row in rows) else []
    header = ["method", *paper, *(words[m] for m in order), *(f"minus {r}" for r in REFERENCES), "runs", "CPU s"]
    table = [header]
    for row in rows:
        values = [_with_deviation(row, name, digits) for name in (*paper, *order)]
        values += [_with_deviation(row, f"minus_{r}", digits, sign="+", suffix="_se") for r in REFERENCES]
        table.append([row["method"], *values, str(row.get("runs", "")), _number(row.get("cpu_seconds"), 1)])
    return table


def recovery_table(rows: Sequence[Row]) -> Table:
    """Structure recovery as text."""
    shown = [m for m in RECOVERY if any(m in row for row in rows)]
    if not any(row.get("outliers_planted") for row in rows):
        shown = [m for m in shown if m != "outliers_found"]
    header = ["method", *(RECOVERY[m] for m in shown), "runs"]
    return [header, *([r["method"], *(_recovery_text(r, m) for m in shown), str(r["runs"])] for r in rows)]


def _recovery_text(row: Row, measure: str) -> str:
    if measure == "outliers_found" and measure in row:
        return f"{row[measure]:.1f} of {row['outliers_planted']:.0f}"
    if measure in ("outliers_false", "edges"):
        return _number(row.get(measure), 1)
    return _with_deviation(row, measure, 2)


def plain_table(rows: Sequence[Row], digits: int) -> Table:
    """Any rows as text."""
    text = [[_number(v, digits) if isinstance(v, float) else str(v) for v in row.values()] for row in rows]
    return [[name.replace("_", " ") for name in rows[0]], *text]


def to_markdown(table: Table) -> str:
    """A pipe table; text to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for first, *others in (table[0], rule, *table[1:]):
        right = [value.rjust(width) for value, width in zip(others, widths[1:], strict=True)]
        lines.append("| " + " | ".join([first.ljust(widths[0]), *right]) + " |\n")
    return "".join(lines)


def _number(value: float | None, digits: int, sign: str = "") -> str:
    if value is None or not np.isfinite(value):
        return ""
    return f"{value:{sign}.{digits}f}"


def _with_deviation(row: Row, name: str, digits: int, *, sign: str = "", suffix: str = "_sd") -> str:
    """Mean ± deviation, as far as the row has them."""
    mean = _number(row.get(name), digits, sign)
    deviation = _number(row.get(name + suffix), digits)
    return f"{mean} ± {deviation}" if mean and deviation else mean
