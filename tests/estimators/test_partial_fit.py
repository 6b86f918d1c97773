"""Rows that arrive in parts give the fit of all of them, also where folds and basis functions are part of the fit."""

import numpy as np
import pytest

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL, load
from kinfolk.rows.splits import assign_folds
from kinfolk.sources.dealing import deal_rows
from problems import frame

QUICK = {"task": "who", "strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,), "metrics": ("identity",)}
TABLE, Y = frame(3, T=6, n=(20, 30), noise=0.5)
FIELDS = ("n", "x_mean", "y_mean", "G", "b", "yy")
FIRST = np.arange(len(Y)) % 3 > 0


def assert_same_statistics(one, two):
    for field in FIELDS:
        np.testing.assert_allclose(getattr(one, field), getattr(two, field), atol=1e-9, rtol=1e-9)


def pairs(fold):
    """The (train, test) pairs of folds with these numbers."""
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(fold.max() + 1)]


def test_gamtlcv_in_parts_is_the_fit_of_all_rows_with_the_same_folds(monkeypatch):
    fold = assign_folds(np.unique(TABLE.who, return_inverse=True)[1], 5, random_state=3)
    monkeypatch.setattr("kinfolk.search.stream.deal_rows", lambda *_: fold[~FIRST])
    model = GAMTLCV(**QUICK, cv=pairs(fold[FIRST])).partial_fit(TABLE[FIRST], Y[FIRST])
    model.partial_fit(TABLE[~FIRST], Y[~FIRST])
    once = GAMTLCV(**QUICK, cv=pairs(fold)).fit(TABLE, Y)
    assert_same_statistics(model.gram_, once.gram_)
    np.testing.assert_allclose(model.coef_, once.coef_, atol=1e-8)
    np.testing.assert_allclose(model.cv_errors_, once.cv_errors_, atol=1e-8)


def test_rows_of_a_task_are_dealt_evenly_however_they_come():
    rng = np.random.default_rng(5)
    so_far = np.zeros((4, 3))
    for size in rng.integers(1, 9, 40):
        codes = rng.integers(3, size=size)
        np.add.at(so_far, (deal_rows(codes, so_far, rng), codes), 1)
    assert (np.ptp(so_far, axis=0) <= 1).all()


def test_rbf_statistics_accumulate_in_the_features_of_the_first_rows():
    first = RBFGAMTL(**QUICK).partial_fit(TABLE[FIRST], Y[FIRST])
    rbf = first.model_.stream.curves.features
    stream = first.partial_fit(TABLE[~FIRST], Y[~FIRST])
    curves = stream.model_.stream.curves
    np.testing.assert_array_equal(curves.features.centers_, rbf.centers_)
    phi = rbf.transform(TABLE.drop(columns="who").to_numpy())
    codes = np.unique(TABLE.who, return_inverse=True)[1]
    whole = type(stream.gram_).from_codes(phi, Y, codes, stream.tasks_)
    assert_same_statistics(curves.folds.total, whole)
    assert_same_statistics(stream.gram_, whole)
    for held_out, trained, line in zip(
        curves.folds.held_out, curves.folds.own, stream.model_.stream.folds.held_out, strict=True
    ):
        np.testing.assert_allclose(held_out.n, line.n)
        np.testing.assert_allclose(held_out.n + trained.n, whole.n)
    assert np.isfinite(stream.predict(TABLE)).all()


@pytest.mark.parametrize("method", [GAMTLCV, RBFGAMTL])
def test_new_tasks_may_come_leave_and_be_adopted(method):
    old = (TABLE.who < "task_04").to_numpy()
    model = method(**QUICK).partial_fit(TABLE[old], Y[old]).partial_fit(TABLE[~old], Y[~old])
    assert model.tasks_.tolist() == sorted(TABLE.who.unique())
    model.drop(["task_05"])
    last = (TABLE.who == "task_05").to_numpy()
    model.adopt(TABLE[last], Y[last])
    folds = model.model_.stream.folds
    np.testing.assert_allclose(sum(part.n for part in folds.held_out), model.gram_.n)
    assert np.isfinite(model.partial_fit(TABLE[:4], Y[:4]).predict(TABLE)).all()


def test_a_stream_that_forgets_weighs_old_rows_less():
    model = GAMTLCV(**QUICK).partial_fit(TABLE[FIRST], Y[FIRST]).partial_fit(TABLE[~FIRST], Y[~FIRST], forget=0.25)
    weight = np.where(FIRST, 0.25, 1.0)
    assert_same_statistics(model.gram_, GAMTLCV(**QUICK).fit(TABLE, Y, weight).gram_)
    for part in model.model_.stream.folds.held_out:
        assert (part.n <= model.gram_.n).all()


def test_shared_rows_and_groups_stay_in_one_fold():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 3))
    wide = X @ rng.normal(size=(3, 5)) + rng.normal(size=(40, 5))
    quick = QUICK | {"task": None}
    model = GAMTLCV(**quick).partial_fit(X[:30], wide[:30]).partial_fit(X[30:], wide[30:])
    for part in model.model_.stream.folds.held_out:
        assert np.ptp(part.n) == 0
        np.testing.assert_allclose(part.x_mean, np.tile(part.x_mean[0], (5, 1)))
    groups = np.repeat(np.arange(len(Y) // 7 + 1), 7)[: len(Y)]
    half = groups < 10
    grouped = GAMTLCV(**QUICK).partial_fit(TABLE[half], Y[half], groups=groups[half])
    before = np.array([part.n.sum() for part in grouped.model_.stream.folds.held_out])
    grouped.partial_fit(TABLE[~half], Y[~half], groups=groups[~half])
    after = np.array([part.n.sum() for part in grouped.model_.stream.folds.held_out])
    assert np.isin((after - before)[:-1] % 7, [0, (len(Y) - half.sum()) % 7]).all()


@pytest.mark.parametrize("method", [GAMTLCV, RBFGAMTL])
def test_a_stream_goes_on_after_loading(method, tmp_path):
    model = method(**QUICK).partial_fit(TABLE[FIRST], Y[FIRST])
    loaded = load(model.save(tmp_path / "model.kin"))
    more = (TABLE[~FIRST], Y[~FIRST])
    np.testing.assert_array_equal(loaded.partial_fit(*more).coef_, model.partial_fit(*more).coef_)


def test_a_fit_that_kept_no_folds_says_how_to_begin():
    with pytest.raises(AttributeError, match="Begin with partial_fit"):
        GAMTLCV(**QUICK).fit(TABLE, Y).partial_fit(TABLE, Y)


def test_in_parts_and_at_once_agree_where_the_target_is_the_number_of_the_task():
    """Slopes do not vary then: a search that ends near zero and one that ends at it would have different metrics."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        task = rng.permutation(np.arange(60) % 5)
        X = np.column_stack([task, rng.normal(size=(60, 2))])
        y = task + 0.5  # whole numbers would be counts
        one, parts = (GAMTL(task=0, metric="learned", intercept="coupled") for _ in range(2))
        one.fit(X, y)
        parts.partial_fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
        np.testing.assert_allclose(parts.predict(X), one.predict(X), atol=1e-9)
