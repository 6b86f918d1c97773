"""Threads, processes, interrupts and memory: what surrounds a fit cannot change or break it."""

import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config

from kinfolk import GAMTL, GAMTLCV, GramStats, memory
from kinfolk.baselines import GFL, Independent
from kinfolk.graph import squared_distances
from kinfolk.methods.gamtl.problem import independent
from kinfolk.solvers.equations import normal_equations
from kinfolk.store import load, save
from problems import frame

TABLE, Y = frame(n=(6, 12))
SMALL = {"cv": 3, "metrics": ("identity",), "ridges": (1.0,), "anchors": (0.0,)}


def coefficients(_):
    return GAMTL(task="who").fit(TABLE, Y).coef_.tobytes()


def test_a_fitted_model_is_shared_by_threads():
    model = GAMTL(task="who").fit(TABLE, Y)
    expected = model.predict(TABLE).tobytes()
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: model.predict(TABLE).tobytes(), range(64)))
    assert found == {expected}


def test_fits_in_threads_give_the_same_answer():
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(coefficients, range(8))) == {coefficients(0)}


def test_fits_in_processes_give_the_same_answer():
    models = Parallel(n_jobs=2, backend="loky")(delayed(GAMTL(task="who").fit)(TABLE, Y) for _ in range(4))
    assert {model.coef_.tobytes() for model in models} == {coefficients(0)}


def test_the_same_seed_gives_the_same_file(tmp_path):
    files = [save(GAMTLCV(task="who", random_state=3, **SMALL).fit(TABLE, Y), tmp_path / f"{k}.kin") for k in range(2)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_folds_in_parallel_give_the_same_answer():
    with parallel_config(backend="threading"):
        one, two = (GAMTLCV(task="who", n_jobs=n, **SMALL).fit(TABLE, Y) for n in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


SAVING = textwrap.dedent(
    """
    import sys
    import numpy as np
    from kinfolk.store import load, save
    model = load(sys.argv[1])
    model.ballast_ = np.zeros(20_000_000)
    print("ready", flush=True)
    while True:
        save(model, sys.argv[1])
    """
)


def stopped(stop, path, delay=0.1):
    """A process that saves again and again, stopped in the middle."""
    command = [sys.executable, "-c", SAVING, str(path)]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    worker.stdout.readline()
    time.sleep(delay)
    worker.send_signal(stop)
    worker.communicate()


def test_a_save_that_is_killed_leaves_a_whole_file(tmp_path):
    path = save(Independent(task="who", penalty=1.0).fit(TABLE, Y), tmp_path / "model.kin")
    stopped(signal.SIGKILL, path)
    assert load(path).predict(TABLE).shape == Y.shape


def test_an_interrupted_save_leaves_a_whole_file_and_nothing_else(tmp_path):
    path = save(Independent(task="who", penalty=1.0).fit(TABLE, Y), tmp_path / "model.kin")
    stopped(signal.SIGINT, path)
    assert load(path).predict(TABLE).shape == Y.shape
    assert list(tmp_path.iterdir()) == [path]


def test_statistics_that_do_not_fit_are_announced_before_they_are_made():
    X, y = np.zeros((4, 3000)), np.zeros(4)
    with pytest.raises(MemoryError, match=r"statistics of 1000000 tasks with 3000 features each need about 144.0 TB"):
        GramStats.from_codes(X, y, np.arange(4), np.arange(10**6))


def test_distances_that_do_not_fit_are_announced_before_they_are_made():
    with pytest.raises(
        MemoryError, match="the distances between 3000000 tasks need about 288.0 TB of memory, but .* is free"
    ):
        squared_distances(np.zeros((3_000_000, 1)))


def test_a_fit_says_what_it_would_need(monkeypatch):
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(
        MemoryError, match="statistics of 6 tasks with 4 features each need about 1.5 kB .* fewer features"
    ):
        GAMTL(task="who").fit(TABLE, Y)


def test_a_fit_of_statistics_says_what_it_would_need(monkeypatch):
    gram = GAMTL(task="who").fit(TABLE, Y).gram_
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="normal equations of 6 tasks with 4 unknowns each need about 1.5 kB"):
        GAMTL().fit_gram(gram)


def test_tasks_that_share_their_inputs_need_one_matrix_only(monkeypatch):
    X = np.random.default_rng(4).normal(size=(30, 20))
    gram = GramStats.from_rows(X, X @ np.random.default_rng(5).normal(size=(20, 500)))
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 10**6)  # 500 matrices take three times that
    assert independent(normal_equations(gram, "free"), np.eye(20)).shape == (500, 20)


def test_a_method_that_needs_rows_says_so_when_it_gets_statistics():
    X = np.random.default_rng(4).normal(size=(30, 3))
    with pytest.raises(ValueError, match="statistics without rows .* graph="):
        GFL().fit_gram(GramStats.from_rows(X, X @ np.ones((3, 4))))


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("4000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 500\n")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.available_memory() == 1500
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_memory() > 10**8


def test_a_machine_that_does_not_say_is_not_second_guessed(monkeypatch):
    monkeypatch.setattr(memory, "_of_machine", lambda: None)
    monkeypatch.setattr(memory, "_of_container", lambda: None)
    memory.check_memory(1e30, "anything", "")
    assert memory.available_memory() is None
