"""The search among classes and counts: what folds see, what judges mixtures, and what the fitted mixture is."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from kinfolk import GAMTLCV, GAMTLClassifierCV, compare, load, tune
from kinfolk.baselines import Independent, MeanShrunk, Pooled
from kinfolk.rows.families import FAMILIES
from kinfolk.search import boosters
from kinfolk.search.cross_errors import CrossLosses
from kinfolk.search.errors import Errors
from kinfolk.search.rbf_search import TaskRows


def groups(family, seed=0, T=12, n=40, d=4, kinds=2, test=150):
    """Tasks in groups of like coefficients: training rows and targets, test rows, targets and their predictors."""
    rng = np.random.default_rng(seed)
    size = 1.0 if family == "binomial" else 0.4
    of = np.arange(T) % kinds
    W = size * (rng.normal(size=(kinds, d))[of] + 0.1 * rng.normal(size=(T, d)))
    c = 0.4 * rng.normal(size=kinds)[of]

    def rows(count):
        codes = np.repeat(np.arange(T), count)
        X = rng.normal(size=(len(codes), d))
        eta = np.einsum("nd,nd->n", X, W[codes]) + c[codes]
        table = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)]).assign(who=[f"t{t:02d}" for t in codes])
        return table, drawn(family, eta, rng), eta

    return *rows(n)[:2], *rows(test)


def drawn(family, eta, rng):
    if family == "binomial":
        return (rng.random(len(eta)) < expit(eta)).astype(float)
    return rng.poisson(np.exp(eta)).astype(float) if family == "poisson" else rng.gamma(3.0, np.exp(eta) / 3)


def excess(model, family, X, y, eta):
    """Loss of predictions beyond that of the truth."""
    family = FAMILIES[family]
    return float(np.mean(family.score(y, family.predictor(model.predict(X))) - family.score(y, eta)))


@pytest.mark.filterwarnings("ignore:the targets vary")
@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
def test_where_tasks_come_in_groups_the_search_has_half_the_excess_loss_of_others(family):
    X, y, new, y_new, eta = groups(family, T=24, d=8, kinds=3)
    found = excess(GAMTLCV(task="who", family=family, trunk=None).fit(X, y), family, new, y_new, eta)
    others = [method(task="who", family=family, penalty="cv") for method in (Independent, Pooled, MeanShrunk)]
    assert found < 0.5 * min(excess(other.fit(X, y), family, new, y_new, eta) for other in others)


def taskrows(seed=0, n=400, T=5, family="binomial"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    codes = rng.integers(0, T, n)
    y = drawn(family, 0.5 * X[:, 0] + 0.3 * codes - 0.5, rng)
    return TaskRows(X, y, codes, np.arange(T), rng.integers(0, 4, n), family=FAMILIES[family])


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_a_fold_never_sees_its_held_out_targets(family):
    data = taskrows(family=family)
    other = data.y.copy()
    out = data.fold == 2
    other[out] = np.random.default_rng(1).permutation(other[out])[::-1]
    changed = TaskRows(data.X, other, data.codes, data.labels, data.fold, family=data.family).at_pilots()
    data = data.at_pilots()
    np.testing.assert_array_equal(data.pilots[2], changed.pilots[2])
    assert not np.array_equal(data.pilots[1], changed.pilots[1])
    for name in ("n", "b", "yy", "y_mean"):
        mine, theirs = (getattr(rows.folds().training(2), name) for rows in (data, changed))
        np.testing.assert_array_equal(mine, theirs)


def test_losses_of_mixtures_are_those_of_their_predictors():
    data = taskrows().at_pilots()
    rng = np.random.default_rng(3)
    predictors = rng.normal(size=(2, len(data.y)))
    E = CrossLosses.of_predictors(["a", "b"], predictors, data, 4)
    shares = np.column_stack([np.linspace(0, 1, 5), 1 - np.linspace(0, 1, 5)])
    eta = np.einsum("nm,mn->n", shares[data.codes], predictors)
    p = expit(eta)
    loss = -np.log(np.where(data.y == 1, p, 1 - p))
    found = E.errors(shares)
    np.testing.assert_allclose(found.pooled(), loss.mean(), rtol=1e-10)
    np.testing.assert_allclose(found.by_task()[3], loss[data.codes == 3].mean(), rtol=1e-10)
    np.testing.assert_allclose(E.errors_of("b").pooled(), E.among(["b"]).errors(np.ones(1)).pooled())
    # E are the cross products of the working residuals that every fold sees.
    z, w = data.as_held_out()
    own = (data.codes == 1) & (data.fold == 0)
    np.testing.assert_allclose(E.E[0, 1, 0, 1], (w * (z - predictors[0]) * (z - predictors[1]))[own].sum())


def test_gains_of_losses_are_relative_to_their_means_and_not_to_roots():
    before = Errors(np.full((1, 4), 4.0), np.full((1, 4), 2.0), roots=False)
    after = Errors(np.full((1, 4), 3.0), np.full((1, 4), 2.0), roots=False)
    assert after.gain_over(before).mean == pytest.approx(0.25)
    assert before.tasks() == before.pooled() == 2.0


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_the_mixture_is_a_linear_map_of_the_working_targets_that_it_has(family):
    X, y, *_ = groups(family, T=8)
    model = GAMTLCV(task="who", family=family, trunk=None, nonlinear=False).fit(X, y).model_
    shares = [part.shares[:, None] for part in model.parts if (part.shares > 0).any()]
    W = sum(share * part.unknowns() @ part.to_coef.T for share, part in zip(shares, model.maps, strict=True))
    np.testing.assert_allclose(W, model.coef, atol=1e-6)


def test_an_offset_of_numbers_is_taken_off_and_put_back():
    X, y, new, *_ = groups("gamma")
    X = X.assign(known=100.0 * X.x0)
    plain = GAMTLCV(task="who", trunk=None).fit(X.drop(columns="known"), y)
    beside = GAMTLCV(task="who", trunk=None, offset="known").fit(X, y + X.known)
    new = new.assign(known=7.0)
    np.testing.assert_allclose(beside.predict(new), plain.predict(new.drop(columns="known")) + 7.0, rtol=1e-6)


@pytest.mark.parametrize("library", ["lightgbm", "scikit-learn"])
def test_trees_take_part_among_counts_where_lines_see_nothing(library, monkeypatch):
    if library == "scikit-learn":
        monkeypatch.setattr(boosters, "lightgbm", _not_here)
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1, 1, size=(1500, 2)), columns=["a", "b"]).assign(who=np.arange(1500) % 6)
    people = rng.uniform(1, 9, 1500)
    y = rng.poisson(people * np.exp(1.5 * np.sign(X.a * X.b)))
    model = GAMTLCV(task="who", family="poisson", exposure="people").fit(X.assign(people=people), y)
    assert model.trunk_helps_ and model.gains_["trees"].mean > 0.5
    rate = model.predict(pd.DataFrame({"a": [0.5, -0.5], "b": [0.5, 0.5], "who": [0, 0], "people": [2.0, 2.0]}))
    np.testing.assert_allclose(rate, 2 * np.exp([1.5, -1.5]), rtol=0.4)


def _not_here():
    raise ImportError("not here")


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_a_task_that_is_adopted_is_predicted_as_one_of_the_fit(family):
    X, y, new, y_new, eta = groups(family, n=60)
    known = (X.who != "t03").to_numpy()
    whole = GAMTLCV(task="who", family=family, trunk=None).fit(X, y)
    model = GAMTLCV(task="who", family=family, trunk=None).fit(X[known], y[known]).adopt(X[~known], y[~known])
    own = (new.who == "t03").to_numpy()
    late, early = (excess(one, family, new[own], y_new[own], eta[own]) for one in (model, whole))
    assert late < early + 0.05
    assert model.rows_[3] == 60 and model.means_[3] == pytest.approx(y[~known].mean())


@pytest.mark.parametrize(
    ("y", "family"),
    [
        (np.zeros(80), "binomial"),
        (np.zeros(80), "poisson"),
        (np.r_[1.0, np.zeros(79)], "poisson"),
        (np.r_[1e9, np.ones(79)], "poisson"),
        (np.tile([0.0, 1.0], 40), "binomial"),
    ],
)
def test_poor_tables_are_fitted_and_finite(y, family):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=80), "who": np.repeat(["a", "b", "c", "d"], 20)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what is poor is told, see test_remarks
        model = GAMTLCV(task="who", family=family).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all()


def test_inputs_that_separate_classes_have_finite_slopes():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=120), "who": np.repeat(["a", "b", "c", "d"], 30)})
    with pytest.warns(UserWarning, match="separates"):
        model = GAMTLCV(task="who", family="binomial", trunk=None).fit(X, (X.x > 0).astype(float))
    assert np.abs(model.coef_).max() < 100


class TestClassifier:
    @pytest.mark.filterwarnings("ignore:.* separates the classes")
    def test_several_classes_in_groups_are_told_apart_better_than_alone(self):
        rng = np.random.default_rng(1)
        W = rng.normal(size=(2, 3, 4))
        codes = np.repeat(np.arange(10), 250)
        Z = rng.normal(size=(len(codes), 4))
        eta = np.einsum("nd,nkd->nk", Z, W[codes % 2])
        y = np.array(["u", "v", "w"])[(eta + rng.gumbel(size=eta.shape)).argmax(axis=1)]
        X = pd.DataFrame(Z, columns=list("abcd")).assign(who=codes)
        train = np.arange(len(codes)) % 250 < 30
        model = GAMTLClassifierCV(task="who").fit(X[train], y[train])
        proba = model.predict_proba(X[~train])
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert model.coef_.shape == (3, 10, 4)
        bayes = np.exp(eta[~train] - np.logaddexp.reduce(eta[~train], axis=1, keepdims=True))
        number = np.searchsorted(model.classes_, y[~train])
        loss, best = (-np.log(p[np.arange(len(p)), number]).mean() for p in (proba, bayes))
        assert loss < best + 0.1

    def test_weights_of_classes_move_the_level(self):
        X, y, *_ = groups("binomial")
        y = np.where((y == 1) & (X.x0 > 0), "rare", "common")
        plain = GAMTLClassifierCV(task="who", trunk=None).fit(X, y)
        balanced = GAMTLClassifierCV(task="who", trunk=None, class_weight="balanced").fit(X, y)
        assert (balanced.predict(X) == "rare").mean() > (plain.predict(X) == "rare").mean()

    def test_files_keep_classes_and_probabilities(self, tmp_path):
        X, y, new, *_ = groups("binomial", T=6)
        model = GAMTLClassifierCV(task="who").fit(X, np.where(y == 1, "yes", "no"))
        model.save(tmp_path / "m.kin")
        again = load(tmp_path / "m.kin")
        np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
        assert again.classes_.tolist() == ["no", "yes"]


def test_a_comparison_of_counts_is_in_deviance():
    X, y, *_ = groups("poisson", T=6, n=30)
    found = compare(X, y, task="who", family="poisson", methods=["independent", "pooled", "gamtlcv"], cv=3)
    assert "deviance" in repr(found) and "RMSE" not in repr(found)
    assert {"loss_tasks", "loss_pooled"} <= set(found.table()[0])
    with pytest.raises(ValueError, match="lightgbm is compared on numbers alone"):
        compare(X, y, task="who", family="poisson", methods=["lightgbm"])


def test_a_grid_is_judged_by_the_losses_of_held_out_rows():
    X, y, *_ = groups("binomial", T=6, n=30)
    found = tune(Independent(task="who", family="binomial"), {"penalty": [1e-3, 3.0, 1e4]}, X, y, cv=3)
    assert found.best_params_ == {"penalty": 3.0}
    worst = max(row["error"] for row in found.cv_results_)
    assert found.best_error_ < worst and found.best_error_ < np.log(2) + 0.05


def test_sentences_speak_of_the_loss():
    X, y, *_ = groups("binomial", T=6)
    model = GAMTLCV(task="who", family="binomial", trunk=None).fit(X, y)
    text = " ".join(model.summary().verdict)
    assert "log-loss than a straight-line ridge" in text and " error than" not in text
    frame = model.summary().frame()
    assert frame["rows"].iloc[0] == 40 and frame["level"].iloc[0] == pytest.approx(y[X.who == "t00"].mean())
