from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import kinfolk.search.tries as tries
from kinfolk import GAMTL, GAMTLCV, RBFGAMTL, load
from kinfolk.baselines import Independent, MeanShrunk, Pooled, RandomSlopes
from kinfolk.datasets import make_circle, make_groups
from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats, squared_errors
from kinfolk.rows.splits import InTime
from kinfolk.rows.table import read_rows
from kinfolk.search.cross_errors import CrossErrors, cross_errors, mixture_errors
from kinfolk.search.errors import paired_gain
from kinfolk.search.members import OWN, SHRUNK, TREES, Grid, Member, baselines, mixed_models
from kinfolk.search.mixture import Mixture, learn, mixture_of
from kinfolk.search.rbf_search import TaskRows
from kinfolk.search.shares import DRAWS, SEED, best_mixture, own_ridge_shares
from kinfolk.search.trials import try_all
from kinfolk.search.tries import HOPELESS, Search
from problems import folds_of_rows, frame

QUICK = {"strengths": (1.0,), "ridges": (0.1,), "anchors": (0.0,)}


def rmse_over_tasks(model, data):
    squared = (model.predict(data.test_data) - data.test_target) ** 2
    codes = np.searchsorted(model.tasks_, data.test_data[data.task])
    return float(np.sqrt(np.bincount(codes, squared) / np.bincount(codes)).mean())


@pytest.fixture(scope="module")
def groups():
    data = make_groups(random_state=1)
    return data, GAMTLCV(task=data.task).fit(data.data, data.target)


def test_a_graph_without_a_share_does_not_help():
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(20), 6)
    x = rng.uniform(-1, 1, (120, 3))
    y = x[:, 0] + rng.normal(size=20)[task] + 0.5 * rng.normal(size=120)
    model = GAMTLCV(task=0, nonlinear=False, **QUICK).fit(np.column_stack([task, x]), y)
    assert not any(name.startswith("GAMTL") for name in model.mixture_)
    assert not model.graph_helps_


def test_where_groups_exist_the_graph_helps_and_wins_by_far(groups):
    data, model = groups
    assert model.graph_helps_ and model.gain_.mean > 2 * model.gain_.standard_error
    rivals = [
        Independent(data.task, penalty="cv"),
        Pooled(data.task, penalty="cv"),
        MeanShrunk(data.task, penalty="cv"),
    ]
    best = min(rmse_over_tasks(rival.fit(data.data, data.target), data) for rival in [*rivals, RandomSlopes(data.task)])
    assert rmse_over_tasks(model, data) < 0.6 * best


def test_the_planted_edges_and_outliers_are_found(groups):
    data, model = groups
    truth = np.zeros((20, 20))
    truth[tuple(np.array(data.edges).T)] = 1
    upper = np.triu_indices(20, k=1)
    assert roc_auc_score(truth[upper], model.coupling_.toarray()[upper]) > 0.97
    shown = model.adjacency_.toarray()[upper]
    assert shown[truth[upper] == 0].sum() < 0.01 * shown.sum()
    assert model.graph_.outliers() == [19, 20]


def test_the_account_of_the_choice_is_complete(groups):
    _, model = groups
    assert sum(model.mixture_.values()) == pytest.approx(1)
    assert {"metric", "strength", "ridge", "anchor", "neighbors", "intercept"} == set(model.best_params_)
    names = [row["name"] for row in model.cv_results_]
    assert {"task mean", "ridge per task", "pooled", "shrunk to the mean"} < set(names)
    assert set(model.mixture_) <= set(names)
    assert model.cv_errors_.shape == (20,) and (model.cv_errors_ > 0).all()
    assert model.relevance_.shape == (30,)


def test_where_slopes_vary_in_two_directions_only_it_is_no_worse_than_the_mixed_model():
    data = make_circle(random_state=0)
    model = GAMTLCV(task=data.task).fit(data.data, data.target)
    rival = RandomSlopes(data.task).fit(data.data, data.target)
    assert rmse_over_tasks(model, data) < 1.01 * rmse_over_tasks(rival, data)


def test_unrelated_tasks_are_left_alone():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(12), 60)
    X = rng.normal(size=(720, 3))
    y = np.einsum("nd,nd->n", X, rng.normal(size=(12, 3))[task]) + rng.normal(size=720)
    model = GAMTLCV(task=0).fit(np.column_stack([task, X]), y)
    own = Independent(task=0, penalty="cv").fit(np.column_stack([task, X]), y)
    np.testing.assert_allclose(model.coef_, own.coef_, atol=0.1)


