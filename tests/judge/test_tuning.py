"""tune against a plain loop, and what it promises about groups, shared inputs, transformers and failures."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from kinfolk.baselines import MSSL, Independent, MeanShrunk, Pooled, RandomSlopes
from kinfolk.judge import tuning
from kinfolk.judge.tuning import fit_tuned, tune
from kinfolk.rows.folds import SCORINGS
from kinfolk.rows.splits import fold_of_rows
from kinfolk.rows.table import read_rows
from kinfolk.search import trials

PENALTIES = [0.01, 1.0, 10.0, 100.0]


def draw(T=4, n=25, d=6, seed=0, noise=3.0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, d))
    y = (X * rng.normal(size=(T, d))[task]).sum(axis=1) + 5 * task + noise * rng.normal(size=T * n)
    return np.column_stack([task, X]), y


class Spy(TransformerMixin, BaseEstimator):
    """Passes its input through and keeps the targets it was fitted on."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.seen.append(np.asarray(y))
        self.fitted_ = True
        return self

    def transform(self, X):
        return np.asarray(X)


def folds_used(X, y, **options):
    rows = read_rows(X, y, task=0)
    features = rows.table.features()
    return fold_of_rows(rows, features, rows.gram(features, None), **options)


def ridge_loop(X, y, fold, penalty):
    """Squared errors of scikit-learn's ridge, fitted by task and fold on rows."""
    errors = np.zeros(4)
    for f in range(5):
        for t in range(4):
            train, test = (X[:, 0] == t) & (fold != f), (X[:, 0] == t) & (fold == f)
            model = Ridge(alpha=penalty).fit(X[train, 1:], y[train])
            errors[t] += ((model.predict(X[test, 1:]) - y[test]) ** 2).sum()
    return errors


@pytest.fixture
def seed_of_folds():
    """tune draws one seed from its random_state, for all candidates."""
    from kinfolk.rows.splits import generator

    return int(generator(0).integers(2**31 - 1))


def test_independent_is_tuned_as_by_a_plain_loop_over_scikit_learn(seed_of_folds):
    X, y = draw()
    fold = folds_used(X, y, cv=5, random_state=seed_of_folds)
    errors = np.array([ridge_loop(X, y, fold, penalty) for penalty in PENALTIES])
    found = tune(Independent(task=0), {"penalty": PENALTIES}, X, y)
    rows = found.cv_results_
    np.testing.assert_allclose([r["pooled"] for r in rows], np.sqrt(errors.sum(axis=1) / 100), rtol=1e-8)
    np.testing.assert_allclose([r["tasks"] for r in rows], np.sqrt(errors / 25).mean(axis=1), rtol=1e-8)
    np.testing.assert_allclose([r["by_task"] for r in rows], np.sqrt(errors / 25), rtol=1e-8)
    assert found.best_params_ == {"penalty": PENALTIES[np.argmin(errors.sum(axis=1))]}
    assert found.best_error_ == min(r["pooled"] for r in rows)


@pytest.mark.parametrize("scoring", SCORINGS)
def test_the_best_has_the_least_of_the_error_asked_for(scoring):
    X, y = draw()
    found = tune(MeanShrunk(task=0), {"penalty": PENALTIES}, X, y, scoring=scoring)
    assert found.best_error_ == min(row[scoring] for row in found.cv_results_)


def test_the_best_is_refitted_on_all_rows():
    X, y = draw()
    found = tune(Pooled(task=0), {"penalty": PENALTIES, "own_intercepts": [True, False]}, X, y)
    assert len(found.cv_results_) == 8
    expected = Pooled(task=0, **found.best_params_).fit(X, y)
    np.testing.assert_array_equal(found.best_estimator_.coef_, expected.coef_)


def test_one_loud_task_does_not_rule_under_normalised():
    """Three quiet tasks without signal want a large penalty, one loud task with signal a small one."""
    X, y = draw(n=15, noise=0.3)
    rng = np.random.default_rng(1)
    quiet = X[:, 0] < 3
    y = np.where(quiet, 1e-3 * rng.normal(size=len(y)), 1e3 * y)
    grid = {"penalty": [1e-3, 1e6]}
    assert tune(Independent(task=0), grid, X, y).best_params_["penalty"] == 1e-3
    assert tune(Independent(task=0), grid, X, y, scoring="normalised").best_params_["penalty"] == 1e6


def test_features_are_fitted_without_the_held_out_targets(seed_of_folds):
    X, y = draw()
    Spy.seen.clear()
    tune(Independent(task=0, features=Spy()), {"penalty": [1.0]}, X, y)
    fold = folds_used(X, y, cv=5, random_state=seed_of_folds)
    in_folds = [s for s in Spy.seen if len(s) < len(y)]
    assert len(in_folds) == 5
    for f, seen in enumerate(in_folds):
        np.testing.assert_array_equal(seen, y[fold != f])


def test_supervised_features_do_not_leak():
    """Of 300 noise features the ten most correlated with y would look good if chosen with the held-out rows."""
    rng = np.random.default_rng(0)
    X, y = np.column_stack([np.repeat([0, 1], 30), rng.normal(size=(60, 300))]), rng.normal(size=60)
    model = Pooled(task=0, features=SelectKBest(f_regression, k=10))
    found = tune(model, {"penalty": [1.0]}, X, y)
    assert found.best_error_ > 1.0


