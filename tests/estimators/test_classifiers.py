"""Classification: labels in, probabilities out, and the tools of scikit-learn around it."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, TunedThresholdClassifierCV, cross_val_predict

from kinfolk import GAMTLClassifier, load


def table(K=2, T=6, n=40, seed=0):
    """Rows of T tasks in two groups, with a label out of K."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 3))
    slopes = 1.5 * rng.normal(size=(2, K, 3))[np.arange(T) % 2]
    eta = np.einsum("nd,nkd->nk", X, slopes[task])
    label = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(who=[f"t{k}" for k in task])
    return frame, np.array(["no", "yes", "perhaps", "never"])[label]


def softmax_objective(x, X, codes, y, K, model, ridge):
    """The joint objective of several classes at the graph of a model, and its gradient."""
    T, d = codes.max() + 1, X.shape[1]
    W, c = x[: T * K * d].reshape(K, T, d), x[T * K * d :].reshape(K, T)
    eta = np.einsum("nd,knd->nk", X, W[:, codes]) + c[:, codes].T
    p = np.exp(eta - eta.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    A = model.coupling_.toarray()
    L = np.diag(A.sum(axis=1)) - A
    coupling = 2 * np.einsum("ktd,ts,ksd->", W, L, W)
    value = -2 * np.log(p[np.arange(len(y)), y]).sum() + ridge * np.square(W).sum() + model.gamma_ * coupling
    away = 2 * (p - np.eye(K)[y])
    slopes = np.stack([[X[codes == t].T @ away[codes == t, k] for t in range(T)] for k in range(K)])
    slopes = slopes + 2 * ridge * W + 4 * model.gamma_ * np.einsum("ts,ksd->ktd", L, W)
    levels = np.stack([np.bincount(codes, away[:, k]) for k in range(K)])
    return value, np.append(slopes.ravel(), levels.ravel())


def test_without_strength_it_is_the_logistic_regression_of_every_task():
    X, y = table()
    model = GAMTLClassifier(task="who", strength=0, ridge=2.0, self_loops=None).fit(X, y)
    here = X.who == "t1"
    theirs = LogisticRegression(C=0.5, tol=1e-12, max_iter=1000).fit(X.loc[here, ["a", "b", "c"]], y[here])
    np.testing.assert_allclose(model.coef_[1], theirs.coef_[0], atol=1e-6)
    np.testing.assert_allclose(model.decision_function(X[here]), theirs.decision_function(X.loc[here, ["a", "b", "c"]]))
    assert model.classes_.tolist() == ["no", "yes"]


def test_without_strength_several_classes_are_the_softmax_of_every_task():
    X, y = table(K=3)
    model = GAMTLClassifier(task="who", strength=0, ridge=2.0, self_loops=None).fit(X, y)
    here = X.who == "t1"
    theirs = LogisticRegression(C=0.5, tol=1e-12, max_iter=1000).fit(X.loc[here, ["a", "b", "c"]], y[here])
    np.testing.assert_allclose(model.coef_[:, 1], theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_[:, 1], theirs.intercept_, atol=1e-5)
    assert (model.predict(X[here]) == theirs.predict(X.loc[here, ["a", "b", "c"]])).all()


@pytest.mark.parametrize("K", [3, 4])
def test_several_classes_are_the_minimum_of_the_joint_objective_at_their_graph(K):
    X, y = table(K=K)
    model = GAMTLClassifier(task="who", strength=0.5, ridge=0.7, self_loops=None).fit(X, y)
    codes = X.who.factorize()[0]
    number = np.searchsorted(model.classes_, y)
    rows = X[["a", "b", "c"]].to_numpy()
    plain = (rows, codes, number, K, model, 0.7)
    ours = np.append(model.coef_.ravel(), model.intercept_.ravel())
    value, gradient = softmax_objective(ours, *plain)
    assert np.abs(gradient).max() <= 1e-8 * len(y)
    found = minimize(softmax_objective, 0 * ours, plain, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-9})
    assert value <= found.fun + 1e-10 * found.fun
    np.testing.assert_allclose(found.x[: 18 * K], ours[: 18 * K], atol=1e-5)
    assert (np.diff(model.objective_history_) <= 0).all() and model.optimality_["gradient"] <= 1e-8


