"""kinfolk graph: the graph of a model for other programs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from kinfolk.cli.console import Console
from kinfolk.cli.outputs import check_outputs
from kinfolk.export.graphs import graph_text, write_graph
from kinfolk.files import STDOUT
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.structures import TaskGraph
from kinfolk.store import load


def run(options: argparse.Namespace, console: Console) -> None:
    """Write the graph to a file or to stdout."""
    options.out = None if options.out == STDOUT else options.out
    options.format = options.format or _format_of(options.out)
    check_outputs({"--out": (options.out, "graph")}, options, console, inputs=(options.model,))
    model = load(options.model)
    graph = graph_of(model, console)
    written: Any = graph if model.structure_.edges_are else model  # a model knows how sure its own edges are
    if options.out:
        write_graph(written, options.out, options.format, safe=options.safe_csv)
        console.say(f"{len(graph.labels):,} tasks and {graph.adjacency.nnz // 2:,} edges in {options.out}")
    elif not options.json:
        sys.stdout.write(graph_text(written, options.format, safe=options.safe_csv))
    console.result({"out": options.out} if options.out else json.loads(graph_text(written, "json")))


def _format_of(out: str | None) -> str:
    """By the ending of the file, since a program that opens it goes by that."""
    ending = "" if out is None else Path(out).suffix.lower().lstrip(".")
    return ending if ending in ("graphml", "json") else "csv"


def graph_of(model: MultiTaskRegressor, console: Console) -> TaskGraph:
    """The graph of the model, or the one that its covariance, precision or tree draws."""
    structure = model.structure_
    name = type(model).__name__
    if structure is None:
        learns = "learns nothing about the relations of tasks, not a graph"
        raise ValueError(f"{name} {learns}: fit gamtlcv, gamtl, ccmtl or gfl")
    if structure.edges_are:
        console.note(f"{name} has no graph of its own: edges are {structure.edges_are}")
    return structure.graph()
