"""Everything on one HTML page that needs no other file, beside it the same tables as Markdown and CSV."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from kinfolk.files import replacing
from kinfolk.reproduce import figures, tables
from kinfolk.reproduce.cells import cells_of, left_out
from kinfolk.reproduce.checks import check_cells, checks
from kinfolk.reproduce.runner import Results
from kinfolk.reproduce.settings import Setting
from kinfolk.reproduce.tables import Cells

MARKER = "<!-- below: written by `kinfolk reproduce all` -->"
PARTS = {
    "synthetic": "Synthetic data",
    "wiener": "Dynamical systems over a network",
    "birmingham": "Parking in Birmingham",
    "parkinsons": "Parkinson's disease",
}
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
    "Outliers: tasks of hardly any degree."
)
CLAIMS = "What the paper claims, and what we set out to reach, held against the tables below; means over runs."
Table = tuple[str, str, Cells]  # heading, a sentence, the table


@dataclass
class Section:
    """One setting on the page: its tables with captions, and its pictures with captions."""

    title: str
    part: str
    note: str
    tables: list[tuple[str, Cells]] = field(default_factory=list)
    pictures: list[tuple[Path, str]] = field(default_factory=list)


def write_report(settings: list[Setting], results: Results, out: Path, *, failures: list[str]) -> Path:
    """Write tables, figures, `reproduction.md` and `reproduction.html` below `out`; returns the page."""
    sections = [_section(setting, results, out) for setting in settings if results.get(setting.key)]
    times = tables.plain_cells(tables.time_rows(settings, results), 1)
    claims = check_cells(checks(results))
    _write(out / "tables" / "claims.md", tables.to_markdown(claims))
    ends = [("Time", "Processor time of all cells, one thread each.", times)]
    whole = [("The claims", CLAIMS, claims)] if len(claims) > 1 else []
    warned = [*failures, *_missing(settings, results)]
    _write(out / "reproduction.md", "\n".join(_markdown(sections, whole, ends, warned)))
    page = out / "reproduction.html"
    _write(page, "\n".join(_html(sections, whole, ends, warned)))
    return page


def _section(setting: Setting, results: Results, out: Path) -> Section:
    found = results[setting.key]
    section = Section(setting.title, setting.part, setting.note)
    errors = tables.error_rows(setting, found)
    _write(out / "tables" / f"{setting.key}.csv", tables.to_csv(errors))
    section.tables.append(("", tables.error_cells(setting, errors)))
    structure = tables.recovery_rows(found)
    if structure:
        _write(out / "tables" / f"{setting.key}-structure.csv", tables.to_csv(structure))
        section.tables.append(("Structure recovered", tables.recovery_cells(structure)))
    if setting.part == "birmingham":
        sparse = tables.sparse_rows(found)
        _write(out / "tables" / f"{setting.key}-one-day.csv", tables.to_csv(sparse))
        section.tables.append(("The four lots with one training day, pooled", tables.plain_cells(sparse, 4)))
    section.pictures = list(_pictures(setting, results, out / "figures"))
    return section


def _pictures(setting: Setting, results: Results, folder: Path) -> Iterator[tuple[Path, str]]:
    found = results[setting.key]
    if not any("structure" in cell for cells in found.values() for cell in cells.values()):
        return
    if setting.part == "wiener":
        yield figures.network_figure(setting, folder / f"{setting.key}-network.png")
    yield figures.structure_figure(setting, found, folder / f"{setting.key}-structures.png")
    if setting.part == "wiener":
        yield figures.trace_figure(setting, found, folder / f"{setting.key}-traces.png")


def _missing(settings: list[Setting], results: Results) -> list[str]:
    """Methods that are not installed, and settings of which not all cells are there, in words."""
    said = left_out()
    for setting in settings:
        have = sum(map(len, results.get(setting.key, {}).values()))
        want = len(cells_of(setting))
        if have < want:
            said.append(f"{setting.title}: {have} of {want} cells of the full version are in these tables.")
    return said


def _markdown(sections: list[Section], first: list[Table], last: list[Table], warned: list[str]) -> Iterator[str]:
    for heading, sentence, cells in first:
        yield f"## {heading}\n\n{sentence}\n\n{tables.to_markdown(cells)}"
    yield "## How to read the tables\n"
    yield EXPLAINED + "\n"
    yield STRUCTURES + "\n"
    for part, heading in PARTS.items():
        inside = [section for section in sections if section.part == part]
        if inside:
            yield f"## {heading}\n"
        for section in inside:
            yield f"### {section.title}\n\n{section.note}\n"
            for caption, cells in section.tables:
                yield (f"{caption}:\n\n" if caption else "") + tables.to_markdown(cells)
    for heading, sentence, cells in last:
        yield f"## {heading}\n\n{sentence}\n\n{tables.to_markdown(cells)}"
    yield from (f"- {line}" for line in warned)


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1b1f; background: #fff; max-width: 1080px; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; } h3 { margin: 1.8rem 0 0.3rem; }
p { max-width: 80ch; } .note { color: #55555e; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.86rem;
  margin: 0.6rem 0; } caption { text-align: left; font-weight: 600; padding: 0.3rem 0; }
th, td { padding: 0.18rem 0.7rem; text-align: right; white-space: nowrap; } th { border-bottom: 1.5px solid #444; }
th:first-child, td:first-child { text-align: left; } tbody tr:nth-child(even) { background: #f5f5f8; }
tr.ours td:first-child { font-weight: 700; } figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
figcaption { color: #55555e; font-size: 0.86rem; max-width: 80ch; } nav a { margin-right: 1.2rem; }
@media print { body { max-width: none; margin: 0; font-size: 10pt; } nav { display: none; } .wide { overflow: visible; }
  table { font-size: 7.5pt; } th, td { padding: 0.1rem 0.35rem; } table, figure { break-inside: avoid; }
  h2, h3 { break-after: avoid; } }
"""


