import subprocess
import sys
from functools import partial
from itertools import combinations

import numpy as np
import pytest

from kinfolk import datasets
from kinfolk.datasets import make_circle, make_groups

MAKERS = [make_groups, make_circle]


def inputs(data):
    """The features as (tasks, rows, features)."""
    return np.asarray(data, dtype=float)[:, 1:].reshape(20, -1, 30)


@pytest.mark.parametrize("make", MAKERS)
def test_shapes_and_labels_are_those_of_the_paper(make):
    b = make(random_state=1)
    assert b.data.shape == (400, 31)
    assert b.test_data.shape == (1600, 31)
    assert b.target.shape == (400,)
    assert b.test_target.shape == (1600,)
    assert b.task == b.data.columns[0] == "task"
    assert list(b.data.columns[1:]) == b.feature_names
    assert b.data[b.task].tolist() == np.repeat(np.arange(1, 21), 20).tolist()
    assert b.tasks == list(range(1, 21))


@pytest.mark.parametrize("make", MAKERS)
def test_target_is_linear_in_the_inputs_without_noise(make):
    b = make(noise=0.0, random_state=2)
    np.testing.assert_allclose(b.target.reshape(20, 20), np.einsum("tnd,td->tn", inputs(b.data), b.coef))


@pytest.mark.parametrize("make", MAKERS)
def test_noise_has_the_standard_deviation_asked_for(make):
    b = make(n_samples=500, noise=2.0, random_state=3)
    residual = b.target.reshape(20, 500) - np.einsum("tnd,td->tn", inputs(b.data), b.coef)
    assert residual.std() == pytest.approx(2.0, rel=4 / np.sqrt(2 * 10_000))


