"""The tables: rows of plain values by method, and how they are written as CSV, Markdown and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from scipy import sparse

from kinfolk.experiments.reproduction.cells import Results, structure_from_dict
from kinfolk.experiments.reproduction.methods import METHODS
from kinfolk.experiments.reproduction.referee import mean_and_sd, paired, pooled_over
from kinfolk.experiments.reproduction.settings import Setting
from kinfolk.experiments.reproduction.yardsticks import judged
from kinfolk.rows.gram import Array

Row = dict[str, Any]
REFERENCES = ("GAMTLCV", "GAMTL")
SPARSE_LOTS = ("BHMBRCBRG01", "BHMBRCBRG02", "BHMBRCBRG03", "Bull Ring")  # one training day each
MIXED = 1.1  # R-hat of chains that have mixed, at most


@dataclass(frozen=True)
class Column:
    """How one value of the rows is written: its name there, the heading, and decimals.

    `deviation` names the value that follows after ±, `total` the one after "of"; `sign` is "+" for differences.
    """

    name: str
    heading: str
    digits: int = 1
    deviation: str = ""
    total: str = ""
    sign: str = ""

    def text(self, row: Row) -> str:
        """What stands in the table; nothing where the row has no finite number."""
        value = row.get(self.name)
        if not isinstance(value, float):
            return "" if value is None else str(value)
        mean = _number(value, self.digits, self.sign)
        deviation = _number(row.get(self.deviation), self.digits)
        if self.total:
            return f"{mean} of {row[self.total]:.0f}"
        return f"{mean} ± {deviation}" if mean and deviation else mean


def _number(value: float | None, digits: int, sign: str = "") -> str:
    return "" if value is None or not np.isfinite(value) else f"{value:{sign}.{digits}f}"


@dataclass(frozen=True, eq=False)
class ResultTable:
    """Rows of plain values, and the columns that are shown of them."""

    columns: Sequence[Column]
    rows: Sequence[Row]

    def text(self) -> list[list[str]]:
        """The header and the rows; without columns of which no row has a value."""
        shown = [column for column in self.columns if any(row.get(column.name) is not None for row in self.rows)]
        return [[column.heading for column in shown], *([column.text(row) for column in shown] for row in self.rows)]

    def csv(self) -> str:
        """All values that any row has."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in self.rows)
        return text.getvalue()

    def markdown(self) -> str:
        """A pipe table; text to the left, numbers to the right."""
        header, *rows = self.text()
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        lines = []
        for first, *others in (header, rule, *rows):
            right = [value.rjust(width) for value, width in zip(others, widths[1:], strict=True)]
            lines.append("| " + " | ".join([first.ljust(widths[0]), *right]) + " |\n")
        return "".join(lines)

    def html(self, caption: str = "") -> str:
        """An HTML table, in which the forms of GAMTL stand out."""
        header, *rows = self.text()
        head = "".join(f"<th>{escape(value)}</th>" for value in header)
        lines = []
        for row in rows:
            ours = " class=ours" if "GAMTL" in row[0] else ""
            lines.append(f"<tr{ours}>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>")
        title = f"<caption>{escape(caption)}</caption>" if caption else ""
        body = "\n".join(lines)
        return f'<div class="wide"><table>{title}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


METHOD = Column("method", "method")
RUNS = Column("runs", "runs")
RECOVERY = (
    Column("edge_auc", "AUC of true edges", 2, "edge_auc_sd"),
    Column("coefficient_auc", "AUC by coefficients", 2, "coefficient_auc_sd"),
    Column("rand_index", "adjusted Rand index", 2, "rand_index_sd"),
    Column("rand_index_cut", "the same, number of groups given", 2, "rand_index_cut_sd"),
    Column("edges", "edges"),
    Column("outliers_found", "outliers found", total="outliers_planted"),
    Column("outliers_false", "false outliers"),
)
AGREEMENT = (
    Column("neighbours", "neighbours per task"),
    Column("auc", "AUC of near pairs", 2),
    Column("p_value", "p-value", 3),
    Column("same_place", "pairs of 8, 9, 17 joined"),
    Column("map_share", "weight on near pairs of the map", 2),
    Column("map_chance", "by chance", 2),
    Column("neighbours_30", "neighbours of 30"),
    Column("neighbours_35", "neighbours of 35"),
)


def error_table(setting: Setting, results: Mapping[str, Any]) -> ResultTable:
    """One row per method: published and own errors, differences to both forms of GAMTL, and time."""
    rows = []
    for name in dict.fromkeys([*METHODS, *setting.published]):
        if name in results or name in setting.published:
            mean, sd = setting.published.get(name, (None, None))
            rows.append({"method": name, "paper": mean, "paper_sd": sd, **_own_errors(name, setting.metric, results)})
    digits = 4 if setting.part in ("birmingham", "wiener") else 3
    words = {"tasks": "mean over tasks", "pooled": "pooled"}
    metrics = sorted(words, key=lambda metric: metric != setting.metric)  # that of the paper first
    columns = [METHOD, Column("paper", "paper", digits, "paper_sd")]
    columns += [Column(metric, words[metric], digits, f"{metric}_sd") for metric in metrics]
    columns += [Column(f"minus_{r}", f"minus {r}", digits, f"minus_{r}_se", sign="+") for r in REFERENCES]
    return ResultTable([*columns, RUNS, Column("cpu_seconds", "CPU s")], rows)


