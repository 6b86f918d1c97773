"""RBF features: centres, spreads, scales and their search, against plain references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from kinfolk.baselines import Independent, MeanShrunk
from kinfolk.methods.rbf import FLOOR, RBFFeatures, Setting, input_deviations, place_centers, slope_scale
from kinfolk.rows.gram import GramStats
from kinfolk.rows.splits import assign_folds
from kinfolk.search.curves import HeadError
from kinfolk.search.rbf_search import Axes, TaskRows, search_features

# Needs arrays of other libraries, and skips unless an environment variable is set.
NOT_OURS = {"check_array_api_input"}


def conventions(estimators):
    for estimator in estimators:
        for instance, check in estimator_checks_generator(estimator, legacy=True, mark=None):
            name = getattr(check, "func", check).__name__
            if name not in NOT_OURS:
                yield pytest.param(instance, check, id=f"linear={estimator.linear}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(conventions([RBFFeatures(), RBFFeatures(linear=True)])))
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture
def cloud():
    return np.random.default_rng(5).normal([0.0, 3.0, -40.0], size=(200, 3))


def test_bumps_are_the_formula_row_by_row(cloud):
    scale = np.array([1.0, 0.5, 2.0])
    features = RBFFeatures(12, width=1.5, scale=scale, random_state=1).fit(cloud)
    Z = (cloud - cloud.mean(axis=0)) * scale
    expected = [
        [np.exp(-np.sum((z - c) ** 2) / (2 * s**2)) for c, s in zip(features.centers_, features.widths_, strict=True)]
        for z in Z
    ]
    np.testing.assert_allclose(features.transform(cloud), expected, rtol=1e-9, atol=1e-14)


def test_spread_is_the_root_mean_squared_distance_of_the_members(cloud):
    centers = place_centers(cloud, 8, random_state=0)
    distance = np.linalg.norm(cloud[:, None] - centers.position, axis=2)
    nearest = distance.argmin(axis=1)
    expected = [np.sqrt(np.mean(distance[nearest == p, p] ** 2)) for p in range(8)]
    np.testing.assert_allclose(centers.scatter, expected, rtol=1e-10)


def test_a_lone_row_gets_its_spread_from_the_nearest_centre():
    Z = np.vstack([np.random.default_rng(0).normal(size=(50, 2)), [[100.0, 0.0]]])
    centers = place_centers(Z, 2, random_state=0)
    far = np.argmax(centers.position[:, 0])
    gap = np.linalg.norm(centers.position[0] - centers.position[1])
    np.testing.assert_allclose(centers.scatter[far], FLOOR * gap)


@pytest.mark.parametrize(("n_distinct", "copies"), [(1, 1), (1, 9), (2, 5), (7, 1), (7, 30)])
def test_there_are_no_more_centres_than_distinct_rows(n_distinct, copies):
    rows = np.random.default_rng(3).normal(size=(n_distinct, 2))
    X = np.repeat(rows, copies, axis=0)
    features = RBFFeatures(20, random_state=0).fit(X)
    assert len(features.centers_) == n_distinct
    assert np.isfinite(features.transform(X)).all() and (features.widths_ > 0).all()


def test_rows_that_differ_by_rounding_share_a_centre():
    X = np.array([[1.0, 2.0], [1.0 + 1e-15, 2.0], [5.0, 6.0], [5.0, 6.0 - 1e-15]])
    assert len(RBFFeatures(10, random_state=0).fit(X).centers_) == 2


def test_few_kinds_of_rows_above_the_number_of_centres_raise_no_warning():
    X = np.repeat(np.eye(6), 10, axis=0)
    assert 1 <= len(RBFFeatures(5, random_state=0).fit(X).centers_) <= 5


def test_many_rows_are_clustered_in_batches(monkeypatch):
    monkeypatch.setattr("kinfolk.methods.rbf.MANY_ROWS", 1000)
    X = np.random.default_rng(2).normal(size=(2000, 2))
    features = RBFFeatures(10, random_state=0).fit(X)
    assert len(features.centers_) == 10
    np.testing.assert_allclose(features.transform(X[:50]), clone(features).fit(X).transform(X[:50]))


@settings(max_examples=10, deadline=None)
@given(factor=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3), linear=st.booleans())
def test_a_common_factor_and_a_shift_of_the_inputs_change_nothing(factor, shift, linear):
    X = np.random.default_rng(8).normal(size=(40, 2))
    make = RBFFeatures(6, linear=linear, random_state=0)
    moved = clone(make).fit_transform(factor * (X + shift))
    np.testing.assert_allclose(moved, make.fit_transform(X), rtol=1e-6, atol=1e-6)


def test_an_input_of_scale_zero_changes_nothing(cloud):
    noise = np.random.default_rng(1).normal(size=(len(cloud), 1))
    with_noise = RBFFeatures(9, scale=[1, 1, 1, 0], random_state=0).fit_transform(np.hstack([cloud, noise]))
    np.testing.assert_allclose(with_noise, RBFFeatures(9, random_state=0).fit_transform(cloud), rtol=1e-9)


def test_linear_terms_follow_the_bumps_with_the_names_of_the_inputs(cloud):
    features = RBFFeatures(4, linear=True, random_state=0).fit(cloud)
    out = features.transform(cloud)
    centred = cloud - cloud.mean(axis=0)
    np.testing.assert_allclose(out[:, 4:], centred / np.sqrt((centred**2).sum(axis=1).mean()))
    assert features.get_feature_names_out(["a", "b", "c"]).tolist() == ["rbf0", "rbf1", "rbf2", "rbf3", "a", "b", "c"]


def test_other_widths_on_the_same_centres_equal_a_new_fit(cloud):
    fitted = RBFFeatures(7, width=1.0, random_state=0).fit(cloud)
    again = RBFFeatures(7, width=3.0, linear=True, random_state=0).fit_transform(cloud)
    np.testing.assert_array_equal(fitted.with_width(3.0, linear=True).transform(cloud), again)
    assert fitted.width == 1.0 and not fitted.linear


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_centers": 0}, "n_centers=0 must be a whole number, at least 1"),
        ({"n_centers": 2.5}, "n_centers=2.5 must be a whole number"),
        ({"width": 0.0}, "width=0.0 must be greater than 0 and finite"),
        ({"scale": [1.0]}, r"scale has shape \(1,\), expected \(3,\): one finite factor per input"),
    ],
)
def test_wrong_parameters_are_named(cloud, parameters, message):
    with pytest.raises(ValueError, match=message):
        RBFFeatures(**parameters).fit(cloud)


def curves(random_state=0, n=40, T=6):
    """Tasks that follow a sine of the first input, each with its own phase; two more inputs are noise."""
    rng = np.random.default_rng(random_state)
    codes = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 3)) * [1.0, 50.0, 0.01]
    y = np.sin(2 * X[:, 0] + 0.3 * codes) + codes + 0.02 * rng.normal(size=T * n)
    return X, y, codes


def test_slopes_are_those_of_a_ridge_per_task():
    X, y, codes = curves()
    y = y + X[:, 0]
    scale = slope_scale(GramStats.from_rows(X, y, codes), exponent=1.0, penalty=0.1)
    Z = X / X.std(axis=0)
    parts = [Z[codes == t] - Z[codes == t].mean(axis=0) for t in range(6)]
    penalty = 0.1 * np.mean([np.sum(P**2) for P in parts]) / 3
    W = [np.linalg.solve(P.T @ P + penalty * np.eye(3), P.T @ y[codes == t]) for t, P in enumerate(parts)]
    expected = np.sqrt(np.mean(np.square(W), axis=0))
    np.testing.assert_allclose(scale, expected / expected.max() / X.std(axis=0), rtol=1e-9)


def test_exponent_zero_standardises():
    X, y, codes = curves()
    gram = GramStats.from_rows(X, y, codes)
    np.testing.assert_allclose(slope_scale(gram, exponent=0.0), 1 / X.std(axis=0))
    np.testing.assert_allclose(input_deviations(gram), X.std(axis=0))


def test_scaled_inputs_do_not_depend_on_units():
    X, y, codes = curves()
    units = np.array([1e3, 1e-4, 7.0])
    scale = slope_scale(GramStats.from_rows(X, y, codes), exponent=2.0)
    other = slope_scale(GramStats.from_rows(X * units, 5 * y, codes), exponent=2.0)
    np.testing.assert_allclose(other * units, scale, rtol=1e-8)


def test_inputs_that_never_vary_get_scale_zero_and_constant_targets_standardise():
    X, y, codes = curves()
    X[:, 1] = 1e6 / 3
    gram = GramStats.from_rows(X, y, codes)
    assert slope_scale(gram)[1] == 0 and slope_scale(gram, exponent=0.0)[1] == 0
    flat = slope_scale(GramStats.from_rows(X, np.ones(len(y)), codes))
    np.testing.assert_allclose(flat[[0, 2]], 1 / X[:, [0, 2]].std(axis=0))


def test_rows_in_another_order_have_the_same_scale_to_the_last_digit():
    X, y, codes = curves()
    order = np.random.default_rng(4).permutation(len(y))
    one = slope_scale(GramStats.from_rows(X, y, codes))
    two = slope_scale(GramStats.from_rows(X[order], y[order], codes[order]))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["exponent", "penalty", "least"])
def test_negative_exponents_and_penalties_are_refused(name):
    gram = GramStats.from_rows(*curves())
    with pytest.raises(ValueError, match=f"{name}=-1.0 must be at least 0"):
        slope_scale(gram, **{name: -1.0})


def test_the_features_work_in_a_pipeline_of_an_estimator():
    X, y, codes = curves()
    table = np.column_stack([codes, X])
    features = make_pipeline(StandardScaler(), RBFFeatures(30, width=3.0, random_state=0))
    curved = MeanShrunk(task=0, features=features, penalty="cv").fit(table, y).score(table, y)
    straight = MeanShrunk(task=0, features=StandardScaler(), penalty="cv").fit(table, y).score(table, y)
    assert curved > straight


def held_out_error(folds):
    model = Independent(penalty="cv").fit_folds(folds)
    return float(model.cv_errors_.min())


SMALL = Axes(exponent=(0.0, 1.0, 2.0), n_centers=(5, 15), width=(1.0, 4.0), linear=(False, True))


def run_search(axes=SMALL, **other):
    X, y, codes = curves()
    X = other.get("X", X)
    y = other.get("y", y)
    fold = assign_folds(codes, 4, random_state=0)
    data = TaskRows(X, y, codes, np.arange(6), fold)
    return search_features(data, held_out_error, axes=axes, random_state=0), data


def test_the_search_ends_where_no_neighbour_is_better():
    found, _ = run_search()
    around = [found.errors[s] for s in SMALL.neighbours(found.best)]
    assert found.errors[found.best] == min(found.errors.values()) <= min(around)


def test_the_search_returns_features_and_statistics_of_its_best_setting():
    found, data = run_search()
    assert found.features.transform(data.X).shape[1] == found.folds.total.n_features
    assert found.columns.max() < found.folds.total.n_features
    # Two inputs are noise, so weighing by slopes must beat plain standardising.
    assert found.best.exponent > 0


def test_features_of_a_fold_have_not_seen_what_is_held_out():
    """Other targets and inputs in the held-out rows change neither its weights, nor its centres, nor its statistics."""
    found, data = run_search(Axes((1.0,), (10,), (2.0,), (True,)))
    rng = np.random.default_rng(9)
    out = data.fold == 0
    X = np.where(out[:, None], rng.normal(size=data.X.shape), data.X)
    y = np.where(out, 100 * rng.normal(size=len(out)), data.y)
    other, _ = run_search(Axes((1.0,), (10,), (2.0,), (True,)), X=X, y=y)
    np.testing.assert_array_equal(other.by_fold[0].scale, found.by_fold[0].scale)
    np.testing.assert_array_equal(other.by_fold[0].centers_, found.by_fold[0].centers_)
    np.testing.assert_array_equal(other.folds.training(0).G, found.folds.training(0).G)
    assert not np.allclose(other.by_fold[1].centers_, found.by_fold[1].centers_)


def test_in_time_features_of_a_fold_have_seen_the_past_alone():
    X, y, codes = curves()
    fold = np.arange(len(y)) % 4 - 1
    later = fold >= 1
    axes = Axes((1.0,), (10,), (2.0,), (True,))
    both = []
    for values in (y, np.where(later, 1e3, y)):
        data = TaskRows(X, values, codes, np.arange(6), fold)
        both.append(search_features(data, held_out_error, axes=axes, random_state=0))
        assert data.folds().training(0).n.sum() == (fold == -1).sum()
    one, two = both
    assert len(one.folds) == 3
    np.testing.assert_array_equal(one.by_fold[0].scale, two.by_fold[0].scale)
    np.testing.assert_array_equal(one.folds.training(0).G, two.folds.training(0).G)
    np.testing.assert_array_equal(one.folds.held_out[0].b, two.folds.held_out[0].b)


def test_statistics_of_a_fold_are_those_of_its_features():
    found, data = run_search(Axes((1.0,), (10,), (2.0,), (True,)))
    out = data.fold == 1
    Phi = found.by_fold[1].transform(data.X)
    for rows, gram in ((~out, found.folds.training(1)), (out, found.folds.held_out[1])):
        direct = GramStats.from_codes(Phi[rows], data.y[rows], data.codes[rows], data.labels)
        np.testing.assert_allclose(gram.G, direct.G, atol=1e-10)
        np.testing.assert_allclose(gram.b, direct.b, atol=1e-10)


def test_folds_with_fewer_distinct_rows_have_zeros_for_the_bumps_that_they_lack():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 1))
    data = TaskRows(X, np.sin(X[:, 0]), np.repeat([0, 1], 6), np.arange(2), np.arange(12) % 3)
    found = search_features(data, HeadError(), axes=Axes((1.0,), (20,), (2.0,), (True,)), random_state=0)
    assert len(found.features.centers_) == 12 and len(found.by_fold[0].centers_) == 8
    G = found.folds.training(0).G
    assert G.shape == (2, 13, 13) and not G[:, 8:12].any() and G[:, 12, 12].all()


def test_a_single_setting_is_not_searched():
    found, _ = run_search(Axes((1.0,), (10,), (2.0,), (True,)))
    assert list(found.errors) == [Setting(1.0, 10, 2.0, True)]


def test_penalties_near_those_of_the_last_setting_have_the_least_error_of_all():
    _, data = run_search(Axes((1.0,), (10,), (2.0,), (True,)))
    axes = Axes((0.0, 1.0, 2.0), (10, 20), (1.0, 4.0), (False, True))
    found = search_features(data, HeadError(), axes=axes, random_state=0)
    anew = search_features(data, lambda folds: HeadError()(folds), axes=axes, random_state=0)
    assert len(found.errors) > 4 and list(found.errors) == list(anew.errors)
    np.testing.assert_allclose(list(found.errors.values()), list(anew.errors.values()), rtol=1e-3)
