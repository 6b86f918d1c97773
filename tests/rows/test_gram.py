import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinfolk import GramStats
from problems import gram, rows

FIELDS = ("n", "x_mean", "y_mean", "G", "b", "yy")


def assert_same(one, two, rtol=1e-9, within=None):
    """Equal to rounding, relative to the largest entry of `within`: the statistics that the rounding comes from."""
    np.testing.assert_array_equal(one.labels, two.labels)
    for field in FIELDS:
        a, b, scale = (getattr(stats, field) for stats in (one, two, within or two))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(np.abs(scale).max(), 1e-300), err_msg=field)


def plain_statistics(X, y, task, w):
    """Task by task, as written in the definition."""
    out = []
    for t in np.unique(task):
        x, v, u = X[task == t], y[task == t], w[task == t]
        mx, my = np.average(x, axis=0, weights=u), np.average(v, weights=u)
        xc, vc = x - mx, v - my
        out.append((u.sum(), mx, my, xc.T @ (u[:, None] * xc), xc.T @ (u * vc), u @ vc**2))
    return [np.array(column) for column in zip(*out, strict=True)]


@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_are_those_of_a_plain_loop_over_tasks(weighted):
    X, y, task = rows(3, T=9)
    w = np.random.default_rng(1).uniform(0.5, 2, size=len(y)) if weighted else np.ones(len(y))
    stats = GramStats.from_rows(X, y, task, sample_weight=w if weighted else None)
    for field, plain in zip(FIELDS, plain_statistics(X, y, task, w), strict=True):
        np.testing.assert_allclose(getattr(stats, field), plain, rtol=1e-11, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.floats(0, 1), min_size=1, max_size=4), T=st.integers(1, 7))
def test_any_split_into_row_blocks_and_any_order_give_the_same_statistics(seed, cuts, T):
    X, y, task = rows(seed, T=T)
    order = np.random.default_rng(seed).permutation(len(y))
    bounds = np.unique([0, *(int(c * len(y)) for c in cuts), len(y)])
    blocks = [order[a:b] for a, b in itertools.pairwise(bounds)]
    parts = [GramStats.from_rows(X[i], y[i], task[i]) for i in blocks]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged + part
    assert_same(merged, GramStats.from_rows(X, y, task))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0.05, 0.95))
def test_subtracting_a_block_undoes_adding_it(seed, share):
    X, y, task = rows(seed)
    kept = np.random.default_rng(seed).uniform(size=len(y)) < share
    kept[0], kept[-1] = True, False
    whole, part = GramStats.from_rows(X, y, task), GramStats.from_rows(X[~kept], y[~kept], task[~kept])
    left = GramStats.from_rows(X[kept], y[kept], task[kept]).reindex(whole.labels)
    assert_same(whole - part, left, within=whole)


@pytest.mark.parametrize("unit", [1.0, 1.1, 3.0, 1e-3, 1e6])
def test_what_a_subtraction_leaves_of_a_category_that_is_gone_is_nothing(unit):
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=75), np.arange(75) < 2])
    y = unit * (X @ [1.0, 10.0] + rng.normal(size=75))
    task = np.arange(75) % 5
    held = rng.random(75) < 0.3
    held[:2] = True
    left = GramStats.from_rows(X, y, task) - GramStats.from_rows(X[held], y[held], task[held])
    assert not left.G[:, 1].any() and not left.G[:, :, 1].any() and not left.b[:, 1].any()
    assert left.G[:, 0, 0].all() and left.b[:, 0].all()


def test_a_target_that_varies_only_in_what_is_subtracted_leaves_a_constant():
    X, _, task = rows(5, T=3, n=(20, 30))
    held = np.arange(len(X)) % 4 == 0
    y = np.where(held, np.sin(np.arange(len(X))), 0.1)
    left = GramStats.from_rows(X, y, task) - GramStats.from_rows(X[held], y[held], task[held])
    assert not left.yy.any() and not left.b.any()


