"""The joint problem behind a model, against explicit rows and matrices."""

import numpy as np
import pytest

from kinfolk import GAMTL, GAMTLCV, GramStats
from kinfolk.baselines import MTRL, Independent
from kinfolk.explain import joint as module
from kinfolk.explain.joint import degrees_of_freedom, graph_of, joint_of, own_residuals, quietly, rows_like
from kinfolk.methods.gamtl import coupling
from kinfolk.solvers.weights.direct import dense_matrix
from problems import frame, gram, rows

VARIANTS = [
    {},
    {"intercept": "shrunk"},
    {"intercept": "coupled", "anchor": 0.3},
    {"intercept": None},
    {"metric": "learned"},
    {"alpha": 1.0, "beta": 0.5, "gamma": 0.2},
]


def fitted(seed=0, T=6, d=3, n=(12, 20), **kwargs):
    table, y = frame(seed, T=T, d=d, n=n)
    return GAMTL(task="who", tol=1e-10, strength=1.0, **kwargs).fit(table, y), table, y


@pytest.mark.parametrize("kwargs", VARIANTS, ids=str)
def test_solving_again_gives_the_fitted_coefficients_and_graph(kwargs):
    model, *_ = fitted(**kwargs)
    joint = joint_of(model, "test")
    np.testing.assert_allclose(joint.coef, model.coef_, rtol=1e-6, atol=1e-8)
    again = quietly(joint.problem, tol=1e-10)
    np.testing.assert_allclose(again.graph.value.toarray(), model.coupling_.toarray(), atol=1e-6)


def test_the_joint_problem_of_gamtlcv_is_that_of_its_graph():
    table, y = frame(2, T=6, d=3, n=(12, 20))
    model = GAMTLCV(task="who", strengths=(1.0,), ridges=(1.0,), anchors=(0.0,), metrics=("learned",)).fit(table, y)
    again = quietly(joint_of(model, "test").problem, tol=1e-6)
    np.testing.assert_allclose(again.graph.value.toarray(), model.coupling_.toarray(), atol=1e-6)


def test_degrees_of_freedom_are_the_trace_of_each_tasks_part_of_the_hat_matrix():
    X, y, task = rows(1, T=4, d=3, n=(5, 9))
    model = GAMTL(strength=1.0).fit_gram(GramStats.from_rows(X, y, task))
    joint = joint_of(model, "test")
    system = joint.problem.system(model.coupling_)
    M = dense_matrix(system)
    wide = np.zeros((len(y), 4, 3))
    for i, t in enumerate(task):
        wide[i, t] = X[i] - X[task == t].mean(axis=0)
    wide = wide.reshape(len(y), 12)
    leverage = np.diagonal(wide @ np.linalg.solve(M, wide.T))
    expected = np.bincount(task, leverage)
    np.testing.assert_allclose(degrees_of_freedom(joint.inverse), expected, rtol=1e-9)


def test_random_probes_estimate_the_same_degrees_of_freedom(monkeypatch):
    model, *_ = fitted(T=8, d=4)
    joint = joint_of(model, "test")
    exact = degrees_of_freedom(joint.inverse)
    monkeypatch.setattr(coupling, "DENSE_UNKNOWNS", 0)
    monkeypatch.setattr(module, "PROBES", 400)
    np.testing.assert_allclose(degrees_of_freedom(joint.inverse), exact, atol=0.35)


def test_own_residuals_are_those_of_least_squares_with_intercept():
    X, y, task = rows(3, T=3, d=2, n=(6, 9))
    found, dof = own_residuals(GramStats.from_rows(X, y, task))
    for t in range(3):
        here = np.column_stack([np.ones((task == t).sum()), X[task == t]])
        residual = y[task == t] - here @ np.linalg.lstsq(here, y[task == t], rcond=None)[0]
        assert found[t] == pytest.approx(residual @ residual)
        assert dof[t] == len(here) - 3


