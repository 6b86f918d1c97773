"""Files that are not the table they should be: one line each, with place and remedy, through the installed command."""

import resource
from concurrent.futures import ThreadPoolExecutor

import pytest
from tables_for_tests import kinfolk, shops, write


def lines(*texts):
    return "\n".join(texts).encode() + b"\n"


GOOD = ["shop,size,sales", *(f"{shop},{k}.5,{k + shop}" for shop in (1, 2) for k in range(6))]
FILES = {
    "empty": b"",
    "header_only": b"shop,size,sales\n",
    "missing_column": lines("shops,size,sales", *GOOD[1:]),
    "one_column": lines("shop size sales", "1 2 3"),
    "text_in_numbers": lines(*GOOD, "2,oops,3"),
    "text_in_target": lines(*GOOD, "2,3.5,oops"),
    "latin_1": lines(*GOOD) + b"caf\xe9,1,2\n",
    "duplicate_header": lines("shop,size,size,sales", "1,2,3,4"),
    "nameless_column": lines("shop,,sales", "1,2,3"),
    "ragged": lines(*GOOD, "2,3.5,4,5"),
    "short_row": lines(*GOOD, "2,3.5"),
    "nul_bytes": lines(*GOOD) + b"2,\x00,3\n",
    "open_quote": lines(*GOOD, '2,"3.5,4', *GOOD[1:]),
    "open_quote_in_a_long_file": lines(*GOOD, '2,"3.5,4', *(GOOD[1:] * 3000)),
    "quote_in_a_quote": lines(*GOOD, '2,"3"5",4'),
    "missing_value": lines(*GOOD, "2,,3", "2,NA,4"),
    "missing_task": lines(*GOOD, ",1,3"),
    "infinite": lines(*GOOD, "2,inf,3"),
    "decimal_comma": lines("shop;size;sales", "1;2,5;3", "1;3,5;4", "2;2;2", "2;1;1"),
    "date": lines("shop,size,day,sales", "1,2,2024-05-01,3", "1,3,2024-05-02,4"),
    "day_of_month_first": lines("shop,size,day,sales", "1,2,1.5.2024,3", "1,3,2.5.2024 10:30,4"),
    "free_text": lines("shop,size,note,sales", *(f"1,{k},note {k},{k}" for k in range(60))),
    "empty_column": lines("shop,size,note,sales", "1,2,,3", "1,3,,4"),
    "nothing_varies": lines("shop,size,sales", "1,2,3", "1,2,4"),
    "only_task_and_target": lines("shop,sales", "1,2", "1,3"),
}
ERRORS = {
    "empty": "empty.csv is empty: the first line must name the columns",
    "header_only": "header_only.csv has a header but no rows",
    "missing_column": "missing_column.csv has no column 'shop' (--task). Did you mean 'shops'? Its columns are",
    "one_column": "is the separator another one? Name it with --delimiter",
    "text_in_numbers": "text_in_numbers.csv, line 14: column 'size' holds numbers, but here 'oops'.",
    "text_in_target": "text_in_target.csv, line 14: column 'sales' holds numbers, but here 'oops'. Correct it",
    "latin_1": "latin_1.csv, line 14: byte 0xe9 is not utf-8. Give --encoding latin-1",
    "duplicate_header": "duplicate_header.csv has two columns named 'size': rename one",
    "nameless_column": "nameless_column.csv: column 2 has no name in the header",
    "ragged": "ragged.csv, line 14: 4 values, but the header names 3 columns (separated by commas)",
    "short_row": "short_row.csv, line 14: 2 values, but the header names 3 columns",
    "nul_bytes": "nul_bytes.csv, line 14: holds NUL bytes",
    "open_quote": "open_quote.csv, line 14: a quote is opened and not closed",
    "open_quote_in_a_long_file": "open_quote_in_a_long_file.csv, line 14: a quote is opened and not closed",
    "quote_in_a_quote": "quote_in_a_quote.csv, line 14: ',' expected after '\"'. Inside a quoted value",
    "missing_value": "missing values in 2 of 14 rows ('size' 2; the first in line 14). Leave these rows",
    "missing_task": "missing values in 1 of 13 rows ('shop' 1; the first in line 14)",
    "infinite": "infinite.csv, line 14: column 'size' is infinite there",
    "decimal_comma": "column 'size' of decimal_comma.csv holds numbers with a decimal comma ('2,5'): give --decimal ,",
    "date": "column 'day' of date.csv holds dates or times ('2024-05-01'). Turn them into numbers",
    "day_of_month_first": "column 'day' of day_of_month_first.csv holds dates or times",
    "free_text": "column 'note' of free_text.csv has 60 different texts, like 'note 0'",
    "empty_column": "column 'note' of empty_column.csv is empty. Leave it out: --drop note",
    "nothing_varies": "every input has the same value in all rows",
    "only_task_and_target": "only_task_and_target.csv has no column left to predict from",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What the command says about each file; two processes at a time."""
    folder = tmp_path_factory.mktemp("malformed")

    def outcome(name):
        (folder / f"{name}.csv").write_bytes(FILES[name])
        return kinfolk("fit", f"{name}.csv", "--task", "shop", "--target", "sales", cwd=folder)

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(FILES, pool.map(outcome, FILES), strict=True))
    assert not list(folder.glob("*.kin"))
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_malformed_file_is_told_in_one_line_with_the_place_and_the_remedy(name, outcomes):
    result = outcomes[name]
    assert ERRORS[name] in result.stderr
    *notes, error = result.stderr.splitlines()
    assert error.startswith("kinfolk: ") and all(note.startswith("note: ") for note in notes)
    assert result.returncode == 1 and result.stdout == ""


def test_a_gigabyte_in_one_line_is_refused_without_reading_it(tmp_path):
    with (tmp_path / "line.csv").open("wb") as file:
        file.write(b"1,2,3," * 500_000)
        file.truncate(2**30)

    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))

    result = kinfolk("fit", "line.csv", "--task", "a", "--target", "b", cwd=tmp_path, preexec_fn=little_memory)
    assert "line.csv, line 1: more than 1,048,576 characters without a line break" in result.stderr
    assert result.returncode == 1 and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["fit", "dta.csv"], "there is no file 'dta.csv'. Did you mean 'data.csv'?"),
        (["fit", "."], "is a folder: give a file"),
        (["fit", "data.xlsx"], "is not a CSV, Parquet or Arrow file"),
        (["fit", "broken.parquet"], "broken.parquet cannot be read as parquet"),
        (["fit", "data.csv", "--out", "data.csv/model.kin"], "cannot be written: "),
        (["fit", "data.csv", "--encoding", "martian"], "unknown encoding 'martian'"),
        (["fit", "data.csv", "--delimiter", "ab"], "--delimiter 'ab': give one character"),
        (["fit", "data.csv", "--drop", "shop"], "--drop names 'shop', which is the task or the target column"),
        (["fit", "data.csv", "--drop", "sice"], "no column 'sice' (--drop). Did you mean 'size'?"),
        (["fit", "data.csv", "--groups", "reg"], "no column 'reg' (--groups). Did you mean 'region'?"),
        (["fit", "data.csv", "--method", "gamtlvc"], "there is no method 'gamtlvc'. Did you mean 'gamtlcv'?"),
        (["fit", "data.csv", "--set", "gaurd=1"], "no parameter 'gaurd' to --set. Did you mean 'guard'?"),
        (["fit", "data.csv", "--set", "guard"], "--set guard: write a name and a value"),
        (["fit", "data.csv", "--cv", "1"], "--cv 1: gamtlcv needs at least 2 folds"),
        (["compare", "data.csv", "--cv", "1"], "--cv 1: a comparison needs at least 2 folds"),
    ],
)
def test_wrong_arguments_are_told_with_the_nearest_right_one(arguments, error, tmp_path, monkeypatch, capsys):
    from kinfolk.cli import main

    write(tmp_path / "data.csv", shops(2, 3))
    (tmp_path / "data.xlsx").write_bytes(b"PK")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--task", "shop", "--target", "sales", "--quiet"]) == 1
    said = capsys.readouterr().err
    assert error in said and said.count("\n") == 1
