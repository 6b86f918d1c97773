"""Errors name the column, the file and the row, and say what to do."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_tables import sales

from kinfolk.large import gram_of_file


def gram(path, **options):
    return gram_of_file(path, **{"task": "shop", "target": "sales", "batch_rows": 100} | options)


def with_value(column, value, row=333):
    frame = sales()
    frame[column] = frame[column].astype(object)
    frame.loc[row, column] = value
    return frame.convert_dtypes() if value is pd.NA else frame.infer_objects()


@pytest.mark.parametrize("column", ["x1", "sales"])
@pytest.mark.parametrize(("value", "kind"), [(np.nan, "missing"), (pd.NA, "missing"), (np.inf, "infinite")])
def test_a_value_that_is_no_number_is_found(tmp_path, column, value, kind):
    with_value(column, value).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=f"column '{column}' has a {kind} value in row 334 of .*rows.parquet"):
        gram(tmp_path / "rows.parquet")


def test_a_gap_in_a_csv_is_found_with_its_file(tmp_path):
    sales().to_csv(tmp_path / "1.csv", index=False)
    with_value("x1", np.nan).to_csv(tmp_path / "2.csv", index=False)
    with pytest.raises(ValueError, match=r"column 'x1' has a missing value in row 334 of .*2.csv.*drop=\['x1'\]"):
        gram(tmp_path)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_a_task_without_a_label_is_found(tmp_path, name):
    frame = with_value("shop", None)
    {"rows.parquet": frame.to_parquet, "rows.csv": lambda path: frame.to_csv(path, index=False)}[name](tmp_path / name)
    with pytest.raises(ValueError, match="column 'shop' has no label in row 334 of"):
        gram(tmp_path / name)


def test_labels_of_two_types_are_an_error(tmp_path):
    sales(label=int).to_parquet(tmp_path / "1.parquet")
    sales(label=str).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(ValueError, match="'shop' holds integers in .*1.parquet but text in .*2.parquet"):
        gram(tmp_path)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ("Bonn", r"column 'extra' of .* is not numeric but .*string.*drop=\['extra'\].*task column"),
        (pd.Timestamp("2024-01-01"), "column 'extra' of .* holds dates.*days since a start"),
        (None, r"column 'extra' of .* is empty.*drop=\['extra'\]"),
    ],
)
def test_a_column_without_numbers_is_named_before_anything_is_read(tmp_path, values, text):
    sales().assign(extra=values).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=text):
        gram(tmp_path / "rows.parquet")


def test_text_far_down_a_csv_is_named(tmp_path):
    with_value("x2", "n/k").to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match="column 'x2' of .*rows.csv is not numeric: it holds 'n/k'"):
        gram(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"target": "sale"}, r"no column 'sale' \(target\). Did you mean 'sales'\?"),
        ({"task": "Shops"}, r"no column 'Shops' \(task\). Did you mean 'shop'\?"),
        ({"drop": ["y9"]}, r"no column 'y9' \(drop\). Its columns are 'x0', 'shop'"),
        ({"columns": ["x0", "sales"]}, "columns has 'sales', which is the task or the target"),
        ({"task": "sales"}, "cannot be both the task and the target"),
        ({"task": 1}, "give the task column of .* by name"),
        ({"drop": ["x0", "x1", "x2"]}, "no column left to predict from"),
        ({"task": "x0", "drop": "shop"}, "rows.parquet: column 'x0' holds fractions like"),
        ({"batch_rows": 0}, "batch_rows=0 must be a whole number, at least 1"),
    ],
)
def test_a_wrong_request_is_told_what_there_is(tmp_path, options, text):
    sales().to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=text):
        gram(tmp_path / "rows.parquet", **options)


def test_a_file_of_a_folder_that_lacks_a_column_is_named(tmp_path):
    sales().to_parquet(tmp_path / "1.parquet")
    sales().drop(columns="x1").to_parquet(tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2.parquet has no column 'x1', but .*1.parquet has"):
        gram(tmp_path)


def test_what_is_not_there_or_cannot_be_streamed_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        gram(tmp_path / "nothing.parquet")
    with pytest.raises(ValueError, match="holds no file that can be read: files end in .parquet"):
        gram(tmp_path)
    (tmp_path / "rows.xlsx").touch()
    with pytest.raises(ValueError, match="rows.xlsx cannot be read as xlsx"):
        gram(tmp_path / "rows.xlsx")
    (tmp_path / "rows.zip").touch()
    with pytest.raises(ValueError, match="rows.zip is not a table: export it as CSV, Parquet"):
        gram(tmp_path / "rows.zip")
    (tmp_path / "rows.xlsx").unlink()
    (tmp_path / "broken.parquet").write_text("no Parquet")
    with pytest.raises(ValueError, match="broken.parquet cannot be read as parquet"):
        gram(tmp_path / "broken.parquet")
    sales().to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match="mixes files ending in csv, parquet"):
        gram(tmp_path)
    (tmp_path / "empty.csv").touch()
    with pytest.raises(ValueError, match="empty.csv is empty"):
        gram(tmp_path / "empty.csv")


def test_values_that_overflow_are_not_passed_on(tmp_path):
    sales().assign(x0=1e300 * np.arange(1000)).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="so large that their sums overflow"):
        gram(tmp_path / "rows.parquet")


def test_a_column_twice_is_an_error(tmp_path):
    table = pa.table([["a", "b"], [1.0, 2.0], [1.0, 2.0]], names=["shop", "x", "x"])
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="two columns named 'x'"):
        gram(tmp_path / "rows.parquet", target="x")
