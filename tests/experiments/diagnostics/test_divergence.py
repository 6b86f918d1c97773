import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma

from kinfolk.diagnostics import conditional_kl, knn_divergence
from kinfolk.experiments.diagnostics import divergence


def reference_divergence(P, Q):
    """The estimator of Wang, Kulkarni and Verdu row by row, with sorted neighbours."""
    n, d = P.shape
    total = 0.0
    for i in range(n):
        own = np.sort(np.linalg.norm(np.delete(P, i, axis=0) - P[i], axis=1))
        other = np.sort(np.linalg.norm(Q - P[i], axis=1))
        radius = max(own[0], other[0])
        n_own, n_other = (own <= radius).sum(), (other <= radius).sum()
        total += d * np.log(other[n_other - 1] / own[n_own - 1]) + digamma(n_own) - digamma(n_other)
    return total / n + np.log(len(Q) / (n - 1))


def regressions(n=60, d=2, seed=0):
    """Tasks "a" and "b" with the same slopes, "c" with the opposite ones."""
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(3 * n, d)), np.tile(["a", "b", "c"], n)
    y = np.where(task == "c", -1, 1) * X.sum(axis=1) + 0.5 * rng.normal(size=3 * n)
    return X, y, task


@pytest.mark.parametrize(("n", "m", "d"), [(30, 40, 1), (50, 20, 3), (25, 25, 8)])
def test_the_estimate_is_that_of_a_plain_loop(n, m, d):
    rng = np.random.default_rng(d)
    P, Q = rng.normal(size=(n, d)), 0.5 + 1.5 * rng.normal(size=(m, d))
    assert knn_divergence(P, Q) == pytest.approx(reference_divergence(P, Q), abs=1e-10)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (1.0, 1.0), (0.5, 2.0), (0.0, 0.5)])
def test_gaussians_in_one_dimension_have_their_known_divergence(shift, scale):
    rng = np.random.default_rng(3)
    draws = [knn_divergence(rng.normal(size=1000), shift + scale * rng.normal(size=1000)) for _ in range(12)]
    truth = np.log(scale) + (1 + shift**2) / (2 * scale**2) - 0.5
    # The spread of one draw is 0.07 to 0.15, its bias at this size below 0.05.
    assert np.mean(draws) == pytest.approx(truth, abs=0.05 + 4 * 0.15 / np.sqrt(12))


def test_many_columns_and_few_rows_bias_it_low_as_documented():
    rng = np.random.default_rng(4)
    shift = np.sqrt(2 * 2 / 19)
    draws = [knn_divergence(rng.normal(size=(140, 19)), shift + rng.normal(size=(140, 19))) for _ in range(20)]
    assert np.mean(draws) == pytest.approx(0.99, abs=4 * 0.28 / np.sqrt(20))


def test_rounded_columns_keep_the_divergence_of_their_values():
    rng = np.random.default_rng(5)
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.3, 0.2])
    P, Q = rng.choice(3, size=3000, p=p), rng.choice(3, size=3000, p=q)
    assert knn_divergence(P, Q) == pytest.approx((p * np.log(p / q)).sum(), abs=0.15)


def test_conditional_divergence_is_the_joint_minus_that_of_the_inputs():
    X, y, task = regressions()
    Z = np.column_stack([X, y])
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    a, c = Z[task == "a"], Z[task == "c"]
    expected = [reference_divergence(p, q) - reference_divergence(p[:, :2], q[:, :2]) for p, q in [(a, c), (c, a)]]
    assert conditional_kl(X, y, task)[0, 2] == pytest.approx(np.mean(expected), abs=1e-10)


def test_the_matrix_is_a_dissimilarity_and_sees_kin():
    D = conditional_kl(*regressions(n=150))
    np.testing.assert_array_equal(D, D.T)
    assert not np.diagonal(D).any()
    assert D.min() == 0
    assert 5 * D[0, 1] < min(D[0, 2], D[1, 2])


def test_estimates_below_zero_are_clipped():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(200, 3)), np.tile(np.arange(10), 20)
    D = conditional_kl(X, rng.normal(size=200), task)
    assert D.min() == 0 and (D[np.triu_indices(10, 1)] == 0).any()


def test_table_labels_and_wide_targets_say_the_same():
    X, y, task = regressions()
    by_label = conditional_kl(X, y, task)
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(who=task)
    np.testing.assert_array_equal(conditional_kl(frame, y, "who"), by_label)
    wide = pd.DataFrame({t: np.where(task == t, y, np.nan) for t in ("c", "a", "b")})
    np.testing.assert_allclose(conditional_kl(X, wide), by_label, rtol=1e-10)


def test_renamed_tasks_permute_the_matrix():
    X, y, task = regressions()
    renamed = np.array([{"a": 2, "b": 0, "c": 1}[t] for t in task])
    np.testing.assert_allclose(
        conditional_kl(X, y, renamed)[np.ix_([2, 0, 1], [2, 0, 1])], conditional_kl(X, y, task), rtol=1e-10
    )


def test_units_and_columns_that_vary_in_no_task_do_not_matter():
    X, y, task = regressions()
    age = np.where(task == "a", 61.0, 74.0)
    changed = np.column_stack([age, 1000 * X[:, 0] + 7, np.ones(len(X)), X[:, 1] / 50])
    np.testing.assert_allclose(conditional_kl(changed, 9 * y - 1, task), conditional_kl(X, y, task), rtol=1e-7)


def test_ties_are_broken_by_the_seed():
    X, y, task = regressions()
    rounded = np.round(X)
    first, again, other = (conditional_kl(rounded, np.round(y), task, random_state=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.isfinite(first).all() and (first != other).any()


def test_repeated_rows_give_finite_divergences():
    X, y, task = regressions(n=20)
    D = conditional_kl(np.repeat(X, 2, axis=0), np.repeat(y, 2), np.repeat(task, 2))
    assert np.isfinite(D).all()


def test_workers_and_blocks_change_nothing(monkeypatch):
    X, y, task = regressions(n=30)
    plain = conditional_kl(X, y, task)
    np.testing.assert_array_equal(conditional_kl(X, y, task, n_jobs=2), plain)
    P, Q = X[task == "a"], X[task == "c"]
    whole = knn_divergence(P, Q)
    monkeypatch.setattr(divergence, "BLOCK", 100)
    np.testing.assert_allclose(conditional_kl(X, y, task), plain, rtol=1e-12)
    assert knn_divergence(P, Q) == pytest.approx(whole, rel=1e-12)


def test_progress_counts_tasks():
    steps = []
    conditional_kl(*regressions(n=10), callback=steps.append)
    assert [(p.done, p.total) for p in steps] == [(1, 3), (2, 3), (3, 3)]


def test_errors_say_what_to_do():
    X, y, task = regressions(n=10)
    alone = task.astype(object)
    alone[0] = "loner"
    with pytest.raises(ValueError, match="task 'loner' has 1 row with a target, but .* at least 2 .* drop the task"):
        conditional_kl(X, y, alone)
    with pytest.raises(ValueError, match="no column of X varies within any task"):
        conditional_kl(np.ones((30, 2)), y, task)
    with pytest.raises(ValueError, match=r"task has shape \(5,\), but X has 30 rows"):
        conditional_kl(X, y, task[:5])
    with pytest.raises(ValueError, match="P has 2 columns and Q has 1"):
        knn_divergence(X, X[:, 0])
    with pytest.raises(ValueError, match=r"Q of shape \(1, 2\): give at least 2 rows"):
        knn_divergence(X, X[:1])
