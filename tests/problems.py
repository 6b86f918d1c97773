"""Small problems that many tests share: statistics, graphs, tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import sparse

from kinfolk import GramStats
from kinfolk.graph import squared_distances
from kinfolk.rows.folds import numbered_folds
from kinfolk.rows.splits import InTime, fold_of_rows


def rows(seed=0, T=6, d=4, n=(3, 9), noise=0.3):
    """X, y and task codes of T tasks of unequal size, in random order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(*n, size=T)
    task = rng.permutation(np.repeat(np.arange(T), sizes))
    W = rng.normal(size=(T, d))
    X = rng.normal(size=(len(task), d)) + rng.normal(size=d)
    y = np.einsum("nd,nd->n", X, W[task]) + task + noise * rng.normal(size=len(task))
    return X, y, task


def frame(seed=0, **kwargs):
    """The same as a table with a string task column, and its target."""
    X, y, task = rows(seed, **kwargs)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table.insert(1, "who", [f"task_{t:02d}" for t in task])
    return table, y


def gram(seed=0, **kwargs):
    return GramStats.from_rows(*rows(seed, **kwargs))


def random_graph(T, seed=0, density=0.3):
    rng = np.random.default_rng(seed)
    A = np.triu(rng.uniform(0.1, 1, size=(T, T)) * (rng.uniform(size=(T, T)) < density), k=1)
    return sparse.csr_array(A + A.T)


def knn_graph(T, k=5, seed=0):
    Z = squared_distances(np.random.default_rng(seed).normal(size=(T, 8)))
    np.fill_diagonal(Z, np.inf)
    near = np.argpartition(Z, k, axis=1)[:, :k]
    A = sparse.csr_array((np.ones(T * k), (np.repeat(np.arange(T), k), near.ravel())), shape=(T, T))
    return sparse.csr_array(A.maximum(A.T))


def ring_graph(T):
    i = np.arange(T)
    A = sparse.csr_array((np.ones(T), (i, (i + 1) % T)), shape=(T, T))
    return sparse.csr_array(A + A.T)


def clique_graph(T, size=20):
    block = np.ones((size, size)) - np.eye(size)
    return sparse.csr_array(sparse.block_diag([block] * (T // size)))


def gaussian_distances(T, d=20, seed=0):
    return squared_distances(np.random.default_rng(seed).normal(size=(T, d)))


def folds_of_rows(rows, X, gram, *, groups=None, **options):
    """Statistics of the folds that `fold_of_rows` deals checked rows to."""
    fold = fold_of_rows(rows, X, gram, groups=groups, **options)
    return numbered_folds(rows, X, gram, fold, isinstance(groups, InTime))
