"""GAMTL on 1,000 to 100,000 tasks and up to ten million rows: seconds, memory, iterations, certified share and growth.

Every size runs in a process of its own, whose peak memory is what the system reports for it, the table included. Phases
are given in CPU seconds, which other work on the machine disturbs less than wall time. "search" looks for the nearest
neighbours, "certificate" are the passes over all pairs that prove the graph exact, "graph" and "weights" the rest of
the two steps.

Beside it stands the paper's primal-dual on all pairs: measured where it fits, extrapolated, and marked so, beyond.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from kinfolk import GAMTL
from kinfolk.files import replacing
from kinfolk.graph import EdgeList, learn_graph, squared_distances, theta_for_neighbors
from kinfolk.solvers.graph import candidates
from kinfolk.solvers.graph.primal_dual import primal_dual

D = 20
ROWS = 10
ROUNDS = 6  # of the paper's primal-dual
MANY_ROWS = 100  # per task, for the largest number of tasks once more
WANTED = 1e-4  # distance of the primal-dual's adjacency to the exact one, relative
PHASES = ("search", "certificate", "graph", "weights", "other")


def clustered(T, rows, seed=0):
    """Tasks in groups of 20 with like coefficients: table with the task in column 0, and target."""
    rng = np.random.default_rng(seed)
    table = np.empty((T * rows, D + 1))
    table[:, 0] = np.repeat(np.arange(T), rows)
    table[:, 1:] = rng.normal(size=(T * rows, D))
    groups = max(6, T // 20)
    W = rng.normal(size=(groups, D))[rng.integers(groups, size=T)] + 0.1 * rng.normal(size=(T, D))
    X = table[:, 1:].reshape(T, rows, D)
    return table, np.einsum("tnd,td->tn", X, W).ravel() + rng.normal(size=T * rows)


class Stopwatch:
    """CPU seconds by phase; a phase inside another is taken out of the outer one."""

    def __init__(self):
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.running = []
        self.results = {phase: [] for phase in PHASES}

    def watch(self, module, name, phase):
        function = getattr(module, name)

        def timed(*args, **kwargs):
            started = time.process_time()
            self.running.append(0.0)
            result = function(*args, **kwargs)
            spent = time.process_time() - started
            self.seconds[phase] += spent - self.running.pop()
            if self.running:
                self.running[-1] += spent
            self.results[phase].append(result)
            return result

        setattr(module, name, timed)


def measure(T, rows):
    """One fit, in this process."""
    from kinfolk.methods.gamtl import calibrate, problem

    watch = Stopwatch()
    watch.watch(candidates, "nearest", "search")
    watch.watch(candidates, "pairs_within", "certificate")
    watch.watch(problem, "graph_of_weights", "graph")
    watch.watch(calibrate, "theta_of_weights", "graph")
    watch.watch(problem, "solve_system", "weights")
    X, y = clustered(T, rows)
    wall, cpu = time.perf_counter(), time.process_time()
    model = GAMTL(task=0).fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    watch.seconds["other"] = cpu - sum(watch.seconds.values())
    return {
        "T": T,
        "rows": T * rows,
        "wall": wall,
        "cpu": cpu,
        **watch.seconds,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "newton": sum(getattr(r, "n_iter", 0) for r in watch.results["graph"]),
        "cg": max(r.n_iter for r in watch.results["weights"]),
        "rounds": model.n_iter_,
        "certified": model.optimality_["certified"],
        "gap": model.optimality_["duality_gap"],
        "solvers": "; ".join(model.solvers_.values()),
    }


def in_own_process(T, rows=ROWS):
    command = [sys.executable, "-W", "ignore", __file__, "--one", str(T), str(rows)]
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    said = f"T = {T:,}, {rows} rows each: {result['wall']:.1f} s, CPU {result['cpu']:.1f} s"
    print(said, file=sys.stderr, flush=True)
    return result


def per_iteration(T, iterations=20):
    """CPU seconds of one primal-dual iteration on all pairs."""
    edges = EdgeList.complete(T)
    z = np.random.default_rng(0).uniform(1, 2, len(edges))
    started = time.process_time()
    primal_dual(edges, z, alpha=1.0, beta=0.5, tol=0.0, max_iter=iterations)
    return (time.process_time() - started) / iterations


def iterations_needed(T):
    """Primal-dual iterations to 1e-4 of the exact graph, by doubling."""
    Z = squared_distances(np.random.default_rng(T).normal(size=(T, D)))
    theta = theta_for_neighbors(Z, 5)
    exact = learn_graph(Z, alpha=1.0, beta=0.5, gamma=theta).value
    edges, n = EdgeList.complete(T), 100
    while True:
        a = primal_dual(edges, Z[edges.i, edges.j], alpha=1.0, beta=0.5, gamma=theta, tol=0.0, max_iter=n).value
        if abs(edges.adjacency(a) - exact).power(2).sum() <= WANTED**2 * exact.power(2).sum():
            return n
        n *= 2


def paper(sizes, reached=(250, 500, 1000, 2000)):
    """Seconds of the graph steps of one fit by primal-dual: {T: (seconds, GB, measured?)}; iterations where counted.

    The iterations of T = 500 are taken for all larger sizes too. They grow with T, so this is the least it can take.
    """
    cost = {T: per_iteration(T) for T in reached}
    count = {T: iterations_needed(T) for T in reached[:2]}
    result = {}
    for T in sizes:
        seconds = cost[T] if T in cost else cost[reached[-1]] * (T / reached[-1]) ** 2
        result[T] = ROUNDS * seconds * max(count.values()), 10 * 8 * T * (T - 1) / 2 / 1e9, T in cost
    return result, count


def growth(results, name):
    """Exponent between the two largest sizes."""
    a, b = results[-2:]
    return np.log(b[name] / a[name]) / np.log(b["T"] / a["T"]) if len(results) > 1 and a[name] > 0 else np.nan


def print_tables(results, more_rows, rival, count):
    print(f"\nGAMTL, d = {D}; CPU seconds by phase\n")
    phases = " | ".join(PHASES)
    print(
        f"| tasks | rows | wall s | CPU s | {phases} | peak GB | rounds | Newton | CG, most | certified | joint gap |"
    )
    print("|--:|" + "--:|" * (len(PHASES) + 9))
    for r in [*results, more_rows]:
        phases = " | ".join(f"{r[phase]:.2f}" for phase in PHASES)
        print(
            f"| {r['T']:,} | {r['rows']:,} | {r['wall']:.1f} | {r['cpu']:.1f} | {phases} "
            f"| {r['peak']:.2f} | {r['rounds']} | {r['newton']} | {r['cg']} | {r['certified']:.2%} | {r['gap']:.0e} |"
        )
    exponents = ", ".join(f"{name} {growth(results, name):.2f}" for name in ("cpu", *PHASES))
    print(f"\nGrowth between the two largest sizes with {ROWS} rows per task, exponent of T: {exponents}")
    if len(results) > 1:
        a, b = [r["graph"] + r["weights"] for r in results[-2:]]
        print(f"Graph and weight steps without search and certificate: {b / a:.1f} times")
    print(f"Solvers at the largest size: {results[-1]['solvers']}\n")
    print("The paper's primal-dual on all pairs, graph steps alone (iterations to 1e-4:", end=" ")
    print(", ".join(f"{n} at T = {T}" for T, n in count.items()) + ", taken for larger T too, though they grow)\n")
    print("| tasks | CPU s, at least | GB of edge vectors | |\n|--:|--:|--:|---|")
    for T, (seconds, size, known) in rival.items():
        how = "time of one iteration measured" if known else "extrapolated"
        print(f"| {T:,} | {seconds:,.0f} | {size:,.2f} | {how} |")


def draw(results, rival, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    T = [r["T"] for r in results]
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    axes.loglog(T, [r["cpu"] for r in results], "o-", color="black", linewidth=2, label="whole fit")
    for phase in PHASES[:-1]:
        axes.loglog(T, [r[phase] or np.nan for r in results], ".-", linewidth=1, label=phase)
    axes.loglog(list(rival), [v[0] for v in rival.values()], "s--", color="gray", label="primal-dual on all pairs")
    far = [(t, v[0]) for t, v in rival.items() if not v[2]]
    for t, seconds in far:
        axes.annotate(
            "extrapolated, at least", (t, seconds), xytext=(-4, 6), textcoords="offset points", ha="right", fontsize=8
        )
    axes.axhline(300, color="red", linewidth=0.7, linestyle=":")
    place = {"xytext": (0, 3), "textcoords": "offset points", "ha": "right"}
    axes.annotate("5 minutes", (T[-1], 300), fontsize=8, color="red", **place)
    axes.set(xlabel="tasks", ylabel="CPU seconds", title=f"GAMTL, d = {D}, {ROWS} rows per task")
    axes.legend(fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=130)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--plot", type=Path, default=Path(__file__).parents[1] / "docs" / "scale.png")
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        json.dump(measure(*options.one), sys.stdout)
        return
    results = [in_own_process(T) for T in options.sizes]
    more_rows = in_own_process(options.sizes[-1], MANY_ROWS)
    rival, count = paper(options.sizes)
    print_tables(results, more_rows, rival, count)
    draw(results, rival, options.plot)
    print(f"\nplot: {options.plot}")


if __name__ == "__main__":
    main()
