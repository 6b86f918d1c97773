"""Statistics drawn anew, against rows."""

import numpy as np
import pytest

from kinfolk import GramStats
from kinfolk.explain.draws import Blocks, FreshNoise
from kinfolk.rows.tasks import read_rows
from problems import frame, gram, rows


def blocks_of(table, y, groups=None, task="who"):
    read = read_rows(table, y, task=task)
    X = read.table.features()
    return Blocks.of_rows(read, X, read.gram(X, None), groups, np.random.default_rng(0)), read, X


def assert_same(one, two):
    for name in ("n", "x_mean", "y_mean", "G", "b", "yy"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9, atol=1e-9, err_msg=name)


def test_blocks_with_weight_one_are_all_rows():
    blocks, *_ = blocks_of(*frame(0))
    assert_same(blocks.weighted(np.ones(len(blocks.task))), blocks.total)


def test_weighted_groups_are_weighted_rows():
    table, y = frame(1)
    groups = np.arange(len(y)) % 4
    blocks, read, X = blocks_of(table, y, groups)
    weight = np.array([0.5, 2.0, 0.1, 3.0])
    expected = GramStats.from_rows(X, y, table["who"], sample_weight=weight[groups])
    assert_same(blocks.weighted(weight[blocks.unit]), expected)


def test_weighted_rows_of_wide_targets_with_gaps_are_weighted_rows():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(9, 2)) + 50, rng.normal(size=(9, 3))
    Y[2, 1] = np.nan
    blocks, read, _ = blocks_of(X, Y, task=None)
    weight = rng.exponential(size=9)
    assert_same(blocks.weighted(weight[blocks.unit]), GramStats.from_rows(X, Y, sample_weight=weight))


def test_the_bayesian_bootstrap_keeps_the_size_and_the_rank_of_every_task():
    blocks, *_ = blocks_of(*frame(3, n=(4, 9)))
    drawn = blocks.draw(np.random.default_rng(1))
    np.testing.assert_allclose(drawn.n, blocks.total.n)
    np.testing.assert_array_equal(np.linalg.matrix_rank(drawn.G), np.linalg.matrix_rank(blocks.total.G))


def test_the_mean_of_many_draws_varies_like_a_mean_of_rows():
    """A mean under Dirichlet weights has the variance yy / (n (n + 1)) of the Bayesian bootstrap."""
    blocks, *_ = blocks_of(*frame(4, T=3, n=(8, 12)))
    rng = np.random.default_rng(5)
    means = np.array([blocks.draw(rng).y_mean for _ in range(3000)])
    total = blocks.total
    np.testing.assert_allclose(means.var(axis=0), total.yy / (total.n * (total.n + 1)), rtol=0.15)


def test_groups_across_tasks_are_drawn_together():
    table, y = frame(6, T=3, n=(20, 21))
    blocks, *_ = blocks_of(table, y, np.arange(len(y)) % 5)
    assert len(blocks.home) == 5
    assert not blocks.home.any()


def test_rows_of_many_make_at_most_fifty_blocks_per_task():
    blocks, *_ = blocks_of(*frame(7, T=2, d=2, n=(120, 130)))
    np.testing.assert_array_equal(np.bincount(blocks.task), [50, 50])


def test_groups_of_wrong_length_are_refused():
    table, y = frame(0)
    with pytest.raises(ValueError, match=r"groups has shape \(3,\), expected"):
        blocks_of(table, y, [1, 2, 3])


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


def test_drawing_around_coefficients_without_noise_is_their_exact_data():
    X, _, task = rows(10, T=3, d=2, n=(5, 8))
    W, level = np.arange(6.0).reshape(3, 2), np.array([1.0, -1.0, 0.0])
    expected = GramStats.from_rows(X, np.einsum("nd,nd->n", X, W[task]) + level[task], task)
    source = FreshNoise.of(GramStats.from_rows(X, np.zeros(len(X)), task), np.zeros(3))
    assert_same(source.draw_around(np.random.default_rng(0), W, level), expected)
