"""Task covariances and precisions: what they derive, and how they grow."""

import numpy as np
import pytest
from scipy import sparse

from kinfolk.methods.structures import TaskCovariance, TaskPrecision

LABELS = np.array(["a", "c", "d"])
PRECISION = np.array([[4.0, -1.0, 0.0], [-1.0, 1.0, 0.2], [0.0, 0.2, 2.0]])


def test_correlation_divides_by_both_standard_deviations():
    W = np.random.default_rng(4).normal(size=(3, 9))
    kin = TaskCovariance(np.cov(W), LABELS)
    np.testing.assert_allclose(kin.correlation, np.corrcoef(W), atol=1e-14)


def test_a_task_without_variance_is_correlated_with_none():
    kin = TaskCovariance(np.diag([1.0, 0.0]), LABELS[:2])
    np.testing.assert_array_equal(kin.correlation, np.eye(2))


def test_covariance_is_the_inverse_of_the_precision():
    kin = TaskPrecision(PRECISION, LABELS)
    np.testing.assert_allclose(kin.covariance @ PRECISION, np.eye(3), atol=1e-14)


def test_partial_correlation_is_that_of_the_residuals_of_regressions_on_the_other_tasks():
    S = TaskPrecision(PRECISION, LABELS).covariance
    given = S[:2, :2] - np.outer(S[:2, 2], S[:2, 2]) / S[2, 2]
    partial = given[0, 1] / np.sqrt(given[0, 0] * given[1, 1])
    np.testing.assert_allclose(TaskPrecision(PRECISION, LABELS).partial_correlation[0, 1], partial)


def test_partial_correlations_have_ones_on_the_diagonal_and_no_negative_zeros():
    partial = TaskPrecision(PRECISION, LABELS).partial_correlation
    np.testing.assert_array_equal(np.diagonal(partial), 1.0)
    assert not np.signbit(partial[0, 2])


def test_the_graph_of_a_precision_joins_dependent_tasks_whatever_the_sign():
    edges = TaskPrecision(PRECISION, LABELS).graph().edges()
    assert [(e.task, e.neighbor) for e in edges] == [("a", "c"), ("c", "d")]
    assert min(e.weight for e in edges) > 0


def test_above_drops_weak_relations():
    assert len(TaskPrecision(PRECISION, LABELS).graph(above=0.3).edges()) == 1
    assert len(TaskCovariance(np.linalg.inv(PRECISION), LABELS).graph(above=0.9999).edges()) == 0


def test_graphs_are_sparse_and_have_no_loops():
    A = TaskCovariance(np.linalg.inv(PRECISION), LABELS).graph().adjacency
    assert isinstance(A, sparse.csr_array)
    np.testing.assert_array_equal(A.diagonal(), 0.0)


@pytest.mark.parametrize(("kind", "field"), [(TaskCovariance, "covariance"), (TaskPrecision, "precision")])
def test_new_tasks_have_the_average_and_no_relations(kind, field):
    grown = kind(PRECISION, LABELS).expanded(np.array(["a", "b", "c", "d"]))
    M = getattr(grown, field)
    np.testing.assert_array_equal(M[np.ix_([0, 2, 3], [0, 2, 3])], PRECISION)
    np.testing.assert_allclose(M[1], [0.0, 7 / 3, 0.0, 0.0])
    assert grown.labels.tolist() == ["a", "b", "c", "d"]


def test_a_repr_names_the_strongest_relation():
    shown = repr(TaskPrecision(PRECISION, LABELS))
    assert shown == "TaskPrecision(3 tasks, 2 pairs dependent, strongest partial correlation 0.50 between 'a' and 'c')"
    low_rank = TaskCovariance(np.outer([1.0, 2.0], [1.0, 2.0]), np.array([7, 9]))
    assert repr(low_rank) == "TaskCovariance(2 tasks, rank 1, strongest correlation 1.00 between 7 and 9)"


def test_a_repr_of_unrelated_tasks_names_none():
    assert repr(TaskCovariance(np.eye(1), np.array([0]))) == "TaskCovariance(1 tasks, rank 1)"
    assert repr(TaskPrecision(np.eye(2), np.array([0, 1]))) == "TaskPrecision(2 tasks, 0 pairs dependent)"
