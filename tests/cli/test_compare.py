"""The comparison: its referee, its sentences, and the command."""

import json
import time
from contextlib import suppress

import numpy as np
import pytest
from tables_for_tests import kinfolk, shops, write

from kinfolk import compare
from kinfolk.judge.comparison import Comparison, Outcome, OutOfTime, limited
from kinfolk.judge.contestants import Contestant
from kinfolk.methods.registry import all_methods
from kinfolk.search.errors import Errors

T, N = 30, 20
CODES = np.repeat(np.arange(T), N)


def outcome(name, prediction=None, codes=CODES, trouble=""):
    method = all_methods()[name]
    lines = name not in ("gamtlcv", "rbf-gamtl")
    one = Contestant(name, None, method.shares, method.simplicity, has_graph="gamtl" in name, lines=lines)
    errors = None
    if not trouble:
        errors = Errors.of_predictions(np.zeros(len(codes)), prediction, codes, codes.max() + 1)
    return Outcome(one, errors, 1.0, trouble)


def comparison(*more, **errors):
    """Methods whose predictions are off by the given amount, up to a factor that differs between tasks."""
    factor = np.random.default_rng(0).uniform(0.9, 1.1, size=(len(errors), T))
    outcomes = [
        outcome(name.replace("_", "-"), error * factor[k][CODES]) for k, (name, error) in enumerate(errors.items())
    ]
    return Comparison([*outcomes, *more], 5)


def test_errors_are_those_computed_by_hand():
    found = outcome("pooled", np.array([1.0, 1.0, 3.0, 5.0]), np.array([0, 0, 1, 1])).errors
    assert found.pooled() == pytest.approx(3.0)
    rmse = np.array([1.0, np.sqrt(17.0)])
    assert found.tasks() == pytest.approx(rmse.mean())
    assert found.tasks_error() == pytest.approx(rmse.std(ddof=1) / np.sqrt(2))


def test_the_standard_error_of_the_pooled_error_is_that_of_drawing_tasks_anew():
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(200), 5)
    size = rng.gamma(5.0, size=200)[codes]
    found = outcome("pooled", size * rng.normal(size=1000), codes).errors
    squared = found.squared.sum(axis=0)
    draws = [np.sqrt(squared[rng.integers(200, size=200)].sum() / 1000) for _ in range(2000)]
    assert found.pooled_error() == pytest.approx(np.std(draws), rel=0.1)


def test_errors_stand_below_each_other_with_the_same_decimals():
    lines = comparison(independent=10.0, random_slopes=8.0, gamtlcv=105.0).lines()[1:]
    assert len({line.index("±") for line in lines}) == 1 and len({line.index(".") for line in lines}) == 1


def test_one_task_has_neither_standard_errors_nor_groups():
    one = np.zeros(10, np.intp)
    found = Comparison([outcome("pooled", np.ones(10), one), outcome("independent", np.full(10, 2.0), one)], 5)
    assert "nan" not in repr(found) and "inf" not in repr(found) and "±" not in repr(found).split("\n", 1)[1]


def test_sharing_that_helps_is_advised():
    said = comparison(independent=1.0, random_slopes=0.8, gamtlcv=0.5).verdict
    assert said[0].startswith(
        "The held-out error of gamtlcv is lower than that of a ridge per task, by 49.7 % (standard error"
    )
    assert said[1].startswith("A graph adds to it: gamtlcv lowers the error of random-slopes, the best without, by")
    assert said[2].startswith("With gamtlcv ") and said[2].endswith(
        "tasks have a lower error than with a ridge of their own."
    )
    assert said[3] == "Use gamtlcv."


def test_sharing_that_hurts_is_told():
    said = comparison(independent=1.0, pooled=2.0, mean_shrunk=1.5).verdict
    assert said[0].startswith(
        "Sharing hurts: the held-out error of mean-shrunk is higher than that of a ridge per task, by "
    )
    assert said[-1] == "Use independent."


def test_among_equals_the_simplest_is_advised():
    factor = np.random.default_rng(1).uniform(0.9, 1.1, size=T)[CODES]
    both = outcome("random-slopes", 0.501 * factor), outcome("gamtlcv", 0.5 * factor)
    said = comparison(*both, independent=1.0).verdict
    assert said[3] == "Use random-slopes: simpler than gamtlcv, and its error is higher by less than 1.0 % at most."


def test_what_may_be_worse_is_not_advised_for_being_simple():
    """random-slopes is 2 % behind, which is within one standard error: not clear, but not as good either."""
    found = comparison(independent=1.0, random_slopes=0.51, gamtlcv=0.5)
    gain = found.gain("gamtlcv", "random-slopes")
    assert 0 < gain.mean < gain.standard_error and found.use == "gamtlcv"
    assert "A graph does not add clearly" in found.verdict[1] and found.verdict[3] == "Use gamtlcv."


