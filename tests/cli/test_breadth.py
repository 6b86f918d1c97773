"""What the commands do beyond the main path, in one process."""

import json
from pathlib import Path

import networkx
import numpy as np
import pandas as pd
import pytest
from tables_for_tests import read, shops, write

from kinfolk.cli import main
from kinfolk.store import load

FAST = ("--method", "mean-shrunk", "--cv", "3")
COLUMNS = ("--task", "shop", "--target", "sales")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write(tmp_path / "data.csv", shops())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments):
    """Exit code, stdout and stderr of a command."""
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def fit(capsys, *arguments, data="data.csv"):
    """The machine-readable account of a fit."""
    code, out, err = run(capsys, "fit", data, *COLUMNS, *arguments, "--json", "--out", "model.kin")
    assert code == 0, err
    return json.loads(out)


def test_the_account_for_programs_has_what_was_fitted(folder, capsys):
    account = fit(capsys, *FAST)
    assert (account["rows"], account["tasks"], account["inputs"]) == (72, 6, ["region", "open", "size"])
    assert account["encoded"] == ["region"] and account["model"] == "model.kin" and account["report"] is None
    assert 0.08 < account["rmse_cv"] < 0.2 and account["rmse_training"] < account["rmse_cv"]


def test_csv_parquet_and_feather_give_the_same_model(folder, capsys):
    frame = pd.read_csv("data.csv", dtype={"shop": str})
    frame.to_parquet("data.parquet")
    frame.to_feather("data.feather")
    files = []
    for name in ("data.csv", "data.parquet", "data.feather"):
        fit(capsys, *FAST, data=name)
        files.append((folder / "model.kin").read_bytes())
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize(("delimiter", "said"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_other_separators_are_found_and_told(delimiter, said, folder, capsys):
    expected = fit(capsys, *FAST)
    write(folder / "other.csv", shops(), delimiter)
    account = fit(capsys, *FAST, data="other.csv")
    assert f"other.csv: values are separated by {said}" in account["notes"]
    assert account["rmse_cv"] == expected["rmse_cv"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks_are_understood(encoding, folder, capsys):
    expected = fit(capsys, *FAST)
    write(folder / "marked.csv", shops(), encoding=encoding)
    assert fit(capsys, *FAST, data="marked.csv")["rmse_cv"] == expected["rmse_cv"]


def test_latin_1_is_read_when_it_is_named(folder, capsys):
    rows = [[str(cell).replace("west", "würzburg") for cell in row] for row in shops()]
    write(folder / "latin.csv", rows, encoding="latin-1")
    fit(capsys, *FAST, "--encoding", "latin-1", data="latin.csv")
    assert "region_würzburg" in load("model.kin").gram_.feature_names


@pytest.mark.parametrize("named", [(), ("--decimal", ",")])
def test_decimal_commas_are_found_or_named(named, folder, capsys):
    expected = fit(capsys, *FAST)
    rows = [[str(cell).replace(".", ",") for cell in row] for row in shops()]
    write(folder / "comma.csv", rows, ";")
    assert fit(capsys, *FAST, *named, data="comma.csv")["rmse_cv"] == expected["rmse_cv"]


def test_quoted_values_may_hold_separators_and_line_breaks(folder, capsys):
    rows = [[str(cell).replace("west", "far,\nwest") for cell in row] for row in shops()]
    write(folder / "quoted.csv", rows)
    fit(capsys, *FAST, data="quoted.csv")
    assert "region_far,\nwest" in load("model.kin").gram_.feature_names


def test_a_nameless_first_column_is_taken_for_row_labels(folder, capsys):
    pd.read_csv("data.csv", dtype={"shop": str}).to_csv("labelled.csv")
    account = fit(capsys, *FAST, data="labelled.csv")
    assert "labelled.csv: the first column has no name and is left out as row labels" in account["notes"]
    assert account["inputs"] == ["region", "open", "size"]


@pytest.mark.parametrize(("names", "kind"), [(["007", "12"], "U"), (["7", "12"], "i"), (["7", "12a"], "U")])
def test_task_names_are_integers_only_without_leading_zeros(names, kind, folder, capsys):
    half = len(shops()) // 2
    rows = [[names[k > half], *row[1:]] for k, row in enumerate(shops())]
    write(folder / "named.csv", [shops()[0], *rows[1:]])
    fit(capsys, *FAST, data="named.csv")
    tasks = load("model.kin").tasks_
    assert tasks.dtype.kind == kind and sorted(map(str, tasks)) == sorted(names)


def test_rows_with_missing_values_are_left_out_when_asked_for_and_told(folder, capsys):
    rows = shops()
    expected = [row for k, row in enumerate(rows) if k not in (3, 4)]
    rows[3][3], rows[4][1] = "", "NA"
    write(folder / "gaps.csv", rows)
    account = fit(capsys, *FAST, "--drop-missing", data="gaps.csv")
    assert "left out 2 of 72 rows with missing values ('region' 1, 'size' 1)" in account["notes"]
    write(folder / "complete.csv", expected)
    assert fit(capsys, *FAST, data="complete.csv")["rmse_cv"] == account["rmse_cv"]


def test_an_empty_column_takes_no_row_with_it(folder, capsys):
    write(folder / "empty.csv", [[*row, "" if k else "note"] for k, row in enumerate(shops())])
    assert fit(capsys, *FAST, "--drop-missing", data="empty.csv")["rmse_cv"] == fit(capsys, *FAST)["rmse_cv"]


def test_missing_values_are_refused_when_asked_for(folder, capsys):
    rows = shops()
    rows[3][3] = ""
    write(folder / "gaps.csv", rows)
    command = ["fit", "gaps.csv", "--task", "shop", "--target", "sales", *FAST]
    assert main([*command, "--no-impute"]) == 1
    assert "missing values ('size' 1), and --no-impute refuses them" in capsys.readouterr().err
    assert main([*command, "--impute"]) == 0


def test_constant_columns_are_left_out_and_told(folder, capsys):
    write(folder / "constant.csv", [[*row, "unit" if k == 0 else "eur"] for k, row in enumerate(shops())])
    account = fit(capsys, *FAST, data="constant.csv")
    assert "left out, since the same in all rows: 'unit'" in account["notes"]
    assert account["inputs"] == ["region", "open", "size"]


def test_numbers_become_categories_when_asked_for(folder, capsys):
    rows = [[*row, "code" if k == 0 else k % 3] for k, row in enumerate(shops())]
    write(folder / "codes.csv", rows)
    fit(capsys, *FAST, "--categorical", "code", data="codes.csv")
    names = load("model.kin").gram_.feature_names
    assert {"code_0", "code_1", "code_2"} <= set(names)
    code, out, err = run(capsys, "predict", "model.kin", "codes.csv")
    assert code == 0 and err == "" and len(read(out)) == 72


def test_whole_groups_stay_in_one_fold_and_the_column_is_no_input(folder, capsys):
    write(
        folder / "days.csv", [[*row, "day" if k == 0 else f"2024-05-{k % 4 + 1:02d}"] for k, row in enumerate(shops())]
    )
    account = fit(capsys, *FAST, "--groups", "day", data="days.csv")
    assert "column 'day' makes the folds and is no input" in account["notes"]
    assert account["inputs"] == ["region", "open", "size"]
    code, _, err = run(capsys, "fit", "days.csv", *COLUMNS, "--groups", "day", "--method", "mean-shrunk", "--cv", "5")
    assert code == 0 and "groups has 4 groups: 4 folds in place of --cv 5" in err


@pytest.mark.parametrize("method", ["MeanShrunk", "mean_shrunk", "mean-shrunk"])
def test_methods_are_found_however_they_are_written(method, folder, capsys):
    assert fit(capsys, "--method", method)["method"] == "mean-shrunk"


def test_set_fixes_a_parameter_and_the_others_are_tuned(folder, capsys):
    fit(capsys, "--method", "mtrl", "--set", "ridge=0.05", "--cv", "2")
    assert load("model.kin").ridge == 0.05
    fit(capsys, "--method", "mean-shrunk", "--set", "penalty=3.5")
    assert load("model.kin").penalty == 3.5


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_streamed_fit_and_prediction_are_those_of_rows_in_memory(ending, folder, capsys):
    frame = pd.DataFrame([[row[0], row[3], row[4]] for row in shops()[1:]], columns=["shop", "size", "sales"])
    frame["shop"] = "shop " + frame["shop"]
    frame.to_csv("numbers.csv", index=False)
    frame.to_parquet("numbers.parquet")
    data, options = f"numbers.{ending}", ("--method", "gamtl", "--set", "ridge=0.5", "--cv", "0")
    fit(capsys, *options, data=data)
    direct, prediction = load("model.kin"), run(capsys, "predict", "model.kin", data, "--std")[1]
    fit(capsys, *options, "--stream", data=data)
    # Both alternations stop within a relative 1e-6 of the least objective.
    np.testing.assert_allclose(load("model.kin").coef_, direct.coef_, rtol=1e-6)
    code, _, err = run(capsys, "predict", "model.kin", data, "--stream", "--std", "--out", "streamed.csv")
    assert code == 0, err
    streamed = pd.read_csv("streamed.csv")
    whole = pd.DataFrame(read(prediction)).astype({"prediction": float, "std": float})
    assert list(streamed.columns) == list(whole.columns)
    np.testing.assert_allclose(streamed[["prediction", "std"]], whole[["prediction", "std"]], rtol=1e-5)


def test_only_a_table_that_memory_cannot_hold_is_read_in_blocks_and_what_that_costs_is_said(
    folder, capsys, monkeypatch
):
    plain = run(capsys, "fit", "data.csv", *COLUMNS, *FAST, "--out", "whole.kin")[2]
    assert "in blocks" not in plain
    monkeypatch.setattr("kinfolk.cli.tables.fits_into_memory", lambda needed: needed < 1000)
    code, _, err = run(capsys, "fit", "data.csv", *COLUMNS, *FAST, "--out", "blocks.kin")
    assert code == 0 and "is read in blocks: the model is that of all 72 rows\n" in err


class TestPredict:
    @pytest.fixture
    def model(self, folder, capsys):
        fit(capsys, *FAST)
        return folder

    def test_predictions_are_those_of_the_model_in_python(self, model, capsys):
        _, out, _ = run(capsys, "predict", "model.kin", "data.csv")
        frame = pd.read_csv("data.csv", dtype={"shop": str})
        frame["open"] = frame["open"].astype(float)
        loaded = load("model.kin")
        expected = loaded.predict(frame[list(loaded.feature_names_in_)])
        np.testing.assert_array_equal([float(row["prediction"]) for row in read(out)], expected)

    def test_columns_may_come_in_any_order_and_be_kept(self, model, capsys):
        write(model / "turned.csv", [row[::-1] for row in shops()])
        _, out, _ = run(capsys, "predict", "model.kin", "turned.csv", "--keep", "sales", "size")
        _, whole, _ = run(capsys, "predict", "model.kin", "data.csv", "--keep")
        assert list(read(out)[0]) == ["shop", "sales", "size", "prediction"]
        assert list(read(whole)[0]) == ["shop", "region", "open", "size", "sales", "prediction"]
        assert [row["prediction"] for row in read(out)] == [row["prediction"] for row in read(whole)]
        assert [float(row["sales"]) for row in read(out)] == [row[4] for row in shops()[1:]]

    def test_unknown_categories_are_told_and_count_as_none(self, model, capsys):
        rows = [["shop", "region", "open", "size"], ["001", "east", "true", 0.5], ["001", "north", "true", 0.5]]
        write(model / "new.csv", rows)
        code, out, err = run(capsys, "predict", "model.kin", "new.csv")
        assert code == 0 and len(read(out)) == 2
        assert err == (
            "note: column 'region': 1 row with categories that fit has not seen ('east'), which count as none of the "
            "known ones\n"
        )

    def test_unseen_tasks_get_the_mean_with_a_note_or_are_an_error(self, model, capsys):
        write(model / "new.csv", [["shop", "region", "open", "size"], ["099", "north", "true", 0.5]])
        code, noted, err = run(capsys, "predict", "model.kin", "new.csv")
        assert code == 0 and "note: task '099', not seen in fit (6 tasks: '001', ...), is predicted by the pop" in err
        code, _, err = run(capsys, "predict", "model.kin", "new.csv", "--unseen", "error")
        assert code == 1 and "new.csv, line 2: task 099 not seen in fit (6 tasks: 001, ...)" in err
        code, out, err = run(capsys, "predict", "model.kin", "new.csv", "--unseen", "mean")
        assert code == 0 and out == noted and not err and 1 < float(read(out)[0]["prediction"]) < 11

    @pytest.mark.parametrize(
        ("row", "error"),
        [
            (["001", "north", "true", "wide"], "new.csv, line 2: column 'size' holds numbers, but here 'wide'"),
            (["", "north", "true", "1"], "missing values in 1 of 1 rows ('shop' 1; the first in line 2)"),
        ],
    )
    def test_values_that_fit_could_not_have_taken_are_told_with_their_line(self, row, error, model, capsys):
        write(model / "new.csv", [["shop", "region", "open", "size"], row])
        code, _, err = run(capsys, "predict", "model.kin", "new.csv")
        assert code == 1 and error in err

    @pytest.mark.parametrize("row", [["001", "north", "true", ""], ["001", "", "true", "1"]])
    def test_missing_inputs_are_filled_in_and_told_or_left_out_when_asked_for(self, row, model, capsys):
        write(model / "new.csv", [["shop", "region", "open", "size"], row, ["001", "north", "true", "1"]])
        code, out, err = run(capsys, "predict", "model.kin", "new.csv")
        assert code == 0 and len(read(out)) == 2 and "1 missing value, filled in as the mean of fit" in err
        code, out, err = run(capsys, "predict", "model.kin", "new.csv", "--drop-missing")
        assert code == 0 and len(read(out)) == 1 and "left out 1 of 2 rows with missing values" in err

    @pytest.mark.parametrize("how", [["--stream"], []], ids=["in blocks", "in memory"])
    @pytest.mark.parametrize("form", ["csv", "parquet"])
    @pytest.mark.parametrize("method", ["mean-shrunk", "gamtl"], ids=["scaled before", "scales itself"])
    def test_a_table_of_numbers_alone_has_its_gaps_filled_in_too(self, method, form, how, folder, capsys):
        table = pd.read_csv("data.csv", dtype={"shop": str})[["shop", "size", "sales"]]
        (getattr(table, {"csv": "to_csv", "parquet": "to_parquet"}[form]))(f"plain.{form}", index=False)
        assert "size_missing" not in fit(capsys, "--method", method, "--cv", "0", data=f"plain.{form}")["inputs"]
        gap = table.assign(size=table["size"].where(table.index != 4))
        for name, rows in (("gap", gap), ("full", table.assign(size=gap["size"].fillna(table["size"].mean())))):
            (getattr(rows, {"csv": "to_csv", "parquet": "to_parquet"}[form]))(f"{name}.{form}", index=False)
            code, _, err = run(capsys, "predict", "model.kin", f"{name}.{form}", *how, "--out", f"{name}-p.csv")
            assert code == 0, err
            assert ("column 'size': 1 missing value, filled in as the mean of fit" in err) == (name == "gap")
        found, expected = (pd.read_csv(f"{name}-p.csv")["prediction"] for name in ("gap", "full"))
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    def test_rows_with_gaps_of_a_table_of_numbers_alone_are_left_out_when_asked_for(self, folder, capsys):
        write(folder / "plain.csv", [[row[0], row[3], row[4]] for row in shops()])
        fit(capsys, *FAST, data="plain.csv")
        write(folder / "new.csv", [["shop", "size"], ["001", ""], ["002", 1.5]])
        code, out, err = run(capsys, "predict", "model.kin", "new.csv", "--drop-missing")
        assert code == 0 and len(read(out)) == 1 and "left out 1 of 2 rows with missing values" in err

    def test_a_missing_column_is_told_with_the_nearest(self, model, capsys):
        write(model / "new.csv", [["shop", "region", "open", "sizes"], ["001", "north", "true", 1]])
        code, _, err = run(capsys, "predict", "model.kin", "new.csv")
        assert code == 1 and "no column 'size' (an input of the model). Did you mean 'sizes'?" in err

    @pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x05\x06" + bytes(18)])
    def test_a_file_that_is_no_model_is_told(self, content, model, capsys):
        (model / "wrong.kin").write_bytes(content)
        code, _, err = run(capsys, "predict", "wrong.kin", "data.csv")
        assert code == 1 and "wrong.kin: is not a kinfolk model" in err and err.count("\n") == 1

    def test_quiet_says_nothing_but_the_predictions(self, model, capsys):
        code, out, err = run(capsys, "predict", "model.kin", "data.csv", "--quiet")
        assert code == 0 and err == "" and out.startswith("shop,prediction\n")


class TestGraph:
    @pytest.fixture
    def graph(self, folder, capsys):
        fit(capsys, "--method", "gamtl", "--cv", "0")
        return load("model.kin").graph_

    def test_csv_has_the_edges_heaviest_first(self, graph, capsys):
        _, out, _ = run(capsys, "graph", "model.kin")
        edges = [(row["task"], row["neighbor"], float(row["weight"])) for row in read(out)]
        assert edges == [(str(e.task), str(e.neighbor), e.weight) for e in graph.edges()]

    def test_json_has_tasks_with_their_groups(self, graph, capsys):
        _, out, _ = run(capsys, "graph", "model.kin", "--format", "json")
        nodes = json.loads(out)["nodes"]
        assert [node["id"] for node in nodes] == list(graph.labels)
        np.testing.assert_allclose([node["degree"] for node in nodes], graph.degree)

    def test_graphml_is_read_by_networkx(self, graph, capsys):
        code, _, _ = run(capsys, "graph", "model.kin", "--out", "graph.graphml")  # by the ending of the file
        found = networkx.read_graphml("graph.graphml")
        number = {task: node for node, task in found.nodes(data="task")}
        assert code == 0 and set(number) == set(graph.labels)
        heaviest = graph.edges()[0]
        assert found.edges[number[heaviest.task], number[heaviest.neighbor]]["weight"] == heaviest.weight

    def test_a_method_without_a_graph_says_so(self, folder, capsys):
        fit(capsys, *FAST)
        code, _, err = run(capsys, "graph", "model.kin")
        assert code == 1 and "MeanShrunk learns nothing about the relations of tasks, not a graph" in err


def test_methods_are_listed_with_what_they_share(capsys):
    _, out, _ = run(capsys, "methods", "--json")
    listed = {row["name"]: row for row in json.loads(out)["methods"]}
    assert list(listed)[:3] == ["gamtlcv", "gamtl", "rbf-gamtl"] and len(listed) == 14
    assert all(row["shares"] != "?" and row["summary"] for row in listed.values())


def test_an_error_is_in_the_json_too(folder, capsys):
    code, out, err = run(capsys, "fit", "absent.csv", *COLUMNS, "--json")
    assert code == 1 and err == f"kinfolk: {json.loads(out)['error']}\n"


def test_reproduce_hands_over_what_was_asked_for(folder, capsys, monkeypatch):
    from kinfolk.experiments import command

    asked = []
    monkeypatch.setattr(command, "reproduce", lambda *args, **more: asked.append((args, more)) or folder / "page.html")
    code, out, _ = run(capsys, "reproduce", "synthetic", "--quick", "--jobs", "1", "--out", "there")
    assert code == 0 and out == f"results: {folder / 'page.html'}\n"
    ((which, where), more) = asked[0]
    assert (which, str(where), more["quick"], more["n_jobs"]) == ("synthetic", "there", True, 1)


def test_labels_that_look_like_formulas_are_neutralised_when_asked_for(folder, capsys):
    table = [["=1+1" if row[0] == "001" else row[0], *row[1:]] for row in shops()]
    write(folder / "data.csv", table)
    fit(capsys, "--method", "gamtl", "--cv", "0")
    for command in (["predict", "model.kin", "data.csv", "--keep", "size"], ["graph", "model.kin"]):
        _, plain, _ = run(capsys, *command)
        _, safe, _ = run(capsys, *command, "--safe-csv")
        assert "=1+1" in plain and "'=1+1" not in plain
        assert safe == plain.replace("=1+1", "'=1+1")
    assert ",-" in run(capsys, "predict", "model.kin", "data.csv", "--keep", "size", "--safe-csv")[1]


class TestTime:
    @pytest.fixture
    def dated(self, folder):
        head, *rows = shops(rows=20)
        rng = np.random.default_rng(0)
        days = rng.permutation(20)
        table = [[*row, f"2024-05-{days[k % 20] + 1:02d}"] for k, row in enumerate(rows)]
        write(folder / "data.csv", [[*head, "day"], *table])
        return folder

    def test_folds_follow_the_time(self, dated, capsys):
        ordered = fit(capsys, *FAST, "--time", "day", "--report", "report.html")
        plain = fit(capsys, *FAST, "--force")
        assert ordered["rmse_cv"] != plain["rmse_cv"]
        assert "day" in ordered["inputs"] and ordered["rows"] == 120
        assert "in time, each fold trained on what was before it" in (dated / "report.html").read_text()
        assert "day" not in fit(capsys, *FAST, "--time", "day", "--drop", "day", "--force")["inputs"]

    def test_methods_are_compared_in_time(self, dated, capsys):
        methods = ("--methods", "pooled", "task-mean", "--cv", "3", "--json")
        code, out, _ = run(capsys, "compare", "data.csv", *COLUMNS, *methods, "--time", "day")
        assert code == 0 and json.loads(out)["folds"] == 3

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            (["--time", "hour"], "has no column 'hour' (--time)"),
            (["--time", "day", "--groups", "region"], "give groups or time"),
            (["--time", "day", "--groups", "region", "--stream"], "give groups or time"),
            (["--time", "region"], "time holds text like"),
        ],
    )
    def test_times_that_cannot_be_are_errors(self, options, error, dated, capsys):
        code, _, err = run(capsys, "fit", "data.csv", *COLUMNS, *FAST, *options)
        assert code == 1 and error in err


def test_what_needs_the_rows_many_times_is_refused_in_blocks(folder, capsys):
    code, _, err = run(capsys, "fit", "data.csv", *COLUMNS, "--set", "nonlinear=true", "--stream")
    assert code == 1 and "goes over its rows" in err


@pytest.mark.parametrize("how", [[], ["--stream"]], ids=["in memory", "in blocks"])
def test_several_columns_make_the_task(how, folder, capsys):
    head, *rows = shops(rows=24)
    write(folder / "data.csv", [[*head, "half"], *([*row, k % 2] for k, row in enumerate(rows))])
    columns = ("--task", "shop", "half", "--target", "sales", "--drop", "region", "--out", "model.kin")
    code, out, err = run(capsys, "fit", "data.csv", *columns, *FAST, *how, "--json")
    assert code == 0, err
    assert json.loads(out)["tasks"] == 12 and json.loads(out)["inputs"] == ["open", "size"]
    assert list(load("model.kin").tasks_[:2]) == ["001 / 0", "001 / 1"]
    code, _, err = run(capsys, "predict", "model.kin", "data.csv", "--out", "predictions.csv", *how)
    assert code == 0, err
    predicted = pd.read_csv("predictions.csv")
    assert list(predicted["shop / half"][:2]) == ["001 / 0", "001 / 1"]
    in_python = load("model.kin").predict(pd.read_csv("data.csv", dtype={"shop": str}))
    np.testing.assert_allclose(predicted["prediction"], in_python, rtol=1e-9)
    code, _, err = run(capsys, "compare", "data.csv", *columns[:-2], "--methods", "pooled", "task-mean", "--cv", "2")
    assert code == 0, err


def churn(labels):
    rng = np.random.default_rng(0)
    x = rng.normal(size=120)
    y = (x + rng.logistic(size=120) > 0).astype(int)
    return pd.DataFrame({"shop": np.repeat(["a", "b", "c"], 40), "x": x, "left": [labels[k] for k in y]})


def test_two_labels_of_text_are_classes_of_which_the_second_is_1(folder, capsys):
    churn(["no", "yes"]).to_csv("text.csv", index=False)
    churn([0, 1]).to_csv("numbers.csv", index=False)
    churn(["no", "perhaps"]).to_csv("other.csv", index=False)
    options = ("--task", "shop", "--target", "left", "--method", "gamtl", "--set", "strength=1", "--cv", "3")
    notes = run(capsys, "fit", "text.csv", *options, "--family", "auto", "--report", "fit.html")[2]
    run(capsys, "fit", "numbers.csv", *options, "--family", "binomial")
    assert "note: 'left' is 'no' or 'yes': predictions are probabilities of 'yes'" in notes
    of_text, of_numbers = (run(capsys, "predict", f"{name}.kin", "text.csv") for name in ("text", "numbers"))
    assert of_text[1] == of_numbers[1]
    assert "probabilities of 'yes'" in of_text[2]
    assert run(capsys, "report", "text.kin", "text.csv", "--target", "left", "--out", "again.html")[0] == 0
    assert "levels and predictions are probabilities of" in Path("again.html").read_text()
    code, _, error = run(capsys, "report", "text.kin", "other.csv", "--target", "left", "--out", "other.html")
    assert code == 1
    assert "is 'perhaps' there, but the classes of the model are 'no' and 'yes'" in error


def test_more_labels_than_two_and_labels_without_a_family_say_what_fits_them(folder, capsys):
    table = churn(["no", "yes"])
    table.to_csv("two.csv", index=False)
    table.assign(left=table.left.where(table.x < 1, "perhaps")).to_csv("three.csv", index=False)
    options = ("--task", "shop", "--target", "left")
    error = run(capsys, "fit", "three.csv", *options, "--family", "binomial")[2]
    assert "3 labels ('no', 'perhaps', 'yes')" in error
    assert "GAMTLClassifierCV" in error
    assert "Two labels are for the family binomial" in run(capsys, "fit", "two.csv", *options)[2]
