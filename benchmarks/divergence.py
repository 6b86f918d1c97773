"""Bias and standard deviation of the nearest-neighbour divergences, on Gaussians whose divergence is known."""

import argparse

import numpy as np

from kinfolk.diagnostics import conditional_kl, knn_divergence

TRUTHS = (0.0, 0.5, 2.0, 8.0)


def between_gaussians(rng, d, n, truth, draws):
    """Two unit Gaussians at the distance sqrt(2 truth)."""
    shift = np.sqrt(2 * truth / d)
    return [knn_divergence(rng.normal(size=(n, d)), shift + rng.normal(size=(n, d))) for _ in range(draws)]


def between_regressions(rng, d, n, draws):
    """Three tasks with unit slopes and unit noise; the third with the opposite slopes: divergences 0 and 2."""
    task = np.repeat([0, 1, 2], n)
    kin = []
    apart = []
    for _ in range(draws):
        X = rng.normal(size=(3 * n, d))
        y = np.where(task == 2, -1, 1) * X.sum(axis=1) / np.sqrt(d) + rng.normal(size=3 * n)
        D = conditional_kl(X, y, task)
        kin.append(D[0, 1])
        apart.append(D[0, 2])
    return kin, apart


def cell(values):
    return f"{np.mean(values):5.2f} +- {np.std(values):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    print("knn_divergence, mean +- standard deviation over draws")
    print("| d | rows |" + "".join(f" truth {truth:g} |" for truth in TRUTHS))
    for d in (1, 2, 5, 10, 19):
        for n, draws in ((140, arguments.draws), (1000, arguments.draws // 4)):
            row = [cell(between_gaussians(rng, d, n, truth, draws)) for truth in TRUTHS]
            print(f"| {d} | {n:,} | " + " | ".join(row) + " |", flush=True)
    print("conditional_kl")
    print("| d | rows | truth 0 | truth 2 |")
    for d in (1, 5, 19):
        for n, draws in ((140, arguments.draws * 2 // 5), (1000, arguments.draws // 12)):
            print(f"| {d} | {n:,} | " + " | ".join(map(cell, between_regressions(rng, d, n, draws))) + " |", flush=True)


if __name__ == "__main__":
    main()
