"""Threads where they pay: small products, and boosting on small tables, run on one thread.

A fit multiplies and factorises many small matrices. BLAS wakes all its threads for each of them, and they wait for each
other longer than they work. Measured on two cores, beside other work, processor seconds with all threads and with one:

    GAMTLCV, 20 tasks, 10 features                 20.4    3.0
    MSSL, 300 tasks (matrices of 300 x 300)       138.6   27.4
    GAMTL, 1800 tasks that share their inputs     189.2  124.6     (eigenvalues of 1800 x 1800)
    boosting, 600 rows, 100 trees (OpenMP)          9.8    0.3
    standard deviations, 17 tasks, 66 features     33.0    0.7
    summary of 28 tasks, 8 features                 2.8    0.3

By the clock one thread took between an eighth longer and a sixth as long, over fourteen such fits.
`OPENBLAS_NUM_THREADS=1` (or `MKL_NUM_THREADS=1`) has the same effect for a whole program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")

SMALL = 2000  # the longest side of a matrix for which one thread is enough: see above


def limited_threads(*sides: int) -> AbstractContextManager[None]:
    """A context with one BLAS thread if all matrices of the work inside are small: `sides` are their longest sides."""
    return single_threaded() if max(sides) <= SMALL else nullcontext()


def on_few_threads(function: Callable[P, R]) -> Callable[P, R]:
    """A function of a fitted model, or estimator, with one BLAS thread if the matrices of that model are small."""

    @wraps(function)
    def limited(*args: P.args, **options: P.kwargs) -> R:
        model = getattr(args[0], "model_", args[0]) if args else None
        coef: Any = getattr(model, "coef", 0.0)
        with limited_threads(0, *np.shape(coef)):
            return function(*args, **options)

    return limited


@contextmanager
def single_threaded() -> Iterator[None]:
    """A context with one thread of BLAS and OpenMP; contexts may be nested, and overlap in several Python threads.

    The number of threads belongs to the process. So the first context that opens sets it and the last one that closes
    restores it: if each restored what it found, two that overlap could leave one thread behind for ever.

    Examples
    --------
    >>> with single_threaded():
    ...     _current_threads()
    1
    """
    with _LOCK:
        if _OPEN["contexts"] == 0:
            _OPEN["threads"] = _current_threads()
            _OPEN["limiter"] = _controller().limit(limits=1)
        _OPEN["contexts"] += 1
    try:
        yield
    finally:
        with _LOCK:
            _OPEN["contexts"] -= 1
            if _OPEN["contexts"] == 0:
                _OPEN["limiter"].restore_original_limits()


def allowed_threads() -> int:
    """How many threads BLAS may use outside of `single_threaded`: what other parallel work may use inside of it."""
    with _LOCK:
        return _OPEN["threads"] if _OPEN["contexts"] else _current_threads()


def in_parts(work: Callable[[slice], None], length: int, part: int) -> None:
    """Do `work` on slices of so many items, side by side if there are several: NumPy lets other threads run meanwhile.

    Examples
    --------
    >>> squares = np.empty(5)
    >>> def work(part):
    ...     squares[part] = np.arange(5)[part] ** 2
    >>> in_parts(work, 5, 2)
    >>> squares
    array([ 0.,  1.,  4.,  9., 16.])
    """
    parts = [slice(start, start + part) for start in range(0, length, part)]
    if len(parts) < 2:
        for piece in parts:
            work(piece)
        return
    with single_threaded(), ThreadPoolExecutor(allowed_threads()) as pool:
        list(pool.map(work, parts))


_LOCK = Lock()
_OPEN: dict[str, Any] = {"contexts": 0, "threads": 1, "limiter": None}


@cache
def _controller() -> ThreadpoolController:
    """Kept: looking for the libraries of the process takes 12 ms, setting their threads a tenth of one."""
    import scipy.linalg  # noqa: F401  scipy brings a BLAS of its own, which must be loaded to be found

    return ThreadpoolController()


def _current_threads() -> int:
    return max((pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas"), default=1)
