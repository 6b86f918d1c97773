"""Statistics by Dask are those of the rows in memory, also on a cluster that loses a worker in the middle."""

import logging
import os
import signal
from itertools import pairwise

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.preprocessing import StandardScaler
from source_tables import assert_same, by_numpy, sales

from kinfolk import GAMTL
from kinfolk.baselines import Independent
from kinfolk.large import fit_dask, folds_of_dask, gram_of_dask, predict_dask
from kinfolk.sources.partitions import scattered

X = ["x0", "shop", "x1", "x2"]


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def split(frame, parts):
    """A Dask data frame whose partitions are consecutive rows; some of them are empty."""
    cuts = [0, *np.linspace(0, len(frame), parts - 1).astype(int), len(frame)]
    pieces = [frame.iloc[a:b] for a, b in pairwise(cuts)]
    return dd.from_map(lambda k: pieces[k], range(len(pieces)), meta=frame.iloc[:0])


@pytest.mark.parametrize("parts", [3, 8, 30])
@pytest.mark.parametrize("label", [str, int], ids=["text", "integers"])
def test_partitions_change_nothing(parts, label):
    frame = sales(label=label)
    gram = gram_of_dask(split(frame, parts), task="shop", target="sales")
    order = gram.labels[np.argsort(gram.labels.astype(str))]
    assert_same(gram.reindex(order), by_numpy(frame), rtol=1e-10)


def test_a_cluster_that_loses_a_worker_gives_the_same(tmp_path):
    frame = sales(n=2000, label=lambda s: f"shop {s}")
    killed = tmp_path / "killed"

    def load(k):
        (tmp_path / f"{os.getpid()} loads {k}").touch()
        # The process that is the first to load three partitions dies of the third.
        if len(list(tmp_path.glob(f"{os.getpid()} loads *"))) == 3:
            try:
                killed.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                killed.write_text(f"{os.getpid()} {k}")
                os.kill(os.getpid(), signal.SIGKILL)
        return frame.iloc[200 * k : 200 * (k + 1)]

    ddf = dd.from_map(load, range(10), meta=frame.iloc[:0])
    quiet = {"silence_logs": logging.CRITICAL, "dashboard_address": None}
    with (
        dask.config.set(scheduler=None),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **quiet) as cluster,
        Client(cluster) as client,
    ):
        workers = set(client.run(os.getpid).values())
        gram = gram_of_dask(ddf, task="shop", target="sales")
    loads = [file.name.split(" loads ") for file in tmp_path.glob("* loads *")]
    dead, last = killed.read_text().split()
    assert int(dead) in workers and len(workers) == 2
    assert last in {k for pid, k in loads if pid != dead}
    assert_same(gram, by_numpy(frame), rtol=1e-10)


def test_folds_are_all_rows_and_nearly_even():
    frame = sales()
    folds = folds_of_dask(split(frame, 9), task="shop", target="sales", cv=4)
    assert_same(folds.total, by_numpy(frame), rtol=1e-10)
    sizes = np.array([part.n for part in folds.held_out])
    # Within each of 8 partitions a task's shares differ by at most one row.
    assert np.ptp(sizes, axis=0).max() <= 8


def test_tasks_with_one_row_per_partition_get_even_folds():
    frame = pd.DataFrame({"shop": np.tile(np.arange(6), 20), "x0": np.arange(120.0) ** 1.5, "sales": 1.0})
    ddf = dd.from_map(lambda k: frame.iloc[6 * k : 6 * (k + 1)], range(20), meta=frame.iloc[:0])
    folds = folds_of_dask(ddf, task="shop", target="sales", cv=5)
    assert {size for part in folds.held_out for size in part.n.tolist()} == {4.0}


def test_groups_stay_together_over_partitions():
    rng = np.random.default_rng(0)
    day = rng.integers(12, size=600)
    frame = pd.get_dummies(pd.Series(day), prefix="x", dtype=float)
    frame = frame.assign(day=[f"d{k}" for k in day], shop=rng.integers(3, size=600), sales=rng.normal(size=600))
    folds = folds_of_dask(split(frame, 6), task="shop", target="sales", groups="day", cv=4)
    rows_of_day = np.array([part.n @ part.x_mean for part in folds.held_out])
    assert ((rows_of_day > 0.5).sum(axis=0) == 1).all()
    assert (rows_of_day > 0.5).sum(axis=1).tolist() == [3, 3, 3, 3]


@pytest.mark.parametrize(
    "model",
    [GAMTL(task="shop", features=StandardScaler()), Independent(task="shop", penalty=1.0)],
    ids=["scaled", "plain"],
)
def test_a_model_by_dask_is_the_model_of_the_rows(model):
    frame = sales(tasks=5)
    fitted = fit_dask(model, split(frame, 5), target="sales")
    predicted = predict_dask(fitted, split(frame, 5)).compute()
    assert predicted.name == "prediction" and predicted.index.tolist() == frame.index.tolist()
    in_memory = model.fit(frame[X], frame["sales"]).predict(frame[X])
    np.testing.assert_allclose(predicted, in_memory, rtol=1e-6)


def test_a_model_that_cross_validates_is_tuned_on_folds():
    frame = sales(tasks=5)
    model = fit_dask(Independent(task="shop", penalty="cv"), split(frame, 5), target="sales")
    assert model.score(frame[X], frame["sales"]) > 0.99


def test_errors_name_the_partition():
    frame = sales(n=100)
    frame.loc[60, "x1"] = np.nan
    with pytest.raises(ValueError, match=r"Input partition 2 contains NaN \(column 'x1', row 27;"):
        gram_of_dask(split(frame, 5), task="shop", target="sales")
    with pytest.raises(ValueError, match="column 'shop' of partition . is not numeric"):
        gram_of_dask(split(sales(n=100, label=lambda s: f"no {s}"), 5), task="x1", target="sales")
    with pytest.raises(ValueError, match=r"the data frame has no column 'sale' \(target\). Did you mean 'sales'"):
        gram_of_dask(split(sales(n=100), 5), task="shop", target="sale")
    with pytest.raises(ValueError, match="the data frame has no rows"):
        gram_of_dask(split(sales(n=100).iloc[:0], 3), task="shop", target="sales")
    with pytest.warns(UserWarning, match="column 'x1' has 100 groups: 100 folds in place of cv=200"):
        folds_of_dask(split(sales(n=100).astype({"x1": str}), 3), task="shop", target="sales", groups="x1", cv=200)


def test_labels_of_two_types_are_an_error():
    pieces = [sales(n=50, label=int), sales(n=50, label=str)]
    ddf = dd.from_map(lambda k: pieces[k], range(2), meta=pieces[1].iloc[:0], enforce_metadata=False)
    with pytest.raises(ValueError, match="labels are integers in some partitions and text in others"):
        gram_of_dask(ddf, task="shop", target="sales")


def test_labels_are_scattered_alike_wherever_they_stand():
    labels = np.array([f"patient {k}" for k in range(1000)])
    folds = scattered(labels, seed=3) % 5
    assert np.bincount(folds).min() > 150
    np.testing.assert_array_equal(scattered(labels[[5]], seed=3) % 5, folds[[5]])
    assert (scattered(labels, seed=4) % 5 != folds).any()
