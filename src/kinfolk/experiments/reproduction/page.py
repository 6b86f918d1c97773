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


class _Page:
    """What has been written so far, as lines of Markdown and of HTML; pictures are in the latter only."""

    def __init__(self) -> None:
        self.markdown: list[str] = []
        self.html: list[str] = []
        self.links: list[str] = []

    def part(self, title: str) -> None:
        text = escape(title)
        anchor = text.lower().replace(" ", "-")
        self.links.append(f'<a href="#{anchor}">{text}</a>')
        self._write(f"## {title}\n", f'<h2 id="{anchor}">{text}</h2>')

    def heading(self, title: str) -> None:
        self._write(f"### {title}\n", f"<h3>{escape(title)}</h3>")

    def text(self, text: str, style: str = "") -> None:
        self._write(f"{text}\n", f"<p{style}>{escape(text)}</p>")

    def items(self, lines: list[str]) -> None:
        if lines:
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            self._write("".join(f"- {line}\n" for line in lines), f"<ul>{items}</ul>")

    def table(self, table: tables.ResultTable, caption: str = "", *, csv: Path | None = None) -> None:
        """A table if it has rows, also as a file of its own."""
        if not table.rows:
            return
        if csv is not None:
            write_text(csv, table.csv())
        above = f"{caption}:\n\n" if caption else ""
        self._write(above + table.markdown(), table.html(caption))

    def picture(self, path: Path, caption: str) -> None:
        data = base64.b64encode(path.read_bytes()).decode()
        text = escape(caption)
        image = f'<img src="data:image/png;base64,{data}" alt="{text}">'
        self.html.append(f"<figure>{image}<figcaption>{text}</figcaption></figure>")

    def _write(self, markdown: str, html: str) -> None:
        self.markdown.append(markdown)
        self.html.append(html)


def write_reproduction(settings: list[Setting], results: Results, out: Path, *, failures: list[str]) -> Path:
    """Write tables, figures, `reproduction.md` and `reproduction.html` below `out`; returns the page."""
    page = _Page()
    claims = check_table(checks(results))
    if claims.rows:
        write_text(out / "tables" / "claims.md", claims.markdown())
        page.part("The claims")
        page.text(CLAIMS)
        page.table(claims)
    page.part("How to read the tables")
    page.text(EXPLAINED)
    page.text(STRUCTURES)
    for part, title in PARTS.items():
        inside = [setting for setting in settings if setting.part == part and results.get(setting.key)]
        if inside:
            page.part(title)
        for setting in inside:
            _write_setting(page, setting, results[setting.key], out)
    page.part("Time")
    page.text("Processor time of all cells, one thread each.")
    page.table(tables.time_table(settings, results))
    missing = [*failures, *left_out(), *_unfinished(settings, results)]
    if missing:
        page.part("Not complete")
        page.items(missing)
    write_text(out / "reproduction.md", "\n".join(page.markdown))
    template = Template(files("kinfolk.experiments.reproduction").joinpath("template.html").read_text("utf-8"))
    path = out / "reproduction.html"
    write_text(path, template.substitute(links="".join(page.links), body="\n".join(page.html)))
    return path


def _write_setting(page: _Page, setting: Setting, results: dict[str, Any], out: Path) -> None:
    """One setting: its note, tables and pictures."""
    stem = str(out / "tables" / setting.key)
    page.heading(setting.title)
    page.text(setting.note, ' class="note"')
    page.table(tables.error_table(setting, results), csv=Path(f"{stem}.csv"))
    page.items(tables.remarks(results))
    page.table(tables.recovery_table(results), "Structure recovered", csv=Path(f"{stem}-structure.csv"))
    if setting.part in ("birmingham", "parkinsons"):
        agreement = tables.agreement_table(setting, results)
        page.table(agreement, f"Beside the yardstick, {yardstick(setting).words}", csv=Path(f"{stem}-agreement.csv"))
    if setting.part == "birmingham":
        few_rows = tables.sparse_table(results)
        page.table(few_rows, "The four lots with one training day, pooled", csv=Path(f"{stem}-one-day.csv"))
    if any("structure" in cell for cells in results.values() for cell in cells.values()):
        stem = str(out / "figures" / setting.key)
        page.picture(*structure_figure(setting, results, Path(f"{stem}-structures.png")))
        if setting.part == "wiener":
            page.picture(*network_figure(setting, Path(f"{stem}-network.png")))
            page.picture(*trace_figure(setting, results, Path(f"{stem}-traces.png")))


def _unfinished(settings: list[Setting], results: Results) -> Iterator[str]:
    """A sentence for each setting of which not all cells are there."""
    for setting in settings:
        have = sum(map(len, results.get(setting.key, {}).values()))
        want = len(cells_of(setting))
        if have < want:
            yield f"{setting.title}: {have} of {want} cells of the full version are in these tables."


def insert_tables(tables_file: Path, document: Path) -> None:
    """Put the Markdown tables into a document, in place of what follows its marker."""
    text = document.read_text(encoding="utf-8")
    if MARKER not in text:
        raise ValueError(f"{document} has no line {MARKER!r}, below which the tables could go: add it")
    write_text(document, text.partition(MARKER)[0] + MARKER + "\n\n" + tables_file.read_text(encoding="utf-8"))
