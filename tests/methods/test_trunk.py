"""Boosted trees as plain arrays: scikit-learn's own predictions are the reference."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from kinfolk.methods.trunk import BoostedTrees, Trunk
from kinfolk.threads import single_threaded

ANYWHERE = np.array([[-np.inf] * 3, [np.inf] * 3])
HALF = np.full((2, 3), 0.5)


def boosted(n=600, *, leaves=31, rounds=40, missing=True, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 4))
    Z[:, 0] = rng.integers(0, 12, n)
    y = np.sin(3 * Z[:, 1]) * (Z[:, 0] % 3) + Z[:, 2] ** 2 + 0.1 * rng.standard_normal(n)
    Z[rng.random((n, 4)) < 0.1 * missing] = np.nan
    model = HistGradientBoostingRegressor(
        max_iter=rounds, max_leaf_nodes=leaves, categorical_features=[0], min_samples_leaf=5, early_stopping=False
    )
    with single_threaded():
        return model.fit(Z, y), Z


@pytest.mark.parametrize("leaves", [2, 8, 31, 64])
@pytest.mark.parametrize("missing", [False, True])
def test_trees_as_arrays_predict_what_scikit_learn_predicts(leaves, missing):
    model, Z = boosted(leaves=leaves, missing=missing)
    other = Z[::-1] + np.array([0.0, 3.0, -3.0, 0.01])  # beyond the training rows as well
    other[::7, 0] = np.nan  # an unknown task
    other[::5, 1] = np.nan
    trees = BoostedTrees.of(model)
    for rows in (Z, other):
        np.testing.assert_allclose(trees.predict(rows), model.predict(rows), rtol=0, atol=1e-12)


def test_values_at_a_threshold_pass_it():
    model, _ = boosted(missing=False)
    trees = BoostedTrees.of(model)
    rows = np.zeros((len(trees.threshold), 4))
    rows[:, 1] = trees.threshold
    np.testing.assert_allclose(trees.predict(rows), model.predict(rows), rtol=0, atol=1e-12)


def test_blocks_of_rows_change_nothing(monkeypatch):
    model, Z = boosted(n=100)
    trees = BoostedTrees.of(model)
    whole = trees.predict(Z)
    monkeypatch.setattr("kinfolk.methods.trunk.BLOCK", 7 * len(trees.values))
    assert (trees.predict(Z) == whole).all()


def test_without_rounds_the_baseline_is_left():
    model, Z = boosted(rounds=1)
    model._predictors = []
    trees = BoostedTrees.of(model)
    np.testing.assert_allclose(trees.predict(Z), model.predict(Z))


def test_a_trunk_among_more_tasks_takes_new_ones_for_strangers():
    model, Z = boosted(missing=False)
    known = Trunk(
        BoostedTrees.of(model), np.arange(12.0)[:, None], np.full(12, 0.5), 0.25, np.arange(3), ANYWHERE, HALF
    )
    grown = known.placed(np.arange(1, 13), 14)
    codes = Z[:, 0].astype(int)
    assert (grown.predict(Z[:, 1:], codes + 1) == known.predict(Z[:, 1:], codes)).all()
    assert (grown.predict(Z[:, 1:], np.full(len(Z), 13)) == known.predict(Z[:, 1:], np.full(len(Z), -1))).all()
    assert grown.share_of(np.zeros((3, 3)), np.array([0, 1, -1])).tolist() == [0.25, 0.5, 0.25]
    assert (grown.taken(np.arange(1, 13)).inputs == known.inputs).all()


def test_beyond_several_ends_the_share_is_that_of_their_mean():
    model, _ = boosted(missing=False)
    reach = np.array([[0.0, -np.inf, 0.0], [1.0, np.inf, 1.0]])
    beyond = np.array([[0.5, 9.0, 0.0], [2.0, 9.0, 1.0]])
    trunk = Trunk(BoostedTrees.of(model), np.zeros((2, 1)), np.array([0.4, 0.2]), 0.4, np.arange(3), reach, beyond)
    rows = np.array([[0.5, 99.0, 0.5], [-1.0, 0.0, 0.5], [2.0, 0.0, 2.0], [0.5, 0.0, -1.0]])
    assert trunk.share_of(rows, np.zeros(4, int)).tolist() == pytest.approx([0.4, 0.2, 0.6, 0.0])
    assert trunk.share_of(rows[[2]], np.array([1])).tolist() == pytest.approx([0.3])
    assert trunk.reaches(rows).tolist() == [True, False, False, False]
