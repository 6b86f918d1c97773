"""Scores are those of plain loops, and differences those of the textbook."""

import math

import numpy as np
import pytest

from kinfolk.experiments.reproduction.referee import mean_and_sd, paired, pooled_over, score


def test_score_is_the_plain_formula():
    rng = np.random.default_rng(4)
    y, prediction, codes = rng.normal(size=60), rng.normal(size=60), rng.integers(0, 4, size=60)
    found = score(y, prediction, codes, 4)
    errors = [[(p - v) ** 2 for v, p, c in zip(y, prediction, codes, strict=True) if c == t] for t in range(4)]
    assert found["pooled"] == pytest.approx(math.sqrt(sum(map(sum, errors)) / 60))
    assert found["tasks"] == pytest.approx(sum(math.sqrt(sum(e) / len(e)) for e in errors) / 4)
    assert found["test_rows"].tolist() == [len(e) for e in errors]


def test_a_task_without_test_rows_counts_nowhere():
    found = score(np.zeros(2), np.array([1.0, 1.0]), np.array([0, 2]), 3)
    assert found["tasks"] == 1.0
    assert np.isnan(found["by_task"][1])


@pytest.mark.parametrize("prediction", [np.array([np.nan, 1.0]), np.zeros((2, 1))])
def test_predictions_that_are_no_numbers_are_refused(prediction):
    with pytest.raises(ValueError, match="must be finite, one per row"):
        score(np.zeros(2), prediction, np.zeros(2, int), 1)


def test_one_run_has_no_standard_deviation():
    assert math.isnan(mean_and_sd([2.0])[1])


def cell(tasks, pooled=1.0, fixed=False):
    return {
        "tasks": float(np.mean(tasks)),
        "pooled": pooled,
        "by_task": list(tasks),
        "test_rows": [1, 3],
        "tasks_named": ["a", "b"],
        "fixed_split": fixed,
    }


def test_differences_are_paired_over_the_runs_that_both_have():
    ours = {0: cell([1.0, 2.0]), 1: cell([2.0, 2.0]), 2: cell([9.0, 9.0])}
    reference = {0: cell([1.0, 1.0]), 1: cell([1.0, 1.0]), 5: cell([0.0, 0.0])}
    found = paired(ours, reference, "tasks")
    assert found.mean == 0.75  # differences 0.5 and 1.0
    assert found.standard_error == pytest.approx(np.std([0.5, 1.0], ddof=1) / math.sqrt(2))


def test_runs_of_one_split_are_no_independent_pairs():
    ours = {0: cell([1.0, 2.0], fixed=True), 1: cell([1.0, 4.0], fixed=True)}
    reference = {0: cell([1.0, 1.0], fixed=True), 1: cell([1.0, 1.0], fixed=True)}
    found = paired(ours, reference, "tasks")
    assert found.mean == 1.0  # of the tasks: 0 and 2
    assert found.standard_error == pytest.approx(np.std([0.0, 2.0], ddof=1) / math.sqrt(2))


def test_without_a_common_run_there_is_no_difference():
    assert paired({0: cell([1.0, 1.0])}, {1: cell([1.0, 1.0])}, "tasks") is None


def test_pooling_some_tasks_weighs_them_by_their_rows():
    assert pooled_over(cell([2.0, 4.0]), ["a", "b"]) == pytest.approx(math.sqrt((4 + 3 * 16) / 4))
    assert pooled_over(cell([2.0, 4.0]), ["b"]) == 4.0
