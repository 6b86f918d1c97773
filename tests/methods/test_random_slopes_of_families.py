"""RandomSlopes of classes, counts and amounts: Laplace's approximation as users meet it."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from kinfolk.baselines import RandomSlopes
from kinfolk.explain import contributions
from kinfolk.methods.change import adopted, dropped
from kinfolk.rows.families import FAMILIES
from kinfolk.solvers.mixed import laplace

NAMES = ("binomial", "poisson", "gamma")
T = 30


def mean_of(family, eta):
    return FAMILIES[family].mean(eta)


def draw(family, n=12, seed=0, trials=1):
    """A table of T tasks with two inputs, the second with a slope of its own in every task; and true predictors."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 2))
    X[:, 0] += 1
    effects = rng.normal(size=(T, 2)) * [0.6, 0.8]
    eta = -0.5 + X @ [0.4, 0.5] + X[:, 1] * effects[task, 0] + effects[task, 1]
    mean = mean_of(family, eta)
    targets = {
        "binomial": lambda: rng.binomial(trials, mean) / trials,
        "poisson": lambda: rng.poisson(mean).astype(float),
        "gamma": lambda: rng.gamma(4.0, mean / 4),
    }
    table = pd.DataFrame({"task": task, "a": X[:, 0], "b": X[:, 1]})
    return table, targets[family](), eta


def fitted(family, table, y, **options):
    return RandomSlopes(task="task", family=family, **options).fit(table, y)


@pytest.mark.parametrize("family", NAMES)
def test_the_likelihood_and_the_population_are_those_of_the_solver(family):
    table, y, _ = draw(family)
    model = fitted(family, table, y)
    X = table[["a", "b"]].to_numpy()
    x0 = X.mean(axis=0)
    peer = laplace(X - x0, y, table["task"].to_numpy(), FAMILIES[family], random=np.ones(2, bool), tol=1e-5)
    np.testing.assert_allclose(model.log_likelihood_, peer.loglik, rtol=1e-9)
    np.testing.assert_allclose(model.population_coef_, peer.beta, atol=1e-6)
    np.testing.assert_allclose(model.population_intercept_, peer.intercept - x0 @ peer.beta, atol=1e-6)
    np.testing.assert_allclose(model.relevance_, np.sqrt(peer.variances), atol=1e-6)
    np.testing.assert_allclose(model.intercept_sd_, np.sqrt(peer.intercept_variance), atol=1e-6)
    assert model.converged_


@pytest.mark.parametrize("family", NAMES)
def test_coefficients_are_those_of_the_linear_map_and_their_mean_is_the_population(family):
    model = fitted(family, *draw(family)[:2])
    np.testing.assert_allclose(model.model_.maps[0].unknowns(), model.model_.parts[0].V, atol=1e-8)
    np.testing.assert_allclose(model.coef_.mean(axis=0), model.population_coef_, atol=1e-3)
    np.testing.assert_allclose(contributions(model).coef.sum(axis=1), model.coef_, atol=1e-8)


@pytest.mark.parametrize("family", NAMES)
def test_predictions_are_nearer_to_the_truth_than_those_of_a_model_without_tasks(family):
    table, y, eta = draw(family)
    own = fitted(family, table, y).predict(table)
    common = fitted(family, table.assign(task=0), y).predict(table.assign(task=0))
    truth = mean_of(family, eta)
    assert np.square(own - truth).mean() < 0.5 * np.square(common - truth).mean()


@pytest.mark.parametrize("family", NAMES)
def test_an_unseen_task_is_predicted_by_the_population_and_less_surely(family):
    table, y, _ = draw(family)
    model = fitted(family, table, y, unseen="mean")
    new = table.head(50).assign(task=99)
    eta = new[["a", "b"]].to_numpy() @ model.population_coef_ + model.population_intercept_
    np.testing.assert_allclose(model.predict(new), mean_of(family, eta))
    codes = np.full(50, -1)
    X = new[["a", "b"]].to_numpy()
    strange = model.model_.std(X, codes)
    assert (strange > model.model_.std(X, np.zeros(50, int))).mean() > 0.9


def test_a_task_without_targets_has_the_coefficients_of_the_population():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    Y = (rng.random((60, 4)) < expit(X[:, :1])).astype(float)
    Y[:, 2] = np.nan
    model = RandomSlopes(family="binomial").fit(X, Y)
    np.testing.assert_array_equal(model.coef_[2], model.population_coef_)
    np.testing.assert_array_equal(model.intercept_[2], model.population_intercept_)


def test_standard_deviations_of_the_predictor_hold_the_truth():
    """90 % intervals of the predictor at rows of tasks of 5 rows and of 40, over several draws."""
    inside = []
    for seed in range(6):
        for n in (5, 40):
            table, y, eta = draw("poisson", n=n, seed=seed)
            model = fitted("poisson", table, y)
            X = table[["a", "b"]].to_numpy()
            std = model.model_.std(X, table["task"].to_numpy())
            inside.append(np.abs(model.model_.predictor(X, table["task"].to_numpy()) - eta) < 1.645 * std)
    assert 0.85 < np.concatenate(inside).mean() < 0.96


