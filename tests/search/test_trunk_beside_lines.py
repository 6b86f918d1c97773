"""GAMTLCV with a trunk: a model of what all tasks share takes part where it clearly helps, and every door says so."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from kinfolk import GAMTLCV, load
from kinfolk.judge.verdict import composition
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats
from kinfolk.search.rbf_search import TaskRows
from kinfolk.search.trees import task_inputs, task_levels, try_trees
from kinfolk.store import ModelFileError

FEW = {"strengths": (1.0,), "metrics": ("identity",), "anchors": (0.0,), "ridges": (1.0,), "nonlinear": False}


@pytest.fixture(scope="module", autouse=True)
def _few_rounds():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kinfolk.search.trees.ROUNDS", 60)
        patch.setattr("kinfolk.search.trees.STEP", 30)
        yield


def steps(tasks=8, rows=30, *, seed=0, curved=True):
    """A step that all tasks share, and a slope of each task's own."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-1, 1, (tasks * rows, 2)), columns=["a", "b"])
    own = np.repeat(rng.standard_normal(tasks), rows)
    y = own * X["a"].to_numpy() + 4 * curved * (np.abs(X["b"]) > 0.5) + 0.2 * rng.standard_normal(len(X))
    return X.assign(task=np.repeat([f"t{k}" for k in range(tasks)], rows)), y.to_numpy()


@pytest.fixture(scope="module")
def table():
    return steps()


@pytest.fixture(scope="module")
def model(table):
    return GAMTLCV(task="task", trunk="auto", **FEW).fit(*table)


def test_a_trunk_takes_part_where_lines_miss_what_all_tasks_share(model, table):
    new, y = steps(seed=1)
    assert model.trunk_helps_ and model.trunk_gain_.mean > 0.3
    lines = GAMTLCV(task="task", trunk=None, **FEW).fit(*table)
    off = np.abs(new["b"].to_numpy())  # the slopes of the new draw are others: the step is what can be predicted
    step = model.predict(new)[off > 0.6].mean() - model.predict(new)[off < 0.4].mean()
    flat = lines.predict(new)[off > 0.6].mean() - lines.predict(new)[off < 0.4].mean()
    assert abs(step - 4) < 0.5 < abs(flat - 4)
    assert model.cv_errors_.mean() < 0.7 * lines.cv_errors_.mean()


def test_a_trunk_is_left_out_where_lines_are_right():
    X, y = steps(curved=False)
    found = GAMTLCV(task="task", trunk="auto", **FEW).fit(X, y)
    lines = GAMTLCV(task="task", **FEW).fit(X, y)
    assert not found.trunk_helps_ and found.model_.trunk is None
    np.testing.assert_allclose(found.predict(X), lines.predict(X), rtol=1e-9)


def test_half_of_the_guard_decides(model, table):
    ratio = model.trunk_gain_.mean / model.trunk_gain_.standard_error
    assert not model.graph_helps_  # so that the guard changes nothing else
    for guard, helps in ((1.9 * ratio, True), (2.1 * ratio, False)):
        assert GAMTLCV(task="task", trunk="auto", guard=guard, **FEW).fit(*table).trunk_helps_ is helps


def test_shares_and_mixture_name_the_trunk(model):
    assert list(model.mixture_)[-1] == "trunk"
    assert sum(model.mixture_.values()) == pytest.approx(1)
    np.testing.assert_allclose(model.shares_.sum(axis=1), 1)
    assert model.shares_[:, -1].tolist() == model.model_.trunk.shares.tolist()
    assert sum(composition(model.model_).values()) == pytest.approx(1)


def test_summary_and_report_say_what_is_trunk(model, table, tmp_path):
    text = repr(model.summary())
    assert "Boosted trees help" in text and "common to all tasks" in text
    assert "Boosted trees help" in model.report(*table, path=tmp_path / "page.html").read_text()


def test_parts_of_a_prediction_add_up(model, table):
    X, _ = table
    found = model.contributions()
    np.testing.assert_allclose(found.split(X).sum(axis=1), model.predict(X))
    np.testing.assert_allclose(found.shares.sum(axis=1) + found.prior + found.trunk, 1)
    np.testing.assert_allclose(found.coef.sum(axis=1), model.coef_)
    assert {one.source for one in found.of("t0")} >= {"trunk", "t0"}


