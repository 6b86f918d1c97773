"""Statistics drawn anew, against rows."""

import numpy as np
import pandas as pd
import pytest

from kinfolk import GramStats
from kinfolk.explain.draws import FreshNoise, Reweighted
from kinfolk.rows.table import read_rows
from problems import frame, gram, rows


def reweighted(table, y, groups=None, task="who"):
    read = read_rows(table, y, task=task)
    X = read.table.features()
    return Reweighted.of_rows(read, X, read.gram(X, None), groups), X


def assert_same(one, two):
    for name in ("n", "x_mean", "y_mean", "G", "b", "yy"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9, atol=1e-9, err_msg=name)


def test_rows_with_weight_one_are_all_rows():
    source, _ = reweighted(*frame(0))
    assert_same(source.weighted(np.ones(len(source.home))), source.total)


def test_weighted_groups_are_weighted_rows():
    table, y = frame(1)
    groups = np.arange(len(y)) % 4
    source, X = reweighted(table, y, groups)
    weight = np.array([0.5, 2.0, 0.1, 3.0])
    expected = GramStats.from_rows(X, y, table["who"], sample_weight=weight[groups])
    assert_same(source.weighted(weight), expected)


def test_weighted_rows_of_wide_targets_with_gaps_are_weighted_rows():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(9, 2)) + 50, rng.normal(size=(9, 3))
    Y[2, 1] = np.nan
    source, _ = reweighted(X, Y, task=None)
    weight = rng.exponential(size=9)
    assert_same(source.weighted(weight), GramStats.from_rows(X, Y, sample_weight=weight))


def test_the_bayesian_bootstrap_keeps_the_size_and_the_rank_of_every_task():
    source, _ = reweighted(*frame(3, n=(4, 9)))
    drawn = source.draw(np.random.default_rng(1))
    np.testing.assert_allclose(drawn.n, source.total.n)
    np.testing.assert_array_equal(np.linalg.matrix_rank(drawn.G), np.linalg.matrix_rank(source.total.G))


def test_the_mean_of_many_draws_varies_like_a_mean_of_rows():
    """A mean under Dirichlet weights has the variance yy / (n (n + 1)) of the Bayesian bootstrap."""
    source, _ = reweighted(*frame(4, T=3, n=(8, 12)))
    rng = np.random.default_rng(5)
    means = np.array([source.draw(rng).y_mean for _ in range(3000)])
    total = source.total
    np.testing.assert_allclose(means.var(axis=0), total.yy / (total.n * (total.n + 1)), rtol=0.15)


def test_groups_across_tasks_are_drawn_together():
    table, y = frame(6, T=3, n=(20, 21))
    source, _ = reweighted(table, y, np.arange(len(y)) % 5)
    assert len(source.home) == 5
    assert not source.home.any()


def test_rows_that_tasks_have_in_common_are_drawn_together():
    X = np.random.default_rng(7).normal(size=(15, 2))
    table = pd.DataFrame({"a": np.tile(X[:, 0], 3), "b": np.tile(X[:, 1], 3), "who": np.repeat([0, 1, 2], 15)})
    source, _ = reweighted(table, np.arange(45.0))
    assert len(source.home) == 15
    np.testing.assert_array_equal(source.unit.reshape(3, 15), np.tile(source.unit[:15], (3, 1)))


def test_groups_of_wrong_length_are_refused():
    table, y = frame(0)
    with pytest.raises(ValueError, match=r"groups has shape \(3,\), expected"):
        reweighted(table, y, [1, 2, 3])


def test_noise_reaches_columns_of_small_numbers_beside_those_of_large_ones():
    X, y, task = rows(3, T=2, d=2, n=(9, 12))
    size = np.array([1e-7, 1e8])
    source = FreshNoise.of(GramStats.from_rows(X * size, y, task), np.ones(2))
    rng = np.random.default_rng(0)
    b = np.array([source.draw(rng).b for _ in range(4000)]) / size
    for t in range(2):
        np.testing.assert_allclose(np.cov(b[:, t].T), source.gram.G[t] / size / size[:, None], rtol=0.1, atol=1.0)


def test_no_noise_draws_the_statistics_themselves():
    stats = gram(8, T=4, d=6, n=(3, 9))
    assert_same(FreshNoise.of(stats, np.zeros(4)).draw(np.random.default_rng(0)), stats)


def test_fresh_noise_has_the_moments_of_noise_added_to_rows():
    X, y, task = rows(9, T=3, d=2, n=(5, 8))
    stats, noise = GramStats.from_rows(X, y, task), np.array([0.2, 1.0, 3.0])
    rng, source = np.random.default_rng(1), FreshNoise.of(stats, noise)
    here = [source.draw(rng) for _ in range(4000)]
    there = [GramStats.from_rows(X, y + np.sqrt(noise)[task] * rng.normal(size=len(y)), task) for _ in range(4000)]
    for name in ("b", "y_mean", "yy"):
        one, two = (np.array([getattr(s, name) for s in draws]) for draws in (here, there))
        spread = two.std(axis=0)
        assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) < 5 * spread * np.sqrt(2 / 4000)).all(), name
        np.testing.assert_allclose(one.std(axis=0), spread, rtol=0.1, err_msg=name)