def test_feature_means_of_a_million_cost_no_more_than_the_last_digits():
    X, y, task = rows(5, T=4, n=(50, 60))
    shifted = np.round(X * 2**20) / 2**20  # representable after the shift, so that the rows are the same rows
    near, far = GramStats.from_rows(shifted, y, task), GramStats.from_rows(shifted + 1e6, y + 1e6, task)
    np.testing.assert_allclose(far.G, near.G, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(far.b, near.b, rtol=1e-8, atol=1e-8)
    halves = [GramStats.from_rows(shifted[i::2] + 1e6, y[i::2] + 1e6, task[i::2]) for i in range(2)]
    np.testing.assert_allclose((halves[0] + halves[1]).G, near.G, rtol=1e-7, atol=1e-7)


def test_wide_targets_equal_the_long_table_of_their_observed_entries():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(30, 3)) + 5, rng.normal(size=(30, 4))
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    row, column = np.nonzero(~np.isnan(Y))
    assert_same(GramStats.from_rows(X, Y), GramStats.from_rows(X[row], Y[row, column], column))


def test_wide_targets_without_gaps_hold_one_matrix_for_all_tasks():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(30, 3)), rng.normal(size=(30, 4))
    stats = GramStats.from_rows(X, Y)
    long = GramStats.from_rows(np.tile(X, (4, 1)), Y.T.ravel(), np.repeat(np.arange(4), 30))
    assert stats.G.strides[0] == 0 and stats.is_shared()
    assert_same(stats, long)


def test_zero_weight_is_absence_and_integer_weight_is_repetition():
    X, y, task = rows(8)
    w = np.random.default_rng(0).integers(0, 3, size=len(y))
    weighted = GramStats.from_rows(X, y, task, sample_weight=w)
    repeated = GramStats.from_rows(np.repeat(X, w, 0), np.repeat(y, w), np.repeat(task, w)).reindex(weighted.labels)
    assert_same(weighted, repeated)


def test_merging_meets_tasks_that_only_one_side_knows():
    X, y, task = rows(4)
    low = task < 3
    merged = GramStats.from_rows(X[low], y[low], task[low]) + GramStats.from_rows(X[~low], y[~low], task[~low])
    assert_same(merged, GramStats.from_rows(X, y, task))


def test_scaling_weights_scales_moments_and_leaves_means():
    stats = gram(1)
    half = stats.scaled(0.5)
    np.testing.assert_allclose(half.G, stats.G / 2)
    np.testing.assert_array_equal(half.x_mean, stats.x_mean)


def test_subtracting_rows_that_are_not_there_names_the_task():
    X, y, task = rows(1)
    with pytest.raises(ValueError, match="cannot subtract more rows than task"):
        GramStats.from_rows(X[:4], y[:4], task[:4]) - GramStats.from_rows(X, y, task)


def test_statistics_over_other_features_do_not_add():
    with pytest.raises(ValueError, match="different features"):
        gram(d=3) + gram(d=4)


def test_a_hundred_thousand_small_tasks_need_no_loop_over_tasks(monkeypatch):
    from kinfolk.rows.moments import Moments

    calls, add = [], Moments._add_run
    monkeypatch.setattr(Moments, "_add_run", lambda *of: calls.append(1) or add(*of))
    task = np.repeat(np.arange(100_000), 2)
    X = np.random.default_rng(0).normal(size=(200_000, 2))
    GramStats.from_rows(X, X[:, 0], task)
    assert len(calls) < 50


def test_constant_columns_of_a_wide_table_with_gaps_vary_by_exactly_nothing():
    rng = np.random.default_rng(3)
    X, Y = np.column_stack([rng.normal(size=14), np.full(14, 1.7)]), np.full((14, 20), 0.1)
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    stats = GramStats.from_rows(X, Y)
    assert not stats.yy.any() and not stats.b.any() and not stats.G[:, 1].any() and stats.G[:, 0, 0].all()


def test_some_features_have_the_statistics_of_their_rows_each_matrix_whole_in_memory():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    y = rng.normal(size=30)
    task = np.repeat([0, 1, 2], 10)
    columns = np.array([3, 0])
    some = GramStats.from_rows(X, y, task).on_columns(columns)
    own = GramStats.from_rows(X[:, columns], y, task)
    np.testing.assert_allclose(some.G, own.G, rtol=1e-12)
    np.testing.assert_allclose(some.b, own.b, rtol=1e-12)
    assert some.G.flags.c_contiguous  # the tasks innermost, every product would be several times as slow
