"""The record of a fit: every per-task array has an entry per task, and nothing is solved again to use it."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import kinfolk.methods.model
from kinfolk import GAMTL, GAMTLCV, RBFGAMTL
from kinfolk.baselines import BMSL, CCMTL, TAT, Independent, RandomSlopes
from kinfolk.datasets import make_groups
from kinfolk.explain import shared_features
from kinfolk.methods.gamtl.coupling import GraphCoupling
from kinfolk.methods.model import Model
from kinfolk.methods.registry import all_methods
from kinfolk.methods.search_report import ByTask
from problems import frame

QUICK = {"strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,), "metrics": ("identity",), "cv": 3}


def with_a_task_without_targets(seed=0, T=6):
    table, y = frame(seed, T=T, d=3, n=(14, 18))
    y = y.copy()
    y[table["who"] == "task_02"] = np.nan
    return table, y


PER_TASK = [
    (GAMTL(task="who"), ()),
    (GAMTLCV(task="who", **QUICK), ("cv_errors_", "limit_errors_")),
    (RBFGAMTL(task="who", strengths=(1.0,), anchors=(0.9,), cv=3), ("cv_errors_", "limit_errors_")),
    (Independent(task="who", penalty="cv"), ("cv_errors_",)),
    (CCMTL(task="who"), ("clusters_",)),
]


@pytest.mark.parametrize(("method", "names"), PER_TASK, ids=lambda value: type(value).__name__)
def test_a_task_without_targets_has_an_entry_in_every_array(method, names):
    table, y = with_a_task_without_targets()
    model = method.fit(table, y)
    assert list(model.tasks_) == sorted(set(table["who"]))
    assert model.coef_.shape[0] == len(model.intercept_) == 6
    for name in names:
        values = getattr(model, name)
        assert len(values) == 6
        assert np.isnan(values[2]) or values[2] == -1
        assert np.isfinite(np.delete(values, 2)).all()


def test_arrays_whose_tasks_are_not_on_the_first_axis_have_an_entry_too():
    table, y = with_a_task_without_targets()
    bayes = BMSL(task="who", n_samples=40, n_burn=40, n_chains=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interval = bayes.fit(table, y).coef_interval_
        layers = TAT(task="who", n_layers=2).fit(table, y).layers_
    assert interval.shape == (2, 6, 3) and np.isnan(interval[:, 2]).all()
    assert layers.shape == (2, 6, 3) and np.isnan(layers[:, 2]).all()


@pytest.mark.parametrize("method", [GAMTL(task="who"), GAMTLCV(task="who", **QUICK)], ids=["gamtl", "cv"])
def test_tasks_come_and_go_beside_a_task_without_targets(method):
    table, y = with_a_task_without_targets()
    new = table["who"] == "task_04"
    model = method.fit(table[~new], y[~new])
    before = model.predict(table[~new])
    model.adopt(table[new], y[new])
    np.testing.assert_array_equal(model.predict(table[~new]), before)
    assert list(model.tasks_) == sorted(set(table["who"]))
    assert np.isfinite(model.predict(table, return_std=True)[1]).all()
    model.drop(["task_02", "task_04"])
    assert list(model.tasks_) == ["task_00", "task_01", "task_03", "task_05"]
    assert model.adjacency_.shape == (4, 4)


@pytest.mark.parametrize("name", sorted(all_methods()))
def test_a_mistyped_choice_is_refused_by_every_method(name):
    table, y = frame(0)
    with pytest.raises(ValueError, match='unseen=\'eror\': choose "warn", "mean" or "error"'):
        all_methods()[name](task="who", unseen="eror").fit(table, y)


def test_all_wrong_parameters_are_named_at_once():
    table, y = frame(0)
    with pytest.raises(ValueError, match=r"strength=-1 must be at least 0 and finite.*ridge=nan must be"):
        GAMTL(task="who", strength=-1, ridge=float("nan")).fit(table, y)


def test_standard_deviations_are_worked_out_once(monkeypatch):
    data = make_groups(random_state=0)
    model = GAMTLCV(task=data.task, **QUICK).fit(data.data, data.target)
    calls = []
    plain = kinfolk.methods.model.uncertainty
    monkeypatch.setattr("kinfolk.methods.model.uncertainty", lambda *given: calls.append(1) or plain(*given))
    for k in range(0, 400, 50):
        model.predict(data.data.iloc[[k]], return_std=True)
    assert len(calls) == 1


def test_the_graph_that_predicts_is_kept_beside_the_one_that_is_shown():
    data = make_groups(random_state=1)
    model = GAMTLCV(task=data.task).fit(data.data, data.target)
    part = model.model_.graph_part
    assert model.graph_helps_ and part.share > 0
    np.testing.assert_array_equal(part.coupling.adjacency.toarray(), model.coupling_.toarray())
    assert model.optimality_["duality_gap"] < 1e-4
    assert model.optimality_["shown_gap"] < 1e-10
    assert model.adjacency_.nnz < model.coupling_.nnz / 1.5


def test_after_adoption_explanations_are_in_the_units_of_the_fit():
    """The scale of the features is that of the fit, although new rows would give another."""
    table, y = frame(3, T=6, d=3, n=(20, 25))
    new = table["who"] == "task_05"
    model = GAMTLCV(task="who", **QUICK).fit(table[~new], y[~new])
    before = shared_features(model, "task_00", "task_01")
    units = model.model_.graph_part.units
    wild = table[new].assign(x0=1000 * table["x0"][new])
    model.adopt(wild, y[new])
    np.testing.assert_array_equal(model.model_.graph_part.units, units)
    after = shared_features(model, "task_00", "task_01")
    one = {row.feature: row.coef for row in before.features}
    two = {row.feature: row.coef for row in after.features}
    assert one == pytest.approx(two)


def test_parts_are_what_the_model_predicts():
    table, y = frame(1, T=5, d=3, n=(15, 20))
    model = GAMTLCV(task="who", **QUICK).fit(table, y).model_
    coef = np.zeros_like(model.coef)
    for part in model.parts:
        coef += part.share * part.coefficients(part.equations(model.known), part.V)[0]
    np.testing.assert_allclose(coef, model.coef, atol=1e-8)
    assert sum(part.share for part in model.parts) == pytest.approx(1)


def test_a_light_copy_predicts_the_same():
    table, y = frame(1, T=5)
    model = RandomSlopes(task="who").fit(table, y).model_
    light = model.for_prediction()
    np.testing.assert_array_equal(light.predict_table(table), model.predict_table(table))
    assert light.gram is None and not light.parts


def test_values_by_task_are_placed_and_taken_along_their_axis():
    values = ByTask(np.array([[1.0, 2.0]]), axis=1)
    placed = values.placed(np.array([0, 2]), 3)
    np.testing.assert_array_equal(placed.values, [[1.0, np.nan, 2.0]])
    np.testing.assert_array_equal(placed.taken(np.array([2])).values, [[2.0]])
    assert ByTask(np.array([7, 8])).placed(np.array([1, 0]), 3).values.tolist() == [8, 7, -1]


def test_a_model_is_frozen_and_its_changes_are_models():
    table, y = frame(1, T=5)
    model = GAMTL(task="who").fit(table, y).model_
    assert isinstance(model.graph_part.coupling, GraphCoupling)
    with pytest.raises(AttributeError):
        model.coef = None
    assert isinstance(replace(model, extras={}), Model)