@pytest.fixture(scope="module")
def folds():
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(6), 20)
    X = rng.normal(size=(120, 3))
    y = X @ rng.normal(size=3) + codes + rng.normal(size=120)
    fold = rng.integers(4, size=120)
    return Folds.of_rows(X, y, codes, np.arange(6), fold), (X, y, codes, fold)


def test_fold_fits_by_addition_are_fits_of_the_rows_left(folds):
    statistics, (X, y, codes, fold) = folds
    members = [*baselines(statistics), *mixed_models(statistics), Grid({}, {}).member(strength=1.0, ridge=0.1)]
    for f in range(4):
        kept = fold != f
        direct = GramStats.from_codes(X[kept], y[kept], codes[kept], np.arange(6))
        for member in members:
            one, two = ((member.draft or member.method).model_of(gram) for gram in (statistics.training(f), direct))
            np.testing.assert_allclose(one.coef, two.coef, atol=1e-7)
            np.testing.assert_allclose(one.intercept, two.intercept, atol=1e-7)


@pytest.mark.parametrize("unit", [1.1, 3.0, 1e-3, 1e6])
def test_a_fold_with_all_rows_of_a_rare_value_does_not_know_its_effect(unit):
    rng = np.random.default_rng(3)
    fold = rng.permutation(np.arange(75) % 3)
    task = np.arange(75) % 5
    x = rng.normal(size=75)
    b = np.zeros(75)
    b[np.flatnonzero(fold == 0)[:2]] = 1.0
    z = x + 10 * b + 0.3 * rng.normal(size=75) + rng.normal(size=5)[task]
    table = pd.DataFrame({"who": task, "x": x, "b": b})
    cv = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    plain, other = (GAMTLCV(task="who", nonlinear=False, cv=cv).fit(table, factor * z) for factor in (1.0, unit))
    np.testing.assert_allclose(other.cv_errors_, unit * plain.cv_errors_, rtol=1e-9)
    np.testing.assert_allclose(other.predict(table), unit * plain.predict(table), atol=1e-9 * unit * np.ptp(z))
    # Two rows of 75 are off by the effect of 10 that no training row shows.
    assert np.sqrt((plain.cv_errors_**2).mean()) > 0.9 * np.sqrt(2 * 100 / 75)


def test_cross_errors_are_inner_products_of_residuals(folds):
    statistics, (X, y, codes, _) = folds
    rng = np.random.default_rng(0)
    W, c = rng.normal(size=(3, 6, 3)), rng.normal(size=(3, 6))
    residual = y - np.einsum("nd,mnd->mn", X, W[:, codes]) - c[:, codes]
    plain = np.stack([residual[:, codes == t] @ residual[:, codes == t].T for t in range(6)])
    E = cross_errors(statistics.total, W, c)
    np.testing.assert_allclose(E, plain, rtol=1e-9)
    np.testing.assert_allclose(E[:, 1, 1], squared_errors(statistics.total, W[1], c[1]))
    np.testing.assert_allclose(np.einsum("tmm->mt", E), squared_errors(statistics.total, W, c))


def test_errors_that_are_rounding_give_shares_too():
    rounding = np.array([[[-3e-18, 2e-8], [2e-8, -1e-18]]])
    shares = best_mixture(rounding, np.ones(1))
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(), 1.0)


def test_the_best_mixture_is_the_best_on_a_grid():
    rng = np.random.default_rng(5)
    residual = rng.normal(size=(8, 3, 30)) * np.array([1.0, 1.3, 2.0])[:, None]
    E = residual @ residual.transpose(0, 2, 1)
    p = best_mixture(E, np.ones(8), draws=0)
    steps = np.linspace(0, 1, 41)
    grid = [np.array([a, b, 1 - a - b]) for a in steps for b in steps if a + b <= 1]
    assert p.sum() == pytest.approx(1) and (p >= 0).all()
    assert mixture_errors(E, p).sum() <= min(mixture_errors(E, q).sum() for q in grid) + 1e-6


def uneven_errors(T=12, M=4, rows=15):
    residual = np.random.default_rng(2).normal(size=(T, M, rows)) * np.arange(1, T + 1)[:, None, None] ** 0.5
    return residual @ residual.transpose(0, 2, 1)


def test_shares_are_the_mean_of_those_of_resampled_tasks():
    """Against a plain loop: every draw is the best mixture of tasks that count by their weights in it."""
    E = uneven_errors()
    best = np.einsum("tmm->m", E).argmin()
    rank = np.argsort(np.argsort(E[:, best, best]))
    counts = np.random.default_rng(SEED).exponential(size=(DRAWS, 12))
    plain = [best_mixture(E, count[rank], draws=0) for count in counts]
    np.testing.assert_allclose(best_mixture(E, np.ones(12)), np.mean(plain, axis=0), atol=1e-9)


