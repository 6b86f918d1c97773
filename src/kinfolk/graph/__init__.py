"""The graph step: min over A for fixed weights, and the graph it gives."""

from kinfolk.graph.edges import EdgeList, laplacian, squared_distances
from kinfolk.graph.learn import learn_graph
from kinfolk.graph.neighbors import theta_for_neighbors

__all__ = ["EdgeList", "laplacian", "learn_graph", "squared_distances", "theta_for_neighbors"]
