from itertools import combinations

import numpy as np
import pytest

from kinfolk.datasets import make_wiener_network
from kinfolk.experiments.data.wiener import BURN_IN, TOPOLOGY, metropolis, wiener_output

PRINTED = np.array([[0.7, -0.5]] * 3 + [[0.7, -0.3]] * 3 + [[0.2, -0.3]] * 2 + [[0.5, -0.3]] * 2)


def printed_output(y):
    """The two branches as the paper prints them, for one number."""
    return y / (3 * (0.1 + 0.9 * y**2) ** 0.5) if y >= 0 else -(y**2) * (1 - np.exp(0.7 * y)) / 3


def test_output_function_is_the_printed_one():
    y = np.linspace(-3, 3, 61)
    np.testing.assert_allclose(wiener_output(y), [printed_output(v) for v in y], rtol=1e-12, atol=1e-15)


def test_output_function_is_continuous_and_increasing():
    y = np.linspace(-1, 1, 2001)
    step = np.diff(wiener_output(y))
    assert (step > -1e-15).all()
    assert step.max() < 1.1 * 0.001


def test_recursion_is_stable():
    np.testing.assert_allclose(sorted(np.roots([1.0, 0.2, -0.35])), [-0.7, 0.5])


def test_state_follows_the_recursion():
    b = make_wiener_network(60, 40, random_state=1)
    y = b.signal.state
    drive = np.einsum("knj,kj->kn", b.signal.input, b.coef)
    np.testing.assert_allclose(y[:, 2:], drive[:, 2:] - 0.2 * y[:, 1:-1] + 0.35 * y[:, :-2], atol=1e-15)
    np.testing.assert_allclose(b.signal.clean, wiener_output(y))


def test_inputs_have_the_printed_variances_and_correlation():
    b = make_wiener_network(20_000, 0, random_state=2)
    for x, variance in zip(b.signal.input, b.input_variance, strict=True):
        covariance = variance * np.array([[1.0, 0.5], [0.5, 1.0]])
        np.testing.assert_allclose(np.cov(x.T), covariance, atol=5 * variance * np.sqrt(2 / 20_000))
    assert ((b.input_variance >= 0.005) & (b.input_variance <= 0.015)).all()


def test_inputs_are_independent_in_time():
    x = make_wiener_network(20_000, 0, random_state=3).signal.input[0, :, 0]
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 5 / np.sqrt(20_000)


def test_noise_has_the_reported_variance():
    b = make_wiener_network(20_000, 0, random_state=4)
    z = b.signal.output - b.signal.clean
    np.testing.assert_allclose(z.var(axis=1), b.noise_variance, rtol=5 * np.sqrt(2 / 20_000))
    assert ((b.noise_variance >= 0.0005) & (b.noise_variance <= 0.0015)).all()


def test_noise_zero_gives_the_clean_system():
    b, noisy = (make_wiener_network(noise=noise, random_state=5) for noise in (0.0, 1.0))
    np.testing.assert_array_equal(b.signal.output, b.signal.clean)
    np.testing.assert_array_equal(b.signal.clean, noisy.signal.clean)


def test_without_mixing_nodes_have_the_coefficients_of_their_cluster():
    b = make_wiener_network(mixing=False, random_state=6)
    np.testing.assert_allclose(b.coef, PRINTED)
    np.testing.assert_array_equal(b.mixing, np.eye(10))


def test_mixing_is_the_product_with_the_metropolis_matrix():
    b = make_wiener_network(random_state=7)
    np.testing.assert_allclose(b.coef.T, PRINTED.T @ b.mixing)
    np.testing.assert_allclose(b.coef.mean(axis=0), PRINTED.mean(axis=0))


@pytest.mark.parametrize(
    "links", [TOPOLOGY, [], [(1, 2)], list(combinations(range(1, 11), 2)), [(1, k) for k in range(2, 11)]]
)
def test_metropolis_matrix_is_symmetric_stochastic_with_positive_diagonal(links):
    A = metropolis(links)
    np.testing.assert_array_equal(A, A.T)
    np.testing.assert_allclose(A.sum(axis=0), 1.0)
    assert (A >= 0).all()
    assert (np.diag(A) > 0).all()


def test_metropolis_weight_counts_the_node_itself():
    # A path 1-2-3: node 2 and its neighbours are three.
    np.testing.assert_allclose(metropolis([(1, 2), (2, 3)])[:3, :3], np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3)


