"""Facts about tasks: a centre that depends on them, unseen tasks that are predicted by them, coefficients in common."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from kinfolk import GAMTL, GAMTLCV, compare, load, tune
from kinfolk.baselines import GFL, Independent, MeanShrunk, Pooled, RandomSlopes
from kinfolk.export import to_onnx
from kinfolk.methods.constant_within import centre_of
from kinfolk.rows.gram import GramStats
from kinfolk.solvers.mixed import by_facts, mixed_model
from kinfolk.solvers.mixed.by_facts import LOG_TAU, _most_likely, mixed_model_by_facts

SEEN, ALL, D = 40, 60, 3
FACTS = ["size", "age"]
METHODS = [
    RandomSlopes(task="shop", unseen="mean"),
    RandomSlopes(task="shop", unseen="mean", covariance="full"),
    RandomSlopes(task="shop", unseen="mean", intercept="free"),
    RandomSlopes(task="shop", unseen="mean", noise="task"),
    MeanShrunk(task="shop", unseen="mean"),
    MeanShrunk(task="shop", unseen="mean", penalty="cv"),
    Pooled(task="shop", unseen="mean"),
    GAMTL(task="shop", unseen="mean"),
    GAMTL(task="shop", unseen="mean", intercept="shrunk"),
    GAMTLCV(task="shop", unseen="mean", trunk=None),
    GAMTLCV(task="shop", unseen="mean", nonlinear=False),
]


def shops(seed=0, *, matters=True, rows=12):
    """Rows of shops whose size moves level and slopes, and whose age does nothing; and the mean of every row."""
    rng = np.random.default_rng(seed)
    facts = rng.normal(size=(ALL, 2)) * [2.0, 10.0] + [5.0, 40.0]
    effect = rng.normal(size=D) * matters / 2
    slopes = 1 + (facts[:, :1] - 5) * effect + 0.3 * rng.normal(size=(ALL, D))
    level = matters * (facts[:, 0] - 5) + 0.5 * rng.normal(size=ALL)
    shop = np.repeat(np.arange(ALL), rows)
    X = rng.normal(size=(len(shop), D)) + 1
    mean = (X * slopes[shop]).sum(axis=1) + level[shop]
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    table[FACTS] = facts[shop]
    table["shop"] = [f"s{k:02d}" for k in shop]
    return table, mean, mean + rng.normal(size=len(mean))


TABLE, MEAN, Y = shops()
OLD = (TABLE.shop < f"s{SEEN}").to_numpy()


def quietly(method, table, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clone(method).fit(table, y)


def error(model, table, mean):
    return float(np.sqrt(np.mean((model.predict(table) - mean) ** 2)))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: repr(method)[:60])
def test_unseen_tasks_are_predicted_by_their_facts(method):
    without = quietly(method, TABLE[OLD].drop(columns=FACTS), Y[OLD])
    population = error(without, TABLE[~OLD].drop(columns=FACTS), MEAN[~OLD])
    model = quietly(method, TABLE[OLD], Y[OLD])
    assert error(model, TABLE[~OLD], MEAN[~OLD]) < 0.6 * population


@pytest.mark.parametrize("method", METHODS, ids=lambda method: repr(method)[:60])
def test_facts_that_do_not_matter_cost_nothing(method):
    table, mean, y = shops(3, matters=False)
    without, model = (quietly(method, some[OLD], y[OLD]) for some in (table.drop(columns=FACTS), table))
    plain = table.drop(columns=FACTS)
    for rows in (OLD, ~OLD):
        assert error(model, table[rows], mean[rows]) < 1.01 * error(without, plain[rows], mean[rows])


@pytest.mark.parametrize("method", [METHODS[0], METHODS[7], METHODS[-1]], ids=lambda method: repr(method)[:60])
def test_whatever_the_units_of_facts_predictions_are_the_same(method):
    units = TABLE.assign(size=1e3 * TABLE["size"] - 7e4, x1=TABLE.x1 / 50)
    one, two = (quietly(method, table[OLD], Y[OLD]).predict(table) for table in (TABLE, units))
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


def test_known_tasks_are_predicted_by_their_coefficients_and_parts_add_up():
    model = quietly(RandomSlopes(task="shop"), TABLE[OLD], Y[OLD])
    X = TABLE[OLD].drop(columns="shop").to_numpy()
    code = np.searchsorted(model.tasks_, TABLE.shop[OLD])
    by_hand = (X * model.coef_[code]).sum(axis=1) + model.intercept_[code]
    np.testing.assert_allclose(model.predict(TABLE[OLD]), by_hand, rtol=1e-10)
    found = model.contributions()
    part = model.model_.parts[0]
    slopes, _ = part.facts.lines(model.gram_.x_mean)
    np.testing.assert_allclose(found.coef.sum(axis=1) + slopes + part.common, model.coef_, atol=1e-8)


def test_the_likelihood_is_that_of_statsmodels_with_the_same_products():
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    table, y = TABLE[OLD], Y[OLD]
    model = quietly(RandomSlopes(task="shop", fact_slopes="free", tol=1e-7), table, y)
    x = (table[["x0", "x1", "x2"]] - table[["x0", "x1", "x2"]].mean()).to_numpy()
    f = (table[FACTS] - table[FACTS].mean()).to_numpy()
    ones = np.ones((len(x), 1))
    fixed = np.column_stack([ones, x, f, *(f[:, [k]] * x for k in range(2))])
    free = MixedLMParams.from_components(np.ones(fixed.shape[1]), np.eye(1 + D))
    theirs = MixedLM(y, fixed, groups=table.shop, exog_re=np.column_stack([ones, x])).fit(
        reml=False, free=free, method=["lbfgs"]
    )
    assert abs(model.log_likelihood_ - theirs.llf) < 1e-3
    np.testing.assert_allclose(model.fact_coef_[:, 0], theirs.fe_params[4:6], atol=1e-3)
    np.testing.assert_allclose(model.fact_coef_[:, 1:4].ravel(), theirs.fe_params[6:], atol=1e-3)
    np.testing.assert_allclose(model.fact_coef_se_[:, 0], theirs.bse_fe[4:6], rtol=0.02)


def test_the_strength_of_facts_is_at_the_maximum_of_the_marginal_likelihood():
    """Against the density of a normal vector with the prior covariance in it, on a grid."""
    rng = np.random.default_rng(1)
    design = rng.normal(size=(30, 6))
    prior = rng.uniform(0.5, 2.0, 6)
    targets = design @ (np.sqrt(0.3 * prior) * rng.normal(size=6)) + rng.normal(size=30)
    group = np.zeros(6, np.intp)
    found = _most_likely(design.T @ design, design.T @ targets, prior, group, np.zeros(1))[0]

    def deviance(log_tau):
        V = np.eye(30) + np.exp(log_tau) * (design * prior) @ design.T
        return np.linalg.slogdet(V)[1] + targets @ np.linalg.solve(V, targets)

    grid = np.linspace(*LOG_TAU, 2001)
    np.testing.assert_allclose(found, grid[np.argmin([deviance(one) for one in grid])], atol=0.01)


def test_facts_that_repeat_each_other_are_told_by_one():
    gram = GramStats.from_rows(TABLE[["x0", "x1", "x2"]].to_numpy(), Y, TABLE.shop.to_numpy())
    facts = TABLE.groupby("shop")[["size"]].first().to_numpy()
    found = mixed_model_by_facts(gram, np.column_stack([facts, 2 * facts]), np.array([0, 1]))
    one = mixed_model_by_facts(gram, facts, np.array([0]))
    assert (found.explained[:, 1] > 0).sum() == 1
    np.testing.assert_allclose(found.levels @ [1, 2], one.levels[0], rtol=0.01)


def test_what_a_centre_leaves_are_the_statistics_of_the_rows_without_it():
    gram = GramStats.from_rows(TABLE[["x0", "x1", "x2", *FACTS]].to_numpy(), Y, TABLE.shop.to_numpy())
    gram = gram.with_roles(np.array([0, 0, 0, 1, 2]))
    centre = centre_of(gram)
    code = np.searchsorted(gram.labels, TABLE.shop)
    X = TABLE[["x0", "x1", "x2", *FACTS]].to_numpy()
    slopes, levels = centre.facts.lines(gram.x_mean)
    left = Y - X @ centre.coef - (X * slopes[code]).sum(axis=1) - levels[code]
    rows = GramStats.from_rows(X[:, :3], left, TABLE.shop.to_numpy())
    for name in ("y_mean", "b", "yy"):
        np.testing.assert_allclose(getattr(centre.left, name), getattr(rows, name), rtol=1e-8, atol=1e-8)


def test_without_facts_nothing_is_different():
    plain = TABLE.drop(columns=FACTS)
    for method in (METHODS[0], METHODS[4], METHODS[7]):
        one, two = (clone(method).set_params(facts=facts).fit(plain, Y).coef_ for facts in (None, "auto"))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_where_all_targets_are_alike_facts_have_nothing_to_explain(method):
    model = quietly(method, TABLE[OLD], np.full(OLD.sum(), 0.3))
    np.testing.assert_allclose(model.predict(TABLE), 0.3, atol=1e-12)


def test_new_tasks_are_adopted_around_the_centre_of_their_facts():
    model = quietly(GAMTL(task="shop"), TABLE[OLD], Y[OLD])
    few = TABLE[~OLD].groupby("shop").head(2)
    model.adopt(few, Y[few.index])
    without = quietly(GAMTL(task="shop"), ROWS[OLD], Y[OLD])
    without.adopt(ROWS.loc[few.index], Y[few.index])
    assert error(model, TABLE[~OLD], MEAN[~OLD]) < 0.8 * error(without, ROWS[~OLD], MEAN[~OLD])


def test_a_task_of_one_row_has_the_slopes_of_its_facts():
    one = np.flatnonzero(~OLD)[:1]
    rows = np.append(np.flatnonzero(OLD), one)
    model = quietly(GAMTL(task="shop"), TABLE.iloc[rows], Y[rows])
    np.testing.assert_allclose(model.predict(TABLE.iloc[one]), Y[one])
    known = quietly(GAMTL(task="shop", unseen="mean"), TABLE[OLD], Y[OLD])
    same = TABLE[~OLD][TABLE.shop[~OLD] == TABLE.shop.iloc[one[0]]]
    shift = model.predict(same) - known.predict(same)
    np.testing.assert_allclose(shift, shift[0], atol=0.2)


# --- common coefficients


@pytest.mark.parametrize("method", METHODS, ids=lambda method: repr(method)[:60])
def test_a_common_column_has_one_coefficient(method):
    model = quietly(clone(method).set_params(common=["x1"]), TABLE, Y)
    np.testing.assert_allclose(model.coef_[:, 1], model.coef_[0, 1], rtol=1e-9)
    assert np.ptp(model.coef_[:, 0]) > 0


def test_the_common_coefficient_is_that_of_the_mixed_model_without_its_variance():
    gram = GramStats.from_rows(TABLE[["x0", "x1"]].to_numpy(), Y, TABLE.shop.to_numpy())
    fixed = mixed_model(gram.with_roles(np.array([0, -1])))
    assert fixed.relevance[1] == 0 < fixed.relevance[0]
    model = MeanShrunk(task="shop", common=["x1"]).fit(TABLE[["x0", "x1", "shop"]], Y)
    np.testing.assert_allclose(model.coef_[:, 1], fixed.mean[1])


# --- a frame of facts

FRAME = TABLE.groupby("shop")[FACTS].first().reset_index()
ROWS = TABLE.drop(columns=FACTS)


@pytest.mark.parametrize("method", [METHODS[0], METHODS[7], METHODS[-1]], ids=lambda method: repr(method)[:60])
def test_a_frame_of_facts_is_joined_to_all_tables(method, tmp_path):
    joined = quietly(clone(method).set_params(facts=FRAME), ROWS[OLD], Y[OLD])
    expected = quietly(clone(method).set_params(facts=FACTS), TABLE[OLD], Y[OLD])
    np.testing.assert_array_equal(joined.predict(ROWS), expected.predict(TABLE))
    np.testing.assert_array_equal(load(joined.save(tmp_path / "model.kin")).predict(ROWS), joined.predict(ROWS))
    np.testing.assert_array_equal(joined.predict(pl.from_pandas(ROWS)), joined.predict(ROWS))


def test_text_among_facts_is_encoded_and_counts_as_one_fact():
    rng = np.random.default_rng(0)
    kind = rng.choice(["city", "land", "sea"], ALL)
    frame = pd.DataFrame({"shop": np.unique(TABLE.shop), "kind": kind})
    code = np.searchsorted(frame.shop, TABLE.shop)
    effect = np.where(kind == "sea", 5.0, 0.0)[code]
    model = quietly(RandomSlopes(task="shop", unseen="mean", facts=frame), ROWS[OLD], (Y + effect)[OLD])
    assert model.fact_names_.tolist() == ["kind_city", "kind_land", "kind_sea"]
    difference = model.fact_coef_[2, 0] - model.fact_coef_[:2, 0].mean()
    np.testing.assert_allclose(difference, 5.0, atol=1.5)


def test_everything_wrong_with_a_frame_of_facts_is_in_one_message():
    wrong = pd.concat([FRAME.iloc[2:], FRAME.iloc[5:6]]).assign(x0=1.0)
    with pytest.raises(ValueError, match=r"'x0' is in X and in facts; 1 task twice \('s05'\); no row for 2 tasks"):
        RandomSlopes(task="shop", facts=wrong).fit(ROWS, Y)


def test_everything_wrong_with_names_of_columns_is_in_one_message():
    message = (
        r"facts: there is no column 'sise'.*common: there is no column 'nope'.*'x1' varies.*'size' is in facts and"
    )
    with pytest.raises(ValueError, match=message):
        RandomSlopes(task="shop", facts=["sise", "x1", "size"], common=["nope", "size"]).fit(TABLE, Y)


def test_tables_without_names_have_facts_by_position():
    X = TABLE[["x0", "x1", "x2", *FACTS]].to_numpy()
    X = np.column_stack([np.searchsorted(np.unique(TABLE.shop), TABLE.shop), X])
    by_position = quietly(MeanShrunk(task=0, facts=[4], common=[2]), X, Y)
    by_name = quietly(MeanShrunk(task="shop", facts=["size"], common=["x1"]), TABLE, Y)
    np.testing.assert_allclose(by_position.coef_, by_name.coef_, rtol=1e-8)


def test_the_papers_competitors_do_without_facts_unless_asked():
    assert GFL().facts is None
    assert "fact_coef_" not in dir(quietly(Independent(task="shop", facts=None), TABLE, Y))


def test_a_summary_says_what_facts_do():
    model = quietly(RandomSlopes(task="shop"), TABLE, Y)
    said = " ".join(model.summary().sentences())
    level, error = model.fact_coef_[0, 0], model.fact_coef_se_[0, 0]
    assert f"Each unit of size raises the level by {level:.2g} ({error:.1g})." in said
    nothing = quietly(RandomSlopes(task="shop"), *shops(3, matters=False)[::2])
    assert "Facts about a shop (size and age) explain neither" in " ".join(nothing.summary().sentences())


# --- whole tasks held out


def test_held_out_tasks_tell_how_well_new_ones_are_predicted():
    model = quietly(GAMTLCV(task="shop", cv="tasks", trunk=None, nonlinear=False, unseen="mean"), TABLE[OLD], Y[OLD])
    new = np.sqrt(pd.Series((model.predict(TABLE[~OLD]) - Y[~OLD]) ** 2).groupby(TABLE.shop[~OLD].to_numpy()).mean())
    np.testing.assert_allclose(np.mean(model.cv_errors_), new.mean(), rtol=0.25)
    by_rows = quietly(GAMTLCV(task="shop", trunk=None, nonlinear=False), TABLE[OLD], Y[OLD])
    assert np.mean(by_rows.cv_errors_) < np.mean(model.cv_errors_)
    assert any("without any rows" in sentence for sentence in model.summary().sentences())


def test_a_comparison_says_how_well_a_new_task_is_predicted():
    found = compare(TABLE, Y, task="shop", cv="tasks", methods=["random-slopes", "task-mean"])
    errors = {row["method"]: row["rmse_tasks"] for row in found.table()}
    assert errors["random-slopes"] < 0.7 * errors["task-mean"]
    assert f"A task without any rows is predicted with an error of {errors['random-slopes']:.3g}" in found.verdict[0]


def test_a_comparison_takes_a_frame_of_facts():
    asked = {"task": "shop", "cv": "tasks", "methods": ["random-slopes"]}
    joined, frame = compare(TABLE, Y, **asked), compare(ROWS, Y, facts=FRAME, **asked)
    np.testing.assert_allclose(frame.table()[0]["rmse_tasks"], joined.table()[0]["rmse_tasks"], rtol=1e-9)
    with pytest.raises(ValueError, match="facts=frame"):
        compare(ROWS, Y, task="shop", methods=[RandomSlopes(task="shop", facts=FRAME)])


def test_whole_tasks_are_held_out_of_a_grid_as_well():
    grid = {"fact_slopes": ["shrunk", "none"]}
    with pytest.warns(UserWarning, match="'size', 'age' is constant within every task: it is taken for a fact"):
        found = tune(RandomSlopes(task="shop"), grid, TABLE, Y, cv="tasks")
    assert found.best_params_ == {"fact_slopes": "shrunk"}


@pytest.mark.parametrize(("cv", "groups"), [("rows", None), ("tasks", np.zeros(len(TABLE)))])
def test_other_words_and_groups_are_refused(cv, groups):
    with pytest.raises(ValueError, match="tasks"):
        GAMTLCV(task="shop", cv=cv).fit(TABLE, Y, groups=groups)


# --- classes and counts


@pytest.mark.parametrize("method", [RandomSlopes(), GAMTL(), GAMTLCV(trunk=None, nonlinear=False)], ids=str)
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_unseen_tasks_of_classes_and_counts_are_predicted_by_their_facts(method, family):
    table, mean, _ = shops(rows=30)
    eta = 0.6 * (mean - mean.mean())
    rng = np.random.default_rng(0)
    expected = 1 / (1 + np.exp(-eta)) if family == "binomial" else np.exp(0.5 * eta)
    y = rng.binomial(1, expected) if family == "binomial" else rng.poisson(expected)
    old = (table.shop < f"s{SEEN}").to_numpy()
    errors = []
    for facts in (None, "auto"):
        some = table if facts else table.drop(columns=FACTS)
        model = quietly(method.set_params(task="shop", family=family, facts=facts, unseen="mean"), some[old], y[old])
        errors.append(error(model, some[~old], expected[~old]))
    assert errors[1] < 0.8 * errors[0]


def test_the_parts_of_a_mixed_model_of_classes_are_its_coefficients():
    y = (np.median(Y) < Y).astype(float)
    model = quietly(RandomSlopes(task="shop", family="binomial"), TABLE, y).model_
    part = model.parts[0]
    equations = part.equations(model.known)
    np.testing.assert_allclose(part.map(model.known).unknowns(), part.V, atol=1e-10)
    for found, expected in zip(part.coefficients(equations, part.V), (model.coef, model.intercept), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)


# --- other ways to a prediction


def test_other_programs_predict_unseen_tasks_by_their_facts_too(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model = quietly(GAMTL(task="shop", unseen="mean", extrapolate="linear"), TABLE[OLD], Y[OLD])
    path = to_onnx(model, tmp_path / "model.onnx")
    feed = {"task": TABLE.shop.to_numpy().astype(object), "features": TABLE.drop(columns="shop").to_numpy()}
    found = runtime.InferenceSession(path).run(None, feed)[0]
    np.testing.assert_allclose(np.ravel(found), model.predict(TABLE), rtol=1e-6)


def test_a_private_model_predicts_by_facts(tmp_path):
    model = quietly(GAMTL(task="shop", unseen="mean"), TABLE[OLD], Y[OLD])
    same = load(model.save(tmp_path / "model.kin", private=True))
    np.testing.assert_allclose(same.predict(TABLE), model.predict(TABLE))


def test_a_private_model_holds_no_facts_of_tasks_without_rows(tmp_path):
    kind = np.where(np.arange(len(FRAME)) % 2, "hut", "house")
    frame = FRAME.assign(kind=np.where(FRAME.shop < f"s{SEEN}", kind, "secret"))
    model = quietly(GAMTL(task="shop", unseen="mean", facts=frame), ROWS[OLD], Y[OLD])
    path = model.save(tmp_path / "model.kin", private=True)
    same = load(path)
    assert same.model_.columns.schema.known.labels.tolist() == model.tasks_.tolist()
    assert not any("secret" in text for text in same.model_.columns.schema.known.texts.ravel())
    np.testing.assert_allclose(same.predict(ROWS[OLD]), model.predict(ROWS[OLD]))
    joined = ROWS.merge(frame, on="shop", how="left")
    with pytest.warns(UserWarning, match="categories that fit has not seen"):
        np.testing.assert_allclose(same.predict(joined), model.predict(ROWS))


def test_rows_that_come_in_parts_have_facts():
    half = np.arange(len(TABLE)) % 2 == 0
    model = GAMTL(task="shop", unseen="mean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.partial_fit(TABLE[half & OLD], Y[half & OLD]).partial_fit(TABLE[~half & OLD], Y[~half & OLD])
    whole = quietly(GAMTL(task="shop", unseen="mean"), TABLE[OLD], Y[OLD])
    np.testing.assert_allclose(model.fact_coef_, whole.fact_coef_, rtol=1e-6, atol=1e-9)


# --- columns that say nothing


@pytest.mark.parametrize("method", [GAMTL(task="shop"), RandomSlopes(task="shop"), MeanShrunk(task="shop")], ids=str)
def test_a_column_that_never_varies_is_no_fact_and_makes_none(method):
    """Where every row is a task, a slope of the constant column is nothing that facts could be told from."""
    lone = TABLE[["x0", "x1"]].assign(shop=np.arange(len(TABLE)))[:300]
    table = lone.assign(still=7.0)
    one, two = (quietly(clone(method).set_params(facts=facts), table, Y[:300]) for facts in (None, "auto"))
    np.testing.assert_array_equal(one.predict(table), two.predict(table))
    assert not hasattr(two, "fact_names_")
    beside = quietly(method, TABLE.assign(still=7.0), Y)
    assert beside.fact_names_.tolist() == FACTS


def test_a_column_that_never_varies_leaves_a_mixed_model_as_it_is():
    for table in (TABLE[:300], TABLE[["x0", "x1"]].assign(shop=np.arange(len(TABLE)))[:300]):
        plain, still = (quietly(RandomSlopes(task="shop"), some, Y[:300]) for some in (table, table.assign(still=7.0)))
        np.testing.assert_allclose(still.coef_[:, :-1], plain.coef_, atol=1e-9)


@pytest.mark.parametrize("facts", ["auto", FACTS])
def test_facts_that_are_too_many_for_products_say_so(facts, monkeypatch):
    monkeypatch.setattr(by_facts, "MOST_PRODUCTS", 7)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = RandomSlopes(task="shop", facts=facts).fit(TABLE, Y)
    assert not model.fact_coef_[:, 1:].any()
    found = [str(one.message) for one in said if "move levels alone" in str(one.message)]
    assert found == [
        "2 columns of facts would have 8 products with features and levels, more than 7: facts move levels alone"
    ]
    monkeypatch.setattr(by_facts, "MOST_PRODUCTS", 8)
    assert quietly(RandomSlopes(task="shop", facts=facts), TABLE, Y).fact_coef_[:, 1:].any()


# --- facts that are not to be believed


def seasons(seed):
    """Plots of three years that all grow along one curve, but were measured at other times in each year."""
    rng = np.random.default_rng(seed)
    year = np.arange(48) % 3
    plot = np.repeat(np.arange(48), 9)
    day = np.tile(np.arange(9.0), 48) + np.array([0.0, 1.0, 1.7])[year[plot]]
    mean = 0.9 * day - 0.04 * day**2 + 0.2 * rng.normal(size=48)[plot]
    table = pd.DataFrame({"day": day, "plot": plot, "y1": 1.0 * (year == 1)[plot], "y2": 1.0 * (year == 2)[plot]})
    return table, mean, mean + 0.1 * rng.normal(size=len(day))


def test_a_curve_is_not_taken_for_what_facts_do_to_slopes():
    for seed in range(3):
        table, _, y = seasons(seed)
        model = quietly(RandomSlopes(task="plot"), table[table.index % 9 < 5], y[table.index % 9 < 5])
        assert not model.fact_coef_[:, 1:].any()
        future = table.index % 9 >= 5
        none = quietly(RandomSlopes(task="plot", facts=None), table[~future], y[~future])
        assert error(model, table[future], y[future]) < 1.01 * error(none, table[future], y[future])


def test_what_facts_do_to_slopes_is_found_beside_other_means_of_features():
    """Of shops whose size moves slopes, and also goes with their features."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        size = rng.normal(size=40)
        shop = np.repeat(np.arange(40), 12)
        x = rng.normal(size=len(shop)) + (0.5 * size + rng.normal(size=40))[shop]
        y = (1 + 0.5 * size[shop]) * x + rng.normal(size=len(x))
        model = quietly(RandomSlopes(task="shop"), pd.DataFrame({"x": x, "size": size[shop], "shop": shop}), y)
        found.append(model.fact_coef_[0, 1])
    np.testing.assert_allclose(np.mean(found), 0.5, atol=0.05)