def test_shares_do_not_depend_on_the_order_of_tasks():
    E = uneven_errors()
    weight = np.linspace(1, 2, 12)
    again = np.random.default_rng(0).permutation(12)
    one, two = (best_mixture(E[order], weight[order]) for order in (np.arange(12), again))
    np.testing.assert_allclose(one, two, atol=1e-12)


def test_resampled_tasks_are_less_sure_which_of_two_like_models_is_better():
    """Nearly the same model twice: chance gives one of them the whole share, and resamples of the tasks do not."""
    away = {0: [], DRAWS: []}
    for seed in range(30):
        rng = np.random.default_rng(seed)
        residual = rng.normal(size=(8, 1, 3)) + 0.1 * rng.normal(size=(8, 2, 3))
        E = residual @ residual.transpose(0, 2, 1)
        for draws in away:
            away[draws].append(abs(best_mixture(E, np.ones(8), draws=draws)[0] - 0.5))
    assert np.mean(away[DRAWS]) < 0.8 * np.mean(away[0])


def panel_search(T=25, n=12, noise=1.0):
    """Folds in time of rows with one input, a ridge per task and one for all tried on them."""
    rng = np.random.default_rng(4)
    task, when = np.repeat(np.arange(T), n), np.tile(np.arange(n), T)
    X = rng.normal(size=(T * n, 1)) + when[:, None] / 4
    y = X[:, 0] + np.sin(when) + noise * rng.normal(size=T * n)
    rows = read_rows(np.column_stack([task, X]), y, task=0)
    folds = folds_of_rows(rows, X, rows.gram(X, ("x",)), cv=4, groups=InTime(when))
    search = Search(folds, None, None)
    search.add([Member(OWN, "ridge per task", Independent(penalty=1.0)), Member("pooled", "", Pooled(penalty=1.0))])
    search.add([Member(SHRUNK, "", MeanShrunk(penalty=1.0))])
    return search


def test_in_time_a_fold_counts_as_one_observation():
    search = panel_search(noise=0.1)
    assert search.errors_go_together()
    own = search.tried[OWN][1].errors
    mixed = mixture_of(search, search.cross_errors(list(search.tried)), np.ones(25)).errors
    gain = mixed.gain_over(own, shared=search.errors_go_together())
    assert gain == paired_gain(own.squared, mixed.squared, own.task_rows)
    assert gain.standard_error > mixed.gain_over(own).standard_error


def test_tasks_of_few_rows_do_not_weigh_more_by_chance():
    """All have the same noise: by their own errors the weights of ten rows each would differ by a factor of two."""
    search = panel_search()
    best = search.tried[min(search.tried, key=search.error)][1].errors
    weight = search.task_weights() * best.task_rows
    plain = 1 / best.by_task()
    assert plain.max() > 1.8 * plain.min()
    assert weight.max() < 1.1 * weight.min()


