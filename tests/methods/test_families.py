"""Classes, counts and amounts, against plain programs; the objective falls, and nothing is infinite."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor

from kinfolk import GAMTL
from kinfolk.baselines import CCMTL, Independent, MeanShrunk, Pooled, RandomSlopes, TaskMean
from kinfolk.methods.outer import pilot, working_folds
from kinfolk.rows.families import FAMILIES
from kinfolk.rows.table import read_rows
from kinfolk.rows.working import WorkingRows

OTHERS = ["binomial", "poisson", "gamma"]
METHODS = [
    Independent(),
    Independent(penalty="cv"),
    Pooled(shrinkage=2.0),
    MeanShrunk(),
    TaskMean(),
    RandomSlopes(),
    GAMTL(),
    GAMTL(strength=1.0),
    GAMTL(intercept="shrunk"),
]


def most_of(method):
    """The gradient at the end: mixed models climb a likelihood, and their coefficients follow from it."""
    return 1e-5 if isinstance(method, RandomSlopes) else 1e-8


def names_of(method):
    return repr(method)


def table(family, T=6, n=30, seed=0):
    """Rows of T tasks in two groups, with targets of a family."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 3))
    slopes = rng.normal(size=(2, 3))[np.arange(T) % 2]
    eta = 0.7 * np.einsum("nd,nd->n", X, slopes[task]) + 0.3 * rng.normal(size=T)[task]
    draws = {
        "gaussian": lambda: eta + rng.normal(size=len(eta)),
        "binomial": lambda: (rng.uniform(size=len(eta)) < 1 / (1 + np.exp(-eta))).astype(float),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2),
    }
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(who=task), draws[family]()


def half_gradient(model, X, y, ridge):
    """Half the gradient of the joint objective of GAMTL in slopes and intercepts, at its graph."""
    family = FAMILIES[model.family]
    task = X["who"].to_numpy()
    rows = X[["a", "b", "c"]].to_numpy()
    slope = family.slope(y, np.einsum("nd,nd->n", rows, model.coef_[task]) + model.intercept_[task])
    by_task = np.stack([rows[task == t].T @ slope[task == t] for t in range(task.max() + 1)])
    A = model.coupling_.toarray()
    pulled = (np.diag(A.sum(axis=1)) - A) @ model.coef_
    scale = np.abs(rows).T @ np.abs(slope)
    levels = np.bincount(task, slope) / np.abs(slope).sum()
    return (by_task + ridge * model.coef_ + 2 * model.gamma_ * pulled) / scale, levels


@pytest.mark.parametrize("family", OTHERS)
def test_one_ridge_per_task_is_that_of_scikit_learn(family):
    X, y = table(family)
    model = Independent(task="who", family=family, penalty=2.0).fit(X, y)
    for t in range(6):
        here = X.who == t
        n = here.sum()
        theirs = {
            "binomial": LogisticRegression(C=0.5, tol=1e-12, max_iter=1000),
            "poisson": PoissonRegressor(alpha=2.0 / n, tol=1e-12, max_iter=1000),
            "gamma": GammaRegressor(alpha=2.0 / n, tol=1e-12, max_iter=1000),
        }[family].fit(X.loc[here, ["a", "b", "c"]], y[here])
        np.testing.assert_allclose(model.coef_[t], np.ravel(theirs.coef_), atol=1e-6)
        np.testing.assert_allclose(model.intercept_[t], np.ravel(theirs.intercept_)[0], atol=1e-6)


@pytest.mark.parametrize("family", OTHERS)
def test_without_strength_the_graph_leaves_every_task_alone(family):
    X, y = table(family)
    alone = Independent(task="who", family=family, penalty=2.0).fit(X, y)
    model = GAMTL(task="who", family=family, strength=0, ridge=2.0, self_loops=None).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-6)


