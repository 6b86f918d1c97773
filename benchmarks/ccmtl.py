"""CCMTL on 5,000 to 20,000 tasks: does the time grow in step with the number of tasks?

    python benchmarks/ccmtl.py            # one thread: OPENBLAS_NUM_THREADS=1

Groups of 100 tasks with common slopes, 30 rows and 20 features each, 10 nearest neighbours.
"""

import argparse
import time

import numpy as np

from kinfolk import GramStats
from kinfolk.baselines import CCMTL


def statistics(T, d=20, rows=30, group=100, seed=0):
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(max(T // group, 1), d))
    parts = []
    for first in range(0, T, 1000):
        tasks = np.arange(first, min(first + 1000, T))
        X = rng.normal(size=(len(tasks), rows, d))
        y = np.einsum("tnd,td->tn", X, slopes[tasks % len(slopes)]) + rng.normal(size=(len(tasks), rows))
        codes = np.repeat(np.arange(len(tasks)), rows)
        parts.append(GramStats.from_codes(X.reshape(-1, d), y.ravel(), codes, tasks))
    fields = ("labels", "n", "x_mean", "y_mean", "G", "b", "yy")
    return GramStats(*(np.concatenate([getattr(part, field) for part in parts]) for field in fields))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, nargs="+", default=[5000, 10000, 20000])
    parser.add_argument("--strength", type=float, nargs="+", default=[1.0, 3.0])
    options = parser.parse_args()
    print("strength  tasks    edges  cpu sec  growth  reweightings  inner  gap      clusters")
    for strength in options.strength:
        last = None
        for T in options.tasks:
            gram = statistics(T)
            start = time.process_time()
            model = CCMTL(strength=strength).fit_gram(gram)
            seconds = time.process_time() - start
            growth = "" if last is None else f"{seconds / last[1] / (T / last[0]):.2f}"
            last = T, seconds
            print(
                f"{strength:<8g}  {T:<7d}  {model.structure_.adjacency.nnz // 2:<6d} {seconds:7.1f}  {growth:>6s}  "
                f"{model.n_iter_:12d}  {model.optimality_['inner']:5d}  {model.optimality_['duality_gap']:.1e}  "
                f"{len(np.unique(model.clusters_))}"
            )
    print("growth: processor seconds over what the previous line predicts for time linear in T; 1 is linear")


if __name__ == "__main__":
    main()