def test_folds_in_parallel_give_the_same_model():
    table, y = frame(3, T=5, n=(12, 15))
    one, two = (GAMTLCV(task="who", n_jobs=n, **QUICK).fit(table, y) for n in (None, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_units_of_features_and_target_do_not_matter():
    table, y = frame(3, T=5, n=(12, 15))
    scaled = table.assign(x0=1000 * table.x0)
    one = GAMTLCV(task="who", **QUICK).fit(table, y).predict(table)
    two = GAMTLCV(task="who", **QUICK).fit(scaled, 1e-3 * y).predict(scaled)
    np.testing.assert_allclose(1e3 * two, one, rtol=1e-3, atol=1e-3)


def test_groups_keep_whole_sittings_together_and_progress_is_told():
    table, y = frame(3, T=5, n=(20, 25))
    seen = []
    model = GAMTLCV(task="who", callback=seen.append, **QUICK).fit(table, y, groups=np.arange(len(y)) // 4)
    assert np.isfinite(model.predict(table)).all()
    assert {p.stage for p in seen} == {"cross-validation", "trees"}


BAD = [({"strengths": ()}, "strengths is empty"), ({"intercept": "own"}, "intercept='own'")]


@pytest.mark.parametrize(("parameters", "message"), BAD)
def test_bad_parameters_are_refused(parameters, message):
    table, y = frame(3, T=4)
    with pytest.raises(ValueError, match=message):
        GAMTLCV(task="who", **parameters).fit(table, y)


def test_statistics_in_one_block_cannot_be_cross_validated():
    with pytest.raises(ValueError, match="cannot be cut into folds"):
        GAMTLCV().fit_gram(GramStats.from_rows(np.ones((3, 1)), np.ones(3)))


def test_a_single_row_cannot_be_cross_validated():
    with pytest.raises(ValueError, match="n_samples=1"):
        GAMTLCV().fit(np.ones((1, 3)), np.ones(1))


def test_rbf_heads_follow_curves_that_lines_cannot():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), 40)
    x = rng.uniform(-3, 3, size=(240, 2))
    y = np.sin(2 * x[:, 0]) * np.where(task < 3, 1.0, -1.0) + 0.05 * rng.normal(size=240)
    table = np.column_stack([task, x])
    curved = RBFGAMTL(task=0).fit(table, y)
    straight = GAMTLCV(task=0, nonlinear=False, trunk=None, **QUICK).fit(table, y)
    fresh = np.column_stack([np.repeat(np.arange(6), 30), rng.uniform(-2.5, 2.5, size=(180, 2))])
    truth = np.sin(2 * fresh[:, 1]) * np.where(fresh[:, 0] < 3, 1.0, -1.0)
    errors = [np.sqrt(((m.predict(fresh) - truth) ** 2).mean()) for m in (curved, straight)]
    assert errors[0] < 0.25 < 0.5 < errors[1]
    assert curved.rbf_setting_ in curved.rbf_errors_


def noise_rows(random_state, n, T=6, d=10):
    rng = np.random.default_rng(random_state)
    return np.column_stack([np.repeat(np.arange(T), n), rng.normal(size=(T * n, d))]), rng.normal(size=T * n)


def test_rbf_believes_no_more_of_pure_noise_than_fresh_rows_show():
    """Features that had seen the held-out rows believed 0.95 and had 1.09 on fresh rows, mean over these tables."""
    believed = []
    fresh = []
    for T, n, d in ((4, 20, 20), (6, 15, 10), (3, 40, 30), (8, 12, 20)):
        rng = np.random.default_rng(1)
        train, test = (
            (np.column_stack([np.repeat(np.arange(T), k), rng.normal(size=(T * k, d))]), rng.normal(size=T * k))
            for k in (n, 200)
        )
        model = RBFGAMTL(task=0, strengths=(1.0,), anchors=(0.9,)).fit(*train)
        believed.append(np.nanmean(model.cv_errors_))
        fresh.append(np.sqrt(np.mean((model.predict(test[0]) - test[1]) ** 2)))
    assert np.mean(fresh) < 1.05
    assert np.mean(believed) > 0.93 * np.mean(fresh)


@pytest.mark.parametrize("seed", [7, 11, 35, 85])
def test_a_graph_that_gains_what_nobody_would_notice_takes_no_part(seed):
    """Noise with levels of tasks: on these tables the graph gained a clear hundredth of a per cent."""
    rng = np.random.default_rng([77, seed])
    T, n, d = int(rng.choice([6, 10, 20, 40])), int(rng.choice([8, 15, 30])), int(rng.integers(2, 7))
    codes = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, d))
    y = rng.normal(size=T)[codes] * rng.choice([1.0, 3.0]) + rng.normal(size=T * n)
    model = GAMTLCV(task=0, trunk=None, nonlinear=False).fit(np.column_stack([codes, X]), y)
    assert not model.graph_helps_ and model.gains_["graph"] == (0.0, 0.0)
    assert 0 < model.gain_.mean < 0.001


def test_curves_are_used_only_where_they_help():
    table, y = noise_rows(0, 20, d=3)
    rng = np.random.default_rng(1)
    straight = GAMTLCV(task=0, nonlinear="auto", **QUICK).fit(table, y + table[:, 1])
    assert not straight.nonlinear_helps_ and straight.coef_.shape == (6, 3)
    plain = GAMTLCV(task=0, **QUICK).fit(table, y + table[:, 1])
    np.testing.assert_allclose(straight.predict(table), plain.predict(table), rtol=1e-6)
    bent = GAMTLCV(task=0, nonlinear="auto", **QUICK).fit(table, np.abs(table[:, 1]) + 0.1 * rng.normal(size=len(y)))
    assert bent.nonlinear_helps_ and bent.nonlinear_gain_.mean > 0.3
    assert any(name.startswith("curves") for name in bent.mixture_)