@pytest.mark.filterwarnings("ignore:the targets vary")
@pytest.mark.parametrize("family", OTHERS)
def test_with_great_strength_all_tasks_are_one(family):
    X, y = table(family)
    pooled = Pooled(task="who", family=family, penalty=12.0).fit(X, y)
    model = GAMTL(task="who", family=family, strength=1e7, ridge=2.0, anchor=1.0, self_loops=None).fit(X, y)
    np.testing.assert_allclose(model.coef_, pooled.coef_, atol=1e-5)


@pytest.mark.parametrize("family", OTHERS)
def test_with_its_graph_held_the_fit_is_the_minimum_of_a_plain_program(family):
    X, y = table(family)
    model = GAMTL(task="who", family=family, strength=0.5, ridge=0.7, self_loops=None).fit(X, y)
    task = X["who"].to_numpy()
    rows = X[["a", "b", "c"]].to_numpy()
    A = model.coupling_.toarray()
    law = FAMILIES[family]

    def objective(x):
        W, c = x[:18].reshape(6, 3), x[18:]
        eta = np.einsum("nd,nd->n", rows, W[task]) + c[task]
        apart = np.square(W[:, None] - W[None]).sum(axis=2)
        return law.deviance(y, eta).sum() + 0.7 * np.square(W).sum() + model.gamma_ * (A * apart).sum()

    ours = np.append(model.coef_.ravel(), model.intercept_)
    found = minimize(objective, np.zeros(24), method="BFGS", options={"gtol": 1e-7, "maxiter": 2000})
    np.testing.assert_allclose(found.x, ours, atol=2e-5)  # as far as differences of function values tell
    assert objective(ours) <= found.fun + 1e-9 * abs(found.fun)
    slopes, levels = half_gradient(model, X, y, 0.7)
    assert np.abs(slopes).max() <= 1e-8
    assert np.abs(levels).max() <= 1e-8


@pytest.mark.filterwarnings("ignore:the targets vary")
@pytest.mark.parametrize("family", OTHERS)
@pytest.mark.parametrize("method", METHODS, ids=names_of)
def test_the_objective_never_rises_and_nothing_is_left_of_the_gradient(method, family):
    X, y = table(family)
    model = method.unfitted().set_params(task="who", family=family).fit(X, y)
    history = model.objective_history_
    assert (np.diff(history) <= 0).all()
    assert model.converged_ and model.optimality_["gradient"] <= most_of(method)
    prediction, std = model.predict(X, return_std=True)
    assert np.isfinite(prediction).all() and (std > 0).all()
    assert ((prediction >= FAMILIES[family].least) & (prediction <= FAMILIES[family].most)).all()


@pytest.mark.parametrize("method", METHODS, ids=names_of)
def test_numbers_are_fitted_as_ever(method):
    X, y = table("gaussian")
    plain = method.unfitted().set_params(task="who").fit(X, y)
    named = method.unfitted().set_params(task="who", family="gaussian").fit(X, y)
    assert (plain.coef_ == named.coef_).all() and (plain.intercept_ == named.intercept_).all()
    assert "dispersion_" not in dir(plain)


@pytest.mark.parametrize("method", [Independent(), RandomSlopes(), GAMTL()], ids=names_of)
def test_an_offset_of_numbers_is_taken_off_the_targets(method):
    X, y = table("gaussian")
    shift = np.linspace(-3, 3, len(y))
    beside = method.unfitted().set_params(task="who", offset="shift").fit(X.assign(shift=shift), y)
    plain = method.unfitted().set_params(task="who").fit(X, y - shift)
    np.testing.assert_allclose(beside.coef_, plain.coef_, atol=1e-6)
    np.testing.assert_allclose(beside.predict(X.assign(shift=0.0)), plain.predict(X), atol=1e-6)


def test_shares_with_trials_are_single_events_together():
    X, y = table("binomial", n=60)
    rounded = X.round(0)
    single = Independent(task="who", family="binomial").fit(rounded, y)
    groups = rounded.assign(y=y).groupby(["a", "b", "c", "who"])["y"].agg(["mean", "count"]).reset_index()
    shares = Independent(task="who", family="binomial").fit(
        groups[["a", "b", "c", "who"]], groups["mean"], sample_weight=groups["count"]
    )
    np.testing.assert_allclose(shares.coef_, single.coef_, atol=1e-7)
    assert single.dispersion_ == 1.0 and shares.dispersion_ != 1.0


