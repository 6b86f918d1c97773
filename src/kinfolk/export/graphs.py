"""Task graphs and coefficients as files that other programs read: CSV, GraphML and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast
from xml.sax.saxutils import escape

import numpy as np

from kinfolk.explain.confidence import sure_edges
from kinfolk.files import write_text
from kinfolk.methods.model import Fitted, as_model, structure_of
from kinfolk.methods.structures import Edge, Structure, TaskGraph
from kinfolk.words import plain

FORMATS = ("csv", "graphml", "json")
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graph(
    graph: Fitted | Structure, path: str | os.PathLike[str], format: str | None = None, *, safe: bool = False
) -> Path:
    """Write a task graph: every task with its group, every edge with its weight.

    Parameters
    ----------
    graph : a `TaskGraph`; or another structure, written as its `graph()`; or a fitted model, whose edges have a
        confidence too: the probability that the two tasks are kin
    path : the file; missing folders are made
    format : "csv" (edges: task, neighbor, weight), "graphml" (Gephi, Cytoscape, yEd, networkx) or "json" (nodes and
        links, as d3 and networkx read them); by default what the name of the file ends in
    safe : for CSV: see `write_csv`

    Examples
    --------
    >>> from scipy import sparse
    >>> graph = TaskGraph(sparse.csr_array([[0.0, 2.0], [2.0, 0.0]]), np.array(["a", "b"]))
    >>> print(write_graph(graph, "/tmp/kinfolk-doctest.csv").read_text().strip())
    task,neighbor,weight
    a,b,2.0
    """
    path = Path(path)
    chosen = (format or path.suffix.lstrip(".")).lower()
    if chosen not in FORMATS:
        raise ValueError(
            f"format {chosen!r} of {path}: choose one of {', '.join(map(repr, FORMATS))}, or end the name in it"
        )
    write_text(path, graph_text(graph, chosen, safe=safe))
    return path


def graph_text(graph: Fitted | Structure, format: str, *, safe: bool = False) -> str:
    """What `write_graph` writes."""
    structure = None if graph is None else structure_of(graph, "write_graph")
    if structure is None:
        raise ValueError(
            "no graph to write: this method learns no relations between tasks. Use GAMTL, GAMTLCV, MTRL, MSSL, GFL or "
            "CCMTL."
        )
    edges: list[Any] = []
    if structure is not graph and not structure.edges_are:  # a fitted model knows how sure its edges are
        edges = [edge for edge in sure_edges(cast(Fitted, graph)) if not math.isnan(edge.confidence)]
    edges = edges or structure.graph().edges()
    if format == "csv":
        head = edges[0]._fields if edges else Edge._fields
        return _csv(head, edges, safe)
    write = _graphml if format == "graphml" else _json
    return write(structure.graph(), edges)


def write_coefficients(fitted: Fitted, path: str | os.PathLike[str], *, safe: bool = False) -> Path:
    """Write intercept and coefficients as CSV, a row per task, a column per feature, to the last digit.

    The column `rows` says how many rows, or what sum of weights, a task was fitted on. For `safe` see `write_csv`.
    """
    model = as_model(fitted, "write_coefficients")
    gram = model.statistics("write_coefficients")
    numbers = np.column_stack([gram.n, model.intercept, model.coef]).tolist()
    rows = ([task, *row] for task, row in zip(model.labels.tolist(), numbers, strict=True))
    write_text(path, _csv(("task", "rows", "intercept", *model.feature_names), rows, safe))
    return Path(path)


def write_csv(file: IO[str], head: Iterable[str], rows: Iterable[Iterable[Any]], *, safe: bool = False) -> None:
    """Write a table as CSV.

    A spreadsheet program takes a text that begins with = + - @, a tab or a line break for a formula. With `safe` such a
    text gets an apostrophe in front, so that it is shown as it is; other programs then read the apostrophe too.

    Examples
    --------
    >>> import sys
    >>> write_csv(sys.stdout, ["task", "weight"], [["=1+1", -2.0]], safe=True)
    task,weight
    '=1+1,-2.0
    """
    writer = csv.writer(file, lineterminator="\n")
    for row in chain([head], rows):
        writer.writerow([_not_a_formula(cell) for cell in row] if safe else row)


def _not_a_formula(cell: Any) -> Any:
    is_formula = isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    return f"'{cell}" if is_formula else cell


def _csv(head: Iterable[str], rows: Iterable[Iterable[Any]], safe: bool) -> str:
    text = io.StringIO(newline="")
    write_csv(text, head, rows, safe=safe)
    return text.getvalue()


def _nodes(graph: TaskGraph) -> list[tuple[Any, float, int]]:
    """Task, degree and group of every task; group -1 is that of outliers."""
    return list(zip(graph.labels.tolist(), graph.degree.tolist(), graph.groups().tolist(), strict=True))


def _json(graph: TaskGraph, edges: list[Any]) -> str:
    nodes = [{"id": task, "degree": degree, "group": group} for task, degree, group in _nodes(graph)]
    links = [{"source": e.task, "target": e.neighbor, **_values(e)} for e in edges]
    whole = {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "links": links}
    return json.dumps(plain(whole), indent=1, allow_nan=False)


def _values(edge: Any) -> dict[str, float]:
    """What an edge has beside its ends: weight, and maybe confidence."""
    return dict(zip(edge._fields[2:], edge[2:], strict=True))


def _graphml(graph: TaskGraph, edges: list[Any]) -> str:
    keys = edges[0]._fields[2:] if edges else ("weight",)
    number = {task: k for k, (task, _, _) in enumerate(_nodes(graph))}
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
        '<key id="task" for="node" attr.name="task" attr.type="string"/>',
        '<key id="degree" for="node" attr.name="degree" attr.type="double"/>',
        '<key id="group" for="node" attr.name="group" attr.type="long"/>',
        *(f'<key id="{key}" for="edge" attr.name="{key}" attr.type="double"/>' for key in keys),
        '<graph edgedefault="undirected">',
    ]
    for k, (task, degree, group) in enumerate(_nodes(graph)):
        values = f'<data key="degree">{degree!r}</data><data key="group">{group}</data>'
        lines.append(f'<node id="n{k}"><data key="task">{_xml(task)}</data>{values}</node>')
    for edge in edges:
        ends = f'source="n{number[edge.task]}" target="n{number[edge.neighbor]}"'
        values = "".join(f'<data key="{key}">{value!r}</data>' for key, value in _values(edge).items())
        lines.append(f"<edge {ends}>{values}</edge>")
    return "\n".join([*lines, "</graph>", "</graphml>", ""])


def _xml(label: Any) -> str:
    """A label as XML text; control characters, which XML cannot hold, become U+FFFD."""
    return escape(NOT_XML.sub("\ufffd", str(label)))