def test_model_files_hold_the_trees_as_arrays(model, table, tmp_path):
    X, _ = table
    path = model.save(tmp_path / "model.kin")
    loaded = load(path)
    for one, two in zip(loaded.predict(X, return_std=True), model.predict(X, return_std=True), strict=True):
        assert (one == two).all()
    assert loaded.save(tmp_path / "again.kin").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"tree": np.array([10**6], np.int32)},
        {"feature": np.array([-1], np.int32)},
        {"bitset": np.array([10**6], np.int32)},
        {"values": np.full((3, 2), np.nan)},
        {"values": np.zeros((3, 65))},
        {"threshold": np.zeros(1)},
        {"bitsets": np.zeros((2, 3), np.uint32)},
        {"baseline": "0"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_files_with_trees_that_make_no_sense_are_refused(model, tmp_path, changes):
    trunk = model.model_.trunk
    broken = clone(model)
    broken.model_ = replace(model.model_, trunk=replace(trunk, regressor=replace(trunk.regressor, **changes)))
    with pytest.raises(ModelFileError, match="model.kin"):
        load(broken.save(tmp_path / "model.kin"))


def test_files_with_a_share_that_is_no_number_are_refused(model, tmp_path):
    broken = clone(model)
    trunk = replace(model.model_.trunk, beyond=np.full((2, 2), np.nan))
    broken.model_ = replace(model.model_, trunk=trunk)
    with pytest.raises(ModelFileError, match="model.kin"):
        load(broken.save(tmp_path / "model.kin"))


def test_a_regressor_of_ones_own_predicts_but_is_not_saved(table, tmp_path):
    X, y = table
    trunk = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
    model = GAMTLCV(task="task", trunk=trunk, **FEW).fit(X, y)
    assert model.trunk_helps_ and not hasattr(trunk, "tree_")
    assert clone(model).get_params()["trunk__min_samples_leaf"] == 5
    with pytest.raises(ModelFileError, match='trunk is a DecisionTreeRegressor.*trunk="auto"'):
        model.save(tmp_path / "model.kin")


def test_tasks_that_come_and_go(model, table):
    X, y = table
    changed = clone(model).fit(X, y)
    new = X[X["task"] == "t0"].assign(task="newcomer")
    changed.adopt(new, y[X["task"] == "t0"])
    assert changed.model_.trunk.shares[list(changed.tasks_).index("newcomer")] == changed.model_.trunk.share
    assert np.isfinite(changed.predict(new, return_std=True)).all()
    others = X[X["task"] != "t0"]
    np.testing.assert_allclose(changed.predict(others), model.predict(others))
    changed.drop(["newcomer", "t0"]).refit(["t1"])
    np.testing.assert_allclose(
        changed.predict(others[others["task"] != "t1"]), model.predict(others[others["task"] != "t1"])
    )


def test_a_task_nobody_has_seen_is_predicted(model, table):
    X, _ = table
    with pytest.warns(UserWarning, match="not seen in fit"):
        mean, std = model.predict(X.assign(task="stranger"), return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()


def test_intervals_hold_what_they_say():
    X, y = steps(rows=60, seed=3)
    train = np.arange(len(y)) % 2 == 0
    model = GAMTLCV(task="task", trunk="auto", **FEW).fit(X[train], y[train])
    low, high = model.predict(X[~train], quantiles=(0.05, 0.95)).T
    assert model.trunk_helps_
    assert 0.82 < np.mean((low <= y[~train]) & (y[~train] <= high)) < 0.98


def test_beyond_the_rows_of_fit_trees_stay_near_the_lines():
    rng = np.random.default_rng(5)
    time = np.tile(np.arange(40.0), 6)
    X = np.column_stack([np.repeat(np.arange(6), 40), time, rng.uniform(-1, 1, 240)])
    y = time + 5 * (np.abs(X[:, 2]) > 0.5) + 0.1 * rng.standard_normal(240)
    model = GAMTLCV(task=0, trunk="auto", **FEW).fit(X, y)
    assert model.trunk_helps_
    bound = model.model_.bound
    for when in (44.0, 60.0):
        later = np.array([[0, when, 0.0]])
        away = model.predict(later) - bound.lines.predict(later[:, 1:], np.array([0]))
        assert np.abs(away) <= bound.most + 1e-9


def test_wide_targets_have_a_trunk_too():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (80, 2))
    Y = 3 * (np.abs(X[:, [0]]) > 0.5) + X[:, [1]] * np.arange(4) + 0.1 * rng.standard_normal((80, 4))
    model = GAMTLCV(trunk="auto", **FEW).fit(X, Y)
    assert model.trunk_helps_
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (80, 4)
    assert model.score(X, Y) > 0.95


def test_curves_and_a_trunk_go_together(table, tmp_path):
    X, y = table
    model = GAMTLCV(task="task", trunk="auto", **FEW | {"nonlinear": True}).fit(X, y)
    assert model.trunk_helps_
    assert model.score(X, y) > 0.8
    assert (load(model.save(tmp_path / "model.kin")).predict(X) == model.predict(X)).all()


def test_a_row_held_out_is_not_seen_by_its_trees():
    rng = np.random.default_rng(0)
    X, y, codes = rng.standard_normal((60, 2)), rng.standard_normal(60), np.repeat(np.arange(6), 10)
    fold = np.arange(60) % 3
    data = TaskRows(X, y, codes, np.arange(6), fold)
    other = TaskRows(X, np.where(fold == 0, y + 1e-9, y), codes, np.arange(6), fold)
    one = DecisionTreeRegressor(random_state=0)
    before, after = (try_trees(rows, one).prediction for rows in (data, other))
    assert (before[fold == 0] == after[fold == 0]).all()
    assert not (before[fold != 0] == after[fold != 0]).all()


def test_tasks_of_few_rows_are_told_apart():
    rng = np.random.default_rng(4)
    codes = np.repeat(np.arange(20), 12)
    X = rng.uniform(-1, 1, (240, 1))
    # The step goes up in half of the tasks and down in the others: their means do not tell which.
    y = np.where(codes % 2, 1.0, -1.0) * np.where(X[:, 0] > 0, 1.0, -1.0)
    data = TaskRows(X, y, codes, np.arange(20), np.arange(240) % 4)
    assert np.square(try_trees(data, "auto").prediction - y).mean() < 0.5


def test_means_that_rows_are_told_are_those_of_others():
    codes, y = np.repeat([0, 1], 50), np.random.default_rng(0).standard_normal(100)
    told, by_task, category = task_inputs(codes, y, 3)
    assert category == [0] and np.isnan(by_task[2]).all()
    changed = y.copy()
    changed[7] += 100
    assert task_inputs(codes, changed, 3)[0][7, 1] - told[7, 1] == pytest.approx(0, abs=1.0)
    assert task_inputs(np.arange(300), np.arange(300.0), 300)[2] is None


def test_levels_between_own_mean_and_that_of_all():
    y = np.array([0.0, 2.0, 10.0, 12.0])
    levels = task_levels(np.array([0, 0, 1, 1]), y, 2)
    assert 1 < levels[0] < 2 and 10 < levels[1] < 11


@pytest.mark.parametrize("trunk", ["boost", 3, HistGradientBoostingRegressor])
def test_what_is_no_trunk_is_refused(table, trunk):
    with pytest.raises(ValueError, match='must be None, "auto", or a regressor'):
        GAMTLCV(task="task", trunk=trunk).fit(*table)


GIVEN = DecisionTreeRegressor(random_state=0)


def test_statistics_are_not_enough_for_a_regressor_and_trees_are_left_out():
    rng = np.random.default_rng(0)
    parts = [GramStats.from_rows(rng.normal(size=(20, 1)), rng.normal(size=20), np.arange(20) % 2) for _ in range(3)]
    with pytest.raises(ValueError, match="trunk needs rows"):
        GAMTLCV(trunk=GIVEN).fit_folds(Folds.of_parts(parts))
    model = GAMTLCV(**FEW).fit_folds(Folds.of_parts(parts))
    assert model.model_.trunk is None and "fitted to rows, and this model to statistics alone" in str(model.summary())


def test_rows_that_arrive_later_are_not_for_a_regressor_and_trees_are_left_out(table):
    with pytest.raises(AttributeError, match="trunk is fitted to rows"):
        GAMTLCV(task="task", trunk=GIVEN).partial_fit(*table)
    assert GAMTLCV(task="task", **FEW).partial_fit(*table).model_.trunk is None


def test_lazy_frames_leave_trees_out_and_say_that_a_regressor_needs_rows(model, table):
    pl = pytest.importorskip("polars")
    X, y = table
    frame = pl.from_pandas(X.assign(y=y)).lazy()
    with pytest.raises(ValueError, match="trunk is fitted to rows"):
        GAMTLCV(task="task", trunk=GIVEN).fit(frame, "y")
    assert GAMTLCV(task="task", **FEW).fit(frame, "y").model_.trunk is None
    with pytest.raises(ValueError, match="boosted trees.* take part.*predict_file"):
        model.predict(frame)


def test_onnx_says_that_a_trunk_has_no_form_there(model, tmp_path):
    pytest.importorskip("onnx")
    from kinfolk.export import to_onnx

    with pytest.raises(ValueError, match="boosted trees take part.*trunk=None"):
        to_onnx(model, tmp_path / "model.onnx")


def test_a_sample_of_rows_says_of_trees_what_all_rows_say(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 6, 1500), rng.normal(size=(1500, 2))])
    y = X[:, 1] * (1 + X[:, 0]) + rng.normal(size=1500)
    monkeypatch.setattr("kinfolk.estimators.gamtlcv.MOST_JUDGED", 500)
    small = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "cv": 3, "nonlinear": False}
    model = GAMTLCV(task=0, trunk="auto", **small).fit(X, y)
    assert model.trunk_gain_.mean < 0.02  # lines are all there is; a third of the squares beside all of them was 0.4