@pytest.mark.filterwarnings("ignore:the targets vary")
def test_counts_that_scatter_more_than_poissons_say_so():
    X, _ = table("poisson", T=20, n=60)
    rng = np.random.default_rng(1)
    mean = np.exp(0.5 * X["a"].to_numpy() + 1)
    even = Pooled(task="who", family="poisson").fit(X, rng.poisson(mean))
    wild = Pooled(task="who", family="poisson").fit(X, rng.negative_binomial(1.0, 1 / (1 + 3 * mean / mean.mean())))
    assert 0.85 < even.dispersion_ < 1.15 and wild.dispersion_ > 1.5
    assert wild.predict(X, return_std=True)[1].mean() > 1.2 * even.predict(X, return_std=True)[1].mean()


ODD = {
    "one task has zeros alone": ("binomial", lambda X, y: np.where(X.who == 0, 0.0, y)),
    "two tasks at the ends": ("binomial", lambda X, y: np.where(X.who == 0, 0.0, np.where(X.who == 1, 1.0, y))),
    "zeros alone": ("binomial", lambda X, y: 0 * y),
    "ones alone": ("binomial", lambda X, y: 0 * y + 1),
    "separable": ("binomial", lambda X, y: (X.a > 0).astype(float)),
    "two events": ("binomial", lambda X, y: (np.arange(len(y)) % 100 == 50).astype(float)),
    "no counts": ("poisson", lambda X, y: 0 * y),
    "one task counts nothing": ("poisson", lambda X, y: np.where(X.who == 2, 0.0, y)),
    "a count of 1e9": ("poisson", lambda X, y: np.where(np.arange(len(y)) == 5, 1e9, y)),
    "missing targets": ("poisson", lambda X, y: np.where(X.who == 3, np.nan, y)),
    "amounts of any size": ("gamma", lambda X, y: y**9),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("method", METHODS, ids=names_of)
@pytest.mark.filterwarnings("ignore")
def test_odd_targets_are_fitted_finitely(method, case):
    family, change = ODD[case]
    X, y = table(family)
    model = method.unfitted().set_params(task="who", family=family).fit(X, change(X, y))
    assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()
    assert np.isfinite(model.predict(X, return_std=True)).all()
    assert model.optimality_["gradient"] <= most_of(method)


@pytest.mark.filterwarnings("ignore:task 0 has only zeros")
def test_a_task_of_zeros_is_near_the_others_with_few_rows_and_low_with_many():
    X, y = table("binomial", T=8, n=400)
    rare = np.where(np.arange(len(y)) % 10, 0.0, 1.0)
    few = (X.who > 0) | (np.arange(len(y)) < 4)
    level = [
        TaskMean(task="who", family="binomial").fit(X[rows], np.where(X.who == 0, 0.0, rare)[rows]).predict(X[:1])[0]
        for rows in (few, np.ones(len(y), bool))
    ]
    assert 0.02 < level[0] < 0.1
    assert 0 < level[1] < 0.005


@pytest.mark.parametrize("method", [Independent(), RandomSlopes(), GAMTL()], ids=names_of)
@pytest.mark.filterwarnings("ignore")
def test_tasks_with_a_single_row_have_the_slopes_of_all(method):
    X, y = table("poisson")
    few = np.flatnonzero((X.who < 4) | (np.arange(len(y)) % 30 == 0))
    model = method.unfitted().set_params(task="who", family="poisson").fit(X.iloc[few], y[few])
    assert np.isfinite(model.predict(X)).all()
    alone = method.unfitted().set_params(task="who", family="poisson").fit(X.iloc[::30], y[::30])
    assert np.isfinite(alone.predict(X)).all()


def test_methods_of_squared_errors_say_why_they_fit_no_classes():
    X, y = table("binomial")
    with pytest.raises(ValueError, match=r'CCMTL fits numbers alone, not family="binomial": its graph is'):
        CCMTL(task="who", family="binomial").fit(X, y)


@pytest.mark.parametrize(
    ("family", "value", "message"),
    [("binomial", 2.0, "takes 0 and 1"), ("poisson", -1.0, "takes counts"), ("gamma", 0.0, "takes amounts above 0")],
)
def test_targets_that_no_family_has_are_named(family, value, message):
    X, y = table(family)
    y[7] = value
    with pytest.raises(ValueError, match=f"{message}.* y has {value:g} in row 7"):
        Pooled(task="who", family=family).fit(X, y)


def test_statistics_are_refused():
    X, y = table("gaussian")
    gram = Pooled(task="who").fit(X, y).gram_
    with pytest.raises(ValueError, match="need rows"):
        Pooled(task="who", family="binomial").fit_gram(gram)


def test_folds_see_nothing_of_what_they_hold_out():
    X, y = table("binomial")
    rows = read_rows(X, y, task="who")
    fold = np.arange(len(y)) % 3
    features = X[["a", "b", "c"]].to_numpy()

    def folds(y):
        working = WorkingRows.of(read_rows(X, y, task="who"), features, None, FAMILIES["binomial"])
        return working_folds(lambda f: working, fold)

    changed = np.where(fold == 1, 1 - y, y)
    one, two = folds(y), folds(changed)
    np.testing.assert_array_equal(one.training(1).b, two.training(1).b)
    np.testing.assert_array_equal(one.held_out[1].G, two.held_out[1].G)
    assert not np.allclose(one.training(0).b, two.training(0).b)
    assert len(rows.y) == len(y)


def test_a_pilot_knows_tasks_without_rows_by_the_others():
    X, y = table("binomial")
    rows = WorkingRows.of(read_rows(X, y, task="who"), X[["a", "b", "c"]].to_numpy(), None, FAMILIES["binomial"])
    first = pilot(rows.take(rows.codes != 2))
    np.testing.assert_allclose(first.W[2], np.delete(first.W, 2, axis=0).mean(axis=0))


@pytest.mark.parametrize("family", OTHERS)
def test_a_task_that_is_adopted_solves_its_own_conditions(family):
    X, y = table(family)
    old = X.who < 5
    model = GAMTL(task="who", family=family, strength=1.0, ridge=0.7, self_loops=None).fit(X[old], y[old])
    before = model.coef_.copy()
    model.adopt(X[~old], y[~old])
    assert (model.coef_[:5] == before).all() and model.tasks_.tolist() == list(range(6))
    slopes, levels = half_gradient(model, X, y, 0.7)
    assert np.abs(slopes[5]).max() <= 1e-7 and abs(levels[5]) <= 1e-7
    assert np.isfinite(model.predict(X, return_std=True)).all()
    model.drop([5])
    np.testing.assert_array_equal(model.coef_, before)


def test_contributions_are_those_of_the_predictor():
    X, y = table("binomial")
    model = GAMTL(task="who", family="binomial").fit(X, y)
    parts = model.contributions()
    np.testing.assert_allclose(parts.coef.sum(axis=1), model.coef_, atol=1e-6)
    np.testing.assert_allclose(parts.split(X).sum(axis=1), np.log(1 / (1 / model.predict(X) - 1)), atol=1e-6)


@pytest.mark.parametrize("family", OTHERS)
def test_levels_are_found_however_far_offsets_are_from_each_other(family):
    X, y = table(family, T=3, n=4)
    rows = WorkingRows.of(read_rows(X, y, task="who"), X[["a", "b", "c"]].to_numpy(), None, FAMILIES[family])
    rows = replace(rows, offset=1e5 * rows.codes.astype(float), y=np.where(np.arange(12) % 4 > 1, 1.0, 0.5))
    mean = FAMILIES[family].mean(rows.levels()[rows.codes] + rows.offset)
    np.testing.assert_allclose(mean, 0.75, rtol=1e-6)
