"""The same file gives the same model, whether memory holds its rows or it is read in blocks."""

import json

import numpy as np
import pandas as pd
import pytest

from kinfolk.cli import main
from kinfolk.store import load

SEARCH = ("--set", "strengths=1", "--set", "ridges=1", "--set", "anchors=0", "--set", "metrics=identity", "--cv", "3")
LINES = (*SEARCH, "--set", "nonlinear=false", "--set", "trunk=none")
CURVES = (*SEARCH, "--set", "trunk=none")
TREES = (*SEARCH, "--set", "nonlinear=false")
ORDERS = {"rows": ("--drop", "day"), "groups": ("--groups", "day"), "time": ("--time", "day")}


def table(n=1200):
    rng = np.random.default_rng(7)
    rows = pd.DataFrame({"shop": rng.integers(0, 6, n), "day": rng.permutation(n) // 6, "size": rng.normal(size=n)})
    rows["width"] = rng.normal(size=n)
    rows["kind"] = rng.choice(["a", "b", "c"], n)
    rows["sales"] = rows["size"] * (1 + rows["shop"]) + 2 * np.sin(2 * rows["width"]) + rng.normal(size=n)
    rows["sales"] += 3 * (rows["width"] > 0) * (rows["size"] > 0)
    return rows.assign(size=rows["size"].where(rows.index % 31 > 0), sales=rows["sales"].where(rows.index % 97 > 0))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    table().to_csv(tmp_path / "t.csv", index=False)
    table().to_parquet(tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fitted(capsys, *options, data="t.csv"):
    """The model of a command, and its account."""
    capsys.readouterr()
    code = main(["fit", data, "--task", "shop", "--target", "sales", *options, "--json", "--force", "--out", "m.kin"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return load("m.kin"), json.loads(said.out)


def rounded(rules):
    """Rules as they are, but for the last digits of numbers."""
    return {
        name: {key: round(value, 9) if isinstance(value, float) else value for key, value in rule.items()}
        for name, rule in rules.items()
    }


def both(capsys, monkeypatch, *options, most, data="t.csv"):
    """The same command for a table that memory holds, and for one that it does not."""
    whole = fitted(capsys, *options, data=data)
    monkeypatch.setattr("kinfolk.cli.tables.fits_into_memory", lambda _: False)
    monkeypatch.setattr("kinfolk.sources.sampled.MOST_ROWS", most)
    blocks = fitted(capsys, *options, data=data)
    assert any("is read in blocks" in note for note in blocks[1]["notes"])
    return *whole, *blocks


@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("order", ORDERS)
def test_lines_are_those_of_all_rows_whatever_the_sample(order, data, folder, capsys, monkeypatch):
    model, account, blocks, in_blocks = both(capsys, monkeypatch, *LINES, *ORDERS[order], most=300, data=data)
    np.testing.assert_allclose(blocks.coef_, model.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(blocks.predict(table()), model.predict(table()), rtol=1e-8, atol=1e-8)
    assert in_blocks["verdict"] == account["verdict"]
    assert in_blocks["rmse_cv"] == pytest.approx(account["rmse_cv"], rel=1e-8)
    assert rounded(blocks.features_.rules_) == rounded(model.features_.rules_)


@pytest.mark.parametrize("method", ["independent", "mean-shrunk"])
def test_methods_that_choose_a_penalty_choose_the_same(method, folder, capsys, monkeypatch):
    options = ("--method", method, "--time", "day")
    model, account, blocks, in_blocks = both(capsys, monkeypatch, *options, most=300)
    np.testing.assert_allclose(blocks.coef_, model.coef_, rtol=1e-8, atol=1e-8)
    assert in_blocks["rmse_cv"] == pytest.approx(account["rmse_cv"], rel=1e-8)


@pytest.mark.parametrize("order", ["rows", "time"])
def test_curves_of_all_rows_are_the_same_where_the_sample_is_all_rows(order, folder, capsys, monkeypatch):
    model, account, blocks, in_blocks = both(capsys, monkeypatch, *CURVES, *ORDERS[order], most=5000)
    assert model.nonlinear_helps_ and blocks.nonlinear_helps_
    # A fold in memory fills gaps by its own rows before it bends them; in blocks all have the mean of all rows.
    np.testing.assert_allclose(blocks.predict(table()), model.predict(table()), rtol=0.01, atol=0.01)
    assert in_blocks["rmse_cv"] == pytest.approx(account["rmse_cv"], rel=1e-3)


def test_curves_with_knots_among_a_sample_have_the_statistics_of_all_rows(folder, capsys, monkeypatch):
    model, account, blocks, in_blocks = both(capsys, monkeypatch, *CURVES, "--drop", "day", most=300)
    assert blocks.nonlinear_helps_ and blocks.gram_.n.sum() == model.gram_.n.sum()
    assert in_blocks["rmse_cv"] == pytest.approx(account["rmse_cv"], rel=0.02)
    assert any("curves, trees, ends in time and the report are those of 30" in note for note in in_blocks["notes"])


def test_trees_of_a_sample_gain_what_they_gain_on_its_rows_and_the_report_is_written(folder, capsys, monkeypatch):
    options = (*TREES, "--drop", "day", "--report", "r.html")
    model, account, blocks, in_blocks = both(capsys, monkeypatch, *options, most=800)
    assert model.trunk_helps_ and blocks.trunk_helps_
    assert 0.5 < blocks.trunk_gain_.mean / model.trunk_gain_.mean < 1.5
    assert in_blocks["rmse_cv"] == pytest.approx(account["rmse_cv"], rel=0.2)
    assert (folder / "r.html").read_text(encoding="utf-8").endswith("</html>\n")


def test_a_rare_task_is_in_the_sample(folder, capsys, monkeypatch):
    rare = pd.concat([table(), table().head(3).assign(shop=99)])
    rare.to_csv(folder / "t.csv", index=False)
    _, _, blocks, _ = both(capsys, monkeypatch, *TREES, "--drop", "day", most=100)
    assert 99 in blocks.tasks_