def test_inputs_that_do_not_help_are_told():
    said = comparison(task_mean=0.5, independent=1.0, pooled=1.0).verdict
    assert said[-1].startswith("Use task-mean: the features do not help")


def test_methods_that_did_not_finish_are_listed_and_not_judged():
    complete = comparison(outcome("bmsl", trouble="not finished within 9 s"), independent=1.0, pooled=0.5)
    assert complete.table()[-1]["method"] == "bmsl"
    assert complete.table()[-1]["trouble"] == "not finished within 9 s"
    assert complete.use == "pooled"
    assert complete.verdict[-1] == "bmsl: not finished within 9 s; skipped."


def test_a_graph_that_was_not_judged_has_not_lost():
    said = comparison(outcome("gamtlcv", trouble="no time"), independent=1.0, pooled=0.5).verdict
    assert "Whether a graph helps is not known: no method with a graph was judged." in said
    assert not any("does not add" in sentence for sentence in said)


def test_compare_in_python_is_a_table_a_verdict_and_a_page():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat(np.arange(4), 15), rng.normal(size=(60, 2))])
    y = X[:, 1] + X[:, 0] + 0.1 * rng.normal(size=60)
    found = compare(X, y, task=0, methods=["task-mean", "pooled", all_methods()["random-slopes"]()], cv=3)
    assert found.use == "pooled"
    assert [row["method"] for row in found.table()][-1] == "task-mean"
    assert "Use pooled" in repr(found) and ">pooled</td>" in found._repr_html_()


def test_a_task_that_never_varies_is_named_and_not_judged():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(30), 9)
    X = rng.normal(size=(270, 6))
    y = np.where(task == 3, 7.1, X.sum(axis=1) + rng.normal(size=270))
    found = compare(np.column_stack([task, X]), y, task=0, methods=["independent", "mean-shrunk"], cv=3)
    assert np.flatnonzero(found.constant).tolist() == [3]
    whom = next(said for said in found.verdict if said.startswith("With mean-shrunk "))
    assert "1 task has a target that never varies: 3." in whom


def test_compare_takes_wide_targets_with_gaps():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    Y = X @ rng.normal(size=(2, 3)) + 0.1 * rng.normal(size=(30, 3))
    Y[4, 1] = np.nan
    table = compare(X, Y, methods=["independent", "task-mean"], cv=3).table()
    assert table[0]["method"] == "independent" and table[0]["rmse_tasks"] < 0.5 < table[1]["rmse_tasks"]


def test_time_that_is_over_is_over_even_where_errors_are_forgiven():
    started = time.process_time()
    with pytest.raises(OutOfTime), limited(0.05):
        while time.process_time() - started < 5:
            with suppress(Exception):  # as searches do with a failed point
                sum(range(1000))
    assert time.process_time() - started < 1


def test_waiting_is_not_counted():
    with limited(0.2):
        time.sleep(0.5)


def test_the_command_finds_that_sharing_helps_where_it_was_made_to(tmp_path):
    write(tmp_path / "data.csv", shops(10, 8, noise=1.0))
    methods = ("independent", "pooled", "MeanShrunk", "task-mean", "lightgbm", "gfl")
    result = kinfolk(
        *("compare", "data.csv", "--task", "shop", "--target", "sales", "--methods", *methods, "--json", "--cv", "3"),
        cwd=tmp_path,
    )
    found = json.loads(result.stdout)
    table = {row["method"]: row for row in found["table"]}
    assert next(iter(table)) in ("pooled", "mean-shrunk") and list(table)[-1] == "gfl"
    assert table["task-mean"]["rmse_tasks"] > 1.5 > table["pooled"]["rmse_tasks"] > 0.9
    assert table["lightgbm"]["rmse_tasks"] < table["task-mean"]["rmse_tasks"]
    assert table["gfl"]["trouble"] == "needs all tasks measured at the same rows"
    assert found["verdict"][-1] == "gfl: needs all tasks measured at the same rows; skipped."
    assert found["verdict"][0].startswith("Sharing helps: ") and found["use"] in ("pooled", "mean-shrunk")


def test_a_method_beyond_its_time_is_left_out_and_told(tmp_path):
    write(tmp_path / "data.csv", shops(3, 6))
    options = ("--methods", "independent", "pooled", "rbf-gamtl", "--time-limit", "0.05", "--cv", "2")
    result = kinfolk("compare", "data.csv", "--task", "shop", "--target", "sales", *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "rbf-gamtl      graph, nonlinear" in result.stdout
    assert "0 of 2 folds within 0.05 s of processor time: raise the time limit" in result.stdout
