"""What the data themselves say about which tasks are alike, and how far a learned structure agrees.

Nothing here has seen a model: the paper holds its graphs beside the conditional KL divergence of the patients' rows and
beside the time warping of the car parks' occupancy; the car parks also have a map. Of every structure, whatever its
kind, as many strongest pairs count as a graph of three neighbours per task has, so that a dense matrix is not judged
by its density.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from kinfolk.datasets import load_birmingham
from kinfolk.experiments.diagnostics import conditional_kl, dtw_distances
from kinfolk.experiments.reproduction.settings import Setting
from kinfolk.experiments.reproduction.splits import split
from kinfolk.rows.gram import Array

NEIGHBORS = 3  # per task, of the pairs that count
SHUFFLES = 999
HALF_HOURS = 18 * 7 * 2  # readings of two weeks, the length of the warped series
SAME_PLACE = (8, 9, 17)  # numbers of the car parks with equal coordinates, green in the paper
FAR_AWAY = (30, 35)  # patients whom the paper calls far from most others
NEAR_ON_THE_MAP = 3  # the nearest car parks of each


class Yardstick(NamedTuple):
    """Dissimilarities (T, T) of the tasks of a setting, and what they are."""

    distances: Array
    words: str


@lru_cache(maxsize=4)
def yardstick(setting: Setting) -> Yardstick:
    """What a setting's structures are held beside; equal calls compute it once."""
    rows = split(setting, 0)
    if setting.part == "birmingham":
        return Yardstick(_warping(rows.tasks), "constrained DTW of occupancy (band 10 %)")
    if "coef" in rows.truth:
        W = rows.truth["coef"]
        return Yardstick(np.linalg.norm(W[:, None] - W[None], axis=2), "distances of the true coefficients")
    X = np.vstack([rows.X, rows.X_test])
    y = np.concatenate([rows.y, rows.y_test])
    return Yardstick(conditional_kl(X, y, task=0), "conditional KL divergence")


def _warping(lots: list[str]) -> Array:
    """Distances between the occupancy of car parks on a common clock, over the first two weeks that all have."""
    series = load_birmingham().series
    every = [series[lot] for lot in lots]
    start = max(times[0] for times, _ in every)
    clock = np.unique(np.concatenate([times[times >= start] for times, _ in every]))
    # All car parks report at moments of their own: a thinned union of these serves as the common clock.
    seconds = clock[:: max(1, len(clock) // (4 * HALF_HOURS))][: 4 * HALF_HOURS].astype(float)
    return dtw_distances(np.stack([np.interp(seconds, times.astype(float), rates) for times, rates in every]), band=0.1)


def strongest_pairs(scores: Array, neighbors: float = NEIGHBORS) -> NDArray[np.bool_]:
    """The pairs of largest score, above zero, as many as make `neighbors` per task; symmetric (T, T).

    Examples
    --------
    >>> strongest_pairs(np.array([[0.0, 3.0, 1.0], [3.0, 0.0, -2.0], [1.0, -2.0, 0.0]]), 2 / 3).astype(int)
    array([[0, 1, 0],
           [1, 0, 0],
           [0, 0, 0]])
    """
    T = len(scores)
    i, j = np.triu_indices(T, 1)
    strength = (scores[i, j] + scores[j, i]) / 2
    order = np.argsort(-strength, kind="stable")[: round(neighbors * T / 2)]
    order = order[strength[order] > 0]
    kept = np.zeros((T, T), bool)
    kept[i[order], j[order]] = kept[j[order], i[order]] = True
    return kept


def agreement(kept: NDArray[np.bool_], D: Array, *, random_state: int = 0) -> dict[str, float]:
    """How much nearer than others the kept pairs are: the area under the ROC curve (0.5 is chance), and its p-value.

    The p-value is the share of shufflings of the tasks' names that agree as well: it stays right although pairs that
    have a task in common depend on each other.
    """
    i, j = np.triu_indices(len(D), 1)
    near = rankdata(-D[i, j])  # the nearest pair has the largest rank
    rank = np.zeros_like(D)
    rank[i, j] = rank[j, i] = near
    if not kept.any() or kept[i, j].all():
        return {}
    rng = np.random.default_rng(random_state)
    shuffled = [rank[np.ix_(order, order)][kept].sum() for order in (rng.permutation(len(D)) for _ in range(SHUFFLES))]
    as_good = 1 + np.count_nonzero(np.array(shuffled) >= rank[kept].sum())
    return {"auc": float(roc_auc_score(kept[i, j], near)), "p_value": as_good / (1 + SHUFFLES)}


def judged(setting: Setting, scores: Array, tasks: Sequence[int]) -> dict[str, float]:
    """What the yardsticks of real data say about a structure over some of the tasks, given by their positions."""
    T = len(tasks)
    at = np.asarray(tasks)
    kept = strongest_pairs(scores)
    measures = {
        "neighbours": np.count_nonzero(scores > 0) / T,
        **agreement(kept, yardstick(setting).distances[np.ix_(at, at)]),
    }
    place = {int(number): k for k, number in enumerate(at + 1)}  # numbers as in the paper
    if setting.part == "birmingham":
        same = [place[number] for number in SAME_PLACE if number in place]
        measures["same_place"] = np.count_nonzero(kept[np.ix_(same, same)]) / 2
        measures |= _on_the_map(scores, [split(setting, 0).tasks[k] for k in at])
    if setting.part == "parkinsons":
        measures |= {f"neighbours_{number}": float(kept[place[number]].sum()) for number in FAR_AWAY}
    return measures


def _on_the_map(scores: Array, lots: list[str]) -> dict[str, float]:
    """Share of the weight that lies on pairs near each other on the map, and the share of such pairs: chance."""
    places: dict[str, Any] = load_birmingham().locations
    mapped = [k for k, lot in enumerate(lots) if lot in places]
    if len(mapped) <= NEAR_ON_THE_MAP:
        return {}
    at = np.array([places[lots[k]] for k in mapped]) * [np.cos(np.radians(52.5)), 1.0]  # Birmingham's latitude
    distance = np.linalg.norm(at[:, None] - at[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    near = distance <= np.sort(distance, axis=1)[:, NEAR_ON_THE_MAP - 1 : NEAR_ON_THE_MAP]
    near |= near.T
    weight = np.where(strongest_pairs(scores), scores, 0.0)[np.ix_(mapped, mapped)]
    chance = near.sum() / (len(mapped) * (len(mapped) - 1))
    return {"map_share": float(weight[near].sum() / weight.sum()) if weight.any() else 0.0, "map_chance": float(chance)}
