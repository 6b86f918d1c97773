"""The graph step: min over A for fixed weights, and the graph it gives."""

from kinfolk.solvers.graph.candidates import DENSE_TASKS, Candidates, graph_of_weights
from kinfolk.solvers.graph.edges import EdgeList, laplacian, squared_distances
from kinfolk.solvers.graph.learn import learn_graph
from kinfolk.solvers.graph.neighbors import theta_for_neighbors, theta_of_weights
from kinfolk.solvers.graph.pairs import nearest

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
