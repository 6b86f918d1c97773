"""Folds as statistics: adding up equals refitting on rows, and rows that belong together stay together."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

from kinfolk import GAMTLCV, compare, tune
from kinfolk.baselines import Independent, MeanShrunk
from kinfolk.rows.folds import Folds, cv_error
from kinfolk.rows.gram import GramStats, squared_errors
from kinfolk.rows.splits import assign_folds, common_rows, fold_of_rows, in_order, time_column, trains
from kinfolk.rows.table import read_rows
from problems import folds_of_rows

FIELDS = ("n", "x_mean", "y_mean", "G", "b", "yy")


def draw(T=5, n=23, d=3, seed=0, offset=100.0):
    rng = np.random.default_rng(seed)
    task = rng.permutation(np.repeat(np.arange(T), n))
    X = rng.normal(size=(T * n, d)) + offset
    return X, X @ np.arange(1.0, d + 1) + task + rng.normal(size=T * n), task


def rows_and_folds(X, y, task, **options):
    rows = read_rows(np.column_stack([task, X]), y, task=0)
    gram = rows.gram(X, None)
    options = {"cv": 5, "random_state": 0, **options}
    return fold_of_rows(rows, X, gram, **options), folds_of_rows(rows, X, gram, **options)


def wide(X, Y, **options):
    rows = read_rows(X, Y, task=None)
    gram = rows.gram(X, None)
    options = {"cv": 4, "random_state": 0, **options}
    return fold_of_rows(rows, X, gram, **options), folds_of_rows(rows, X, gram, **options)


@pytest.mark.parametrize("field", FIELDS)
def test_training_statistics_by_addition_equal_those_of_the_training_rows(field):
    X, y, task = draw()
    fold, folds = rows_and_folds(X, y, task)
    for f in range(5):
        direct = GramStats.from_rows(X[fold != f], y[fold != f], task[fold != f])
        scale = np.abs(getattr(direct, field)).max()
        np.testing.assert_allclose(getattr(folds.training(f), field), getattr(direct, field), atol=1e-13 * scale)


@pytest.mark.parametrize("method", [Independent, MeanShrunk])
def test_fits_on_added_statistics_equal_fits_on_the_training_rows(method):
    X, y, task = draw()
    fold, folds = rows_and_folds(X, y, task)
    for f in range(5):
        model = method().fit_gram(folds.training(f))
        direct = method(task=0).fit(np.column_stack([task, X])[fold != f], y[fold != f])
        np.testing.assert_allclose(model.coef_, direct.coef_, rtol=1e-8)
        held = fold == f
        expected = np.bincount(task[held], (direct.predict(np.column_stack([task, X])[held]) - y[held]) ** 2)
        found = squared_errors(folds.held_out[f], model.coef_, model.intercept_)
        np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_every_task_is_spread_evenly_over_the_folds():
    X, y, task = draw(n=23)
    fold, _ = rows_and_folds(X, y, task)
    counts = np.array([np.bincount(fold[task == t], minlength=5) for t in range(5)])
    assert counts.min() >= 4
    assert counts.max() <= 5


def test_groups_stay_on_one_side():
    X, y, task = draw()
    groups = np.random.default_rng(1).integers(30, size=len(y))
    fold, folds = rows_and_folds(X, y, task, groups=groups)
    assert all(len(np.unique(fold[groups == g])) == 1 for g in np.unique(groups))
    np.testing.assert_allclose(sum(part.n for part in folds.held_out), folds.total.n)


def test_a_long_table_of_shared_inputs_gets_folds_common_to_all_tasks():
    rng = np.random.default_rng(0)
    X = np.tile(rng.normal(size=(12, 3)), (4, 1))
    task = np.repeat(np.arange(4), 12)
    order = rng.permutation(48)
    fold, _ = rows_and_folds(X[order], rng.normal(size=48), task[order])
    by_row = np.empty(48, int)
    by_row[order] = fold
    np.testing.assert_array_equal(by_row.reshape(4, 12), np.tile(by_row[:12], (4, 1)))


def test_inputs_of_their_own_get_folds_of_their_own():
    X, y, task = draw(T=4, n=12)
    order = np.argsort(task, kind="stable")
    fold, _ = rows_and_folds(X[order], y[order], task[order])
    assert np.ptp(fold.reshape(4, 12), axis=0).max() > 0


def test_shared_inputs_and_groups_together_keep_both():
    rng = np.random.default_rng(0)
    X, task = np.tile(rng.normal(size=(12, 2)), (3, 1)), np.repeat(np.arange(3), 12)
    groups = np.tile(np.arange(12) // 2, 3) + 100 * task
    fold, _ = rows_and_folds(X, rng.normal(size=36), task, groups=groups, cv=3)
    assert all(len(np.unique(fold[groups == g])) == 1 for g in groups)
    np.testing.assert_array_equal(fold[:12], fold[12:24])


def test_repeated_rows_of_a_task_are_told_apart_but_matched_across_tasks():
    X, codes = np.array([[1.0], [1.0], [2.0]] * 2), np.repeat([0, 1], 3)
    common = common_rows(X, codes)
    assert len(np.unique(common)) == 3
    np.testing.assert_array_equal(common[:3], common[3:])


def test_wide_targets_have_common_folds_and_may_have_gaps():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 2)), rng.normal(size=(20, 3))
    Y[rng.random(Y.shape) < 0.3] = np.nan
    fold, folds = wide(X, Y)
    for f, part in enumerate(folds.held_out):
        np.testing.assert_allclose(part.n, (~np.isnan(Y[fold == f])).sum(axis=0))


def test_a_task_without_targets_is_in_no_fold():
    X, y, task = draw()
    _, folds = rows_and_folds(X, np.where(task == 2, np.nan, y), task)
    assert all(part.n[2] == 0 for part in folds.held_out)


def test_folds_of_some_tasks():
    X, y, task = draw()
    _, folds = rows_and_folds(X, y, task)
    some = folds.select(np.array([0, 3]))
    assert isinstance(some, Folds)
    np.testing.assert_array_equal(some.training(1).G, folds.training(1).G[[0, 3]])


@pytest.mark.parametrize("random_state", [0, np.random.RandomState(0), np.random.default_rng(0), None])
def test_any_kind_of_random_state_is_understood(random_state):
    fold = assign_folds(np.zeros(10, int), 5, random_state=random_state)
    np.testing.assert_array_equal(np.bincount(fold), 2)


def test_the_same_seed_gives_the_same_folds():
    codes = np.repeat([0, 1], 10)
    one, two, other = (assign_folds(codes, 5, random_state=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


def test_a_loud_task_rules_the_pooled_error_but_not_the_normalised():
    total = GramStats.from_rows(np.zeros((8, 1)), [0.0, 2, 0, 2, 0, 200, 0, 200], np.repeat([0, 1], 4))
    quiet_good, loud_good = np.array([0.4, 24000.0]), np.array([4.0, 20000.0])
    both = np.stack([quiet_good, loud_good])
    assert np.argmin(cv_error(both, total, "pooled")) == 1
    assert np.argmin(cv_error(both, total, "normalised")) == 0


def test_a_constant_target_does_not_divide_by_zero():
    total = GramStats.from_rows(np.zeros((4, 1)), [5.0, 5, 0, 2], [0, 0, 1, 1])
    assert np.isfinite(cv_error(np.array([0.0, 2.0]), total, "normalised"))


def test_folds_of_a_scikit_learn_splitter_are_taken_as_they_are():
    X, y, task = draw()
    fold, _ = rows_and_folds(X, y, task, cv=list(KFold(3).split(X)))
    assert (np.diff(fold) >= 0).all()
    assert fold.max() == 2


def test_errors_name_the_value_and_what_is_allowed():
    X, y, task = draw()
    with pytest.raises(ValueError, match=r"cv=1 must be at least 2 folds"):
        rows_and_folds(X, y, task, cv=1)
    with pytest.raises(ValueError, match=r"cv=2.5 must be a whole number of folds, or \(train, test\) pairs"):
        rows_and_folds(X, y, task, cv=2.5)
    with pytest.raises(ValueError, match=r"cv: row 0 is in no test part: folds must share out all rows"):
        rows_and_folds(X, y, task, cv=list(KFold(5).split(X))[1:])
    with pytest.raises(ValueError, match=r"cv: pair 1 overlaps an earlier test part"):
        rows_and_folds(X, y, task, cv=2 * list(KFold(5).split(X))[:1])
    with pytest.raises(ValueError, match=r"groups has shape \(3,\), expected \(115,\): one label per row"):
        rows_and_folds(X, y, task, groups=[1, 2, 3])
    with pytest.warns(UserWarning, match=r"there are 3 rows: 3 folds in place of cv=5"):
        assert sorted(assign_folds(np.array([0, 1, 1]), 5)) == [0, 1, 2]
    with pytest.warns(UserWarning, match=r"groups has 2 groups: 2 folds in place of cv=5"):
        rows_and_folds(X, y, task, groups=np.arange(115) % 2)
    with pytest.raises(ValueError, match=r"scoring='best': choose one of 'pooled', 'tasks', 'normalised'"):
        cv_error(np.ones(5), GramStats.from_rows(X, y, task), "best")


def drift(seed=0, T=5, n=60):
    """Tasks whose slope changes with time: the past does not tell the future as well as neighbouring rows would."""
    rng = np.random.default_rng(seed)
    day = np.tile(np.arange(n), T)
    x = rng.normal(size=T * n)
    task = np.repeat(np.arange(T), n)
    y = (1 + task / T + 3 * day / n) * x + 0.1 * rng.normal(size=T * n)
    order = rng.permutation(T * n)
    table = pd.DataFrame({"who": task, "x": x, "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(day, "D")})
    return table.iloc[order], y[order]


def test_folds_in_time_train_on_the_past_alone():
    table, y = drift()
    X = table[["who", "x"]].to_numpy()
    rows = read_rows(X, y, task=0)
    when = in_order(None, "day", table, len(y))
    fold = fold_of_rows(rows, X[:, 1:], rows.gram(X[:, 1:], None), cv=4, groups=when)
    folds = folds_of_rows(rows, X[:, 1:], rows.gram(X[:, 1:], None), cv=4, groups=when)
    assert len(folds) == 4 and sorted(set(fold)) == [-1, 0, 1, 2, 3]
    day = table["day"].to_numpy()
    for f in range(4):
        before = trains(fold, f)
        assert day[before].max() < day[fold == f].min()
        plain = GramStats.from_codes(X[before, 1:], y[before], rows.codes[before], rows.schema.labels)
        np.testing.assert_allclose(folds.training(f).G, plain.G)
        np.testing.assert_allclose(folds.training(f).y_mean, plain.y_mean)
        np.testing.assert_array_equal(folds.held_out[f].n, np.bincount(rows.codes[fold == f]))
    np.testing.assert_array_equal(folds.without(2).training(1).n, folds.training(1).n)


def test_errors_in_time_are_those_of_predicting_ahead():
    table, y = drift()
    X = table[["who", "x"]]
    free, ahead = (tune(Independent(task="who"), {"penalty": [1.0]}, X, y, time=time) for time in (None, table["day"]))
    when = in_order(None, "day", table, len(y))
    fold = when.folds(5)
    squares = []
    for f in range(5):
        model = Independent(task="who", penalty=1.0).fit(X[trains(fold, f)], y[trains(fold, f)])
        squares.append((model.predict(X[fold == f]) - y[fold == f]) ** 2)
    np.testing.assert_allclose(ahead.best_error_, np.sqrt(np.concatenate(squares).mean()), rtol=1e-8)
    assert ahead.best_error_ > 1.2 * free.best_error_
    model = Independent(task="who", penalty="cv").fit(X, y, time=table["day"])
    assert 1.1 * free.best_error_ < model.penalty_errors_.min() <= ahead.best_error_
    found = compare(X, y, task="who", methods=["independent", "task-mean"], time=table["day"])
    assert found.folds == 5
    assert found.judged["independent"].pooled() > 1.1 * free.best_error_


@pytest.mark.parametrize(
    ("time", "message"),
    [
        (np.zeros(300), "all rows have the same time"),
        (np.arange(7), "time has shape .7,., expected .300,."),
        (["soon"] * 300, "time holds text like 'soon'"),
        (["2024-05-01"] * 299 + ["soon"], "time holds text like 'soon'"),
        (["2024-05"] * 299 + ["soon"], "time holds text like 'soon'"),
        (["2024-05"] * 299 + ["2024Q2"], "time is written in several ways, like '2024-05'"),
        (np.array(["2024-05-01"] * 299 + [1.0], object), "time cannot be put in order: it holds float and str"),
        ([datetime(2024, 5, 1), datetime(2024, 5, 2, tzinfo=UTC)] * 150, "dates with and without a time zone"),
        ([None] * 300, "time is missing in some rows"),
        ("hour", "has no column 'hour'"),
    ],
)
def test_times_that_order_nothing_are_refused(time, message):
    table, y = drift()
    with pytest.raises(ValueError, match=message):
        Independent(task="who", penalty="cv").fit(table[["who", "x"]], y, time=time)


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-02", "2024-10", "2023-12"],
        ["2024Q2", "2024Q4", "2023Q3"],
        ["2024-W2", "2024-W11", "2023-W50"],
        ["9", "10", "8"],
    ],
    ids=["months", "quarters", "weeks", "numbers"],
)
def test_times_may_be_periods_or_numbers_written_as_text(texts):
    assert in_order(None, texts, None, 3).when.tolist() == [1, 2, 0]


def test_few_times_lower_the_folds_with_a_note():
    with pytest.warns(UserWarning, match="few different times: 2 folds in place of cv=5"):
        fold = in_order(None, ["1/2/2024", "3/2/2024", "2/2/2024"] * 4, None, 12).folds(5)
    assert fold.tolist() == [-1, 1, 0] * 4
    with pytest.raises(ValueError, match="give groups or time"):
        in_order(np.zeros(3), np.arange(3), None, 3)


def test_weights_of_zero_may_empty_a_fold_of_wide_targets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 2))
    Y = np.where(rng.random((24, 3)) < 0.2, np.nan, rng.normal(size=(24, 3)))
    part = np.arange(24) // 8
    folds = [(np.flatnonzero(part != f), np.flatnonzero(part == f)) for f in range(3)]
    small = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "metrics": ("identity",)}
    model = GAMTLCV(cv=folds, **small).fit(X, Y, sample_weight=(part < 2) * 1.0)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.cv_errors_).all()


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("year", np.tile(np.arange(1990, 2000), 6), "year"),
        ("sold_date", np.tile([f"2024-05-{day:02d}" for day in range(1, 11)], 6), "sold_date"),
        ("dose", np.tile(np.arange(10), 6), None),
        ("year", np.tile([1999, 2008], 30), None),
        ("time", np.random.default_rng(0).normal(size=60), None),
        ("birth_year", np.tile(np.arange(1990, 2000), 6), None),
        ("delivery_days", np.tile(np.arange(10), 6), None),
        ("delivery_date", np.tile([f"2024-05-{day:02d}" for day in range(1, 11)], 6), "delivery_date"),
        ("day", np.tile(["mon", "tue", "wed", "thu", "fri"], 12), None),
    ],
    ids=[
        "panel",
        "dates",
        "no time by its name",
        "several rows of a time",
        "times of no other task",
        "of a birth",
        "a duration",
        "of a delivery",
        "no dates",
    ],
)
def test_a_column_of_times_is_seen_by_its_name_and_one_row_per_task_and_time(name, values, found):
    table = pd.DataFrame({"x": np.sin(np.arange(60.0)), name: values, "who": np.repeat(list("abcdef"), 10)})
    assert time_column(read_rows(table, np.arange(60.0), task="who")) == found


def test_rows_that_look_ordered_in_time_are_named_unless_the_time_was_given():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"who": np.repeat(list("abcdef"), 10), "year": np.tile(np.arange(1990, 2000), 6)})
    y = table["year"] - 1990 + rng.normal(size=60)
    quick = {"strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,)}
    plain = GAMTLCV(task="who", **quick).fit(table, y)
    told = GAMTLCV(task="who", **quick).fit(table, y, time="year")
    assert (plain.time_column_, told.time_column_) == ("year", None)
    sentence = "Rows of a task follow each other by 'year': to predict later ones, fit with time='year' "
    assert sum(line.startswith(sentence) for line in plain.summary().verdict) == 1
    assert "follow each other" not in " ".join(told.summary().verdict)


@pytest.mark.filterwarnings("ignore:dates become days")
def test_a_time_written_as_dates_is_named_as_the_column_that_fit_takes():
    """What orders the rows is a feature made of the dates; what can be given as `time` is the column."""
    days = pd.date_range("2024-02-25", periods=12).strftime("%m/%d/%y")
    table = pd.DataFrame({"who": np.repeat(list("abcdef"), 12), "sold on": np.tile(days, 6)})
    table["x"] = np.random.default_rng(4).normal(size=72)
    quick = {"strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,), "trunk": None}
    model = GAMTLCV(task="who", **quick).fit(table, np.tile(np.arange(12.0), 6) + table["x"])
    assert model.time_column_ == "sold on"
    told = GAMTLCV(task="who", **quick).fit(table, table["x"], time=model.time_column_)
    assert told.time_column_ is None
