"""The proximal alternation: what its steps pay for, how they add up, and where they end."""

import numpy as np
import pytest

from kinfolk import GAMTL
from kinfolk.methods.gamtl.calibrate import Recipe
from kinfolk.methods.gamtl.problem import ProximalSteps, near_graph
from kinfolk.solvers.graph import learn_graph, squared_distances
from problems import frame, gram

TABLE, Y = frame(1, T=8)
NUMBERS = {"alpha": 1.0, "beta": 0.5, "gamma": 0.4}


def graph_value(A, Z, alpha, beta, gamma):
    return gamma * (A * Z).sum() - alpha * np.log(A.sum(axis=1)).sum() + beta * (A**2).sum()


def test_the_graph_step_that_pays_is_better_than_any_way_towards_other_graphs():
    rng = np.random.default_rng(4)
    Z = squared_distances(rng.normal(size=(9, 3)))
    before = learn_graph(squared_distances(rng.normal(size=(9, 3))), **NUMBERS).value
    found = near_graph(Z, before, 0.7, start=None, **NUMBERS).value.toarray()

    def value(A):
        return graph_value(A, Z, **NUMBERS) + 0.7 * ((A - before.toarray()) ** 2).sum()

    others = [before.toarray(), learn_graph(Z, **NUMBERS).value.toarray(), np.ones((9, 9)) - np.eye(9)]
    for other in others:
        for t in (1e-4, 1e-2, 0.5):
            assert value(found) < value((1 - t) * found + t * other)


@pytest.mark.parametrize(("pay", "near"), [(0.0, "best"), (1e8, "before")])
def test_without_a_price_it_is_the_best_graph_and_at_a_high_one_the_last(pay, near):
    rng = np.random.default_rng(4)
    Z = squared_distances(rng.normal(size=(9, 3)))
    before = learn_graph(squared_distances(rng.normal(size=(9, 3))), **NUMBERS).value
    wanted = {"best": learn_graph(Z, **NUMBERS).value, "before": before}[near]
    np.testing.assert_allclose(
        near_graph(Z, before, pay, start=None, **NUMBERS).value.toarray(), wanted.toarray(), atol=1e-6
    )


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_squared_steps_sum_to_no_more_than_the_objective_falls(ridge):
    problem = Recipe(**NUMBERS, ridge=ridge).problem(gram(2, T=6))
    steps = ProximalSteps(problem, 0.5)
    pay = 0.5 * np.diagonal(problem.equations.G, axis1=1, axis2=2).mean()
    W = problem.start()
    graph = steps.graph_step(W, None)
    value = problem.objective(W, graph.value)
    paid = []
    falls = []
    for _ in range(40):
        moved = steps.weight_step(graph.value, W).value
        following = steps.graph_step(moved, graph.dual)
        change = abs(following.value - graph.value).toarray()
        paid.append(pay * ((moved - W) ** 2).sum() + 0.5 * problem.beta * (change**2).sum())
        now = problem.objective(moved, following.value)
        falls.append(value - now)
        W, graph, value = moved, following, now
    assert (np.array(falls) >= np.array(paid) - 1e-10).all()
    assert paid[-1] < 1e-6 * paid[0]


@pytest.mark.parametrize("letters", [NUMBERS | {"gamma": 0.01}, {"strength": 0.01}])
def test_where_the_optimum_is_one_it_ends_there(letters):
    plain, proximal = (
        GAMTL(task="who", ridge=5.0, proximal=weight, tol=1e-13, max_iter=3000, **letters).fit(TABLE, Y)
        for weight in (0.0, 1.0)
    )
    np.testing.assert_allclose(proximal.coef_, plain.coef_, atol=1e-6)
    np.testing.assert_allclose(proximal.coupling_.toarray(), plain.coupling_.toarray(), atol=1e-5)
    assert (np.diff(proximal.objective_history_) <= 1e-10 * np.abs(proximal.objective_history_[:-1])).all()
    assert proximal.n_iter_ > plain.n_iter_


def test_it_is_for_graphs_of_all_pairs():
    X = np.column_stack([np.repeat(np.arange(2600), 2), np.random.default_rng(0).normal(size=5200)])
    with pytest.raises(ValueError, match="up to 2500 tasks"):
        GAMTL(task=0, proximal=1.0).fit(X, X[:, 1])
