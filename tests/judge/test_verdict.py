"""One wording of verdicts: helps, hurts or makes no difference, for whom, and what to do."""

import warnings

import numpy as np
import pytest
from scipy import stats

from kinfolk.judge.verdict import Verdict, as_good, chain_sentence, graph_sentence, graph_versus, sharing_sentence
from kinfolk.methods.search_report import Gain
from kinfolk.search.errors import Errors

NAMES = [f"shop {k}" for k in range(40)]


CERTAIN = np.zeros(40)  # chances of rises that are none


def verdict(ratio, chance=CERTAIN):
    own = np.linspace(1.0, 2.0, len(ratio))
    chance = None if chance is None else chance[: len(ratio)]
    return Verdict.of(np.asarray(ratio) * own, own, NAMES, chance=chance)


def test_sharing_that_helps_everybody_says_so():
    first, whom, after = verdict(np.full(20, 0.8) + 0.01 * np.arange(20)).sentences()
    assert first.startswith(
        "Sharing helps: the held-out error of this model is lower than that of a ridge per task, by"
    )
    assert whom == "20 of 20 tasks have a lower error than with a ridge of their own."
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
        "4 of 30 tasks have a lower error than with a ridge of their own, 26 a higher one; clearly: "
        "shop 7 (2.483 instead of 1.241), shop 29 (2.98 instead of 2), shop 28 ("
    )
    assert whom.endswith("and 23 more.") and "Independent" in after


def test_one_that_loses_among_many_that_gain_is_named():
    ratio = np.full(12, 0.5)
    ratio[3] = 2.5
    said = verdict(ratio).sentences()
    assert said[1].endswith(", 1 a higher one; clearly: shop 3 (3.182 instead of 1.273).")
    assert "For the task that clearly loses" in said[2]


