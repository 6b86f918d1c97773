"""The rows are those of the protocols."""

import numpy as np
import pytest

from kinfolk.baselines import Independent
from kinfolk.experiments.reproduction.methods import METHODS
from kinfolk.experiments.reproduction.settings import SETTINGS
from kinfolk.experiments.reproduction.splits import split

BY_KEY = {setting.key: setting for setting in SETTINGS}


def test_mirrored_rows_fit_through_the_origin():
    rows = split(BY_KEY["syn1-own"], 3)
    model = Independent(task=0, penalty=2.0).fit(rows.X, rows.y, sample_weight=rows.weight)
    half = slice(0, len(rows.y) // 2)
    for t in range(3):
        own = rows.X[half, 0] == t
        X, y = rows.X[half][own, 1:], rows.y[half][own]
        np.testing.assert_allclose(model.coef_[t], np.linalg.solve(X.T @ X + 2 * np.eye(30), X.T @ y), rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, 0.0, atol=1e-10)


def test_a_row_and_its_mirror_are_in_one_group():
    rows = split(BY_KEY["syn2-shared"], 0)
    one, two = np.split(rows.groups, 2)
    np.testing.assert_array_equal(one, two)
    assert len(np.unique(rows.groups)) == 20


def test_the_oracle_is_exact_where_the_rows_look():
    rows = split(BY_KEY["syn1-shared"], 1)
    inside = rows.X[: len(rows.y) // 2]
    expected = np.einsum("nd,nd->n", inside[:, 1:], rows.truth["coef"][inside[:, 0].astype(int)])
    np.testing.assert_allclose(METHODS["row-space oracle"].fit(rows, "tasks", 0).predict(inside), expected, atol=1e-8)


def test_the_same_run_gives_the_same_rows_and_another_run_others():
    one, two, three = (split(BY_KEY["wiener-200"], run) for run in (1, 1, 2))
    np.testing.assert_array_equal(one.X, two.X)
    assert not np.array_equal(one.X, three.X)


@pytest.mark.parametrize("key", ["wiener-200", "birmingham-across_nights-8", "parkinsons-voice+time-rows-0.3"])
def test_inputs_are_in_units_of_the_training_rows(key, published_data):
    rows = split(BY_KEY[key], 0)
    np.testing.assert_allclose(rows.X[:, 1:].mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(rows.X[:, 1:].std(axis=0), 1.0)


def test_patients_give_the_wanted_share_of_rows(published_data):
    rows = split(BY_KEY["parkinsons-voice+time-rows-0.3"], 5)
    train, test = (np.bincount(X[:, 0].astype(int)) for X in (rows.X, rows.X_test))
    assert (train + test).sum() == 5875
    np.testing.assert_allclose(train, 0.3 * (train + test), atol=0.5)


def test_no_sitting_is_on_both_sides(published_data):
    rows = split(BY_KEY["parkinsons-voice+time-sittings-0.5"], 0)
    # With one score per sitting and patient, equal (patient, day) would show as equal time to within a day.
    days = [
        np.column_stack([X[:, 0], np.floor(X[:, 1] * rows.unit[1][0] + rows.unit[0][0] + 1e-9)])
        for X in (rows.X, rows.X_test)
    ]
    assert not set(map(tuple, days[0])) & set(map(tuple, days[1]))


def test_persistence_repeats_the_last_reading(published_data):
    rows = split(BY_KEY["birmingham-across_nights-4"], 0)
    fitted = METHODS["persistence"].fit(rows, "pooled", 0)
    one_lot = rows.X_test[:, 0] == 3
    last = fitted.predict(rows.X_test[one_lot])
    np.testing.assert_allclose(last[1:], rows.y_test[one_lot][:-1], atol=1e-12)


def test_a_lot_without_training_rows_gets_the_mean_of_all(published_data):
    rows = split(BY_KEY["birmingham-across_nights-4"], 0)
    unseen = float(rows.tasks.index("NIA North"))
    assert unseen not in rows.X[:, 0]
    one = np.array([[unseen, 0, 0, 0, 0]])
    assert METHODS["task mean"].fit(rows, "pooled", 0).predict(one)[0] == pytest.approx(rows.y.mean())
