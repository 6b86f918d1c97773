"""One self-contained page about a fitted model: summarize (-> dict), render (dict -> html), write_report (-> file)."""

from kinfolk.report.notebook import compact_html
from kinfolk.report.page import render, write_report
from kinfolk.report.summary import summarize

__all__ = ["compact_html", "render", "summarize", "write_report"]
