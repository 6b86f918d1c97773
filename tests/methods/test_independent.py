"""One ridge per task, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from kinfolk.baselines import Independent, MeanShrunk, Pooled
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats, squared_errors
from kinfolk.rows.splits import fold_of_rows
from kinfolk.rows.table import read_rows
from kinfolk.solvers.ridge import search


def draw(sizes=(8, 15, 30), d=5, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(task), d)) * [1.0, 2.0, 1.0, 1.0, 0.5][:d]
    y = (X * rng.normal(size=(len(sizes), d))[task]).sum(axis=1) + 10 * task + noise * rng.normal(size=len(task))
    return np.column_stack([task, X]), y


@pytest.mark.parametrize("penalty", [1e-3, 1.0, 50.0])
def test_every_task_is_scikit_learns_ridge(penalty):
    X, y = draw()
    model = Independent(task=0, penalty=penalty).fit(X, y)
    for t in range(3):
        reference = Ridge(alpha=penalty).fit(X[X[:, 0] == t, 1:], y[X[:, 0] == t])
        np.testing.assert_allclose(model.coef_[t], reference.coef_, rtol=1e-8)
        np.testing.assert_allclose(model.intercept_[t], reference.intercept_, rtol=1e-8)
    assert model.penalty_ == penalty
    assert model.optimality_["residual"] < 1e-12


def test_without_penalty_and_few_rows_the_least_norm_fit_is_taken():
    X, y = draw(sizes=(3, 4))
    model = Independent(task=0, penalty=0.0).fit(X, y)
    for t in range(2):
        Z, target = X[X[:, 0] == t, 1:], y[X[:, 0] == t]
        expected = np.linalg.lstsq(Z - Z.mean(axis=0), target - target.mean())[0]
        np.testing.assert_allclose(model.coef_[t], expected, atol=1e-8)


def test_cross_validation_picks_the_least_of_direct_fold_fits():
    X, y = draw(sizes=(20, 25, 30), noise=4.0)
    model = Independent(task=0, penalty="cv", random_state=7).fit(X, y)
    rows = read_rows(X, y, task=0)
    fold = fold_of_rows(rows, X[:, 1:], rows.gram(X[:, 1:], None), cv=5, random_state=7)
    for penalty, error in zip(model.penalties_, model.penalty_errors_, strict=True):
        direct = Independent(task=0, penalty=penalty, extrapolate="linear")
        squares = [(direct.fit(X[fold != f], y[fold != f]).predict(X[fold == f]) - y[fold == f]) ** 2 for f in range(5)]
        np.testing.assert_allclose(error, np.sqrt(np.concatenate(squares).mean()), rtol=1e-8)
    assert model.penalty_ == model.penalties_[np.argmin(model.penalty_errors_)]
    np.testing.assert_array_equal(model.coef_, Independent(task=0, penalty=model.penalty_).fit(X, y).coef_)


def test_on_pure_noise_the_chosen_penalty_mostly_outweighs_the_data():
    X, y = draw(sizes=(20, 25, 30))
    own = np.trace(GramStats.from_rows(X[:, 1:], y, X[:, 0]).G, axis1=1, axis2=2).mean() / 5
    noise = np.random.default_rng(5).normal(size=(20, len(y)))
    chosen = [Independent(task=0, penalty="cv").fit(X, target).penalty_ for target in noise]
    assert np.median(chosen) > 3 * own


def test_without_noise_the_grid_grows_towards_no_penalty():
    X, y = draw(sizes=(20, 25, 30), noise=0.0)
    model = Independent(task=0, penalty="cv").fit(X, y)
    own = np.trace(GramStats.from_rows(X[:, 1:], y, X[:, 0]).G, axis1=1, axis2=2).mean() / 5
    assert model.penalty_ < 1e-6 * own


@pytest.mark.parametrize("best", [1e-7, 0.03, 1e5])
def test_the_search_finds_a_least_beyond_its_first_grid(best):
    found = search(lambda m: 1 + np.log10(m / best) ** 2)[0]
    assert abs(np.log10(found / best)) <= 0.26


def test_the_search_stops_where_nothing_is_gained():
    assert len(search(lambda m: 1.0)[1]) == 13
    assert search(lambda m: 1.0)[0] == 100.0
    assert search(lambda m: 1 / m)[0] <= 1e11


def test_the_choice_does_not_depend_on_units():
    X, y = draw(noise=4.0)
    one = Independent(task=0, penalty="cv").fit(X, y)
    scaled = np.column_stack([X[:, 0], 1e4 * X[:, 1:]])
    two = Independent(task=0, penalty="cv").fit(scaled, 1e-3 * y)
    np.testing.assert_allclose(two.penalty_, 1e8 * one.penalty_, rtol=1e-8)
    np.testing.assert_allclose(two.predict(scaled), 1e-3 * one.predict(X), rtol=1e-6)


def test_groups_reach_the_folds():
    X, y = draw(sizes=(20, 20), noise=4.0)
    one = Independent(task=0, penalty="cv").fit(X, y)
    two = Independent(task=0, penalty="cv").fit(X, y, groups=np.arange(40) // 4)
    assert (one.penalty_errors_[:5] != two.penalty_errors_[:5]).all()


def test_fit_from_statistics_of_folds():
    X, y = draw(sizes=(20, 20))
    codes = X[:, 0].astype(int)
    folds = Folds.of_rows(X[:, 1:], y, codes, np.arange(2), np.arange(40) % 4)
    model = Independent(penalty="cv").fit_folds(folds)
    best = np.sqrt(
        sum(
            squared_errors(part, m.coef_, m.intercept_).sum()
            for f, part in enumerate(folds.held_out)
            for m in [Independent(penalty=model.penalty_).fit_gram(folds.training(f))]
        )
        / 40
    )
    np.testing.assert_allclose(model.penalty_errors_.min(), best, rtol=1e-10)


def test_statistics_alone_cannot_be_cross_validated():
    X, y = draw()
    gram = GramStats.from_rows(X[:, 1:], y, X[:, 0])
    with pytest.raises(ValueError, match=r"Independent cross-validates, .* use fit\(X, y\) or fit_folds\(folds\)"):
        Independent(penalty="cv").fit_gram(gram)


def test_wide_targets_with_a_task_seen_in_one_fold_only():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 3))
    Y[3:, 1] = np.nan
    model = Independent(penalty="cv").fit(X, Y)
    assert np.isfinite(model.cv_errors_).all()


def test_texts_of_errors():
    X, y = draw()
    with pytest.raises(ValueError, match=r"penalty=-1 must be at least 0 and finite"):
        Independent(task=0, penalty=-1).fit(X, y)
    with pytest.raises(ValueError, match=r"penalty='auto' must be at least 0 and finite, or \"cv\""):
        Independent(task=0, penalty="auto").fit(X, y)


@pytest.mark.parametrize("method", [Independent, Pooled, MeanShrunk])
def test_a_feature_beside_much_larger_ones_keeps_its_coefficients(method):
    X, y = draw()
    plain = method(task=0, penalty=1e-12).fit(X, y).predict(X)
    X[:, 2] *= 1e7
    np.testing.assert_allclose(method(task=0, penalty=1e-12).fit(X, y).predict(X), plain, rtol=1e-9)


def test_of_penalties_that_differ_by_rounding_the_largest_is_taken():
    """One training row per task is fitted alike by all of them; on all rows a small one may be a wild line."""
    penalty, penalties, _ = search(lambda multiple: 1 + 1e-12 * np.log10(multiple))
    assert penalty == penalties.max()
