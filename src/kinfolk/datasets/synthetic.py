"""Linear tasks with a known structure: two groups with outliers (Syn 1), and a circle (Syn 2)."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from kinfolk.datasets.table import check_row_counts, split_table
from kinfolk.rows.gram import Array

N_TASKS = 20
N_FEATURES = 30

_OUTLIER_SD = {"sd10": 10.0, "var10": np.sqrt(10.0)}

_PROTOCOL = """
x ~ N(0, I_30), y = w_t'x + noise * N(0, 1); by default 20 training and 80 test rows per task.

The paper gives all tasks the same inputs (shared_inputs=True). With 20 common rows and d = 30, a
10-dimensional part of every w_t is then invisible to all tasks, so no method can beat the error of the best
predictor inside the common row space, and the paper's best results sit on that floor. With inputs of their
own (shared_inputs=False, the default) tasks can fill each other's gaps, and sharing can show.

Simulated; no licence attached.
"""

_GROUPS_DESCR = f"""Syn 1: twenty linear tasks in two groups, with two outlier tasks.

Tasks 1-12: w_t = w_g1 + 0.1 u_t, w_g1 ~ N(1, I); tasks 13-18: w_t = w_g2 + 0.1 u_t, w_g2 ~ N(-1, I), where
u_t is uniform on [0, 1]^30 and drawn anew for every task; task 19: w ~ N(0, I); task 20: w ~ N(0, 10 I),
where the paper leaves open whether 10 is the variance (outlier="var10") or the standard deviation
(outlier="sd10"). The printed errors fit the standard deviation.
{_PROTOCOL}"""

_CIRCLE_DESCR = f"""Syn 2: twenty linear tasks on a circle.

w_1 ~ N(0, I); w_t has the coordinates 3-30 of w_1, and its first two rotated by theta_t = 2 pi (t - 1) /
19. So w_20 = w_1, as the paper says. (It writes w_2:30 where the twenty tasks end at w_20.)
{_PROTOCOL}"""


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
    return Bunch(**rows, groups=groups, edges=edges, DESCR=_GROUPS_DESCR)


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
    return Bunch(**rows, groups=np.zeros(N_TASKS, dtype=int), edges=edges, DESCR=_CIRCLE_DESCR)


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