def _own_errors(name: str, metric: str, results: Mapping[str, Any]) -> Row:
    """What the cells of a method say; nothing without cells."""
    cells = results.get(name, {})
    if not cells:
        return {}
    row: Row = {"runs": len(cells), **_over_runs(list(cells.values()), ("tasks", "pooled"))}
    for reference in REFERENCES:
        difference = paired(cells, results.get(reference, {}), metric)
        if difference and reference != name:
            row |= {f"minus_{reference}": difference.mean, f"minus_{reference}_se": difference.standard_error}
    row["cpu_seconds"] = float(np.mean([cell["cpu_seconds"] for cell in cells.values()]))
    row["unfinished"] = sum(bool(cell["messages"]) for cell in cells.values())
    return row


def _over_runs(runs: Sequence[Mapping[str, Any]], measures: Iterable[str]) -> Row:
    """Mean and standard deviation over runs of every measure that any run has."""
    row: Row = {}
    for measure in measures:
        values = [run[measure] for run in runs if measure in run]
        if values:
            row[measure], row[f"{measure}_sd"] = mean_and_sd(values)
    return row


def recovery_table(results: Mapping[str, Any]) -> ResultTable:
    """One row per method of a setting with planted structure: means over runs."""
    measures = [*(column.name for column in RECOVERY), "outliers_planted", "correlation_auc"]
    rows = []
    for name in METHODS:
        runs = [cell["recovery"] for cell in results.get(name, {}).values() if cell.get("recovery")]
        if runs:
            rows.append({"method": name, "runs": len(runs), **_over_runs(runs, measures)})
    planted = any(row.get("outliers_planted") for row in rows)
    return ResultTable([METHOD, *(column for column in RECOVERY if planted or not column.total), RUNS], rows)


def agreement_table(setting: Setting, results: Mapping[str, Any]) -> ResultTable:
    """One row per method with a structure: how it agrees with the yardstick of real data; means over runs."""
    rows = []
    for name in METHODS:
        stored = [cell["structure"] for cell in results.get(name, {}).values() if "structure" in cell]
        runs = [judged(setting, _scores(structure), structure["labels"]) for structure in stored]
        if runs:
            means = _over_runs(runs, [column.name for column in AGREEMENT])
            shown = {measure: mean for measure, mean in means.items() if not measure.endswith("_sd")}
            rows.append({"method": name, **shown, "runs": len(runs)})
    return ResultTable([METHOD, *AGREEMENT, RUNS], rows)


def _scores(stored: dict[str, Any]) -> Array:
    numbers = list(range(1 + max(stored["labels"])))
    return sparse.csr_array(structure_from_dict(stored, numbers).scores()).toarray()


def sparse_table(results: Mapping[str, Any]) -> ResultTable:
    """Birmingham: pooled error over the four lots with one training day."""
    rows = [
        {"method": name, "pooled": float(np.mean([pooled_over(c, SPARSE_LOTS) for c in results[name].values()]))}
        for name in METHODS
        if name in results
    ]
    return ResultTable([METHOD, Column("pooled", "pooled", 4)], rows)


def time_table(settings: Iterable[Setting], results: Results) -> ResultTable:
    """Processor time of all cells, by part."""
    seconds: dict[str, list[float]] = {}
    for setting in settings:
        for cells in results.get(setting.key, {}).values():
            seconds.setdefault(setting.part, []).extend(cell["cpu_seconds"] for cell in cells.values())
    seconds["all"] = [second for part in seconds.values() for second in part]
    rows = [{"part": part, "cells": len(s), "cpu_minutes": sum(s) / 60} for part, s in seconds.items()]
    return ResultTable([Column("part", "part"), Column("cells", "cells"), Column("cpu_minutes", "cpu minutes")], rows)


def remarks(results: Mapping[str, Any]) -> list[str]:
    """What a reader of the errors must know about single rows: chains that have not mixed, and rows without a graph."""
    sentences = []
    for name, cells in results.items():
        params = [cell["params"] for cell in cells.values()]
        rhat = [chosen["rhat"] for chosen in params if chosen.get("rhat") is not None]
        if rhat and max(rhat) > MIXED:
            sentences.append(
                f"{name}: the chains have not mixed (R-hat {min(rhat):.1f} to {max(rhat):.1f}, {MIXED} is wanted), so "
                "its row is not that of a converged method."
            )
        helped = [chosen["graph_helps"] for chosen in params if "graph_helps" in chosen]
        if helped and not all(helped):
            sentences.append(f"{name}: the graph takes part in the predictions of {sum(helped)} of {len(helped)} runs.")
    return sentences