@pytest.mark.parametrize("given", [{}, {"intercept": "free"}, {"trunk": "auto"}, {"nonlinear": "auto"}])
def test_short_series_are_judged_in_time_though_the_first_fold_has_one_row_per_task(given):
    rng = np.random.default_rng(3)
    when = np.tile(np.arange(6.0), 12)
    table = np.column_stack([np.repeat(np.arange(12), 6), when])
    y = 5 * rng.normal(size=12)[table[:, 0].astype(int)] + 2 * when + 0.1 * rng.normal(size=len(when))
    past = when < 5
    model = GAMTLCV(task=0, cv=4, **QUICK, **given).fit(table[past], y[past], time=when[past])
    assert np.sqrt(np.mean((model.predict(table[~past]) - y[~past]) ** 2)) < 0.3


def test_curves_in_time_are_judged_by_what_follows():
    table, _ = noise_rows(2, 30, d=2)
    when = np.tile(np.arange(30), 6)
    y = np.abs(table[:, 1]) + 0.1 * np.sin(np.arange(len(when)))
    model = GAMTLCV(task=0, nonlinear="auto", cv=3, **QUICK).fit(table, y, time=when)
    assert model.nonlinear_helps_ and model.n_splits_ == 2  # of four parts in time the last two are judged
    assert model.score(table, y) > 0.9


def test_lines_beside_curves_keep_their_errors_and_their_predictions():
    """A line in the features of all has the held-out errors, the coefficients and the deviations that it had alone."""
    table, y = noise_rows(3, 15, d=3)
    slopes = np.random.default_rng(0).normal(size=(6, 3))
    y = y + np.einsum("nd,nd->n", table[:, 1:], slopes[table[:, 0].astype(int)])
    alone = GAMTLCV(task=0, **QUICK).fit(table, y)
    beside = RBFGAMTL(task=0, guard=1.0, **QUICK).fit(table, y)  # with a graph among the lines
    errors = [{row["name"]: row["rmse_tasks"] for row in model.cv_results_} for model in (alone, beside)]
    assert set(errors[0]) < set(errors[1])
    for name, error in errors[0].items():
        assert errors[1][name] == pytest.approx(error, rel=1e-8)
    lines = [part for part in beside.model_.parts if not part.name.startswith("curves")]
    assert lines
    X = beside.model_.columns.read(table, "")[0]
    codes = table[:, 0].astype(int)
    for part in lines:
        W, c = part.coefficients(part.equations(beside.gram_), part.V)
        assert not W[:, : len(beside.rbf_.centers_)].any()
        np.testing.assert_allclose(part.map(beside.gram_).unknowns(), part.V, rtol=1e-4, atol=1e-4)
        slopes = W[:, len(beside.rbf_.centers_) :] * beside.rbf_.scale / beside.rbf_.size_
        by_hand = np.einsum("nd,nd->n", table[:, 1:] - beside.rbf_.mean_, slopes[codes]) + c[codes]
        np.testing.assert_allclose(np.einsum("nd,nd->n", X, W[codes]) + c[codes], by_hand, rtol=1e-8)
    new, noise = noise_rows(4, 15, d=3)
    truth = np.einsum("nd,nd->n", new[:, 1:], np.random.default_rng(0).normal(size=(6, 3))[new[:, 0].astype(int)])
    mean, std = beside.predict(new, return_std=True)
    assert np.isfinite(std).all()
    inside = ((new[:, 1:] >= table[:, 1:].min(axis=0)) & (new[:, 1:] <= table[:, 1:].max(axis=0))).all(axis=1)
    never_met = beside.model_.bound.beyond(beside.model_.columns.read(new, "")[0], new[:, 1:])[0]
    inside[never_met] = False
    relative = std / (truth + noise - mean).std()
    assert np.abs(relative[inside] - 1).max() < 0.5  # beyond the training rows it grows
    assert relative[~inside].min() > 0.5


def curves():
    """Inputs (30, 1) common to two tasks that bend the other way: wide targets."""
    rng = np.random.default_rng(0)
    x = np.linspace(-3, 3, 30)[:, None]
    return x, np.column_stack([np.sin(x[:, 0]), -np.sin(x[:, 0])]) + 0.05 * rng.normal(size=(30, 2))


def pairs_of(fold):
    """Folds as pairs of row positions."""
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(2)]


@pytest.mark.parametrize("size", [0.0, 1.0])
def test_rbf_where_the_target_is_the_level_of_the_task(size):
    """Ridges per task on lines and on functions predict the same then: only one is kept, with the penalty of both."""
    table, _ = noise_rows(3, 8, T=4, d=1)
    y = size * table[:, 0]
    np.testing.assert_allclose(RBFGAMTL(task=0, cv=2, **QUICK).fit(table, y).predict(table), y, atol=1e-6)


