"""Folds drawn in one pass: together they are all rows, even within tasks, and whole in groups."""

import numpy as np
import pandas as pd
import pytest
from source_tables import assert_same, by_numpy, sales

from kinfolk import GAMTLCV, GramStats
from kinfolk.large import folds_of_file
from kinfolk.sources.dealing import Dealer


@pytest.fixture
def rows(tmp_path):
    frame = sales().assign(day=np.repeat(np.arange(50), 20))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    return frame, tmp_path / "rows.parquet"


def folds_of(path, **options):
    return folds_of_file(path, **{"task": "shop", "target": "sales", "drop": ["day"], "batch_rows": 90} | options)


def test_the_folds_are_all_rows(rows):
    frame, path = rows
    folds = folds_of(path, cv=4)
    assert len(folds) == 4
    assert_same(folds.total, by_numpy(frame))
    assert sum(part.n for part in folds.held_out).tolist() == folds.total.n.tolist()


def test_a_task_has_the_same_number_of_rows_in_every_fold_but_for_one(rows):
    sizes = np.array([part.n for part in folds_of(rows[1], cv=4).held_out])
    assert np.ptp(sizes, axis=0).max() == 1


def test_the_draw_depends_on_the_seed_only(rows):
    one, same, other = (folds_of(rows[1], random_state=seed, n_jobs=jobs) for seed, jobs in ((1, 1), (1, 3), (2, 1)))
    np.testing.assert_array_equal(one.held_out[0].G, same.held_out[0].G)
    assert np.abs(one.held_out[0].G - other.held_out[0].G).max() > 1


def test_a_fold_is_the_statistics_of_whole_groups(rows):
    frame, path = rows
    folds = folds_of(path, drop=(), groups="day", cv=3)
    assert folds.total.feature_names == ("x0", "x1", "x2")
    # One indicator per day as only feature: its mean over a fold's rows is 0, or the day is in that fold alone.
    days = frame[["shop", "sales"]].join(pd.get_dummies(frame["day"], prefix="day", dtype=float))
    days["day"] = frame["day"]
    days.to_parquet(path)
    folds = folds_of(path, drop=(), groups="day", cv=3)
    rows_of_day = np.array([part.n @ part.x_mean for part in folds.held_out])
    assert ((rows_of_day > 0.5).sum(axis=0) == 1).all()
    assert np.ptp((rows_of_day > 0.5).sum(axis=1)) == 1


def test_rows_are_dealt_at_random_within_a_block():
    codes = np.zeros(1000, np.intp)
    folds = [Dealer(2, seed).deal(codes) for seed in (0, 1)]
    agreement = np.mean(folds[0] == folds[1])
    assert 0.4 < agreement < 0.6


def test_tasks_with_the_same_inputs_need_groups(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=20)
    frame = pd.DataFrame({"t": np.repeat(list("abc"), 20), "hour": np.tile(np.arange(20), 3), "x": np.tile(x, 3)})
    frame.assign(y=rng.normal(size=60)).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="all tasks have the same inputs.*as `groups`"):
        folds_of_file(tmp_path / "rows.parquet", task="t", target="y", drop="hour")
    folds = folds_of_file(tmp_path / "rows.parquet", task="t", target="y", groups="hour")
    np.testing.assert_array_equal(folds.held_out[0].x_mean[0], folds.held_out[0].x_mean[1])


def test_fewer_groups_than_folds_lower_the_folds(rows):
    with pytest.warns(UserWarning, match="column 'day' has 50 groups: 50 folds in place of cv=60"):
        folds = folds_of(rows[1], drop=(), groups="day", cv=60)
    assert len(folds) == 50


@pytest.mark.parametrize("cv", [1, 2.5, [([0], [1])], True])
def test_folds_are_a_whole_number(rows, cv):
    with pytest.raises(ValueError, match="must be a whole number of folds"):
        folds_of(rows[1], cv=cv)


def test_a_tuned_model_fits_out_of_core(rows):
    model = GAMTLCV(strengths=(1.0,), ridges=(1.0,), anchors=(0.0,), metrics=("identity",))
    model.fit_folds(folds_of(rows[1]))
    assert model.coef_.shape == (17, 3)


def test_statistics_of_no_rows_are_no_statistics(tmp_path):
    sales(n=5).iloc[:0].to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="the table has no rows"):
        folds_of_file(tmp_path / "rows.parquet", task="shop", target="sales")


def test_folds_hold_what_their_rows_hold(tmp_path):
    frame = sales(n=40, tasks=2)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    folds = folds_of_file(tmp_path / "rows.csv", task="shop", target="sales", cv=2)
    total = folds.held_out[0] + folds.held_out[1]
    assert isinstance(total, GramStats)
    assert_same(total, by_numpy(frame))