@pytest.mark.parametrize("family", NAMES)
def test_a_task_that_comes_back_has_nearly_its_old_coefficients(family):
    model = fitted(family, *draw(family)[:2]).model_
    gram = model.statistics("a test").select(np.array([4]))
    again = adopted(dropped(model, np.array([4])), gram)
    np.testing.assert_allclose(again.coef, model.coef, atol=0.02)


@pytest.mark.filterwarnings("ignore:feature 'size' is constant within every task")
@pytest.mark.parametrize("family", NAMES)
def test_a_feature_of_whole_tasks_has_one_coefficient(family):
    table, y, _ = draw(family)
    table = table.assign(size=np.sin(np.arange(T))[table["task"]])
    model = fitted(family, table, y, fact_slopes="none")
    assert model.relevance_[2] == 0
    np.testing.assert_allclose(model.coef_[:, 2], model.population_coef_[2], atol=1e-6)
    X = table[["a", "b", "size"]].to_numpy()
    random = np.array([True, True, False])
    peer = laplace(X - X.mean(axis=0), y, table["task"].to_numpy(), FAMILIES[family], random=random, tol=1e-5)
    np.testing.assert_allclose(model.log_likelihood_, peer.loglik)


def test_columns_in_common_have_no_slope_of_their_own():
    table, y, _ = draw("poisson")
    model = fitted("poisson", table, y, common=["b"])
    assert model.relevance_[1] == 0
    np.testing.assert_allclose(model.coef_[:, 1], model.population_coef_[1], atol=1e-6)


@pytest.mark.filterwarnings("ignore:feature 'size' is constant within every task")
def test_facts_move_slopes_of_classes_too():
    table, y, _ = draw("binomial", n=40)
    size = np.sin(np.arange(T))[table["task"]]
    rng = np.random.default_rng(0)
    y = (rng.random(len(y)) < expit(2 * size * table["b"])).astype(float)
    model = fitted("binomial", table.assign(size=size), y, unseen="mean")
    new = pd.DataFrame({"task": 99, "a": 0.0, "b": 1.0, "size": [-1.0, 1.0]})
    low, high = model.predict(new)
    assert low < 0.3
    assert high > 0.7


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_class_alone_has_a_finite_level(value):
    table, y, _ = draw("binomial")
    model = fitted("binomial", table, np.full_like(y, value))
    assert np.abs(model.intercept_).max() < 10
    assert (np.abs(model.predict(table) - value) < 0.1).all()


def test_exposure_is_what_means_are_proportional_to():
    table, y, eta = draw("poisson")
    rng = np.random.default_rng(1)
    time = rng.uniform(0.5, 20, len(table))
    counts = rng.poisson(np.exp(eta) * time).astype(float)
    model = fitted("poisson", table.assign(time=time), counts, exposure="time")
    twice = model.predict(table.assign(time=2 * time))
    np.testing.assert_allclose(twice, 2 * model.predict(table.assign(time=time)))
    np.testing.assert_allclose(np.log(model.predict(table.assign(time=1.0))), eta, atol=1.5)


@pytest.mark.parametrize("options", [{"covariance": "full"}, {"intercept": "free"}, {"noise": "task"}])
def test_choices_that_laplace_has_not_are_fitted_by_working_targets(options):
    table, y, _ = draw("poisson")
    model = fitted("poisson", table, y, **options)
    by_laplace = fitted("poisson", table, y)
    assert np.corrcoef(model.predict(table), by_laplace.predict(table))[0, 1] > 0.95


@pytest.mark.filterwarnings("ignore:the mixed model stopped")
def test_tasks_of_fewer_rows_than_columns_are_fitted_by_working_targets():
    """And predict better than a model without tasks would, which a perfect fit of every task does not."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(T), 5)
    slopes = 2 * rng.normal(size=8)
    X = rng.normal(size=(5 * T, 8))
    y = (rng.random(5 * T) < expit(X @ slopes)).astype(float)
    columns = [f"x{j}" for j in range(8)]
    model = RandomSlopes(task="task", family="binomial").fit(pd.DataFrame(X, columns=columns).assign(task=task), y)
    new = rng.normal(size=(1000, 8))
    p = model.predict(pd.DataFrame(new, columns=columns).assign(task=rng.integers(0, T, 1000)))
    assert np.corrcoef(p, expit(new @ slopes))[0, 1] > 0.8
    assert np.abs(model.coef_).max() < 20


def test_too_few_steps_are_told(monkeypatch):
    # The package has a function of the same name.
    monkeypatch.setattr(import_module("kinfolk.solvers.mixed.laplace"), "MOST_STEPS", 1)
    table, y, _ = draw("binomial")
    with pytest.warns(UserWarning, match="stopped after"):
        fitted("binomial", table, y)


@pytest.mark.parametrize(("family", "name"), [("binomial", "odds ratio"), ("poisson", "rate ratio")])
def test_a_summary_has_ratios_beside_coefficients(family, name):
    model = fitted(family, *draw(family)[:2])
    summary = model.summary()
    line = next(line for line in str(summary).splitlines() if line.startswith(f"{name}s"))
    assert f"{np.exp(model.population_coef_[0]):.3g} [" in line
    frame = summary.coefficients()
    np.testing.assert_allclose(frame[name], np.exp(frame["coef"]))


def test_a_summary_of_numbers_has_no_ratios():
    table, y, _ = draw("gamma")
    assert "ratio" not in str(fitted("gaussian", table, y).summary())
