"""Fitted models for other programs: graphs, coefficients and ONNX."""

from kinfolk.export.graphs import write_coefficients, write_csv, write_graph
from kinfolk.export.onnx import to_onnx

__all__ = ["to_onnx", "write_coefficients", "write_csv", "write_graph"]