def test_own_residuals_are_free_of_the_sizes_of_columns():
    X, y, task = rows(3, T=3, d=2, n=(6, 9))
    plain, uneven = (own_residuals(GramStats.from_rows(X * size, y, task)) for size in (1.0, [1e-7, 1e8]))
    np.testing.assert_allclose(uneven, plain, rtol=1e-9)


def test_the_noise_of_tasks_with_many_rows_is_found():
    model = GAMTL(strength=0.1).fit_gram(gram(5, T=5, d=3, n=(400, 500), noise=0.5))
    np.testing.assert_allclose(joint_of(model, "test").noise, 0.25, rtol=0.25)


@pytest.mark.parametrize("dense", [0, 4000])
@pytest.mark.parametrize("kwargs", VARIANTS, ids=str)
def test_standard_errors_of_a_contrast_are_those_of_new_noise_in_the_targets(kwargs, dense, monkeypatch):
    """The reference: W is linear in y for a fixed graph, so move every target by one and see what the contrast does."""
    monkeypatch.setattr(coupling, "DENSE_UNKNOWNS", dense)
    model, table, y = fitted(T=4, d=2, n=(8, 12), **kwargs)
    joint = joint_of(model, "test")
    c = np.array([0.5, 0.5, -1.0, 0.0])
    _, error = joint.contrast(c)
    X, task = table[["x0", "x1"]].to_numpy(), np.searchsorted(model.tasks_, table["who"])

    def contrast(y):
        problem = joint.coupling.problem(joint.part.equations(GramStats.from_rows(X, y, model.tasks_[task])))
        return c @ problem.equations.coefficients(problem.weight_step(model.coupling_, None).value)[0]

    base = contrast(y)
    moved = np.array([contrast(y + np.eye(len(y))[i]) - base for i in range(len(y))])
    np.testing.assert_allclose(error, np.sqrt(joint.noise[task] @ moved**2), rtol=1e-6)


@pytest.mark.parametrize("kwargs", VARIANTS, ids=str)
@pytest.mark.parametrize("fewer", [0, 1])
def test_small_problems_are_those_whose_inverse_is_kept(kwargs, fewer, monkeypatch):
    joint = joint_of(fitted(T=4, d=2, n=(8, 12), **kwargs)[0], "test")
    monkeypatch.setattr(coupling, "DENSE_UNKNOWNS", joint.problem.equations.b.size - fewer)
    assert joint.is_small == joint.inverse.at_once == (not fewer)


def test_other_structures_are_named_in_the_error():
    table, y = frame(0)
    with pytest.raises(
        TypeError, match=r"roles reads a TaskGraph, but MTRL has a TaskCovariance: use GAMTL.*graph\(\)"
    ):
        graph_of(MTRL(task="who").fit(table, y), "roles")
    with pytest.raises(TypeError, match="Independent has no structure"):
        graph_of(Independent(task="who").fit(table, y), "roles")
    with pytest.raises(TypeError, match="roles takes a fitted model, a TaskGraph.* got list"):
        graph_of([], "roles")


def test_a_bare_graph_cannot_be_solved_again():
    model, *_ = fitted()
    with pytest.raises(TypeError, match="but got TaskGraph, whose graph comes from elsewhere"):
        joint_of(model.graph_, "edge_confidence")


def test_two_tasks_are_too_few():
    with pytest.raises(ValueError, match="at least 3 tasks, got 2"):
        joint_of(fitted(T=2)[0], "edge_confidence")


def test_rows_must_be_of_the_tasks_of_fit():
    model, table, y = fitted()
    with pytest.raises(ValueError, match="task 'task_00' is in fit, but not in X"):
        rows_like(model, table[table["who"] != "task_00"], y[table["who"] != "task_00"], "task_gains")
    with pytest.raises(ValueError, match="task 'new' is in X, but not in fit"):
        rows_like(model, table.assign(who=table["who"].where(table.index > 0, "new")), y, "task_gains")
    with pytest.raises(ValueError, match="needs both X and y, or neither"):
        rows_like(model, table, None, "task_gains")
