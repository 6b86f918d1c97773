"""The paper's experiments by one command: tables and figures, our numbers beside the published ones."""

from kinfolk.experiments.reproduction import run

__all__ = ["run"]
