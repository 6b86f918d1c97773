"""The compact form for notebooks: a few sentences and a small still picture, without a script."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from kinfolk.explain.groups import TaskGroups
from kinfolk.explain.kin import kinship
from kinfolk.methods.model import Fitted, as_model
from kinfolk.methods.structures import TaskGraph, heaviest_edges
from kinfolk.plots import OUTLIER, PALETTE
from kinfolk.plots.layouts import SPRINGS, positions
from kinfolk.report.plain import plain_names
from kinfolk.report.words import headline
from kinfolk.rows.gram import TINY, Array
from kinfolk.threads import on_few_threads

WIDTH, HEIGHT, MARGIN = 360, 260, 14
EDGES = 600


@on_few_threads
def compact_html(fitted: Fitted) -> str:
    """A fitted model in a notebook: the headline, and its graph if it has one; before fit, what it is.

    Examples
    --------
    >>> from kinfolk import GAMTL
    >>> compact_html(GAMTL(neighbors=3))
    '<div class="kinfolk"><p><b>GAMTL(neighbors=3)</b>, not fitted yet.</p></div>'
    """
    try:
        model = as_model(fitted)
    except NotFittedError:
        return f'<div class="kinfolk"><p><b>{escape(repr(fitted))}</b>, not fitted yet.</p></div>'
    groups = TaskGroups(model, None if model.structure is None else kinship(model))
    names = plain_names(model.labels)
    sentences = "".join(f"<li>{escape(s)}</li>" for s in headline(groups, names, None))
    picture = ""
    if model.structure is not None and not model.structure.edges_are and len(names) <= SPRINGS:
        picture = _picture(model.structure.graph(), names, groups.colours)
    return (
        '<div class="kinfolk" style="display:flex;flex-wrap:wrap;gap:1em;align-items:center">'
        f'{picture}<div style="flex:1 1 16em;min-width:14em;overflow-wrap:anywhere">'
        f"<b>{escape(model.name)}</b>"
        f'<ul style="margin:.3em 0;padding-left:1.2em">{sentences}</ul></div></div>'
    )


def _picture(graph: TaskGraph, names: list[str], groups: NDArray[np.intp]) -> str:
    xy = MARGIN + positions(graph, groups) * [WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN]
    i, j, weight = heaviest_edges(graph.adjacency, EDGES)
    width = 0.4 + 2.2 * weight / max(weight.max(initial=0.0), TINY)
    lines = [_line(xy[a], xy[b], w) for a, b, w in zip(i, j, width, strict=True)]
    radius = float(np.clip(60 / np.sqrt(len(names)), 3, 9))
    dots = [_dot(xy[t], radius, names[t], int(groups[t])) for t in range(len(names))]
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Graph of {len(names)} tasks">{"".join(lines)}{"".join(dots)}</svg>'
    )


def _line(one: Array, two: Array, width: float) -> str:
    (x1, y1), (x2, y2) = one, two
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" stroke-opacity=".35" '
        f'stroke-width="{width:.1f}"/>'
    )


def _dot(at: Array, radius: float, name: str, group: int) -> str:
    colour = PALETTE[group % len(PALETTE)]
    dashed = ""
    if group < 0:
        colour = OUTLIER
        dashed = ' stroke="currentColor" stroke-dasharray="3 2"'
    place = f'cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:.1f}"'
    return f'<circle {place} fill="{colour}"{dashed}><title>{escape(name)}</title></circle>'
