"""Features that tasks share, where they differ, and what marks a group."""

import numpy as np
import pandas as pd
import pytest

from kinfolk import GAMTL
from kinfolk.explain import group_profile, shared_features


def table(W, n=40, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(W)), n)
    X = rng.normal(size=(len(task), W.shape[1]))
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(W.shape[1])])
    frame.insert(0, "who", [f"t{t}" for t in task])
    return frame, np.einsum("nd,nd->n", X, W[task]) + noise * rng.normal(size=len(task))


@pytest.fixture(scope="module")
def model():
    """Two groups of four that differ in x1 only; x0 and x2 are common."""
    W = np.tile([1.0, 2.0, -1.0], (8, 1))
    W[4:, 1] = -2.0
    return GAMTL(task="who", neighbors=3, strength=0.1).fit(*table(W))


def test_the_planted_difference_across_groups_is_found(model):
    found = shared_features(model, "t0", "t7")
    assert found.features[0].feature == "x1"
    assert found.features[0].verdict == "differs"
    assert found.features[0].difference == pytest.approx(4.0, abs=0.3)
    assert found.features[0].alone == pytest.approx(4.0, abs=0.5)


def test_tasks_of_one_group_share_what_marks_it(model):
    found = shared_features(model, "t0", "t1")
    assert "x1" in found.having("shared")
    assert found.having("differs") == []
    assert found.weight > 0


def test_turning_the_pair_round_turns_the_differences(model):
    one, two = shared_features(model, "t0", "t7"), shared_features(model, "t7", "t0")
    assert [r.feature for r in one.features] == [r.feature for r in two.features]
    np.testing.assert_allclose([r.difference for r in one.features], [-r.difference for r in two.features])
    np.testing.assert_allclose(
        [r.standard_error for r in one.features], [r.standard_error for r in two.features], rtol=1e-6
    )


def test_rows_hold_the_coefficients_of_the_model(model):
    for row in shared_features(model, "t2", "t5").table():
        j = int(row["feature"][1:])
        assert row["coef"] == pytest.approx(model.coef_[2, j], abs=1e-5)
        assert row["difference"] == pytest.approx(row["coef"] - row["neighbor_coef"])
        assert row["spread"] * model.relevance_[j] == pytest.approx(row["difference"])


def test_noise_is_seldom_called_a_difference():
    """Forty comparisons of three features of equal tasks; at 5 % each, more than 8 would be a one in 10,000 event."""
    wrong = 0
    for seed in range(40):
        equal = GAMTL(task="who", strength=0.01).fit(*table(np.ones((3, 3)), n=30, seed=seed))
        found = shared_features(equal, "t0", "t1")
        difference = np.array([r.difference / r.standard_error for r in found.features])
        wrong += bool((np.abs(difference) > 2.394).any())
    assert wrong <= 8


def test_groups_are_marked_by_the_planted_coefficient(model):
    profiles = group_profile(model)
    assert [p.tasks for p in profiles] == [("t0", "t1", "t2", "t3"), ("t4", "t5", "t6", "t7")]
    for profile, sign in zip(profiles, (1, -1), strict=True):
        first = profile.features[0]
        assert first.feature == "x1"
        assert first.difference == pytest.approx(4 * sign, abs=0.3)
        assert abs(first.difference) > 10 * first.standard_error
        assert abs(first.distance) == pytest.approx(2.0, abs=0.01)


def test_profiles_hold_the_means_and_spreads_of_the_coefficients(model):
    row = next(r for r in group_profile(model)[1].table() if r["feature"] == "x2")
    assert row["mean"] == pytest.approx(model.coef_[4:, 2].mean(), abs=1e-5)
    assert row["within"] == pytest.approx(model.coef_[4:, 2].std(), abs=1e-5)
    assert row["rest"] == pytest.approx(model.coef_[:4, 2].mean(), abs=1e-5)
    assert row["community"] == 1


def test_a_single_community_has_nothing_to_be_held_against():
    (profile,) = group_profile(GAMTL(task="who").fit(*table(np.tile([3.0, 1.0], (3, 1)), noise=0.01)))
    assert profile.features[0].feature == "x0"
    assert np.isnan([profile.features[0].rest, profile.features[0].distance]).all()


def test_representations_can_be_read(model):
    assert "differ: x1" in repr(shared_features(model, "t0", "t7"))
    assert repr(group_profile(model)[0]).startswith("GroupProfile(0: 4 tasks ('t0', 't1', 't2', ...); marked by x1 +")


def test_errors_name_the_task(model):
    with pytest.raises(ValueError, match="no task 'zz' among 8 tasks: 't0', 't1'"):
        shared_features(model, "t0", "zz")
    with pytest.raises(ValueError, match="compares two tasks, got 't0' twice"):
        shared_features(model, "t0", "t0")


def test_a_task_without_targets_cannot_be_compared():
    frame, y = table(np.ones((4, 2)))
    y[frame["who"] == "t3"] = np.nan
    with pytest.raises(ValueError, match="task 't3' had no target in fit"):
        shared_features(GAMTL(task="who").fit(frame, y), "t0", "t3")