def test_losses_that_may_be_chance_are_told_without_advice():
    ratio = np.full(30, 0.5)
    ratio[[2, 3, 5]] = [1.4, 2.1, 1.2]
    chance = np.full(30, 0.9)
    chance[[2, 3, 5]] = [0.3, np.nan, 0.001]
    found = verdict(ratio, chance)
    assert found.for_whom() == (
        "27 of 30 tasks have a lower error than with a ridge of their own, 3 a higher one; clearly: shop 5 (1.407 "
        "instead of 1.172); by 5.0 % or more, perhaps by chance: shop 3 (2.317 instead of 1.103) and shop 2 (1.497 "
        "instead of 1.069)."
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


def test_what_is_not_clear_is_not_as_good():
    """A simpler method is advised only if it surely loses less than 1 %."""
    assert as_good(Gain(0.004, 0.002)) and not as_good(Gain(0.004, 0.004)) and as_good(Gain(-0.2, 0.05))
    noisy = verdict(1 + 0.1 * np.random.default_rng(0).normal(size=12))
    assert noisy.effect == "makes no clear difference"
    assert noisy.next_step().startswith("What to do: keeping this model is safe; a ridge per task (Independent) may ")


def test_of_many_tasks_some_lose_by_chance():
    """Uniform chances are those of tasks that lose nothing: none is called clear, however many there are."""
    ratio = np.full(1000, 1.2)
    found = Verdict.of(ratio, np.ones(1000), [str(t) for t in range(1000)], chance=(np.arange(1000) + 0.5) / 1000)
    assert found.losers(clearly=True) == [] and len(found.losers(clearly=False)) == 1000


def test_no_task_is_without_a_count_and_constant_targets_are_named():
    errors = np.array([0.5, 1.0, 1.01, 3.0, 0.2, 0.3, np.nan])
    own = np.array([1.0, 1.0, 1.0, 1.0, 0.0, np.nan, np.nan])
    constant = np.array([False, False, False, False, True, False, False])
    chance = np.array([1.0, 0.5, 0.5, 1e-9, 1e-9, np.nan, np.nan])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Verdict.of(errors, own, NAMES, chance=chance, constant=constant)
        assert found.for_whom() == (
            "1 of 4 tasks has a lower error than with a ridge of its own, 1 the same, 2 a higher one; clearly: shop 3 "
            "(3 instead of 1). 1 task has a target that never varies: shop 4. 1 task with a single row has no ridge of "
            "its own and is not judged. 1 task without held-out rows is not judged."
        )


def test_where_no_target_varies_no_task_is_counted_as_better():
    none = np.zeros(3)
    found = Verdict.of(none, none, NAMES[:3], Gain(0.0, 0.0), constant=np.ones(3, bool))
    assert found.for_whom() == "3 tasks have a target that never varies: shop 0, shop 1 and shop 2."


def test_errors_of_any_size_make_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Verdict.of(np.array([1e200, 1.0, 2.0]), np.array([1e-200, 1e-310, 2.0]), NAMES, Gain(0.1, 0.01))
        assert "2 a higher one" in found.for_whom()


CHAIN = {"curves": Gain(0.574, 0.03), "sharing": Gain(-0.002, 0.004), "graph": Gain(0.0, 0.0)}


def test_the_first_sentence_says_what_the_gain_is_made_of():
    own = np.linspace(1.0, 2.0, 20)
    found = Verdict.of(0.43 * own, own, NAMES, Gain(0.572, 0.03), chain=CHAIN, unit="airport")
    first, errors, *_ = found.sentences()
    assert first == "57 % less error than a straight-line ridge per airport: curves give 57, sharing 0, the graph 0."
    assert errors == "Mean over 20 tasks; standard errors: in all 3.0, curves 3.0 and sharing 0.4."
    assert not any("Sharing helps" in said for said in found.sentences())


def test_trees_are_a_number_of_the_chain_or_named_as_not_tried():
    chain = CHAIN | {"trees": Gain(0.1, 0.01)}
    assert chain_sentence(Gain(0.672, 0.03), chain).endswith("sharing 0, the graph 0, trees 10.")
    own = np.linspace(1.0, 2.0, 20)
    found = Verdict.of(0.43 * own, own, NAMES, Gain(0.572, 0.03), chain=CHAIN, untried="Trees were not tried.")
    assert found.next_step() == "What to do: use this model. Trees were not tried."


def test_a_graph_with_a_small_share_is_a_map():
    assert graph_sentence(Gain(0.03, 0.01), 0.4).startswith("The graph helps: 40 % of the predictions")
    assert graph_sentence(Gain(0.03, 0.01), 0.024).endswith("Read it as a map.")
    assert graph_sentence(Gain(0.001, 0.0001), 0.4).endswith("Read it as a map.")
    assert graph_sentence(Gain(-0.01, 0.01), None).startswith("The graph is a map only: with it the held-out error")


def test_a_graph_versus_none_is_clear_or_it_is_not():
    assert graph_versus(Gain(0.1, 0.01), "gamtl", "pooled").startswith("A graph adds to it: gamtl lowers the error of")
    assert graph_versus(Gain(-0.1, 0.01), "gamtl", "pooled").startswith(
        "A graph does not add clearly to it: gamtl has a higher error than pooled, by 10.0 %"
    )


def test_tasks_that_were_not_judged_do_not_count():
    found = Verdict.of(np.array([0.5, np.nan, 0.6]), np.array([1.0, 1.0, 1.0]), NAMES)
    assert found.tasks == 2 and Verdict.of(np.array([np.nan]), np.array([1.0]), NAMES) is None


@pytest.mark.parametrize("mean", [-1e-5, 0.0, 1e-5])
@pytest.mark.parametrize("error", [0.0, 1e-6, 0.01])
def test_nothing_is_ever_minus_zero(mean, error):
    for text in (sharing_sentence(Gain(mean, error), 9), graph_sentence(Gain(mean, error), None)):
        assert "less than 0.1 %" in text or "is that of" in text or "would be the same" in text
        assert "-0.0" not in text and "error 0.0" not in text


def test_one_task_is_singular():
    found = Verdict.of(np.array([0.5, 1.0]), np.array([1.0, 1.0]), NAMES)
    assert found.for_whom() == "1 of 2 tasks has a lower error than with a ridge of its own, 1 the same."


def test_a_gain_that_nobody_would_notice_is_not_called_help_however_clear_it_is():
    change = 1 - 0.0004 - 0.00001 * np.arange(20)
    first, _, after = verdict(change).sentences()
    assert first.startswith("Sharing makes next to no difference: ") and "a ridge per task (Independent) is" in after
    assert graph_sentence(Gain(0.0004, 0.0001), 0.3) == (
        "The graph makes next to no difference: 30 % of the predictions come along it. Read it as a map."
    )