def test_default_network_is_connected_and_dense_inside_clusters():
    A = metropolis(TOPOLOGY)
    assert (np.linalg.matrix_power(A, 9) > 0).all()
    b = make_wiener_network(random_state=8)
    assert {(i + 1, j + 1) for i, j in b.edges} < set(b.topology)
    assert len(b.topology) - len(b.edges) == 4


def test_clusters_stay_apart_after_mixing():
    b = make_wiener_network(random_state=9)
    distance = np.linalg.norm(b.coef[:, None] - b.coef, axis=2)
    kin = b.groups[:, None] == b.groups
    assert distance[kin].max() < 0.0708
    assert distance[~kin].min() > 0.1499


def test_own_topology_is_used():
    b = make_wiener_network(topology=[(1, 10)], random_state=10)
    np.testing.assert_allclose(b.coef[[0, 9]], [(PRINTED[0] + PRINTED[9]) / 2] * 2)
    np.testing.assert_allclose(b.coef[1:9], PRINTED[1:9])


@pytest.mark.parametrize("link", [(0, 1), (1, 11), (3, 3)])
def test_impossible_link_is_refused(link):
    with pytest.raises(ValueError, match=r"a link joins two different nodes of 1\.\.10"):
        make_wiener_network(topology=[link])


def test_rows_are_node_by_node_in_time_order():
    b = make_wiener_network(30, 20, random_state=11)
    assert b.data.shape == (300, 7)
    assert b.test_data.shape == (200, 7)
    assert b.data[b.task].tolist() == np.repeat(b.tasks, 30).tolist()
    np.testing.assert_array_equal(b.time.reshape(10, 30), np.tile(np.arange(30), (10, 1)))
    np.testing.assert_array_equal(b.test_time.reshape(10, 20), np.tile(np.arange(30, 50), (10, 1)))
    np.testing.assert_array_equal(b.target.reshape(10, 30), b.signal.output[:, :30])
    np.testing.assert_array_equal(b.test_target.reshape(10, 20), b.signal.output[:, 30:])


def test_features_are_current_and_previous_inputs_and_outputs():
    b = make_wiener_network(30, 20, lags=1, output_lags=2, random_state=12)
    assert b.feature_names == ["x1", "x2", "x1_lag1", "x2_lag1", "d_lag1", "d_lag2"]
    x, d = b.signal.input, b.signal.output
    rows = b.data[b.feature_names].to_numpy().reshape(10, 30, 6)
    np.testing.assert_array_equal(rows[:, :, :2], x[:, :30])
    np.testing.assert_array_equal(rows[:, 1:, 2:4], x[:, :29])
    np.testing.assert_array_equal(rows[:, 1:, 4], d[:, :29])
    np.testing.assert_array_equal(rows[:, 2:, 5], d[:, :28])
    first_test_row = b.test_data[b.feature_names].to_numpy().reshape(10, 20, 6)[:, 0]
    np.testing.assert_array_equal(first_test_row[:, 2:4], x[:, 29])


def test_two_input_lags_carry_95_percent_of_the_state():
    b = make_wiener_network(5000, 0, random_state=13)
    X = b.data[b.feature_names].to_numpy().reshape(10, 5000, 6)[0]
    y = b.signal.state[0]
    residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    assert 1 - residual.var() / y.var() == pytest.approx(0.947, abs=0.01)


def test_longer_run_begins_with_the_shorter():
    short, long = (make_wiener_network(n, 10, random_state=14) for n in (20, 60))
    np.testing.assert_array_equal(long.signal.output[:, :30], short.signal.output)


def test_same_random_state_gives_the_same_rows():
    one, two, other = (make_wiener_network(20, 10, random_state=seed) for seed in (15, 15, 16))
    np.testing.assert_array_equal(one.data, two.data)
    assert not np.array_equal(one.target, other.target)


def test_edges_and_groups_are_the_clusters():
    b = make_wiener_network(20, 10, random_state=17)
    assert b.groups.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert b.edges == [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (6, 7), (8, 9)]


def test_without_pandas_column_0_is_the_node_number(no_pandas):
    b = make_wiener_network(20, 10, random_state=18)
    assert b.task == 0
    np.testing.assert_array_equal(b.test_data[:, 0], np.repeat(np.arange(1, 11), 10))


@pytest.mark.parametrize("bad", [{"lags": -1}, {"output_lags": BURN_IN + 1}, {"n_samples": 0}, {"n_test": -1}])
def test_impossible_lengths_are_refused(bad):
    with pytest.raises(ValueError, match="must be"):
        make_wiener_network(**bad)