@pytest.mark.parametrize("K", [2, 3])
def test_probabilities_are_nearer_to_even_than_those_of_the_predictor(K):
    X, y = table(K=K)
    rare = np.flatnonzero((X.who != "t0") | (np.arange(len(y)) < 6))
    model = GAMTLClassifier(task="who").fit(X.iloc[rare], y[rare])
    P = model.predict_proba(X)
    eta = model.decision_function(X)
    eta = np.stack([0 * eta, eta], axis=1) if K == 2 else eta
    plain = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    assert P.shape == (len(y), K)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    sure = plain.max(axis=1) > 0.6
    drawn = (plain.max(axis=1) - P.max(axis=1))[sure]
    assert (drawn > 0).mean() > 0.9
    few = (X.who == "t0")[sure]
    assert drawn[few].mean() > drawn[~few].mean()


def test_unseen_tasks_are_predicted_by_the_population():
    X, y = table(K=3)
    model = GAMTLClassifier(task="who", unseen="mean").fit(X, y)
    P = model.predict_proba(X.assign(who="stranger"))
    np.testing.assert_allclose(P.sum(axis=1), 1)
    with pytest.warns(UserWarning, match="not seen in fit"):
        model.set_params(unseen="warn").predict(X.assign(who="stranger"))


@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize(
    "labels", [[True, False, True], [3, 5, 5], ["x", "y", "y"], np.array(["x", None, "y"], object)]
)
def test_labels_of_any_kind_come_back(labels):
    X, y = table(K=3)
    number = np.searchsorted(np.unique(y), y)
    given = np.asarray(labels)[number]
    model = GAMTLClassifier(task="who").fit(X, given)
    known = [label for label in np.asarray(labels).tolist() if label is not None]
    assert model.classes_.tolist() == sorted(set(known))
    assert set(model.predict(X).tolist()) <= set(known)


@pytest.mark.parametrize("K", [2, 3])
def test_wide_targets_with_missing_labels(K):
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    label = np.array(["x", "y", "z"])[:K]
    Y = pd.DataFrame(
        {name: label[np.clip(np.round(X.a + rng.normal(size=80) / 2 + 0.5), 0, K - 1).astype(int)] for name in "qp"}
    ).astype(object)
    Y.loc[::7, "p"] = None
    model = GAMTLClassifier().fit(X, Y)
    assert model.predict(X).shape == (80, 2) and [P.shape for P in model.predict_proba(X)] == [(80, K)] * 2
    assert model.tasks_.tolist() == ["p", "q"] and model.score(X, Y) > 0.5
    seen = Y["p"].notna()
    long = pd.concat([X.assign(who="q"), X[seen].assign(who="p")], ignore_index=True)
    again = GAMTLClassifier(task="who").fit(long, pd.concat([Y["q"], Y["p"][seen]], ignore_index=True))
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-7)


@pytest.mark.filterwarnings("ignore:17 events")
def test_balanced_classes_weigh_alike():
    X, y = table()
    rare = np.flatnonzero((y == "no") | (np.arange(len(y)) % 8 == 0))
    X, y = X.iloc[rare], y[rare]
    plain = GAMTLClassifier(task="who").fit(X, y)
    balanced = GAMTLClassifier(task="who", class_weight="balanced").fit(X, y)
    weights = {"no": 1.0, "yes": float((y == "no").sum() / (y == "yes").sum())}
    given = GAMTLClassifier(task="who", class_weight=weights).fit(X, y)
    assert (balanced.predict(X) == "yes").mean() > (plain.predict(X) == "yes").mean()
    assert (given.predict(X) == balanced.predict(X)).mean() > 0.97
    with pytest.raises(ValueError, match="has the class 'maybe'"):
        GAMTLClassifier(task="who", class_weight={"maybe": 2.0}).fit(X, y)


def test_one_class_alone_is_always_predicted():
    X, y = table()
    with pytest.warns(UserWarning, match="there is one class"):
        model = GAMTLClassifier(task="who").fit(X, np.full(len(y), "yes"))
    assert (model.predict(X) == "yes").all()
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((len(y), 1)))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_separable_and_missing_classes_are_finite_and_certified(K):
    X, y = table(K=3)
    label = np.digitize(X.a, [0.0] if K == 2 else [-0.5, 0.5])
    separable = GAMTLClassifier(task="who").fit(X, label)
    assert separable.score(X, label) > 0.9 and separable.optimality_["gradient"] <= 1e-8
    missing = np.where((X.who == "t0") & (y == "yes"), "no", y)
    missing = missing if K == 3 else np.where(missing == "perhaps", "no", missing)
    model = GAMTLClassifier(task="who").fit(X, missing)
    assert np.isfinite(model.intercept_).all() and np.isfinite(model.predict_proba(X)).all()
    assert model.optimality_["gradient"] <= 1e-8


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("private", [False, True])
def test_files_keep_the_classes(tmp_path, K, private):
    X, y = table(K=K)
    model = GAMTLClassifier(task="who", class_weight="balanced").fit(X, y)
    again = load(model.save(tmp_path / "classes.kin", private=private))
    assert (again.predict(X) == model.predict(X)).all() and again.classes_.tolist() == model.classes_.tolist()
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert is_classifier(again)


