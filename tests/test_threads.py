"""BLAS threads: one where matrices are small, and as many as before afterwards."""

from threading import Barrier, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kinfolk.baselines import Independent
from kinfolk.threads import SMALL, allowed_threads, limited_threads, single_threaded


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, "blas"):
        yield


def test_nested_contexts_restore_the_threads():
    with single_threaded(), single_threaded():
        assert blas_threads() == {1} and allowed_threads() == 2
    assert blas_threads() == {2}


def test_an_error_inside_restores_the_threads():
    with pytest.raises(ZeroDivisionError), single_threaded():
        1 / 0  # noqa: B018
    assert blas_threads() == {2}


def test_only_small_matrices_limit_the_threads():
    with limited_threads(SMALL + 1, 3):
        assert blas_threads() == {2}
    with limited_threads(SMALL, 3):
        assert blas_threads() == {1}


def test_contexts_that_overlap_in_two_threads_restore_the_threads():
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
    assert blas_threads() == {2}


def test_a_fit_works_on_one_thread_and_restores_the_threads():
    seen = []

    class Watched(Independent):
        def _fit_gram(self, gram):
            seen.append(blas_threads())
            return super()._fit_gram(gram)

    X = np.random.default_rng(3).normal(size=(20, 2))
    Watched().fit(X, X)
    assert seen == [{1}] and blas_threads() == {2}
