"""The graph step: min over A for fixed weights, and the graph it gives."""

from kinfolk.graph.candidates import DENSE_TASKS, Candidates, graph_of_weights
from kinfolk.graph.edges import EdgeList, laplacian, squared_distances
from kinfolk.graph.learn import learn_graph
from kinfolk.graph.neighbors import theta_for_neighbors, theta_of_weights
from kinfolk.graph.pairs import nearest

__all__ = [
    "DENSE_TASKS",
    "Candidates",
    "EdgeList",
    "graph_of_weights",
    "laplacian",
    "learn_graph",
    "nearest",
    "squared_distances",
    "theta_for_neighbors",
    "theta_of_weights",
]