def test_parameters_of_the_features_can_be_tuned():
    X, y = draw()
    grid = {"features": [None, StandardScaler()], "penalty": [0.1, 10.0]}
    found = tune(Independent(task=0), grid, X, y)
    errors = [row["error"] for row in found.cv_results_]
    assert len(set(errors)) == 4


def test_data_frames_with_text_labels_and_transformers_work():
    X, y = draw()
    frame = pd.DataFrame(X[:, 1:], columns=list("abcdef")).assign(who=np.where(X[:, 0] < 2, "left", "right"))
    found = tune(Independent(task="who", features=StandardScaler()), None, frame, y)
    assert len(found.cv_results_) == len(Independent.default_grid["penalty"])
    assert found.best_estimator_.predict(frame).shape == y.shape


def test_wide_targets_work():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 3)), rng.normal(size=(30, 4))
    Y[:5, 2] = np.nan
    found = tune(MeanShrunk(features=StandardScaler()), {"penalty": [1.0, 100.0]}, X, Y)
    assert found.best_estimator_.coef_.shape == (4, 3)


def test_whole_groups_are_held_out_together():
    """Rows in near-identical pairs: nearest-row knowledge makes random folds optimistic, grouped ones honest."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(20, 15))
    X, y = np.repeat(half, 2, axis=0), np.repeat(rng.normal(size=20), 2)
    table = np.column_stack([np.zeros(40), X])
    grid = {"penalty": [1e-6]}
    loose = tune(Independent(task=0), grid, table, y).best_error_
    strict = tune(Independent(task=0), grid, table, y, groups=np.repeat(np.arange(20), 2)).best_error_
    assert strict > 1.2 * loose


def test_a_failing_point_is_infinitely_bad_and_named_once():
    X, y = draw()
    with pytest.warns(UserWarning, match=r"1 of 2 grid points failed .* penalty=-1\.0 must be at least 0") as caught:
        found = tune(Independent(task=0), {"penalty": [-1.0, 1.0]}, X, y)
    assert len(caught) == 1
    assert found.best_params_ == {"penalty": 1.0}
    assert found.cv_results_[0]["error"] == np.inf
    assert found.cv_results_[0]["message"].startswith("ValueError: penalty=-1.0")


def test_if_all_fail_the_first_message_is_raised():
    with pytest.raises(ValueError, match=r"all 1 grid points failed, the first with .*penalty=-1"):
        tune(Independent(task=0), {"penalty": [-1.0]}, *draw())


def test_what_does_not_converge_is_said_in_the_results():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the refit, should two steps be the best
        found = tune(RandomSlopes(task=0), {"max_iter": [2, 1000]}, *draw())
    assert "raise max_iter" in found.cv_results_[0]["message"]
    assert found.cv_results_[1]["message"] == ""


def test_progress_is_reported_for_every_point():
    steps = []
    tune(Independent(task=0), {"penalty": PENALTIES}, *draw(), callback=steps.append)
    assert [(s.stage, s.done, s.total) for s in steps] == [("tune", k + 1, 4) for k in range(4)]


def test_points_that_tune_themselves_are_given_folds_to_do_so():
    X, y = draw()
    both = tune(Independent(task=0), {"penalty": [1.0, "cv"]}, X, y).cv_results_
    for k, penalty in enumerate([1.0, "cv"]):
        alone = tune(Independent(task=0), {"penalty": [penalty]}, X, y).cv_results_[0]
        assert both[k]["message"] == "" and both[k]["error"] == alone["error"]


def test_two_processes_find_the_same():
    X, y = draw()
    one = tune(Independent(task=0), {"penalty": PENALTIES}, X, y)
    two = tune(Independent(task=0), {"penalty": PENALTIES}, X, y, n_jobs=2)
    assert [r["error"] for r in one.cv_results_] == [r["error"] for r in two.cv_results_]


def test_unknown_parameters_and_scorings_are_errors():
    with pytest.raises(ValueError, match="Invalid parameter 'penlty'"):
        tune(Independent(task=0), {"penlty": [1.0]}, *draw())
    with pytest.raises(ValueError, match="scoring='rmse': choose one of 'pooled', 'tasks', 'normalised'"):
        tune(Independent(task=0), {"penalty": [1.0]}, *draw(), scoring="rmse")


@pytest.mark.parametrize(("given", "in_folds"), [({}, 15), ({"max_iter": 7}, 7)])
def test_what_is_only_compared_by_its_errors_is_fitted_quickly_and_the_last_fit_in_full(given, in_folds, monkeypatch):
    tried = []

    def try_one(method, splits):
        tried.append((method.tol, method.max_iter))
        return trials.try_one(method, splits)

    monkeypatch.setattr(tuning, "try_one", try_one)
    X, y = draw()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model, _ = fit_tuned(MSSL(task=0, **given), read_rows(X, y, task=0), cv=2, fixed=given)
    assert set(tried) == {(1e-3, in_folds)} and len(tried) == 8
    assert (model.tol, model.max_iter) == (1e-6, given.get("max_iter", 200))
