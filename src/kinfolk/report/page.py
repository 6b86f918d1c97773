"""From the summary to one self-contained page, and to a file."""

from __future__ import annotations

import json
import os
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from kinfolk.files import write_text
from kinfolk.methods.model import Fitted
from kinfolk.progress import Callback
from kinfolk.report.summary import summarize
from kinfolk.threads import on_few_threads

PARTS = ("template.html", "style.css", "script.js", "graph.js")


def render(summary: dict[str, Any]) -> str:
    r"""The page: template, style and script of this folder around the summary as JSON.

    Examples
    --------
    >>> page = render({"title": "a < b", "headline": ["1 & 2"], "version": "0", "names": ["</script>"]})
    >>> "<title>a &lt; b</title>" in page, "<li>1 &amp; 2</li>" in page, "\\u003c/script\\u003e" in page
    (True, True, True)
    """
    folder = files("kinfolk.report")
    parts = {name: folder.joinpath(name).read_text("utf-8") for name in PARTS}
    return Template(parts["template.html"]).substitute(
        title=escape(summary["title"]),
        effect=escape(summary.get("effect", "")),
        # No line ends between a number and its per cent.
        headline="".join(f"<li>{escape(said).replace(' %', '&nbsp;%')}</li>" for said in summary["headline"]),
        version=escape(summary["version"]),
        data=as_json(summary),
        style=parts["style.css"],
        script=parts["script.js"],
        graph=parts["graph.js"],
    )


def as_json(data: Any) -> str:
    r"""JSON that no browser can take for markup: ASCII only, without < > &.

    Examples
    --------
    >>> as_json(["<b>", "\u2028"])
    '["\\u003cb\\u003e","\\u2028"]'
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@on_few_threads
def write_report(
    fitted: Fitted,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    private: bool = False,
    callback: Callback | None = None,
) -> Path:
    """Write one self-contained HTML file about a fitted model, whole or not at all; see `summarize`.

    Examples
    --------
    >>> from kinfolk import GAMTL
    >>> from kinfolk.datasets import make_groups
    >>> syn = make_groups(random_state=0)
    >>> model = GAMTL(task=syn.task).fit(syn.data, syn.target)
    >>> write_report(model, syn.data, syn.target, "/tmp/kinfolk-doctest.html").name
    'kinfolk-doctest.html'
    """
    about: dict[str, Any] = {"title": title, "groups": groups, "sample_weight": sample_weight, "private": private}
    summary = summarize(fitted, X, y, **about, callback=callback)
    write_text(path, render(summary))
    return Path(path)
