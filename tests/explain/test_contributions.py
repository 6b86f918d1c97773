"""The parts of a model add up to the model, and each part is what the targets of one task do."""

import numpy as np
import pytest

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL
from kinfolk.baselines import MTRL, Independent, MeanShrunk, Pooled, RandomSlopes
from kinfolk.datasets import make_groups
from kinfolk.explain.contributions import contributions
from kinfolk.solvers.equations import normal_equations
from kinfolk.weights import solve_system

MODELS = {
    "gamtl": GAMTL(task=0),
    "gamtl learned": GAMTL(task=0, metric="learned", intercept="shrunk", anchor=0.2),
    "gamtl coupled": GAMTL(task=0, metric="learned_full", intercept="coupled"),
    "gamtl without intercept": GAMTL(task=0, intercept=None),
    "independent": Independent(task=0),
    "mean shrunk": MeanShrunk(task=0, penalty="cv"),
    "pooled": Pooled(task=0),
    "pooled level": Pooled(task=0, own_intercepts=False),
    "random slopes": RandomSlopes(task=0, covariance="full"),
    "gamtlcv": GAMTLCV(task=0, strengths=(1.0,), anchors=(0.0,), cv=3),
    "rbfgamtl": RBFGAMTL(task=0, strengths=(1.0,), anchors=(0.9,), cv=3),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(9)
    task = np.repeat(np.arange(6), rng.integers(5, 12, size=6))
    X = rng.normal(size=(len(task), 3)) * [1.0, 4.0, 0.3] + 2.0
    W = rng.normal(size=(2, 3))[task % 2]
    return np.column_stack([task, X]), np.einsum("nd,nd->n", X, W) + 3 * task + rng.normal(size=len(task))


@pytest.fixture(scope="module", params=MODELS)
def model(request, rows):
    return MODELS[request.param].fit(*rows)


def test_parts_add_up_to_coefficients_and_intercepts(model):
    parts = contributions(model)
    np.testing.assert_allclose(parts.coef.sum(axis=1), model.coef_, atol=1e-8 * np.abs(model.coef_).max())
    np.testing.assert_allclose(
        parts.intercept.sum(axis=1), model.intercept_, atol=1e-8 * np.abs(model.intercept_).max()
    )


def test_parts_of_a_prediction_add_up_to_it(model, rows):
    split = contributions(model).split(rows[0])
    np.testing.assert_allclose(split.sum(axis=1), model.predict(rows[0]), rtol=1e-8, atol=1e-8)


def test_shares_and_the_prior_add_up_to_one(model):
    parts = contributions(model)
    np.testing.assert_allclose(parts.shares.sum(axis=1) + parts.prior, 1.0, atol=1e-12)


def test_some_tasks_are_split_as_among_all(model):
    some, every = contributions(model, tasks=[4, 1]), contributions(model)
    np.testing.assert_allclose(some.coef, every.coef[[4, 1]], atol=1e-12)
    assert some.tasks.tolist() == [4, 1]


@pytest.mark.parametrize("intercept", ["free", "coupled", None])
def test_a_part_is_what_the_model_makes_of_one_task_s_targets(rows, intercept):
    X, y = rows
    model = GAMTL(task=0, strength=1.0, intercept=intercept).fit(X, y)
    only = np.where(X[:, 0] == 2, y, 0.0)
    coupling = model.model_.parts[0].coupling
    equations = normal_equations(GAMTL(task=0).fit(X, only).gram_, intercept)
    system = coupling.problem(equations).system(model.coupling_)
    W, c = equations.coefficients(solve_system(system, method="direct").value)
    parts = contributions(model)
    np.testing.assert_allclose(parts.coef[:, 2], W, atol=1e-9)
    np.testing.assert_allclose(parts.intercept[:, 2], c, atol=1e-8)


def test_kin_contribute_and_strangers_do_not():
    data = make_groups(random_state=1)
    model = GAMTL(task=data.task).fit(data.data, data.target)
    parts = contributions(model)
    kin = data.groups[:, None] == data.groups
    np.fill_diagonal(kin, False)
    stranger = (data.groups[:, None] != data.groups) & (data.groups >= 0) & (data.groups >= 0)[:, None]
    assert parts.shares[kin & (data.groups >= 0)].mean() > 20 * np.abs(parts.shares[stranger]).mean()
    assert parts.of(20)[0].source == 20
    assert "from their own data" in repr(parts)


def test_an_unknown_task_is_named(rows):
    parts = contributions(GAMTL(task=0).fit(*rows), tasks=[1])
    with pytest.raises(ValueError, match="task 2 was not split"):
        parts.of(2)


def test_a_method_that_is_not_linear_is_refused(rows):
    with pytest.raises(ValueError, match="MTRL is not a linear function"):
        contributions(MTRL(task=0).fit(*rows))


def test_contributions_say_that_they_are_those_of_the_mixture_that_predicts():
    rng = np.random.default_rng(2)
    X = np.column_stack([np.tile(np.arange(8), 12), rng.normal(size=(96, 2))])
    y = X[:, 1] * (1 + 0.5 * (X[:, 0] % 3)) + X[:, 0] + rng.normal(size=96)
    model = GAMTLCV(task=0, nonlinear=False, trunk=None).fit(X, y)
    found = model.contributions()
    np.testing.assert_allclose(found.split(X).sum(axis=1), model.predict(X))
    parts = [f"{share:.0%} {name}" for name, share in model.mixture_.items()]
    assert len(parts) > 1 and f"8 tasks of the mixture that predicts: {parts[0]}" in repr(found)


def test_parts_add_up_where_columns_repeat_each_other_and_hardly_anything_pulls():
    """Along a direction that no row looks into there is nothing to split, however small the penalty."""
    rng = np.random.default_rng(2)
    task = np.repeat(np.arange(5), 8)
    x, z = rng.normal(size=(2, 40))
    X = np.column_stack([task, x, z, x + z])
    y = x * (1 + task) - z + 0.1 * rng.normal(size=40)
    for model in (MeanShrunk(task=0, penalty=1e-9), Independent(task=0, penalty=1e-9), Pooled(task=0, penalty=1e-9)):
        expected = model.fit(X, y).predict(X)
        np.testing.assert_allclose(contributions(model).split(X).sum(axis=1), expected, atol=1e-7)


def test_parts_add_up_where_noisier_tasks_count_less():
    rng = np.random.default_rng(5)
    task = np.repeat(np.arange(30), 9)
    X = rng.normal(size=(270, 2)) + task[:, None] / 10
    sd = np.where(task < 15, 0.1, 3.0)
    y = (X * (1 + 0.5 * rng.normal(size=(30, 2)))[task]).sum(axis=1) + sd * rng.normal(size=270)
    rows = np.column_stack([task, X])
    model = RandomSlopes(task=0, noise="task").fit(rows, y)
    assert np.ptp(model.noise_) > 0
    np.testing.assert_allclose(contributions(model).split(rows).sum(axis=1), model.predict(rows), atol=1e-9)
