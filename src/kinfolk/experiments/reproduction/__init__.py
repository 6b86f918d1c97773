"""The paper's experiments by one command: tables and figures, our numbers beside the published ones.

`kinfolk reproduce` computes what is missing and writes tables (CSV, Markdown), figures and one HTML page.
"""

from kinfolk.experiments.reproduction.runner import run

__all__ = ["run"]
