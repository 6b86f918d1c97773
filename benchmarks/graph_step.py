"""Graph step: Newton beside the paper's primal-dual and the public package `graph-structure-learning`, in one run.

For each T the exact answer comes from Newton with a duality gap near rounding. Each competitor is timed until its
adjacency is within 1e-4 of that answer (relative, Frobenius norm), with the iterations it needs found by doubling, or
until its budget of seconds is spent.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from kinfolk.graph import EdgeList, learn_graph, squared_distances, theta_for_neighbors
from kinfolk.solvers.graph.primal_dual import primal_dual

WANTED = 1e-4


def best_of(function, repeats=3):
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def distance(A, exact):
    return np.linalg.norm(A - exact) / np.linalg.norm(exact)


def time_to_accuracy(solve, exact, budget):
    """Seconds of the shortest run that is accurate enough, doubling the iterations; None if the budget runs out."""
    iterations = 50
    error = np.inf
    while True:
        started = time.perf_counter()
        A = solve(iterations)
        seconds = time.perf_counter() - started
        error = distance(A, exact)
        if error <= WANTED:
            return seconds, iterations, error
        if 2 * seconds > budget:
            return None, iterations, error
        iterations *= 2


def ours(Z, theta):
    edges = EdgeList.complete(len(Z))
    z = Z[edges.i, edges.j]

    def solve(iterations):
        a = primal_dual(edges, z, alpha=1.0, beta=0.5, gamma=theta, tol=0.0, max_iter=iterations).value
        return edges.adjacency(a).toarray()

    return solve


def package(Z, theta):
    """The same problem in the package's words: its beta is twice ours. None if it is not installed."""
    try:
        from graph_learn.smooth_learning import gsp_learn_graph_log_degrees
    except ImportError:
        return None
    edges = EdgeList.complete(len(Z))
    z = theta * Z[edges.i, edges.j]
    return lambda n: gsp_learn_graph_log_degrees(z, 1.0, 1.0, maxit=n, tol=0.0, edge_tol=0.0, step_size=0.99)


def cell(solve, exact, newton, budget):
    """One competitor's column: seconds and how many times Newton's, or why there is none."""
    if solve is None:
        return f"{'not installed':>26}"
    seconds, iterations, error = time_to_accuracy(solve, exact, budget)
    if seconds is None:
        return f"{f'> budget (error {error:.0e})':>26}"
    return f"{seconds:9.3f}s {seconds / newton:6.0f}x {f'({iterations})':>8}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 50, 100, 200, 500, 1000, 2000])
    parser.add_argument("--neighbors", type=float, default=5)
    parser.add_argument("--budget", type=float, default=60, help="seconds for one run of a competitor")
    options = parser.parse_args()
    print(f"time to {WANTED:g} of the exact answer, {options.neighbors:g} neighbours, d = 20")
    print(f"{'T':>6} {'newton':>10} {'steps':>6} {'our primal-dual':>26} {'graph-structure-learning':>26}")
    for T in options.sizes:
        Z = squared_distances(np.random.default_rng(T).normal(size=(T, 20)))
        theta = theta_for_neighbors(Z, options.neighbors)
        solution = learn_graph(Z, alpha=1.0, beta=0.5, gamma=theta)
        newton = best_of(lambda Z=Z, theta=theta: learn_graph(Z, alpha=1.0, beta=0.5, gamma=theta))
        exact = solution.value.toarray()
        columns = [cell(make(Z, theta), exact, newton, options.budget) for make in (ours, package)]
        print(f"{T:6d} {newton:9.4f}s {solution.n_iter:6d}", *columns, flush=True)


if __name__ == "__main__":
    main()
