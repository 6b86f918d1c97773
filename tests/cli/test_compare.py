"""The comparison: its referee, its sentences, and the command."""

import json
import time
from contextlib import suppress

import numpy as np
import pytest
from tables_for_tests import kinfolk, shops, write

from kinfolk.cli.nested import Outcome, OutOfTime, limited
from kinfolk.cli.verdict import Scores, verdict

T, N = 30, 20
CODES = np.repeat(np.arange(T), N)


def scores(**errors):
    """Methods whose predictions are off by the given amount, up to a factor that differs between tasks."""
    factor = np.random.default_rng(0).uniform(0.9, 1.1, size=(len(errors), T))
    outcomes = [
        Outcome(name.replace("_", "-"), error * factor[k][CODES], 1.0) for k, (name, error) in enumerate(errors.items())
    ]
    return Scores(outcomes, np.zeros(T * N), CODES)


def test_errors_are_those_computed_by_hand():
    found = Scores([Outcome("pooled", np.array([1.0, 1.0, 3.0, 5.0]), 1.0)], np.zeros(4), np.array([0, 0, 1, 1]))
    assert found.pooled("pooled")[0] == pytest.approx(3.0)
    rmse = np.array([1.0, np.sqrt(17.0)])
    assert found.tasks("pooled") == pytest.approx((rmse.mean(), rmse.std(ddof=1) / np.sqrt(2)))


def test_the_standard_error_of_the_pooled_error_is_that_of_drawing_tasks_anew():
    rng = np.random.default_rng(3)
    size = rng.gamma(5.0, size=200)[np.repeat(np.arange(200), 5)]
    found = Scores([Outcome("pooled", size * rng.normal(size=1000), 1.0)], np.zeros(1000), np.repeat(np.arange(200), 5))
    squared = found.squared["pooled"]
    draws = [np.sqrt(squared[rng.integers(200, size=200)].sum() / 1000) for _ in range(2000)]
    assert found.pooled("pooled")[1] == pytest.approx(np.std(draws), rel=0.1)


def test_sharing_that_helps_is_advised():
    said = verdict(scores(independent=1.0, random_slopes=0.8, gamtlcv=0.5))
    assert said[0].startswith(
        "Sharing helps here: gamtlcv has a lower error than a ridge per task by 49.7 % (standard error"
    )
    assert said[1].startswith("A graph adds to it: the gain of gamtlcv over random-slopes")
    assert said[2] == "Use gamtlcv."


def test_sharing_that_hurts_is_told():
    said = verdict(scores(independent=1.0, pooled=2.0, gamtlcv=1.5))
    assert said[0].startswith("Sharing hurts here: even gamtlcv has a higher error than a ridge per task, by ")
    assert said[-1] == "Use independent."


def test_among_equals_the_simplest_is_advised():
    said = verdict(scores(independent=1.0, random_slopes=0.51, gamtlcv=0.5))
    assert "A graph does not add clearly" in said[1]
    assert said[2] == "Use random-slopes: simpler than gamtlcv, and within one standard error of it."


def test_inputs_that_do_not_help_are_told():
    said = verdict(scores(task_mean=0.5, independent=1.0, pooled=1.0))
    assert said[-1].startswith("Use task-mean: the inputs do not help")


def test_methods_that_did_not_finish_are_listed_and_not_judged():
    complete = scores(independent=1.0, pooled=0.5)
    complete.outcomes.append(Outcome("bmsl", np.full(T * N, np.nan), 9.0, "not finished within 9 s"))
    assert complete.table()[-1] == {"method": "bmsl", "trouble": "not finished within 9 s"}
    assert complete.advised() == "pooled"


def test_time_that_is_over_is_over_even_where_errors_are_forgiven():
    started = time.monotonic()
    with pytest.raises(OutOfTime), limited(0.05):
        while time.monotonic() - started < 5:
            with suppress(Exception):  # as searches do with a failed point
                time.sleep(0.01)
    assert time.monotonic() - started < 1


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
    assert "statistics without rows" in table["gfl"]["trouble"]
    assert found["verdict"][0].startswith("Sharing helps here") and found["use"] in ("pooled", "mean-shrunk")


def test_a_method_beyond_its_time_is_left_out_and_told(tmp_path):
    write(tmp_path / "data.csv", shops(3, 6))
    options = ("--methods", "independent", "pooled", "rbf-gamtl", "--time-limit", "0.05", "--cv", "2")
    result = kinfolk("compare", "data.csv", "--task", "shop", "--target", "sales", *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "rbf-gamtl      graph, nonlinear" in result.stdout
    assert "not finished within 0.05 s (0 of 2 folds): raise --time-limit" in result.stdout
