"""One wording of verdicts: helps, hurts or makes no difference, for whom, and what to do."""

import numpy as np
import pytest
from scipy import stats

from kinfolk.judge.errors import Errors, Gain
from kinfolk.judge.verdict import Verdict, graph_sentence, sharing_sentence

NAMES = [f"shop {k}" for k in range(40)]


def verdict(ratio, chance=None):
    own = np.linspace(1.0, 2.0, len(ratio))
    return Verdict.of(np.asarray(ratio) * own, own, NAMES, chance=chance)


def test_sharing_that_helps_everybody_says_so():
    first, whom, after = verdict(np.full(20, 0.8) + 0.01 * np.arange(20)).sentences()
    assert first.startswith(
        "Sharing helps: the held-out error of this model is lower than that of a ridge per task, by"
    )
    assert whom == "20 of 20 tasks have a lower error than alone, and none a clearly higher one."
    assert after == "What to do: use this model."


def test_harm_is_said_first_and_names_who_is_harmed():
    ratio = np.full(30, 1.2) + 0.01 * np.arange(30)
    ratio[7] = 2.0
    ratio[:4] = 0.99
    first, whom, after = verdict(ratio).sentences()
    assert first.startswith(
        "Sharing hurts: the held-out error of this model is higher than that of a ridge per task, by"
    )
    assert whom.startswith(
        "4 of 30 tasks have a lower error than alone; clearly higher: shop 7 (at least twice), shop 29 ("
    )
    assert whom.endswith("and 23 more.") and "Independent" in after


def test_one_that_loses_among_many_that_gain_is_named():
    ratio = np.full(12, 0.5)
    ratio[3] = 2.5
    said = verdict(ratio).sentences()
    assert said[1].endswith("; clearly higher: shop 3 (at least twice).")
    assert "For the task that clearly loses" in said[2]


def test_losses_that_may_be_chance_are_told_without_advice():
    ratio = np.full(30, 0.5)
    ratio[[2, 3, 5]] = [1.4, 2.1, 1.2]
    chance = np.full(30, 0.9)
    chance[[2, 3, 5]] = [0.3, np.nan, 0.01]
    found = verdict(ratio, chance)
    assert found.for_whom() == (
        "27 of 30 tasks have a lower error than alone; clearly higher: shop 5 (+20.0 %); higher by 5.0 % or "
        "more, perhaps by chance: shop 3 (at least twice) and shop 2 (+40.0 %)."
    )
    chance[5] = 0.3
    assert verdict(ratio, chance).next_step() == "What to do: use this model."


def test_a_rise_is_clear_by_a_paired_t_test_over_folds():
    rng = np.random.default_rng(5)
    rows = np.array([[4.0, 2, 1, 1]] * 5)
    rows[2:, 2] = 0  # rows in two folds only
    rows[3:, 3] = 0
    own = rng.uniform(1, 2, size=rows.shape) * rows
    model = own + rows * (0.5 + 0.3 * rng.normal(size=rows.shape))
    found = Errors(model, rows).chance_of_rise(Errors(own, rows))
    for t, k in ((0, 5), (1, 5), (3, 3)):
        expected = stats.ttest_rel(model[:k, t] / rows[:k, t], own[:k, t] / rows[:k, t], alternative="greater")
        assert found[t] == pytest.approx(expected.pvalue)
    assert np.isnan(found[2]) and found[0] < 0.025


def test_equal_errors_are_called_equal():
    assert sharing_sentence(Gain(0.0, 0.0), 9, "pooled") == (
        "Sharing makes no clear difference: the held-out error of pooled is that of a ridge per task, mean over 9 "
        "tasks."
    )


def test_a_single_row_has_no_ridge_of_its_own():
    own = np.array([1.0, 1.0, np.nan, np.nan, 1.0])
    found = Verdict.of(np.array([0.5, 0.6, 3.0, 0.1, 0.7]), own, NAMES)
    assert found.tasks == 3
    assert found.for_whom().endswith(" 2 tasks with a single row have no ridge of their own and are not judged.")


def test_no_difference_is_no_difference():
    said = verdict([1.001, 0.999, 1.0005, 0.9995, 1.0, 1.0]).sentences()
    assert said[0].startswith("Sharing makes no clear difference: ") and "simpler" in said[2]


def test_tasks_that_were_not_judged_do_not_count():
    found = Verdict.of(np.array([0.5, np.nan, 0.6]), np.array([1.0, 1.0, 1.0]), NAMES)
    assert found.tasks == 2 and Verdict.of(np.array([np.nan]), np.array([1.0]), NAMES) is None


@pytest.mark.parametrize("mean", [-1e-5, 0.0, 1e-5])
@pytest.mark.parametrize("error", [0.0, 1e-6, 0.01])
def test_nothing_is_ever_minus_zero(mean, error):
    for text in (sharing_sentence(Gain(mean, error), 9), graph_sentence(Gain(mean, error), False)):
        assert "less than 0.1 %" in text or "is that of" in text or "would be the same" in text
        assert "-0.0" not in text and "error 0.0" not in text


def test_one_task_is_singular():
    found = Verdict.of(np.array([0.5, 1.0]), np.array([1.0, 1.0]), NAMES)
    assert found.for_whom() == "1 of 2 tasks has a lower error than alone, and none a clearly higher one."


def test_a_gain_that_nobody_would_notice_is_not_called_help_however_clear_it_is():
    change = 1 - 0.0004 - 0.00001 * np.arange(20)
    first, _, after = verdict(change).sentences()
    assert first.startswith("Sharing makes next to no difference: ") and "a ridge per task (Independent) is" in after
    assert graph_sentence(Gain(0.0004, 0.0001), True) == (
        "The graph makes next to no difference: it lowers the held-out error by less than 0.1 % beyond the best "
        "methods without a graph."
    )
