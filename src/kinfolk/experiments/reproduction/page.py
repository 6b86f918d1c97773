"""Everything on one HTML page that needs no other file, beside it the same tables as Markdown and CSV."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from kinfolk.experiments.reproduction import tables
from kinfolk.experiments.reproduction.cells import Results, cells_of, left_out
from kinfolk.experiments.reproduction.checks import check_table, checks
from kinfolk.experiments.reproduction.figures import network_figure, structure_figure, trace_figure
from kinfolk.experiments.reproduction.settings import PARTS, Setting
from kinfolk.experiments.reproduction.yardsticks import yardstick
from kinfolk.files import write_text

MARKER = "<!-- below: written by `kinfolk reproduce all` -->"
EXPLAINED = (
    "Root mean squared errors on test rows, mean ± standard deviation over runs: as the paper averages them in this "
    "table first (over tasks, or pooled over rows), the other way second. “minus GAMTLCV” and “minus GAMTL” are paired "
    "differences on the runs that both have ± their standard error (over runs; over tasks where the split is fixed); "
    "positive means worse. GAMTL is the paper's, without a ridge, its two numbers tuned; GAMTLCV is the package's "
    "default. Every method is tuned by 5-fold cross-validation on training rows alone, and all are scored by the same "
    "code. CPU s is the processor time of one tuned fit."
)
STRUCTURES = (
    "AUC of true edges: how well the learned structure ranks related pairs above others (0.5 is chance): edge weights, "
    "signed (partial) correlations, levels of a tree shared. AUC by coefficients: the same from the distances of the "
    "fitted coefficients. Adjusted Rand index: communities on the structure against the planted groups (1 is equal). "
    "Outliers: tasks of hardly any degree. Beside a yardstick, the data's own measure of which tasks are alike, the "
    "strongest pairs of every structure count, three per task: the AUC asks whether they are nearer than the others "
    "(0.5 is chance), the p-value how often shuffled names agree as well."
)
CLAIMS = "What the paper claims, and what we set out to reach, beside the numbers of the tables below; means over runs."
Block = tuple[str, Any]  # what it is ("part", "heading", "text", "note", "table", "picture", "list"), and its content


def write_reproduction(settings: list[Setting], results: Results, out: Path, *, failures: list[str]) -> Path:
    """Write tables, figures, `reproduction.md` and `reproduction.html` below `out`; returns the page."""
    blocks = list(_blocks(settings, results, out, failures))
    write_text(out / "reproduction.md", "\n".join(_markdown(*block) for block in blocks if block[0] != "picture"))
    page = out / "reproduction.html"
    links = "".join(f'<a href="#{_anchor(text)}">{escape(text)}</a>' for kind, text in blocks if kind == "part")
    body = "\n".join(_html(*block) for block in blocks)
    template = Template(files("kinfolk.experiments.reproduction").joinpath("template.html").read_text("utf-8"))
    write_text(page, template.substitute(links=links, body=body))
    return page


def _blocks(settings: list[Setting], results: Results, out: Path, failures: list[str]) -> Iterator[Block]:
    """The whole report from top to bottom; its CSV tables and figures are written on the way."""
    claims = check_table(checks(results))
    if claims.rows:
        write_text(out / "tables" / "claims.md", claims.markdown())
        yield "part", "The claims"
        yield "text", CLAIMS
        yield "table", ("", claims)
    yield "part", "How to read the tables"
    yield "text", EXPLAINED
    yield "text", STRUCTURES
    for part, heading in PARTS.items():
        inside = [setting for setting in settings if setting.part == part and results.get(setting.key)]
        if inside:
            yield "part", heading
        for setting in inside:
            yield from _section(setting, results[setting.key], out)
    yield "part", "Time"
    yield "text", "Processor time of all cells, one thread each."
    yield "table", ("", tables.time_table(settings, results))
    missing = [*failures, *left_out(), *_unfinished(settings, results)]
    if missing:
        yield "part", "Not complete"
        yield "list", missing


def _section(setting: Setting, results: dict[str, Any], out: Path) -> Iterator[Block]:
    """One setting: its note, tables and pictures."""
    yield "heading", setting.title
    yield "note", setting.note
    yield _stored("", tables.error_table(setting, results), out, setting.key)
    remarks = tables.remarks(results)
    if remarks:
        yield "list", remarks
    recovery = tables.recovery_table(results)
    if recovery.rows:
        yield _stored("Structure recovered", recovery, out, f"{setting.key}-structure")
    if setting.part in ("birmingham", "parkinsons"):
        agreement = tables.agreement_table(setting, results)
        if agreement.rows:
            caption = f"Beside the yardstick, {yardstick(setting).words}"
            yield _stored(caption, agreement, out, f"{setting.key}-agreement")
    if setting.part == "birmingham":
        caption = "The four lots with one training day, pooled"
        yield _stored(caption, tables.sparse_table(results), out, f"{setting.key}-one-day")
    if any("structure" in cell for cells in results.values() for cell in cells.values()):
        stem = str(out / "figures" / setting.key)
        yield "picture", structure_figure(setting, results, Path(f"{stem}-structures.png"))
        if setting.part == "wiener":
            yield "picture", network_figure(setting, Path(f"{stem}-network.png"))
            yield "picture", trace_figure(setting, results, Path(f"{stem}-traces.png"))


def _stored(caption: str, table: tables.ResultTable, out: Path, name: str) -> Block:
    """A table for the page, written as CSV on the way."""
    write_text(out / "tables" / f"{name}.csv", table.csv())
    return "table", (caption, table)


def _unfinished(settings: list[Setting], results: Results) -> Iterator[str]:
    """A sentence for each setting of which not all cells are there."""
    for setting in settings:
        have = sum(map(len, results.get(setting.key, {}).values()))
        want = len(cells_of(setting))
        if have < want:
            yield f"{setting.title}: {have} of {want} cells of the full version are in these tables."


def _markdown(kind: str, content: Any) -> str:
    if kind == "table":
        caption, table = content
        return (f"{caption}:\n\n" if caption else "") + table.markdown()
    if kind == "list":
        return "".join(f"- {line}\n" for line in content)
    return {"part": "## ", "heading": "### "}.get(kind, "") + f"{content}\n"


def _html(kind: str, content: Any) -> str:
    if kind == "table":
        caption, table = content
        return table.html(caption)
    if kind == "picture":
        path, caption = content
        data = base64.b64encode(path.read_bytes()).decode()
        text = escape(caption)
        return f'<figure><img src="data:image/png;base64,{data}" alt="{text}"><figcaption>{text}</figcaption></figure>'
    if kind == "list":
        return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in content) + "</ul>"
    if kind == "part":
        return f'<h2 id="{_anchor(content)}">{escape(content)}</h2>'
    element = {"heading": "<h3>{}</h3>", "text": "<p>{}</p>", "note": '<p class="note">{}</p>'}[kind]
    return element.format(escape(content))


def _anchor(heading: str) -> str:
    return escape(heading.lower().replace(" ", "-"))


def insert_tables(tables_file: Path, document: Path) -> None:
    """Put the Markdown tables into a document, in place of what follows its marker."""
    text = document.read_text(encoding="utf-8")
    if MARKER not in text:
        raise ValueError(f"{document} has no line {MARKER!r}, below which the tables could go: add it")
    write_text(document, text.partition(MARKER)[0] + MARKER + "\n\n" + tables_file.read_text(encoding="utf-8"))
