"""A graph that the user knows: in any form, matched by label, fixed or a prior, and home of tasks without rows."""

from __future__ import annotations

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from kinfolk import GAMTL, GAMTLCV, TaskGraph, load
from kinfolk.baselines import CCMTL, Independent
from kinfolk.methods.given_graph import named_graph, read_graph, unit_variance
from kinfolk.solvers.graph.edges import laplacian

T, D = 40, 3
NAMES = np.array([f"t{k:02d}" for k in range(T)])
RING = nx.relabel_nodes(nx.cycle_graph(T), dict(enumerate(NAMES)))
EDGES = pd.DataFrame(list(RING.edges), columns=["source", "target"])


def on_ring(seed=0, rows=8, wrong=False):
    """Rows of tasks whose coefficients go smoothly around a ring, or, where it is wrong, in any order."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * (rng.permutation(T) if wrong else np.arange(T)) / T
    waves = np.column_stack([np.sin(angle), np.cos(angle)])
    coef = waves @ rng.normal(size=(2, D + 1)) * 2
    task = np.repeat(np.arange(T), rows)
    X = rng.normal(size=(len(task), D))
    mean = (X * coef[task, :D]).sum(axis=1) + coef[task, D]
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(task=NAMES[task])
    return table, mean, mean + rng.normal(size=len(mean))


TABLE, MEAN, Y = on_ring()


def error(model, table=TABLE, mean=MEAN):
    return float(np.sqrt(np.mean((model.predict(table) - mean) ** 2)))


def forms():
    """The ring in every form that it may be given in."""
    A = sparse.csr_array(nx.adjacency_matrix(RING, nodelist=NAMES).astype(float))
    near = {name: list(RING[name]) for name in NAMES}
    angle = 2 * np.pi * np.arange(T) / T
    return {
        "edges": EDGES.sample(frac=1, random_state=0),
        "weighted": EDGES.assign(weight=1.0).rename(columns={"source": "a", "target": "b"}),
        "networkx": RING,
        "matrix": A,
        "array": A.toarray(),
        "TaskGraph": TaskGraph(A, NAMES),
        "libpysal": SimpleNamespace(neighbors=near, weights={name: [1.0] * len(k) for name, k in near.items()}),
    } | {"coordinates": pd.DataFrame({"task": NAMES, "x": np.cos(angle), "y": np.sin(angle)})}


@pytest.mark.parametrize("form", [form for form in forms() if form != "coordinates"])
def test_every_form_is_the_same_graph(form):
    A = named_graph(forms()[form], NAMES, NAMES, "task").adjacency
    np.testing.assert_array_equal(A.toarray(), nx.adjacency_matrix(RING, nodelist=NAMES).toarray())


def test_coordinates_join_the_nearest():
    A = named_graph(forms()["coordinates"], NAMES, NAMES, "task").adjacency.toarray()
    assert (A[np.arange(T), (np.arange(T) + 1) % T] == 1).all()
    indexed = forms()["coordinates"].set_index("task")
    np.testing.assert_array_equal(named_graph(indexed, NAMES, NAMES, "task").adjacency.toarray(), A)


@pytest.mark.parametrize(
    "method", [GAMTL(task="task", intercept="coupled"), GAMTLCV(task="task", trunk=None, nonlinear=False)]
)
def test_a_map_makes_smooth_tasks_better(method):
    own = Independent(task="task", penalty="cv").fit(TABLE, Y)
    assert error(method.set_params(graph=EDGES).fit(TABLE, Y)) < 0.8 * error(own)


def test_a_wrong_graph_costs_nothing():
    table, mean, y = on_ring(1, wrong=True)
    without, model = (GAMTLCV(task="task", trunk=None, nonlinear=False, graph=g).fit(table, y) for g in (None, EDGES))
    assert error(model, table, mean) < 1.01 * error(without, table, mean)


def test_weights_along_a_fixed_graph_are_those_of_a_plain_solver():
    A = nx.adjacency_matrix(RING, nodelist=NAMES).toarray().astype(float)
    model = GAMTL(task="task", graph=EDGES, strength=2.0, ridge=0.5, anchor=0.2, intercept=None).fit(TABLE, Y)
    K = unit_variance(sparse.csr_array(A)).toarray()
    L = np.diag(K.sum(axis=1)) - K
    mean = np.eye(T) - 1 / T
    coupling = 2 * model.gamma_ * (0.8 * L + 0.2 * mean * T / (T - 1))
    M = np.kron(coupling, np.eye(D)) + 0.5 * np.eye(T * D)
    b = np.zeros(T * D)
    for t, name in enumerate(NAMES):
        X = TABLE.loc[TABLE.task == name, ["x0", "x1", "x2"]].to_numpy()
        M[D * t : D * (t + 1), D * t : D * (t + 1)] += X.T @ X
        b[D * t : D * (t + 1)] = X.T @ Y[TABLE.task == name]
    np.testing.assert_allclose(model.coef_.ravel(), np.linalg.solve(M, b), rtol=1e-6, atol=1e-8)


def test_without_any_share_the_graph_is_not_there():
    one = GAMTL(task="task").fit(TABLE, Y)
    two = GAMTL(task="task", graph=EDGES, graph_share=0.0).fit(TABLE, Y)
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_half_a_share_lies_between_and_its_rounds_fall():
    model = GAMTL(task="task", graph=EDGES, graph_share=0.5, intercept="coupled").fit(TABLE, Y)
    assert (np.diff(model.objective_history_) <= 1e-9 * abs(model.objective_history_[0])).all()
    learned = GAMTL(task="task", intercept="coupled").fit(TABLE, Y)
    assert error(model) < error(learned)


@pytest.mark.parametrize("A", [nx.adjacency_matrix(RING), nx.adjacency_matrix(nx.grid_2d_graph(20, 20))])
def test_the_scale_of_a_map_is_that_of_its_variances(A):
    K = unit_variance(sparse.csr_array(A.astype(float)))
    variances = np.diagonal(np.linalg.pinv(laplacian(K).toarray()))
    np.testing.assert_allclose(np.exp(np.log(variances).mean()), 1.0, rtol=0.15)


def test_components_are_scaled_one_by_one_and_islands_stay():
    two = nx.disjoint_union(nx.path_graph(3), nx.star_graph(5))
    two.add_node("island")
    K = unit_variance(sparse.csr_array(nx.adjacency_matrix(two).astype(float)))
    variances = np.diagonal(np.linalg.pinv(laplacian(K).toarray()))
    for part in (slice(0, 3), slice(3, 9)):
        np.testing.assert_allclose(np.exp(np.log(variances[part]).mean()), 1.0)
    assert K[[9]].sum() == 0


def test_everything_that_does_not_match_is_in_one_message():
    edges = pd.concat([EDGES[EDGES.source != "t00"], pd.DataFrame({"source": ["new"], "target": ["t03"]})])
    edges = edges[edges.target != "t00"]
    with pytest.warns(UserWarning, match=r"1 task without rows \('new'\), and 1 task of the table are not in it"):
        GAMTL(task="task", graph=edges).fit(TABLE, Y)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (EDGES.assign(weight=-1.0), "graph: 40 edges with weights below 0"),
        ("ring", "graph is a str"),
        (np.ones((3, 3)), r"graph has shape \(3, 3\), but there are 40 tasks"),
        (pd.DataFrame({"source": [1, 2], "target": [2, 3]}), "labels were like"),
    ],
)
def test_an_unfit_graph_is_refused(graph, message):
    with pytest.raises(ValueError, match=message):
        GAMTL(task="task", graph=graph).fit(TABLE, Y)


@pytest.mark.parametrize(
    "method",
    [
        GAMTL(task="task", intercept="coupled", unseen="mean"),
        GAMTLCV(task="task", trunk=None, nonlinear=False, unseen="mean"),
    ],
)
def test_a_task_without_rows_is_predicted_by_its_neighbours(method):
    bare = np.isin(TABLE.task, NAMES[::8])
    with pytest.warns(UserWarning, match="5 tasks without rows"):
        model = method.set_params(graph=EDGES).fit(TABLE[~bare], Y[~bare])
    found = error(model, TABLE[bare], MEAN[bare])
    population = method.set_params(graph=None).fit(TABLE[~bare], Y[~bare])
    assert found < 0.5 * error(population, TABLE[bare], MEAN[bare])
    assert (model.predict(TABLE[bare], return_std=True)[1] > 1).all()


@pytest.mark.parametrize(
    "method", [GAMTL(task="task"), GAMTLCV(task="task", trunk=None, nonlinear=False), GAMTLCV(task="task", trunk=None)]
)
def test_a_matrix_may_be_of_tasks_without_rows(method):
    gaps = np.where(np.isin(TABLE.task, NAMES[:3]), np.nan, Y)
    named, matrix = (clone(method).set_params(graph=forms()[form]).fit(TABLE, gaps) for form in ("TaskGraph", "array"))
    np.testing.assert_allclose(matrix.coef_, named.coef_, rtol=1e-8)


def test_models_with_a_graph_are_stored(tmp_path):
    model = GAMTL(task="task", graph=EDGES).fit(TABLE, Y)
    same = load(model.save(tmp_path / "model.kin"))
    np.testing.assert_array_equal(same.predict(TABLE), model.predict(TABLE))
    assert isinstance(same.graph, TaskGraph)


def test_ccmtl_takes_the_same_forms():
    one, two = (CCMTL(task="task", graph=forms()[form]).fit(TABLE, Y).coef_ for form in ("edges", "matrix"))
    np.testing.assert_allclose(one, two, rtol=1e-8)


def test_graphs_without_edges_are_none():
    empty = TaskGraph(sparse.csr_array((T, T)), NAMES)
    np.testing.assert_array_equal(
        GAMTL(task="task", graph=empty).fit(TABLE, Y).coef_, GAMTL(task="task").fit(TABLE, Y).coef_
    )
    assert read_graph(EDGES).labels.tolist() == NAMES.tolist()