def test_numbers_that_are_no_classes_are_refused():
    X, _ = table()
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        GAMTLClassifier(task="who").fit(X, np.linspace(0, 1, len(X)))


@pytest.mark.parametrize("intercept", ["shrunk", "coupled", None])
def test_several_classes_have_free_levels_and_two_have_any(intercept):
    X, y = table(K=3)
    with pytest.raises(ValueError, match="3 classes have levels of their own"):
        GAMTLClassifier(task="who", intercept=intercept).fit(X, y)
    model = GAMTLClassifier(task="who", intercept=intercept).fit(X, y == "yes")
    assert model.optimality_["gradient"] <= 1e-8


def test_coefficients_of_several_classes_are_in_one_frame():
    X, y = table(K=3)
    model = GAMTLClassifier(task="who").fit(X, y)
    frame = model.coef_frame()
    assert list(frame) == ["class", "intercept", "a", "b", "c"] and len(frame) == 18
    one = frame[frame["class"] == model.classes_[2]]
    np.testing.assert_array_equal(one[["a", "b", "c"]], model.coef_[2])
    np.testing.assert_array_equal(one["intercept"], model.intercept_[2])


def test_the_tools_of_scikit_learn_work():
    X, y = table()
    folds = KFold(3, shuffle=True, random_state=0)
    model = GAMTLClassifier(task="who", strength=1.0)
    search = GridSearchCV(model, {"strength": [0.1, 1.0]}, scoring="roc_auc", cv=folds).fit(X, y == "yes")
    assert search.best_score_ > 0.7
    P = cross_val_predict(clone(model), X, y, cv=folds, method="predict_proba")
    assert P.shape == (len(y), 2) and ((P[:, 1] > 0.5) == (y == "yes")).mean() > 0.6
    calibrated = CalibratedClassifierCV(clone(model), cv=folds).fit(X, y)
    assert calibrated.predict_proba(X).shape == (len(y), 2)
    tuned = TunedThresholdClassifierCV(clone(model), scoring="balanced_accuracy", cv=folds).fit(X, y == "yes")
    assert tuned.score(X, y == "yes") > 0.6


@pytest.mark.filterwarnings("ignore")
def test_new_tasks_are_adopted_by_their_labels():
    X, y = table()
    old = X.who != "t5"
    model = GAMTLClassifier(task="who").fit(X[old], y[old])
    model.adopt(X[~old], y[~old])
    assert model.score(X, y) > 0.75 and len(model.tasks_) == 6
    with pytest.raises(ValueError, match="y has the class 'maybe'"):
        model.adopt(X[~old].assign(who="new"), np.full((~old).sum(), "maybe"))
    several = GAMTLClassifier(task="who").fit(*table(K=3))
    assert len(several.drop(["t0"]).tasks_) == 5 and several.predict_proba(X[~old]).shape == (40, 3)


@pytest.mark.parametrize("intercept", ["shrunk", "coupled", None])
def test_several_classes_have_levels_of_their_own(intercept):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.repeat(np.arange(6), 20), rng.normal(size=(120, 2))])
    y = rng.integers(0, 3, 120)
    with pytest.raises(ValueError, match='intercept="free"'):
        GAMTLClassifier(task=0, intercept=intercept).fit(X, y)
    assert GAMTLClassifier(task=0, intercept=intercept).fit(X, y > 0).coef_.shape == (6, 2)


@pytest.mark.parametrize("tasks", [60, 240])
def test_tasks_of_single_rows_leave_no_slopes_of_several_classes(tasks):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(tasks), rng.normal(size=(tasks, 2))])
    y = rng.permutation(np.arange(tasks) % 3)
    with pytest.raises(ValueError, match="every task has a single row.*without the task column"):
        GAMTLClassifier(task=0).fit(X, y)
    assert GAMTLClassifier().fit(X[:, 1:], y).predict(X[:, 1:]).shape == (tasks,)