@pytest.mark.parametrize("make", MAKERS)
def test_same_random_state_gives_the_same_rows(make):
    one, two, other = (make(random_state=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.data, two.data)
    np.testing.assert_array_equal(one.test_target, two.test_target)
    assert not np.array_equal(one.target, other.target)


@pytest.mark.parametrize("make", MAKERS)
def test_more_training_rows_change_neither_the_truth_nor_the_test_set(make):
    few, many = make(5, random_state=6), make(50, random_state=6)
    np.testing.assert_array_equal(few.coef, many.coef)
    np.testing.assert_array_equal(few.test_data, many.test_data)
    np.testing.assert_array_equal(few.test_target, many.test_target)


@pytest.mark.parametrize("make", MAKERS)
def test_shared_inputs_are_the_same_for_all_tasks(make):
    b = make(shared_inputs=True, random_state=7)
    for X in (inputs(b.data), inputs(b.test_data)):
        np.testing.assert_array_equal(X, np.broadcast_to(X[0], X.shape))
    assert not np.array_equal(inputs(b.data)[0], inputs(b.test_data)[0][:20])


@pytest.mark.parametrize("make", MAKERS)
def test_own_inputs_differ_between_tasks(make):
    X = inputs(make(random_state=8).data)
    assert np.linalg.matrix_rank(X.reshape(400, 30)) == 30
    assert len(np.unique(X[:, 0, 0])) == 20


@pytest.mark.parametrize("make", MAKERS)
def test_inputs_are_standard_normal(make):
    X = inputs(make(n_samples=1000, random_state=9).data).reshape(-1, 30)
    np.testing.assert_allclose(np.cov(X.T), np.eye(30), atol=5 / np.sqrt(20_000) * np.sqrt(2))


@pytest.mark.parametrize("make", MAKERS)
def test_without_pandas_column_0_is_the_task_number(make, no_pandas):
    b = make(random_state=10)
    assert b.task == 0
    assert isinstance(b.data, np.ndarray)
    np.testing.assert_array_equal(b.data[:, 0], np.repeat(np.arange(1, 21), 20))


@pytest.mark.parametrize("make", MAKERS)
def test_no_test_rows_are_an_empty_table(make):
    assert make(n_test=0, random_state=11).test_data.shape == (0, 31)


@pytest.mark.parametrize("make", MAKERS)
def test_no_training_rows_are_refused(make):
    with pytest.raises(ValueError, match="n_samples must be >= 1 and n_test >= 0, got 0 and 80"):
        make(n_samples=0)


def test_tasks_of_a_group_differ_by_a_tenth_at_most():
    b = make_groups(random_state=12)
    for i, j in b.edges:
        assert np.abs(b.coef[i] - b.coef[j]).max() <= 0.1


def test_group_coefficients_have_means_one_and_minus_one():
    draws = np.array([make_groups(1, 0, random_state=seed).coef for seed in range(40)])
    # The uniform perturbation adds 0.05 to both means; 30 x 40 = 1200 draws of each group vector.
    assert draws[:, :12].mean() == pytest.approx(1.05, abs=4 / np.sqrt(1200))
    assert draws[:, 12:18].mean() == pytest.approx(-0.95, abs=4 / np.sqrt(1200))


@pytest.mark.parametrize(("outlier", "sd"), [("sd10", 10.0), ("var10", np.sqrt(10.0))])
def test_outlier_task_has_the_spread_asked_for(outlier, sd):
    draws = np.array([make_groups(1, 0, outlier=outlier, random_state=seed).coef for seed in range(40)])
    assert draws[:, 18].std() == pytest.approx(1.0, rel=4 / np.sqrt(2400))
    assert draws[:, 19].std() == pytest.approx(sd, rel=4 / np.sqrt(2400))


def test_outlier_choice_changes_only_the_last_task():
    sd, var = (make_groups(outlier=outlier, random_state=13).coef for outlier in ("sd10", "var10"))
    np.testing.assert_array_equal(sd[:19], var[:19])
    np.testing.assert_allclose(sd[19], np.sqrt(10.0) * var[19])


def test_unknown_outlier_is_refused():
    with pytest.raises(ValueError, match='outlier must be "sd10" or "var10", got 10'):
        make_groups(outlier=10)


def test_group_edges_are_all_pairs_within_groups():
    b = make_groups(random_state=14)
    assert b.edges == [*combinations(range(12), 2), *combinations(range(12, 18), 2)]
    assert b.groups.tolist() == [0] * 12 + [1] * 6 + [-1] * 2


def test_circle_closes_exactly():
    b = make_circle(random_state=15)
    np.testing.assert_array_equal(b.coef[19], b.coef[0])


def test_circle_moves_only_the_first_two_coefficients_and_keeps_their_length():
    coef = make_circle(random_state=16).coef
    np.testing.assert_array_equal(coef[:, 2:], np.tile(coef[0, 2:], (20, 1)))
    np.testing.assert_allclose(np.hypot(*coef[:, :2].T), np.hypot(*coef[0, :2]))


def test_circle_steps_are_equal_and_anticlockwise():
    coef = make_circle(random_state=17).coef
    points = coef[:, 0] + 1j * coef[:, 1]
    np.testing.assert_allclose(points[1:] / points[:-1], np.exp(2j * np.pi / 19))


def test_circle_edges_are_the_pairs_at_most_one_step_apart():
    b = make_circle(random_state=18)
    step = np.linalg.norm(b.coef[1] - b.coef[0])
    distance = np.linalg.norm(b.coef[:, None] - b.coef, axis=2)
    close = {pair for pair in combinations(range(20), 2) if distance[pair] < 1.5 * step}
    assert set(b.edges) == close
    assert len(b.edges) == 22
    assert b.groups.tolist() == [0] * 20


@pytest.mark.parametrize(
    ("make", "floor"),
    [(make_groups, 5.74), (partial(make_groups, outlier="var10"), 4.69), (make_circle, 3.21)],
)
def test_shared_inputs_have_the_known_information_floor(make, floor):
    # The best predictor in the row space of the 20 common rows; RMSE, mean over tasks, SD 0.8 between draws.
    errors = []
    for seed in range(40):
        b = make(shared_inputs=True, random_state=seed)
        X, X_test = inputs(b.data)[0], inputs(b.test_data)[0]
        residual = b.test_target.reshape(20, 80) - b.coef @ np.linalg.pinv(X) @ X @ X_test.T
        errors.append(np.sqrt((residual**2).mean(axis=1)).mean())
    assert np.mean(errors) == pytest.approx(floor, abs=3 * 0.8 / np.sqrt(40))


def test_every_public_name_is_importable_and_listed():
    for name in datasets.__all__:
        assert callable(getattr(datasets, name))
        assert name in dir(datasets)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'kinfolk\.datasets' has no attribute 'load_iris'"):
        datasets.load_iris  # noqa: B018


def test_import_of_the_package_loads_neither_sklearn_nor_pandas():
    check = "import sys, kinfolk.datasets; assert not {'sklearn', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