def test_rbf_on_wide_targets_is_rbf_on_the_long_table():
    x, Y = curves()
    Y[3, 1] = np.nan
    fold = np.arange(30) % 2
    wide = RBFGAMTL(**QUICK, cv=pairs_of(fold)).fit(x, Y)
    seen = ~np.isnan(Y.T.ravel())
    table = np.column_stack([np.repeat([0, 1], 30), np.tile(x, (2, 1))])
    long = RBFGAMTL(task=0, **QUICK, cv=pairs_of(np.tile(fold, 2)[seen])).fit(table[seen], Y.T.ravel()[seen])
    np.testing.assert_allclose(wide.predict(x).T.ravel(), long.predict(table), rtol=1e-6, atol=1e-8)


def test_rbf_weights_are_repeated_rows():
    x, Y = curves()
    weight = np.tile([1, 2, 0], 10)
    again = np.repeat(np.arange(30), weight)
    fold = np.arange(30) % 2
    weighted = RBFGAMTL(**QUICK, cv=pairs_of(fold)).fit(x, Y, sample_weight=weight)
    repeated = RBFGAMTL(**QUICK, cv=pairs_of(fold[again])).fit(x[again], Y[again])
    assert weighted.rbf_setting_.n_centers >= 20  # as many as rows: k-means starts by chance otherwise
    np.testing.assert_allclose(weighted.predict(x), repeated.predict(x), rtol=1e-6, atol=1e-8)


def test_gain_over_common_folds_counts_a_fold_as_one_observation():
    """By simulation: differences that all tasks share within a fold, beside ones of their own."""
    rng = np.random.default_rng(0)
    k, T, level = 10, 30, 100.0
    means, one_way, two_way = [], [], []
    for _ in range(300):
        change = rng.normal(size=(k, 1)) + rng.normal(size=(k, T))
        before, after = np.full((k, T), level), level - change
        means.append(paired_gain(before, after, np.full(T, float(k))).mean)
        one_way.append(paired_gain(before.sum(axis=0), after.sum(axis=0), np.full(T, float(k))).standard_error)
        two_way.append(paired_gain(before, after, np.full(T, float(k))).standard_error)
    assert np.std(means) == pytest.approx(np.sqrt(np.mean(np.square(two_way))), rel=0.15)
    assert np.mean(one_way) < 0.3 * np.std(means)


def test_gain_over_common_folds_is_that_over_tasks_where_folds_have_nothing_in_common():
    rng = np.random.default_rng(1)
    before = rng.uniform(1, 2, size=(5, 200))
    after = before * rng.uniform(0.8, 1.1, size=before.shape)
    rows = np.full(200, 5.0)
    one, two = paired_gain(before.sum(axis=0), after.sum(axis=0), rows), paired_gain(before, after, rows)
    assert two.mean == pytest.approx(one.mean)
    assert one.standard_error <= two.standard_error < 2.5 * one.standard_error


@pytest.mark.parametrize(("rows", "d", "folds"), [(12, 8, 10), (16, 8, 5), (9, 8, 5)])
def test_few_common_rows_get_more_folds(rows, d, folds):
    rng = np.random.default_rng(rows)
    X, Y = rng.normal(size=(rows, d)), rng.normal(size=(rows, 3))
    assert GAMTLCV(**QUICK).fit(X, Y).n_splits_ == folds


def test_the_search_along_the_axes_finds_what_the_whole_grid_has():
    data = make_groups(random_state=0)
    axes = {"strengths": (0.1, 1.0, 10.0), "ridges": (0.1, 1.0), "metrics": ("identity",)}
    model = GAMTLCV(task=data.task, **axes).fit(data.data, data.target)
    tried = {row["name"]: row["rmse_tasks"] for row in model.cv_results_ if "metric" in row}
    best = model.best_params_
    ridges = {row["ridge"] for row in model.cv_results_ if "ridge" in row}
    grid = product(axes["strengths"], ridges, (0.0, 0.5))
    whole = [GAMTL(**best | {"strength": s, "ridge": r, "anchor": a}) for s, r, a in grid]
    rows = read_rows(data.data, data.target, task=data.task)
    X = rows.table.features()
    folds = folds_of_rows(rows, X, rows.gram(X, None), cv=5, random_state=0)
    errors = [trial.errors.tasks() for trial in try_all(whole, folds.rescaled(feature_scale(folds.total)))]
    assert len(tried) <= 7 < len(whole)
    assert min(tried.values()) <= 1.02 * min(errors)


