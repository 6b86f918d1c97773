"""BLAS threads: one where matrices are small, and as many as before afterwards."""

from threading import Barrier, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import kinfolk.solvers.batched as batched
import kinfolk.solvers.graph.pairs as pairs
from kinfolk import threads
from kinfolk.baselines import Independent
from kinfolk.threads import SMALL, _controller, allowed_threads, limited_threads, single_threaded


def blas_threads():
    """Threads of every BLAS that was loaded when the first fit began: NumPy's and SciPy's, perhaps others'."""
    return {pool["filepath"]: pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas"}


def is_limited():
    return set(blas_threads().values()) == {1}


@pytest.fixture(autouse=True)
def before():
    with threadpool_limits(2, "blas"):
        threads = blas_threads()
        assert max(threads.values()) == 2  # a BLAS of another package may have been loaded for one thread only
        yield threads


def test_nested_contexts_restore_the_threads(before):
    with single_threaded(), single_threaded():
        assert is_limited() and allowed_threads() == 2
    assert blas_threads() == before


def test_an_error_inside_restores_the_threads(before):
    with pytest.raises(ZeroDivisionError), single_threaded():
        1 / 0  # noqa: B018
    assert blas_threads() == before


def test_only_small_matrices_limit_the_threads(before):
    with limited_threads(SMALL + 1, 3):
        assert blas_threads() == before
    with limited_threads(SMALL, 3):
        assert is_limited()


def test_contexts_that_overlap_in_two_threads_restore_the_threads(before):
    opened, first_closed = Barrier(2), Barrier(2)

    def first():
        with single_threaded():
            opened.wait()
        first_closed.wait()

    def second():
        with single_threaded():
            opened.wait()
            first_closed.wait()

    workers = [Thread(target=first), Thread(target=second)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert blas_threads() == before


def test_a_fit_works_on_one_thread_and_restores_the_threads(before):
    seen = []

    class Watched(Independent):
        def learn(self, gram):
            seen.append(is_limited())
            return super().learn(gram)

    X = np.random.default_rng(3).normal(size=(20, 2))
    Watched().fit(X, X)
    assert seen == [True] and blas_threads() == before


def test_large_stacks_are_worked_on_in_parts_with_the_same_result(monkeypatch):
    rng = np.random.default_rng(0)
    H = rng.normal(size=(103, 3, 3))
    W = rng.normal(size=(103, 3))
    i, j = np.triu_indices(103, k=1)
    wanted = np.einsum("tij,tj->ti", H, W)
    apart = np.square(W[i] - W[j]).sum(axis=1)
    calls = []

    def in_parts(work, length, part):
        calls.append((length, part))
        threads.in_parts(work, length, part)

    monkeypatch.setattr(batched, "AT_ONCE", 100)
    monkeypatch.setattr(batched, "in_parts", in_parts)
    monkeypatch.setattr(pairs, "PAIRS_AT_ONCE", 24_000)
    monkeypatch.setattr(pairs, "in_parts", in_parts)
    np.testing.assert_allclose(batched.times(H, W), wanted, rtol=1e-12)
    np.testing.assert_allclose(pairs.pair_distances(W, i, j), apart, rtol=1e-12)
    assert calls == [(103, 11), (len(i), 1000)]
    monkeypatch.setattr(batched, "AT_ONCE", 5)  # less than one matrix
    np.testing.assert_allclose(batched.times(H, W), wanted, rtol=1e-12)
