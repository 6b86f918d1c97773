"""The graph that people read: about as many neighbours as wanted, at any strength, on any data."""

import copy
import pickle

import numpy as np
import pytest

import kinfolk.methods.change
from kinfolk import GAMTL, GAMTLCV, load
from kinfolk.datasets import make_groups
from kinfolk.graph import squared_distances
from kinfolk.methods.gamtl.calibrate import Recipe
from kinfolk.methods.gamtl.shown import graph_of_points, shown_graph, shown_points, usual_neighbors
from kinfolk.rows.gram import GramStats
from problems import gram


def scattered(T, d, seed, noise=0.5):
    """Tasks around one mean: no groups."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=d) + 0.5 * rng.normal(size=(T, d))
    X = rng.normal(size=(T * 15, d))
    codes = np.repeat(np.arange(T), 15)
    y = np.einsum("nd,nd->n", X, W[codes]) + noise * rng.normal(size=len(X)) + rng.normal(size=T)[codes]
    return GramStats.from_codes(X, y, codes, np.arange(T))


@pytest.mark.parametrize("strength", [0.1, 1.0, 100.0])
@pytest.mark.parametrize(("T", "d"), [(10, 3), (30, 8), (200, 5)])
def test_a_task_has_about_as_many_neighbours_as_wanted(T, d, strength):
    tasks = scattered(T, d, seed=T)
    for wanted in (usual_neighbors(T), 2, 6):
        asked = None if wanted == usual_neighbors(T) else wanted
        model = GAMTL(neighbors=asked, strength=strength, tol=1e-4).fit_gram(tasks)
        assert model.adjacency_.nnz / T == pytest.approx(wanted, rel=0.25)
        assert model.optimality_["shown_gap"] < 1e-10


def test_the_joint_optimum_is_shown_where_its_numbers_are_given():
    model = GAMTL(alpha=1.0, beta=0.1, gamma=0.3).fit_gram(gram())
    np.testing.assert_array_equal(model.adjacency_.toarray(), model.coupling_.toarray())


def test_pooled_slopes_are_read_from_a_mixed_model():
    """Equal slopes say nothing about tasks: the mixed model's still tell the groups apart."""
    data = make_groups(random_state=2)
    stats = GAMTL(task=data.task).fit(data.data, data.target).gram_
    graph, certificates = shown_graph(stats, np.ones((20, 30)), np.zeros(20), Recipe())
    assert graph.adjacency.nnz / 20 == pytest.approx(4, rel=0.25)
    inside = graph.adjacency[:12][:, :12].sum() + graph.adjacency[12:18][:, 12:18].sum()
    assert inside > 0.9 * graph.adjacency.sum()
    assert certificates["shown_gap"] < 1e-10


