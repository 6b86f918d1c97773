"""Weight step: every preconditioner over the coupling and the number of tasks, and what `auto` takes.

Each cell is iterations and CPU seconds (setup included) to a relative residual of 1e-10, or ">" at the limit. The
graphs are the one learned from clustered tasks, whose weights differ by orders of magnitude; a ring; and cliques of 20.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from kinfolk.graph import Candidates, graph_of_weights, theta_of_weights
from kinfolk.solvers.weights.cg import solve_cg
from kinfolk.weights import weight_system

D = 20
ROWS = 10
CHOICES = (
    ("blocks", "auto"),
    ("laplacian", "cmg"),
    ("sum", "cmg"),
    ("laplacian", "splu"),
    ("sum", "splu"),
    ("auto", "auto"),
)


def statistics(T, seed=0):
    """G and b of clustered tasks."""
    rng = np.random.default_rng(seed)
    groups = max(6, T // 20)
    W = rng.normal(size=(groups, D))[rng.integers(groups, size=T)] + 0.1 * rng.normal(size=(T, D))
    X = rng.normal(size=(T, ROWS, D))
    y = np.einsum("tnd,td->tn", X, W) + rng.normal(size=(T, ROWS))
    return X.transpose(0, 2, 1) @ X, np.einsum("tnd,tn->td", X, y)


def learned(T, G, b):
    """The graph of the second round: from weights that have felt the first."""
    W = np.linalg.solve(G + np.eye(D), b[:, :, None])[:, :, 0]
    pairs = Candidates()
    theta = theta_of_weights(W, 5, pairs)
    letters = {"alpha": 1 / theta, "beta": 0.5 / theta, "gamma": 1.0, "candidates": pairs}
    A = graph_of_weights(W, **letters).value
    W = solve_cg(weight_system(G, b, A, 7.0, ridge=1.0)).value
    return graph_of_weights(W, **letters).value


def ring(T, *_):
    i = np.arange(T)
    A = sparse.csr_array((np.ones(T), (i, (i + 1) % T)), shape=(T, T))
    return sparse.csr_array(A + A.T)


def cliques(T, *_, size=20):
    return sparse.csr_array(sparse.kron(sparse.eye_array(T // size), np.ones((size, size)) - np.eye(size)))


GRAPHS = {"learned": learned, "ring": ring, "cliques": cliques}


def run(system, preconditioner, solver, limit):
    """The cell, CPU seconds, and what ran; None if it did not converge."""
    started = time.process_time()
    solution = solve_cg(system, preconditioner=preconditioner, laplacian_solver=solver, max_iter=limit)
    seconds = time.process_time() - started
    count = f"{solution.n_iter}" if solution.converged else f"> {limit}"
    return f"{count}, {seconds:.2f} s", seconds if solution.converged else np.inf, solution


def table(name, T, gammas, limit, fill, left_out):
    """One table: rows are gammas."""
    G, b = statistics(T)
    A = GRAPHS[name](T, G, b)
    skipped = {"splu", *left_out} if name == "learned" and fill < T else set(left_out)
    choices = [c for c in CHOICES if c[1] not in skipped]
    count = connected_components(A, directed=False)[0]
    print(f"\n{name}, T = {T:,}, {count:,} components, {A.nnz / T:.1f} neighbours\n")
    heads = [p if s == "auto" else f"{p}, {s}" for p, s in choices]
    print("| gamma | coupling / own |", " | ".join(heads), "| auto took | auto / best |")
    print("|--:|--:|" + "--:|" * (len(heads) + 2))
    for gamma in gammas:
        system = weight_system(G, b, A, gamma, ridge=1.0)
        cells = [run(system, *choice, limit) for choice in choices]
        best = min(seconds for _, seconds, _ in cells[:-1])
        ratio = np.median(system.pull) / np.median(system.own)
        row = " | ".join(cell for cell, _, _ in cells)
        print(f"| {gamma:g} | {ratio:.2g} | {row} | {cells[-1][2].method} | {cells[-1][1] / best:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 10_000, 100_000])
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument("--gammas", type=float, nargs="+", default=[1e-3, 1e-1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e6])
    parser.add_argument("--limit", type=int, default=300, help="iterations at which a choice has lost")
    parser.add_argument("--fill", type=int, default=5000, help="tasks above which learned graphs are not factorised")
    parser.add_argument("--without", nargs="+", choices=("splu", "cmg"), default=[], help="solvers to leave out")
    options = parser.parse_args()
    for T in options.sizes:
        for name in options.graphs:
            table(name, T, options.gammas, options.limit, options.fill, options.without)


if __name__ == "__main__":
    main()
