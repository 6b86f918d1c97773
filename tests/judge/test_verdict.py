"""One wording of verdicts: helps, hurts or makes no difference, for whom, and what to do."""

import numpy as np
import pytest

from kinfolk.judge.errors import Gain
from kinfolk.judge.verdict import Verdict, graph_sentence, sharing_sentence

NAMES = [f"shop {k}" for k in range(40)]


def verdict(ratio):
    own = np.linspace(1.0, 2.0, len(ratio))
    return Verdict.of(np.asarray(ratio) * own, own, NAMES)


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
    assert whom.startswith("4 of 30 tasks have a lower error than alone; higher by 5.0 % or more: shop 7 (+100.0 %), ")
    assert whom.endswith("and 23 more.") and "Independent" in after


def test_one_that_loses_among_many_that_gain_is_named():
    ratio = np.full(12, 0.5)
    ratio[3] = 2.5
    said = verdict(ratio).sentences()
    assert "shop 3 (+150.0 %)." in said[1] and "For the tasks that lose" in said[2]


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
        assert "less than 0.1 %" in text and "-0.0" not in text and "error 0.0" not in text


def test_one_task_is_singular():
    found = Verdict.of(np.array([0.5, 1.0]), np.array([1.0, 1.0]), NAMES)
    assert found.for_whom() == "1 of 2 tasks has a lower error than alone, and none a clearly higher one."
