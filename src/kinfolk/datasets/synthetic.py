"""Linear tasks with a known structure: two groups with outliers (Syn 1), and a circle (Syn 2)."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from kinfolk.datasets.table import check_row_counts, description, split_table
from kinfolk.rows.gram import Array

N_TASKS = 20
N_FEATURES = 30

_OUTLIER_SD = {"sd10": 10.0, "var10": np.sqrt(10.0)}


def make_groups(
    n_samples: int = 20,
    n_test: int = 80,
    *,
    shared_inputs: bool = False,
    outlier: str = "sd10",
    noise: float = 1.0,
    random_state: Any = None,
) -> Bunch:
    """Draw Syn 1: tasks 1-12 and 13-18 form two groups, tasks 19 and 20 are related to no other task.

    Parameters
    ----------
    n_samples, n_test : training and test rows per task
    shared_inputs : whether all tasks have the same training inputs and the same test inputs, as in the paper
    outlier : "sd10" or "var10": whether each coordinate of w_20 has standard deviation 10 or variance 10
    noise : standard deviation of the noise in y
    random_state : seed or generator; the coefficients depend on it alone, and the test rows not on `n_samples`

    Returns
    -------
    Bunch
        `data`, `target`, `test_data`, `test_target`, `task`, `tasks`, `feature_names`, `DESCR`, and the truth: `coef`
        (20, 30), `groups` (0, 1, or -1 for an outlier) and `edges` (index pairs of related tasks)

    Examples
    --------
    >>> b = make_groups(random_state=0)
    >>> b.data.shape, b.test_data.shape, b.coef.shape
    ((400, 31), (1600, 31), (20, 30))
    >>> b.groups.tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, -1, -1]
    """
    if outlier not in _OUTLIER_SD:
        raise ValueError(f'outlier must be "sd10" or "var10", got {outlier!r}.')
    rng = check_random_state(random_state)
    groups = np.repeat([0, 1, -1], [12, 6, 2])
    means = rng.normal([[1.0], [-1.0]], 1.0, size=(2, N_FEATURES))
    kin = means[groups[:18]] + 0.1 * rng.uniform(size=(18, N_FEATURES))
    alone = rng.normal(size=(2, N_FEATURES)) * [[1.0], [_OUTLIER_SD[outlier]]]
    edges = [(i, j) for i, j in combinations(range(18), 2) if groups[i] == groups[j]]
    rows = _draw_rows(np.vstack([kin, alone]), n_samples, n_test, shared_inputs, noise, rng)
    return Bunch(**rows, groups=groups, edges=edges, DESCR=description("groups") + description("protocol"))


def make_circle(
    n_samples: int = 20, n_test: int = 80, *, shared_inputs: bool = False, noise: float = 1.0, random_state: Any = None
) -> Bunch:
    """Draw Syn 2: each task is related to its neighbours on a circle, which closes with w_20 = w_1.

    The true edges are the 22 pairs at most one step of 2 pi / 19 apart: the 19 consecutive pairs, the
    identical pair (1, 20), and, because those two are one point of the circle, also (1, 19) and (2, 20).

    Parameters
    ----------
    n_samples, n_test, shared_inputs, noise, random_state : as in `make_groups`

    Returns
    -------
    Bunch
        the fields of `make_groups`; `groups` is 0 for every task, since the circle is one group

    Examples
    --------
    >>> b = make_circle(random_state=0)
    >>> bool((b.coef[0] == b.coef[19]).all()), len(b.edges)
    (True, 22)
    >>> b.edges[-3:]
    [(0, 19), (0, 18), (1, 19)]
    """
    rng = check_random_state(random_state)
    # The full turn counts as no turn, so that w_20 equals w_1 to the last bit.
    theta = np.linspace(0.0, 2.0 * np.pi, N_TASKS) % (2.0 * np.pi)
    coef = np.tile(rng.normal(size=N_FEATURES), (N_TASKS, 1))
    first, second = coef[:, :2].T.copy()
    coef[:, 0] = np.cos(theta) * first - np.sin(theta) * second
    coef[:, 1] = np.sin(theta) * first + np.cos(theta) * second
    edges = [*pairwise(range(N_TASKS)), (0, 19), (0, 18), (1, 19)]
    rows = _draw_rows(coef, n_samples, n_test, shared_inputs, noise, rng)
    return Bunch(
        **rows, groups=np.zeros(N_TASKS, dtype=int), edges=edges, DESCR=description("circle") + description("protocol")
    )


def _draw_rows(
    coef: Array, n_samples: int, n_test: int, shared: bool, noise: float, rng: np.random.RandomState
) -> dict[str, Any]:
    """Training and test rows of linear tasks, each of the two from a seed of its own."""
    check_row_counts(n_samples, n_test)
    T, d = coef.shape
    inputs = []
    targets = []
    for n, seed in zip((n_samples, n_test), rng.randint(2**31 - 1, size=2), strict=True):
        own = np.random.RandomState(seed)
        X = np.broadcast_to(own.normal(size=(1 if shared else T, n, d)), (T, n, d))
        inputs.append(X)
        targets.append(np.einsum("tnd,td->tn", X, coef) + noise * own.normal(size=(T, n)))
    X = np.concatenate(inputs, axis=1).reshape(-1, d)  # task by task: its training rows, then its test rows
    y = np.concatenate(targets, axis=1).ravel()
    train = np.tile(np.arange(n_samples + n_test) < n_samples, T)
    labels = np.arange(1, T + 1)
    names = [f"x{j}" for j in range(1, d + 1)]
    rows = split_table("task", np.repeat(labels, n_samples + n_test), X, names, train, target=y)
    return {**rows, "tasks": labels.tolist(), "coef": coef}
