"""Statistics of files are those of the rows in memory, whatever the format, the blocks and the threads."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_tables import FEATURES, assert_same, by_numpy, sales

from kinfolk import GramStats
from kinfolk.large import gram_of_file
from kinfolk.rows.moments import Moments


def write_ipc_stream(frame, path):
    table = pa.Table.from_pandas(frame)
    with pa.ipc.new_stream(path, table.schema) as out:
        out.write_table(table, max_chunksize=50)


WRITERS = {
    "rows.parquet": lambda frame, path: frame.to_parquet(path, row_group_size=70),
    "rows.feather": lambda frame, path: pyarrow.feather.write_feather(frame, str(path), chunksize=64),
    "rows.arrow": write_ipc_stream,
    "rows.csv": lambda frame, path: frame.to_csv(path, index=False),
    "rows.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "rows.csv.zst": lambda frame, path: pl.from_pandas(frame).lazy().sink_csv(path, compression="zstd"),
    "rows.csv.bz2": lambda frame, path: frame.to_csv(path, index=False),
    "rows.ndjson": lambda frame, path: pl.from_pandas(frame).write_ndjson(path),
    "rows.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "rows.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "semicolons.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";"),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("label", [str, int, lambda s: f"no. {s}"], ids=["digits", "integers", "words"])
def test_every_format_gives_the_statistics_of_the_rows(tmp_path, name, label):
    frame = sales(label=label)
    WRITERS[name](frame, tmp_path / name)
    gram = gram_of_file(tmp_path / name, task="shop", target="sales", batch_rows=130)
    assert_same(gram.reindex(sorted_as_text(gram)), by_numpy(frame))
    assert gram.feature_names == FEATURES


def sorted_as_text(gram):
    return gram.labels[np.argsort(gram.labels.astype(str))]


@pytest.mark.parametrize("batch_rows", [1, 7, 130, 10**6])
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_blocks_and_threads_change_nothing(tmp_path, batch_rows, n_jobs):
    frame = sales(n=300)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    gram = gram_of_file(tmp_path / "rows.parquet", task="shop", target="sales", batch_rows=batch_rows, n_jobs=n_jobs)
    assert_same(gram, by_numpy(frame))


@pytest.mark.parametrize("batch_rows", [8, 10, 16, 100])
def test_batches_of_any_size_are_joined_and_cut(tmp_path, batch_rows):
    frame = sales(n=400)
    table = pa.Table.from_pandas(frame)
    with pa.ipc.new_file(tmp_path / "rows.arrow", table.schema) as out:
        cuts = np.append(0, np.cumsum(np.resize([6, 14, 1, 4, 15, 40], 30)))
        for start, stop in pairwise(np.append(cuts[cuts < 400], 400)):
            out.write_table(table.slice(start, stop - start))
    assert_same(
        gram_of_file(tmp_path / "rows.arrow", task="shop", target="sales", batch_rows=batch_rows), by_numpy(frame)
    )


def test_the_number_of_threads_changes_not_a_bit(tmp_path):
    sales().to_parquet(tmp_path / "rows.parquet")
    one, three = (
        gram_of_file(tmp_path / "rows.parquet", task="shop", target="sales", batch_rows=90, n_jobs=n) for n in (1, 3)
    )
    for name in ("n", "x_mean", "y_mean", "G", "b", "yy"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))


def test_a_folder_of_files_is_one_table(tmp_path):
    frame = sales()
    for k, part in enumerate(np.array_split(np.arange(len(frame)), 4)):
        frame.iloc[part].to_parquet(tmp_path / f"part-{k}.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden.parquet").write_text("no data")
    assert_same(gram_of_file(tmp_path, task="shop", target="sales"), by_numpy(frame))


@pytest.mark.parametrize("label", [str, lambda s: f"no {s}"], ids=["numbers", "words"])
def test_folders_named_by_values_are_a_column(tmp_path, label):
    frame = sales(label=label)
    pq.write_to_dataset(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "t", partition_cols=["shop"])
    gram = gram_of_file(tmp_path / "t", task="shop", target="sales")
    assert_same(gram.reindex(sorted_as_text(gram)), by_numpy(frame))


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint32(), pa.float32(), pa.bool_(), pa.decimal128(21, 2), pa.dictionary(pa.int8(), pa.int64())],
)
def test_every_kind_of_number_is_a_feature(tmp_path, kind):
    values = pa.array([0, 1, 1, 0, 1, 0]).cast(getattr(kind, "value_type", kind))
    values = values.dictionary_encode() if pa.types.is_dictionary(kind) else values
    table = pa.table({"t": ["a", "b"] * 3, "x": values, "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    pq.write_table(table, tmp_path / "rows.parquet")
    reference = GramStats.from_rows([[0], [1], [1], [0], [1], [0]], table["y"].to_numpy(), ["a", "b"] * 3)
    assert_same(gram_of_file(tmp_path / "rows.parquet", task="t", target="y"), reference)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Categorical(["b", "a", "b", "a"], categories=["a", "b", "never"]),
        pd.to_datetime(["2024-01-02", "2024-01-01"] * 2),
        [True, False] * 2,
        [2.0, 1.0] * 2,
        pd.array([2, 1] * 2, dtype="UInt16"),
    ],
    ids=["category", "date", "boolean", "whole floats", "unsigned"],
)
def test_every_kind_of_label_is_a_task_as_in_memory(tmp_path, labels):
    frame = pd.DataFrame({"shop": labels, "x0": [1.0, 2.0, 3.0, 5.0], "sales": [1.0, 4.0, 2.0, 0.0]})
    frame.to_parquet(tmp_path / "rows.parquet")
    gram = gram_of_file(tmp_path / "rows.parquet", task="shop", target="sales", batch_rows=2)
    assert gram.n.tolist() == [2.0, 2.0]
    assert gram.x_mean.ravel().tolist() == [3.5, 2.0]
    assert gram.labels.dtype.kind in "UMbiu"


@pytest.mark.parametrize(
    ("kind", "labels"),
    [("int8", [-128, 127]), ("uint64", [2**64 - 2, 2**64 - 1]), ("int64", [-(2**63), 2**63 - 1]), ("int32", [5, 70])],
)
def test_integers_at_the_ends_of_their_type_are_labels(tmp_path, kind, labels):
    frame = pd.DataFrame({"shop": np.resize(labels, 4).astype(kind), "x0": [1.0, 2.0, 3.0, 5.0], "sales": 1.0})
    frame.to_parquet(tmp_path / "rows.parquet")
    gram = gram_of_file(tmp_path / "rows.parquet", task="shop", target="sales")
    assert gram.labels.tolist() == labels and gram.labels.dtype == kind
    assert gram.x_mean.ravel().tolist() == [2.0, 3.5]


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        (["9", "10"], [9, 10]),
        (["9", " 10"], [9, 10]),
        (["-3", "0"], [-3, 0]),
        (["007", "10"], ["007", "10"]),
        (["01", "1"], ["01", "1"]),
        (["1", " 1"], [1]),
        (["1.0", "2"], ["1.0", "2"]),
        (["1", "99999999999999999999"], ["1", "99999999999999999999"]),
    ],
)
def test_labels_of_text_are_integers_only_where_nothing_of_their_writing_is_lost(tmp_path, written, labels):
    (tmp_path / "rows.csv").write_text("t,x,y\n" + "".join(f"{label},1,1\n" for label in written))
    assert gram_of_file(tmp_path / "rows.csv", task="t", target="y").labels.tolist() == labels


def test_columns_and_drop_choose_the_features(tmp_path):
    frame = sales().assign(city="Bonn")
    frame.to_parquet(tmp_path / "rows.parquet")
    path = tmp_path / "rows.parquet"
    assert gram_of_file(path, task="shop", target="sales", drop=["city", "x1"]).feature_names == ("x0", "x2")
    swapped = gram_of_file(path, task="shop", target="sales", columns=["x2", "x0"])
    assert_same(swapped, by_numpy(frame, ["x2", "x0"]))


def test_levels_far_from_zero_cost_only_their_own_digits(tmp_path):
    frame = sales()
    frame[["x0", "x1", "x2"]] += 1e7
    frame.to_parquet(tmp_path / "rows.parquet")
    gram = gram_of_file(tmp_path / "rows.parquet", task="shop", target="sales", batch_rows=60)
    # The values themselves are known to 1e7 * 1e-16; their spread is of the order of 1.
    np.testing.assert_allclose(gram.G, by_numpy(frame).G, atol=1e-8 * np.abs(gram.G).max())


def test_progress_runs_to_the_size_of_the_files(tmp_path):
    sales().to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    seen = []
    gram_of_file(tmp_path / "rows.parquet", task="shop", target="sales", batch_rows=100, callback=seen.append)
    done = [progress.done for progress in seen]
    assert len(seen) == 10 and done == sorted(done)
    assert done[-1] == seen[0].total == (tmp_path / "rows.parquet").stat().st_size


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=40), min_size=1, max_size=5), st.integers(1, 3))
def test_moments_of_any_blocks_are_those_of_all_rows(blocks, threads):
    rng = np.random.default_rng(len(blocks))
    slots = [np.array(block) for block in blocks]
    rows = [np.column_stack([rng.normal(size=(len(block), 3)), np.ones(len(block))]) for block in blocks]
    moments = Moments(4)
    with ThreadPoolExecutor(threads) as pool:
        assert all(moments.add(row, slot, pool=(pool, threads)) for slot, row in zip(slots, rows, strict=True))
    everything, task = np.vstack(rows), np.concatenate(slots)
    reference = GramStats.from_codes(everything[:, :2], everything[:, 2], task, np.arange(6))
    n, mean, S = moments.centred(np.arange(6))
    np.testing.assert_array_equal(n, reference.n)
    np.testing.assert_allclose(mean[:, 2], reference.y_mean, atol=1e-12)
    np.testing.assert_allclose(S[:, :2, :2], reference.G, atol=1e-12)
    np.testing.assert_allclose(S[:, :2, 2], reference.b, atol=1e-12)
    np.testing.assert_allclose(S[:, 2, 2], reference.yy, atol=1e-12)


def test_a_first_block_unlike_all_others_costs_few_digits(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"shop": 1, "x0": rng.normal(size=3000), "sales": rng.normal(size=3000)})
    frame.loc[:99, "x0"] += 1e9
    frame.to_parquet(tmp_path / "rows.parquet")
    gram = gram_of_file(tmp_path / "rows.parquet", task="shop", target="sales", batch_rows=100)
    # 3,000 rows about the mean of 100: at most 30 times the rounding of the sums.
    np.testing.assert_allclose(gram.G, by_numpy(frame, ["x0"]).G, rtol=30 * 10 * np.finfo(float).eps)
