"""Structures beside what the data themselves say."""

import numpy as np
import pytest

from kinfolk.experiments.reproduction.recovery import clusters, rand_index
from kinfolk.experiments.reproduction.settings import SETTINGS
from kinfolk.experiments.reproduction.tables import remarks
from kinfolk.experiments.reproduction.yardsticks import agreement, judged, strongest_pairs, yardstick


def scattered(T):
    """Distances of points in the plane, and scores that fall with them."""
    points = np.random.default_rng(1).normal(size=(T, 2))
    D = np.linalg.norm(points[:, None] - points, axis=2)
    return D, np.exp(-D) * (1 - np.eye(T))


def test_a_structure_that_follows_the_yardstick_agrees_with_it():
    D, scores = scattered(20)
    found = agreement(strongest_pairs(scores), D)
    assert found["auc"] == 1.0 and found["p_value"] == 0.001


def test_a_random_structure_agrees_by_chance():
    D, _ = scattered(30)
    rng = np.random.default_rng(0)
    p_values = []
    for _ in range(40):
        noise = rng.uniform(size=(30, 30))
        p_values.append(agreement(strongest_pairs(noise + noise.T), D)["p_value"])
    assert np.mean(np.array(p_values) <= 0.1) <= 0.25 and 0.3 < np.mean(p_values) < 0.7


def test_dense_and_sparse_structures_are_judged_by_equally_many_pairs():
    _, scores = scattered(20)
    assert strongest_pairs(scores).sum() == strongest_pairs(np.where(scores > 0.5, scores, 0.0)).sum() == 60


def test_nothing_is_said_about_a_structure_without_pairs_or_with_all():
    D, _ = scattered(4)
    assert agreement(np.zeros((4, 4), bool), D) == {} == agreement(~np.eye(4, dtype=bool), D)


def test_clusters_are_as_many_as_asked_for():
    planted = np.repeat([0, 1, 2], 4)
    scores = (planted[:, None] == planted) + 0.1 * np.random.default_rng(0).uniform(size=(12, 12))
    assert rand_index(clusters(scores, 3), planted) == 1.0
    assert len(np.unique(clusters(scores, 5))) == 5


def test_rows_that_did_not_converge_or_have_no_graph_are_told():
    results = {
        "BMSL": {0: {"params": {"rhat": 3.0}}, 1: {"params": {"rhat": 1.0}}},
        "GAMTLCV": {0: {"params": {"graph_helps": False}}, 1: {"params": {"graph_helps": True}}},
        "MTRL": {0: {"params": {"lam": 1.0}}},
    }
    unmixed, without = remarks(results)
    assert unmixed.startswith("BMSL: the chains have not mixed (R-hat 1.0 to 3.0")
    assert without == "GAMTLCV: the graph takes part in the predictions of 1 of 2 runs."


@pytest.mark.parametrize("key", ["birmingham-across_nights-4", "parkinsons-voice+time-rows-0.5"])
def test_the_yardsticks_of_the_real_data_agree_with_themselves(key):
    setting = next(setting for setting in SETTINGS if setting.key == key)
    D = yardstick(setting).distances
    np.testing.assert_allclose(D, D.T)
    found = judged(setting, np.exp(-D / np.median(D)) * (1 - np.eye(len(D))), range(len(D)))
    assert found["auc"] == 1.0 and found["p_value"] == 0.001
    if setting.part == "birmingham":
        assert 0 <= found["same_place"] <= 3 and found["map_chance"] < 0.4
    else:
        assert found["neighbours_30"] <= 3 and found["neighbours_35"] <= 3