def test_a_stronger_pull_is_tried_where_a_weaker_one_is_worse():
    rng = np.random.default_rng(8)
    task, X = np.repeat(np.arange(12), 20), rng.normal(size=(240, 4))
    alike, unrelated = np.tile(rng.normal(size=4), (12, 1)), rng.normal(size=(12, 4))
    for W, tried, left_out in ((alike, 10.0, 0.01), (unrelated, 0.1, 10.0)):
        y = np.einsum("nd,nd->n", X, W[task]) + 0.5 * rng.normal(size=240)
        model = GAMTLCV(task=0, metrics=("identity",), anchors=(0.0,)).fit(np.column_stack([task, X]), y)
        strengths = {row["strength"] for row in model.cv_results_ if "strength" in row}
        assert tried in strengths and left_out not in strengths


def test_a_loner_keeps_its_own_ridge_and_the_others_share():
    syn = make_groups(random_state=2)
    model = GAMTLCV(task=syn.task, ridges=(1.0,), anchors=(0.0,), metrics=("identity",)).fit(syn.data, syn.target)
    assert model.shares_.shape == (20, len(model.mixture_))
    np.testing.assert_allclose(model.shares_.sum(axis=1), 1)
    own = model.shares_[:, list(model.mixture_).index("ridge per task")]
    assert own[18] > 0.85 and own[:18].max() < 0.05
    parts = {part.name: part for part in model.model_.parts}
    np.testing.assert_array_equal(parts["ridge per task"].shares, own)


def test_what_parts_say_is_the_model_whatever_their_shares(tmp_path):
    syn = make_groups(random_state=2)
    model = GAMTLCV(task=syn.task, ridges=(1.0,), anchors=(0.0,), metrics=("identity",)).fit(syn.data, syn.target)
    told = model.contributions()
    np.testing.assert_allclose(told.coef.sum(axis=1), model.coef_, atol=1e-6)
    fewer = clone_fitted(model, tmp_path).drop([1, 2])
    assert fewer.shares_.shape[0] == 18
    np.testing.assert_array_equal(fewer.predict(syn.data[40:]), model.predict(syn.data[40:]))
    new = syn.data[syn.data["task"] == 19].copy()
    new["task"] = 99
    grown = clone_fitted(model, tmp_path).adopt(new, syn.target[(syn.data["task"] == 19).to_numpy()])
    assert np.isnan(grown.shares_[-1]).all()
    assert np.isfinite(grown.predict(new)).all()


def clone_fitted(model, folder):
    return load(model.save(folder / "model.kin"))


def test_tasks_that_differ_by_chance_keep_the_common_mixture():
    rng = np.random.default_rng(0)
    r = rng.normal(size=(200, 6, 2)) + rng.normal(size=(200, 6, 1))
    E = np.einsum("tnm,tnk->tmk", r, r)
    p = best_mixture(E, np.ones(200))
    found = own_ridge_shares(E, p, np.array([0.0, 1.0]), np.full(200, 6.0))
    assert found.mean() < 0.02
    assert mixture_errors(E, p + found[:, None] * ([0.0, 1.0] - p)).sum() < 1.01 * mixture_errors(E, p).sum()


def test_two_rows_are_no_evidence_for_a_ridge_of_their_own():
    """Each row is predicted by the other one, so that both residuals are one number, which any mixture may fit."""
    r = np.random.default_rng(0).normal(size=(50, 1, 2)) * np.array([[1.0], [-1.0]])
    E = np.einsum("tnm,tnk->tmk", r, r)
    assert own_ridge_shares(E, np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.full(50, 2.0)).max() == 0


def test_among_many_tasks_points_that_lose_by_far_are_tried_on_one_fold():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(300), 10)
    X = rng.normal(size=(len(task), 1))
    y = 3 * X[:, 0] + rng.normal(size=len(task))
    rows = read_rows(np.column_stack([task, X]), y, task=0)
    folds = folds_of_rows(rows, X, rows.gram(X, ("x",)), cv=5, random_state=0)
    search = Search(folds, None, None)
    search.add([Member("good", "good", Independent(penalty=0.1), has_graph=True)])
    near = Independent(penalty=0.2)
    hopeless = Independent(penalty=1e3)
    search.add(Member(name, name, method, has_graph=True) for name, method in (("near", near), ("hopeless", hopeless)))
    assert set(search.tried) == {"good", "near"} and set(search.dropped) == {"hopeless"}
    assert [(row["name"], row["folds"]) for row in search.table()] == [("good", 5), ("near", 5), ("hopeless", 1)]
    whole = try_all([near], search.lines)[0]
    assert np.array_equal(search.tried["near"][1].coef, whole.coef)
    assert search.error("near") == whole.errors.tasks()


