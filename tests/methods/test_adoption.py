"""Tasks that come and go after fit."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from kinfolk import GAMTL, GAMTLCV
from kinfolk.datasets import make_groups
from kinfolk.methods.gamtl.adopt import Neighborhood


@pytest.fixture(scope="module")
def data():
    return make_groups(random_state=5)


def parted(data, new, rows):
    """All rows of the other tasks, and the first few of one."""
    task = np.asarray(data.data[data.task])
    old, first = task != new, np.flatnonzero(task == new)[:rows]
    return (data.data[old], data.target[old]), (data.data.iloc[first], data.target[first])


def rmse(model, data, task):
    of_task = np.asarray(data.test_data[data.task]) == task
    return np.sqrt(np.mean((model.predict(data.test_data[of_task]) - data.test_target[of_task]) ** 2))


@pytest.mark.parametrize("new", [3, 15])
@pytest.mark.parametrize("options", [{}, {"intercept": "shrunk", "metric": "learned"}, {"anchor": 0.2}])
def test_a_new_task_of_a_known_group_predicts_as_after_a_full_refit(data, new, options):
    old, few = parted(data, new, 5)
    adopted = GAMTL(task=data.task, **options).fit(*old).adopt(*few)
    both = pd.concat([old[0], few[0]]), np.concatenate([old[1], few[1]])
    refitted = GAMTL(task=data.task, **options).fit(*both)
    assert rmse(adopted, data, new) <= 1.1 * rmse(refitted, data, new)


def test_a_tuned_model_adopts_too(data):
    old, few = parted(data, 3, 5)
    model = GAMTLCV(task=data.task, strengths=(1.0,), metrics=("identity",), anchors=(0.0,)).fit(*old)
    before = dict(zip(model.tasks_.tolist(), model.coef_.copy(), strict=True))
    model.adopt(*few)
    assert rmse(model, data, 3) < 3.0
    assert {e.neighbor for e in model.graph_.edges()[:1]} <= set(range(1, 21))
    kin = model.adjacency_.toarray()[2]
    assert kin[:12].sum() > 0.99 * kin.sum()
    np.testing.assert_array_equal(model.coef_[4], before[5])
    mean, std = model.predict(few[0], return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()


def test_the_others_keep_their_coefficients_and_edges(data):
    old, few = parted(data, 3, 4)
    model = GAMTL(task=data.task).fit(*old)
    coef, coupling = model.coef_.copy(), model.coupling_.toarray()
    model.adopt(*few)
    others = np.flatnonzero(model.tasks_ != 3)
    np.testing.assert_array_equal(model.coef_[others], coef)
    np.testing.assert_array_equal(model.coupling_.toarray()[np.ix_(others, others)], coupling)
    assert abs(model.coupling_ - model.coupling_.T).max() == 0


def test_dropping_what_was_adopted_gives_the_model_back(data):
    old, few = parted(data, 3, 4)
    model = GAMTL(task=data.task).fit(*old)
    X, before = old[0], model.predict(old[0])
    model.adopt(*few).drop([3])
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.warns(UserWarning, match="task 3, not seen in fit"):
        model.predict(few[0])


def test_rows_of_an_adopted_task_take_part_in_the_next_fit(data):
    old, few = parted(data, 3, 6)
    rest = parted(data, 3, 20)[1][0].iloc[6:], parted(data, 3, 20)[1][1][6:]
    model = GAMTL(task=data.task).fit(*old).adopt(*few).partial_fit(*rest)
    whole = GAMTL(task=data.task).fit(data.data, data.target)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-5)


def test_refitting_a_task_leaves_the_others(data):
    model = GAMTL(task=data.task).fit(data.data, data.target)
    before = model.coef_.copy()
    model.refit([7])
    others = model.tasks_ != 7
    np.testing.assert_array_equal(model.coef_[others], before[others])
    np.testing.assert_allclose(model.coef_[6], before[6], atol=0.05 * np.abs(before[6]).max())


def test_edges_and_weights_are_each_best_for_the_other(data):
    """Against a general optimiser, on the objective as it is written."""
    model = GAMTL(task=data.task).fit(data.data, data.target)
    part = model.model_.parts[0]
    problem = part.coupling.problem(part.equations(model.gram_))
    V = problem.equations.unknowns(model.coef_ * part.units, model.intercept_)
    np.testing.assert_allclose(V, part.V, atol=1e-8)
    around = Neighborhood(problem, V, np.asarray(model.coupling_.sum(axis=1)).ravel())
    v = V[4] + 0.3
    a = around.edges(v)
    far = ((V - v) ** 2).sum(axis=1)

    def value(x):
        barrier = np.log(x.sum()) + np.log(around.degree + x).sum()
        return (2 * problem.gamma_along * x @ far + 2 * problem.beta * x @ x) / problem.alpha - barrier

    found = minimize(value, np.full(20, 0.1), bounds=[(1e-12, None)] * 20, method="L-BFGS-B", options={"ftol": 1e-15})
    assert value(a) <= found.fun + 1e-9 * abs(found.fun)
    G, b = problem.equations.G[4], problem.equations.b[4]
    w = around.weights(G, b, a)
    gradient = 2 * (G @ w - b + problem.ridge @ w) + 4 * problem.gamma_along * (a.sum() * w - a @ V)
    assert np.abs(gradient).max() <= 1e-8 * np.abs(b).max()


@pytest.mark.parametrize("options", [{}, {"intercept": "coupled", "metric": "learned_full"}, {"intercept": None}])
def test_unknowns_and_coefficients_are_two_views_of_one_thing(data, options):
    model = GAMTL(task=data.task, **options).fit(data.data, data.target)
    equations = model.model_.parts[0].equations(model.gram_)
    V = np.random.default_rng(1).normal(size=equations.shape)
    np.testing.assert_allclose(equations.unknowns(*equations.coefficients(V)), V, atol=1e-8)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda m, few: m.adopt(few[0].assign(task=1), few[1]), "task 1 is known already: drop"),
        (lambda m, few: m.drop([99]), "task 99 is not in this model"),
        (lambda m, few: m.drop(m.tasks_), "drop would remove all 19 tasks"),
        (lambda m, few: m.adopt(few[0].iloc[:, :5], few[1]), "missing"),
    ],
)
def test_errors_say_what_to_do(data, act, message):
    old, few = parted(data, 3, 4)
    model = GAMTL(task=data.task, tol=1.0).fit(*old)
    with pytest.raises(ValueError, match=message):
        act(model, few)


def test_wide_models_do_not_adopt():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    model = GAMTL().fit(X, rng.normal(size=(20, 3)))
    with pytest.raises(ValueError, match="adopt takes long tables"):
        model.adopt(X, rng.normal(size=20))