def test_useless_facts_cost_less_than_a_hundredth_over_draws():
    ratios = []
    for seed in range(10):
        table, mean, y = shops(seed, matters=False)
        plain = table.drop(columns=FACTS)
        without, model = (quietly(METHODS[0], some[OLD], y[OLD]) for some in (plain, table))
        ratios.append(error(model, table[~OLD], mean[~OLD]) / error(without, plain[~OLD], mean[~OLD]))
    assert np.mean(ratios) < 1.002
    assert max(ratios) < 1.015


def test_levels_that_one_coefficient_for_all_told_are_told_by_facts():
    """27 tasks of two kinds whose levels differ by a standard deviation, as the sex of children."""
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        kind, task = rng.integers(0, 2, 27), np.repeat(np.arange(27), 4)
        x = rng.normal(size=len(task))
        mean = x * (1 + 0.2 * rng.normal(size=27)[task]) + kind[task] + rng.normal(size=27)[task]
        table = pd.DataFrame({"x": x, "kind": 1.0 * kind[task], "shop": task})
        y = mean + rng.normal(size=len(x))
        none, facts = (
            quietly(RandomSlopes(task="shop", unseen="mean", facts=facts), table, y) for facts in (None, "auto")
        )
        ratios.append(error(facts, table, mean) / error(none, table, mean))
    assert np.mean(ratios) < 1.002
    assert max(ratios) < 1.025