def test_where_most_of_a_mixture_is_pooled_the_graph_compares_its_own_member():
    """Else a task that left the common lines for a ridge of its own would be a loner, whatever its data say."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(12), 15)
    X = rng.normal(size=(180, 4))
    y = X @ [1.0, -2.0, 0.5, 3.0] + rng.normal(size=180)
    fit = GAMTLCV(task=0).fit(np.column_stack([codes, X]), y)
    assert sum(share for name, share in fit.mixture_.items() if "pooled" in name) > 0.5
    (part,) = fit.model_.compared
    own = part.coefficients(part.equations(fit.gram_), part.V)
    graph, _ = shown_graph(fit.gram_, *own, part.coupling.recipe)
    np.testing.assert_array_equal(fit.adjacency_.toarray(), graph.adjacency.toarray())
    assert fit.edge_confidence(n=3).adjacency.nnz == graph.adjacency.nnz


def test_points_are_as_far_apart_as_predictions():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3)) + np.arange(3)
    stats = GramStats.from_codes(X, rng.normal(size=60), np.repeat(np.arange(4), 15), np.arange(4))
    W = rng.normal(size=(4, 3))
    c = rng.normal(size=4)
    f = X @ W.T + c
    points = shown_points(stats, W, c)
    Z = ((points[:, None] - points) ** 2).sum(axis=2)
    np.testing.assert_allclose(Z, ((f[:, :, None] - f[:, None]) ** 2).mean(axis=0), rtol=1e-10, atol=1e-12)


def test_both_graphs_are_stored(tmp_path):
    data = make_groups(random_state=3)
    model = GAMTLCV(task=data.task, strengths=(1.0,), anchors=(0.0,), metrics=("identity",)).fit(data.data, data.target)
    model.save(tmp_path / "model.kin")
    again = load(tmp_path / "model.kin")
    np.testing.assert_array_equal(again.adjacency_.toarray(), model.adjacency_.toarray())
    np.testing.assert_array_equal(again.coupling_.toarray(), model.coupling_.toarray())
    assert again.graph_.communities() == model.graph_.communities()


@pytest.mark.parametrize("seed", range(10))
def test_both_loners_of_syn_1_have_self_loops_and_nobody_else(seed):
    data = make_groups(random_state=seed)
    model = GAMTL(task=data.task, tol=1e-4).fit(data.data, data.target)
    assert model.graph_.outliers() == [19, 20]
    assert not np.diff(model.adjacency_.indptr)[18:].any()
    assert model.graph_.communities() == [list(range(1, 13)), list(range(13, 19)), [19], [20]]


@pytest.mark.parametrize(("T", "d"), [(20, 3), (50, 5), (200, 8)])
def test_tasks_around_one_mean_have_no_groups_and_hardly_a_loner(T, d):
    for seed in range(3):
        graph = GAMTL(tol=1e-3).fit_gram(scattered(T, d, seed)).graph_
        assert len(graph.outliers()) <= 1


def test_self_loops_couple_too_where_a_number_is_given():
    """F never rises, the loners are fitted alone, and adopt and drop know of the price."""
    data = make_groups(random_state=1)
    model = GAMTL(task=data.task, self_loops=2.0, tol=1e-8).fit(data.data, data.target)
    assert (np.diff(model.objective_history_) <= 1e-9 * np.abs(model.objective_history_).max()).all()
    assert model.optimality_["duality_gap"] < 1e-6
    alone = np.diff(model.coupling_.indptr) == 0
    assert alone[18:].all() and not alone[:18].any()
    X = data.data[data.data[data.task] == 20]
    y = data.target[data.data[data.task] == 20]
    coef = model.coef_[19].copy()
    again = model.drop([20]).adopt(X, y)
    np.testing.assert_allclose(again.coef_[19], coef, rtol=1e-4)
    assert np.diff(again.coupling_.indptr)[19] == 0


def test_the_price_itself_counts_beside_alpha_beta_gamma():
    model = GAMTL(alpha=1.0, beta=0.1, gamma=0.3, self_loops=0.5, tol=1e-12).fit_gram(gram())
    held = np.maximum(np.asarray(model.coupling_.sum(axis=1)).ravel(), 2.0)
    Z = squared_distances(model.coef_)
    lam = 1 / held
    np.testing.assert_allclose(
        model.adjacency_.toarray(),
        np.maximum(lam[:, None] + lam - 0.6 * Z, 0) / 0.4 * (1 - np.eye(len(Z))),
        atol=1e-4,
    )


def test_the_shape_leaves_the_level_out():
    """Two tasks with the same slopes and very different levels are near by shape, and far by function."""
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(6), 20)
    X = rng.normal(size=(120, 4))
    W = np.repeat(rng.normal(size=(3, 4)), 2, axis=0)
    y = np.einsum("nd,nd->n", X, W[codes]) + np.array([0.0, 50.0])[codes % 2] + 0.1 * rng.normal(size=120)
    stats = GramStats.from_codes(X, y, codes, np.arange(6))
    by_shape = GAMTL(graph_metric="shape", neighbors=1).fit_gram(stats).graph_.edges()
    by_level = GAMTL(neighbors=1).fit_gram(stats).graph_.edges()
    assert {(e.task // 2 == e.neighbor // 2) for e in by_shape[:3]} == {True}
    assert {(e.task % 2 == e.neighbor % 2) for e in by_level} == {True}


def test_coupling_by_function_does_not_ask_in_which_basis_the_inputs_are():
    """A mix of the features changes coefficients, and neither what tasks predict nor how near they are."""
    rng = np.random.default_rng(5)
    codes = np.repeat(np.arange(8), 12)
    X = rng.normal(size=(96, 3))
    y = np.einsum("nd,nd->n", X, rng.normal(size=(8, 3))[codes]) + 0.3 * rng.normal(size=96)
    mix = rng.normal(size=(3, 3)) + 2 * np.eye(3)
    fits = [
        GAMTL(metric="function", ridge=0.0, tol=1e-10).fit_gram(GramStats.from_codes(M, y, codes, np.arange(8)))
        for M in (X, X @ mix)
    ]
    np.testing.assert_allclose(fits[1].coef_ @ mix.T, fits[0].coef_, rtol=1e-4, atol=1e-5)


@pytest.fixture
def makings(monkeypatch):
    """A list that grows with every graph that is made to be shown."""
    made = []
    plain = kinfolk.methods.change.shown_graph
    monkeypatch.setattr("kinfolk.methods.change.shown_graph", lambda *given: made.append(1) or plain(*given))
    return made


def test_the_graph_is_made_when_somebody_first_looks_at_it(makings, tmp_path):
    data = make_groups(random_state=3)
    new = data.data[data.task] == 19
    model = GAMTL(task=data.task).fit(data.data[~new], data.target[~new])
    model.predict(data.data[~new], return_std=True)
    model.adopt(data.data[new], data.target[new]).drop([1])
    assert not makings
    assert len(model.coef_) == len(model.graph_.labels) == 19
    assert not makings
    assert model.adjacency_.shape == (19, 19)
    assert model.graph_.degree.shape == (19,) and model.optimality_["shown_gap"] < 1e-10
    assert len(makings) == 1
    model.save(tmp_path / "model.kin")
    assert len(makings) == 1
    again = load(tmp_path / "model.kin")
    assert again.optimality_ == model.optimality_ and repr(again.graph_) == repr(model.graph_)
    assert again.graph_.to_dict() == model.graph_.to_dict()


def test_a_graph_that_nobody_has_seen_is_pickled_and_stored(tmp_path):
    data = make_groups(random_state=3)
    model = GAMTL(task=data.task).fit(data.data, data.target)
    copies = [pickle.loads(pickle.dumps(model)), load(model.save(tmp_path / "model.kin")), copy.deepcopy(model)]
    for twin in copies:
        np.testing.assert_array_equal(twin.adjacency_.toarray(), model.adjacency_.toarray())
        assert twin.optimality_ == model.optimality_


@pytest.mark.parametrize("d", [3, 12])
def test_very_many_tasks_have_the_wanted_number_of_neighbours_too(d):
    points = np.random.default_rng(d).normal(size=(2600, d))
    step = graph_of_points(points, 6, None)
    assert step.certified == 1
    assert step.value.nnz / 2600 == pytest.approx(6, rel=0.08)


def test_one_row_per_task_without_intercepts_still_shows_a_graph():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(6), rng.normal(size=(6, 2))])
    model = GAMTL(task=0, intercept=None).fit(X, np.full(6, 2.0))
    assert model.graph_.adjacency.shape == (6, 6) and np.isfinite(model.optimality_["weights_residual"])