def _html(sections: list[Section], first: list[Table], last: list[Table], warned: list[str]) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>The paper's experiments, reproduced</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    yield "<h1>The paper's experiments, reproduced</h1>"
    present = [part for part in PARTS if any(section.part == part for section in sections)]
    links = "".join(f'<a href="#{part}">{escape(PARTS[part])}</a>' for part in present)
    yield f"<nav>{links}</nav>"
    for heading, sentence, cells in first:
        yield f"<h2>{escape(heading)}</h2>\n<p>{escape(sentence)}</p>\n{_html_table('', cells)}"
    yield "<h2>How to read the tables</h2>"
    yield f"<p>{escape(EXPLAINED)}</p>\n<p>{escape(STRUCTURES)}</p>"
    for part in present:
        yield f'<h2 id="{part}">{escape(PARTS[part])}</h2>'
        for section in sections:
            if section.part == part:
                yield from _html_section(section)
    for heading, sentence, cells in last:
        yield f"<h2>{escape(heading)}</h2>\n<p>{escape(sentence)}</p>\n{_html_table('', cells)}"
    if warned:
        yield "<h2>Not complete</h2>\n<ul>" + "".join(f"<li>{escape(line)}</li>" for line in warned) + "</ul>"
    yield "</body>\n</html>\n"


def _html_section(section: Section) -> Iterator[str]:
    yield f'<h3>{escape(section.title)}</h3>\n<p class="note">{escape(section.note)}</p>'
    for caption, cells in section.tables:
        yield _html_table(caption, cells)
    for path, caption in section.pictures:
        data = base64.b64encode(path.read_bytes()).decode()
        text = escape(caption)
        yield f'<figure><img src="data:image/png;base64,{data}" alt="{text}"><figcaption>{text}</figcaption></figure>'


def _html_table(caption: str, cells: Cells) -> str:
    head = "".join(f"<th>{escape(value)}</th>" for value in cells[0])
    lines = [
        f"<tr{' class=ours' if 'GAMTL' in row[0] else ''}>" + "".join(f"<td>{escape(v)}</td>" for v in row) + "</tr>"
        for row in cells[1:]
    ]
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "\n".join(lines)
    return f'<div class="wide"><table>{title}<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _write(path: Path, text: str) -> None:
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def insert_tables(tables_file: Path, document: Path) -> None:
    """Put the Markdown tables into a document, in place of what follows its marker."""
    text = document.read_text(encoding="utf-8")
    if MARKER not in text:
        raise ValueError(f"{document} has no line {MARKER!r}, below which the tables could go: add it")
    _write(document, text.partition(MARKER)[0] + MARKER + "\n\n" + tables_file.read_text(encoding="utf-8"))