def rows_of_tasks(T):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4 * T, 1))
    X /= X.std()
    codes = np.repeat(np.arange(T), 4)
    return Search(
        Folds.of_rows(X, 2 * X[:, 0] + rng.normal(size=4 * T), codes, np.arange(T), np.arange(4 * T) % 4), None, None
    )


def mixture_by_hand(members, shares, T):
    keys = [member.key for member in members]
    return Mixture(keys, members, shares, np.tile(shares, (T, 1)), None, 0.0, np.zeros(T))


@pytest.mark.parametrize("T", [299, 300])
def test_among_many_tasks_only_the_graph_that_is_shown_takes_all_rounds(T):
    search = rows_of_tasks(T)
    whole, brief = Independent(penalty=1.0), Independent(penalty=50.0)
    shown = Member("shown", "shown", whole, brief=brief)
    other = Member("other", "other", whole, brief=brief)
    model = learn(search, mixture_by_hand([shown, other], np.array([0.5, 0.5]), T), shown)
    beside = whole if T < 300 else brief
    lines = search.lines.total
    wanted = (whole.learn(lines).coef + beside.learn(lines).coef) / 2 / search.scale
    np.testing.assert_allclose(model.coef, wanted)


def test_among_many_tasks_a_graph_that_takes_no_part_takes_the_first_rounds(monkeypatch):
    whole, brief = Independent(penalty=1.0), Independent(penalty=50.0)
    shown = Member("shown", "shown", whole, brief=brief)
    for many, wanted in ((11, whole), (10, brief)):
        monkeypatch.setattr(tries, "MANY", many)
        search = rows_of_tasks(10)
        model = learn(search, mixture_by_hand([Member("other", "other", whole)], np.ones(1), 10), shown)
        np.testing.assert_allclose(model.parts[1].V, wanted.learn(search.lines.total).parts[0].V)


def test_cross_errors_of_predictions_are_those_of_the_lines_that_made_them(folds):
    statistics, (X, y, codes, fold) = folds
    search = Search(statistics, None, None)
    search.add(baselines(search.lines))
    keys = list(search.tried)
    data = TaskRows(X, y, codes, np.arange(6), fold)
    own = search.tried[OWN][1]
    W = own.coef / search.scale
    prediction = np.einsum("nd,nd->n", X, W[fold, codes]) + own.intercept[fold, codes]
    E = search.cross_errors_with(keys, TREES, prediction, data)
    plain = search.cross_errors([*keys, OWN])
    np.testing.assert_allclose(E.E, plain.E, atol=1e-9)
    np.testing.assert_array_equal(E.rows, plain.rows)
    assert E.keys == (*keys, TREES)


def test_a_row_of_weight_two_counts_as_two_in_cross_errors():
    rng = np.random.default_rng(6)
    residuals = rng.normal(size=(3, 60))
    codes, fold = np.arange(60) % 3, np.arange(60) // 20 - 1  # the first are never held out
    weight = np.where(np.arange(60) % 4 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(60), weight.astype(int))
    one = CrossErrors.of_predictions("abc", residuals, codes, fold, (2, 3), weight)
    two = CrossErrors.of_predictions("abc", residuals[:, twice], codes[twice], fold[twice], (2, 3))
    np.testing.assert_allclose(one.E, two.E)
    np.testing.assert_array_equal(one.rows, two.rows)


def _scattered(T, spread, bend=0.0):
    """Tasks scattered around one mean: random slopes are the right model, and a graph has nothing to find."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(T), 10)
    X = rng.normal(size=(len(task), 8))
    slopes = 1 + spread * rng.normal(size=(T, 8))
    y = (X * slopes[task]).sum(axis=1) + bend * X[:, 0] ** 2 + rng.normal(size=len(task))
    return np.column_stack([task, X]), y


@pytest.mark.parametrize("bend", [0.0, 1.0])
def test_among_many_tasks_graphs_that_lose_to_the_limits_by_far_are_tried_on_one_fold(bend):
    model = GAMTLCV(task=0, strengths=(1e-3, 1e-2), metrics=("identity",)).fit(*_scattered(300, 0.3, bend))
    graphs = [row for row in model.cv_results_ if row["name"].startswith("GAMTL")]
    assert {row["folds"] for row in graphs} == {1}
    assert not model.graph_helps_ and model.gain_.mean < -HOPELESS
    assert model.nonlinear_helps_ is (bend > 0)
    assert model.best_params_ in [{name: row[name] for name in model.best_params_} for row in graphs]
    assert model.adjacency_.nnz > 0
