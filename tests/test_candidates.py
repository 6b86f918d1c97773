import numpy as np
import pytest

from kinfolk import GAMTL
from kinfolk.graph import learn_graph, nearest, squared_distances
from kinfolk.graph.candidates import by_candidates

RNG = np.random.default_rng(0)
POINTS = {
    "gaussian": RNG.normal(size=(1500, 20)),
    "duplicates": np.repeat(RNG.normal(size=(500, 8)), 3, axis=0),
    "clusters": np.repeat(RNG.normal(size=(75, 20)), 20, axis=0) + 0.05 * RNG.normal(size=(1500, 20)),
    "outliers": np.vstack([RNG.normal(size=(790, 20)), 10 * RNG.normal(size=(10, 20))]),
}


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("k", [3, 32])
def test_candidates_give_the_dense_answer_also_if_too_few_at_first(name, k):
    W = POINTS[name]
    letters = {"alpha": 1.0, "beta": 0.5, "gamma": 0.1}
    sparse_way, dense_way = by_candidates(W, k=k, **letters), learn_graph(squared_distances(W), **letters)
    assert sparse_way.certified == 1.0
    assert abs(sparse_way.value - dense_way.value).max() < 1e-8


def test_nearest_leaves_out_the_task_itself_but_not_its_duplicates():
    W = np.array([[0.0], [0.0], [0.0], [5.0]])
    near = nearest(W, 2)
    np.testing.assert_array_equal(near.distance[:3], 0)
    assert all(t not in near.index[t] for t in range(4))
    np.testing.assert_array_equal(near.distance[3], [25, 25])


def test_many_tasks_are_fitted_by_candidates_as_by_all_pairs(monkeypatch):
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(300), 8)
    X = rng.normal(size=(2400, 4))
    y = np.einsum("nd,nd->n", X, np.repeat(rng.normal(size=(30, 4)), 80, axis=0)) + 0.1 * rng.normal(size=2400)
    table = np.column_stack([task, X])
    parameters = {"alpha": 2.0, "beta": 1.0, "gamma": 0.5, "max_iter": 500}
    dense = GAMTL(task=0, **parameters).fit(table, y)
    monkeypatch.setattr("kinfolk.graph.candidates.DENSE_TASKS", 100)
    sparse_way = GAMTL(task=0, **parameters).fit(table, y)
    assert sparse_way.optimality_["certified"] == 1.0
    np.testing.assert_allclose(sparse_way.coef_, dense.coef_, atol=1e-6)
