"""Files that are not the table they should be: one line each, with place and remedy, through the installed command."""

import bz2
import gzip
import lzma
import os
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import polars as pl
import pytest
from joblib import Parallel, delayed
from tables_for_tests import kinfolk, shops, write

from kinfolk.sources.files import Reading, open_source
from kinfolk.sources.lines import is_utf8, may_have_short_lines


def lines(*texts):
    return "\n".join(texts).encode() + b"\n"


GOOD = ["shop,size,sales", *(f"{shop},{k}.5,{k + shop}" for shop in (1, 2) for k in range(6))]
FILES = {
    "empty": b"",
    "header_only": b"shop,size,sales\n",
    "blank": b"\n\n\n",
    "blank_above": b"\n" + lines(*GOOD),
    "old_mac": lines(*GOOD).replace(b"\n", b"\r"),
    "parquet_inside": b"PAR1\x15\x04\x15",
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
    "missing_task": lines(*GOOD, ",1,3"),
    "infinite": lines(*GOOD, "2,inf,3"),
    "target_and_input": lines("shop,size,sales", "1,oops,7", "1,3,8", "2,4,x1", "2,5,9"),
    "two_problems": lines("shop,size,code,sales", "1,oops,7,3", "1,3,8,4", "2,4,x1,2", "2,5,9,1"),
    "many_columns": lines(",".join(["shop", "sales", *(f"x{j}" for j in range(100_001))])),
    "damaged_zstd": b"\x28\xb5\x2f\xfd" + b"\xff" * 50,
    "long_label": lines(*GOOD, f"{'L' * 100_000},1,3"),
    "nothing_varies": lines("shop,size,sales", "1,2,3", "1,2,4"),
    "only_task_and_target": lines("shop,sales", "1,2", "1,3"),
}
ERRORS = {
    "empty": "empty.csv is empty: the first line must name the columns",
    "blank": "blank.csv: the first line is blank, but must name the columns",
    "blank_above": "blank_above.csv: the first line is blank, but must name the columns",
    "old_mac": "old_mac.csv: lines end in a carriage return alone. Save it with line feeds",
    "parquet_inside": "parquet_inside.csv is no text: it begins as a file ending in .parquet does",
    "header_only": "header_only.csv has a header but no rows",
    "missing_column": "missing_column.csv has no column 'shop' (--task). Did you mean 'shops'? Its columns are",
    "one_column": "is the separator another one? Name it on the command line with --delimiter",
    "text_in_numbers": "text_in_numbers.csv, line 14: column 'size' holds numbers, but here 'oops'.",
    "text_in_target": "text_in_target.csv, line 14: column 'sales' holds numbers, but here 'oops'. Correct it",
    "latin_1": "latin_1.csv, line 14: byte 0xe9 is not utf-8. Give --encoding latin-1",
    "duplicate_header": "duplicate_header.csv has two columns named 'size': rename one",
    "nameless_column": "nameless_column.csv: column 2 has no name in the header",
    "ragged": "ragged.csv, line 14: 4 values, but the header names 3 columns (separated by commas)",
    "short_row": "short_row.csv, line 14: 2 values, but the header names 3 columns",
    "damaged_zstd": "damaged_zstd.csv cannot be unpacked: ",
    "nul_bytes": "nul_bytes.csv, line 14: holds NUL bytes",
    "open_quote": "open_quote.csv, line 14: a quote is opened and not closed",
    "open_quote_in_a_long_file": "open_quote_in_a_long_file.csv, line 14: a quote is opened and not closed",
    "quote_in_a_quote": "quote_in_a_quote.csv, line 14: ',' expected after '\"'. Inside a quoted value",
    "missing_task": "missing values in 1 of 13 rows ('shop' 1; the first in line 14)",
    "infinite": "infinite.csv, line 14: column 'size' is infinite there",
    "target_and_input": "line 4: column 'sales' holds numbers, but here 'x1'. Correct it: the target is a number. "
    "target_and_input.csv, line 2: column 'size' holds numbers, but here 'oops'. Correct or empty",
    "two_problems": "line 2: column 'size' holds numbers, but here 'oops'. two_problems.csv, line 4: column 'code' "
    "holds numbers, but here 'x1'. Correct or empty these values, take columns as categories: --categorical size code, "
    "or leave them out: --drop size code",
    "many_columns": "many_columns.csv has 100,003 columns, more than 5,000: are rows and columns swapped?",
    "long_label": "task column 'shop' has a label of 100,000 characters, more than 1,000: is it text",
    "nothing_varies": "no column is left to predict from: left out, since the same in all rows",
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


def with_column(name, values):
    """The good table with one more column."""
    return lines(f"{GOOD[0]},{name}", *(f"{line},{value}" for line, value in zip(GOOD[1:], values, strict=True)))


FORGIVEN = {
    "missing value": (lines(*GOOD, "2,,3", "2,NA,4"), "filled in, and a column says where they were: 'size'"),
    "missing target": (lines(*GOOD, "2,3,", "2,4,NA"), "left out 2 of 14 rows without a target"),
    "date": (with_column("day", [f"2024-05-{k + 1:02d}" for k in range(12)]), "dates become days since the first"),
    "day of month first": (with_column("day", ["1.5.2024", "2.5.2024 10:30"] * 6), "dates become days since the first"),
    "many categories": (
        lines("shop,size,town,sales", *(f"{k % 2},{k * k % 7},t{k % 60},{k}" for k in range(150))),
        (  # in memory, and in blocks
            "what each category adds to the target, learned from other rows: 'town' (60)",
            "column 'town' is text and is one-hot encoded (the 50 most frequent of 60 categories; the others, 13 % of "
            "the rows, share a column; in memory it would be one number, learned from the target)",
        ),
    ),
    "free text": (
        lines("shop,size,note,sales", *(f"{k % 2},{k * k % 7},note {k},{k}" for k in range(60))),
        "left out, since nearly every row has a text of its own: 'note'",
    ),
    "row numbers": (
        lines("shop,size,number,sales", *(f"{k % 2},{k * k % 7},{k},{k % 5}" for k in range(60))),
        "left out, since it numbers or names the rows and tells nothing about others: 'number'",
    ),
    "decimal comma": (
        lines("shop;size;sales", *(f"{k % 2};{k % 5},5;1.{k:03d},25" for k in range(12))),
        "numbers have a decimal comma",
    ),
    "thousands": (with_column("rent", [f'"$1,{k:03d}"' for k in range(12)]), "'rent' is read as numbers: '$1,000' is"),
    "empty column": (with_column("note", [""] * 12), "left out, since empty: 'note'"),
}


@pytest.mark.parametrize("how", [[], ["--stream"]], ids=["in memory", "in blocks"])
@pytest.mark.parametrize("name", FORGIVEN)
def test_a_table_is_not_refused_for_a_small_thing(name, how, tmp_path, monkeypatch, capsys):
    from kinfolk.cli import main

    content, note = FORGIVEN[name]
    note = note if isinstance(note, str) else note[len(how)]
    (tmp_path / "data.csv").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    fast = ["--method", "mean-shrunk", "--set", "penalty=1.0", "--cv", "0", "--out", "model.kin"]
    assert main(["fit", "data.csv", "--task", "shop", "--target", "sales", *fast, *how]) == 0
    assert note in capsys.readouterr().err
    assert main(["predict", "model.kin", "data.csv", "--out", "predictions.csv", *how]) == 0
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == len(content.splitlines())


LAST_GAPS = ["shop,size,sales", *(f"{k % 2},{k * k % 7},{'' if k == 4 else k}" for k in range(12))]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_gaps_at_the_end_of_whole_lines_are_no_reason_to_read_line_by_line(ending, tmp_path):
    file = tmp_path / "table.csv"
    file.write_bytes((ending.join([*LAST_GAPS, "", ""])).encode())
    assert not may_have_short_lines(file, Reading())
    file.write_bytes((ending.join([*LAST_GAPS, "1,5"])).encode())
    assert may_have_short_lines(file, Reading())
    file.write_bytes((ending.join([*LAST_GAPS, '1,"a', 'b",2'])).encode())
    assert may_have_short_lines(file, Reading())  # perhaps: a quoted value goes over two lines
    file.write_text(ending.join(LAST_GAPS), "utf-16")
    assert may_have_short_lines(file, Reading(encoding="utf-16"))  # nobody can tell


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
        (["fit", "dta.csv"], "there is no file or folder 'dta.csv'. Did you mean 'data.csv'?"),
        (["fit", "."], "mixes files ending in csv, parquet, xlsx: put each format in a folder of its own"),
        (["fit", "data.xlsx"], "data.xlsx cannot be read as xlsx"),
        (["fit", "data.zip"], "data.zip is not a table: export it as CSV, Parquet"),
        (["fit", "broken.parquet"], "broken.parquet cannot be read as parquet"),
        (["fit", "data.csv", "--out", "data.zip/model.kin"], "cannot be written: "),
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
    (tmp_path / "data.zip").write_bytes(b"PK")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--task", "shop", "--target", "sales", "--quiet"]) == 1
    said = capsys.readouterr().err
    assert error in said and said.count("\n") == 1


def test_an_encoding_that_is_none_of_text(tmp_path):
    (tmp_path / "t.csv").write_bytes(lines(*GOOD))
    with pytest.raises(ValueError, match="unknown encoding 'base64'"):
        is_utf8(tmp_path / "t.csv", "base64")


def test_a_link_to_nothing_is_called_that(tmp_path):
    (tmp_path / "t.csv").symlink_to("gone.csv")
    with pytest.raises(FileNotFoundError, match="t.csv' is a link to a file that is not there$"):
        open_source(tmp_path / "t.csv")


def test_a_pipe_is_not_called_empty(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("-", tmp_path / "pipe"):
        with pytest.raises(ValueError, match="a table is read more than once, and a pipe or device only once"):
            open_source(name)


def test_a_table_without_a_name_is_told(capsys):
    from kinfolk.cli import main

    with pytest.raises(SystemExit):
        main(["fit", "", "--task", "shop", "--target", "sales"])
    assert "the name of the table is empty" in capsys.readouterr().err


def test_new_rows_may_write_tasks_as_floats_but_must_not_be_none(tmp_path, monkeypatch, capsys):
    from kinfolk.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit.csv").write_bytes(lines(*GOOD))
    (tmp_path / "none.csv").write_text("shop,size\n")
    (tmp_path / "floats.csv").write_text("shop,size\n1.0,2\n2.0,3\n")
    (tmp_path / "whole.csv").write_text("shop,size\n1,2\n2,3\n")
    assert main(["fit", "fit.csv", "--task", "shop", "--target", "sales", "--quiet", "--out", "m.kin"]) == 0
    capsys.readouterr()
    assert main(["predict", "m.kin", "none.csv"]) == 1
    assert capsys.readouterr().err == "kinfolk: none.csv has a header but no rows\n"
    assert [main(["predict", "m.kin", name]) for name in ("floats.csv", "whole.csv")] == [0, 0]
    header, *rows = capsys.readouterr().out.splitlines()
    assert rows == [rows[0], rows[1], header, rows[0], rows[1]]


def by_zstd(text):
    """Polars writes such files itself."""
    packed = BytesIO()
    pl.read_csv(text, infer_schema=False).write_csv(packed, compression="zstd")
    return packed.getvalue()


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": by_zstd}


def packed(kind, text):
    """A text as a file of this kind."""
    return PACKERS[kind](text)


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999], ids=["header cut", "half", "end cut"])
@pytest.mark.parametrize("how", [(), ("--stream",)], ids=["in memory", "in blocks"])
@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_a_packed_file_that_is_cut_says_so(kind, how, share, tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = [f"{k % 3},{size:.9f},{sales:.9f}" for k, (size, sales) in enumerate(rng.normal(size=(4000, 2)))]
    whole = packed(kind, lines("shop,size,sales", *rows))
    file = tmp_path / f"t.csv.{kind}"
    file.write_bytes(whole[: max(12, int(share * len(whole)))])
    cut_says_so(file, how, capsys)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("how", [(), ("--stream",)], ids=["in memory", "in blocks"])
@pytest.mark.parametrize("kind", PACKERS)
def test_a_packed_file_of_a_few_bytes_is_cut(kind, how, n, tmp_path, capsys):
    file = tmp_path / f"t.csv.{kind}"
    file.write_bytes(packed(kind, lines("shop,size,sales", "1,2,3"))[:n])
    cut_says_so(file, how, capsys)


def cut_says_so(file, how, capsys):
    from kinfolk.cli import main

    options = ["--task", "shop", "--target", "sales", "--method", "independent", *how, "--quiet"]
    assert main(["fit", str(file), *options]) == 1
    said = capsys.readouterr().err
    assert (
        said == f"kinfolk: {file.name} is cut: its packed data end before the table does. Copy or download it again\n"
    )


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_a_packed_file_that_is_damaged_says_so(kind, tmp_path, capsys):
    from kinfolk.cli import main

    whole = packed(kind, lines("shop,size,sales", *(f"{k % 3},{k * k % 977}.5,{k}" for k in range(9000))))
    middle = len(whole) // 2
    (tmp_path / f"t.csv.{kind}").write_bytes(whole[:middle] + bytes(40) + whole[middle + 40 :])
    assert main(["fit", str(tmp_path / f"t.csv.{kind}"), "--task", "shop", "--target", "sales", "--quiet"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"kinfolk: t.csv.{kind} is damaged: its packed data make no sense") and said.count("\n") == 1


def test_a_wide_header_without_rows_is_found_at_once(tmp_path, capsys):
    from kinfolk.cli import main

    (tmp_path / "t.csv").write_text(",".join(["shop", "sales", *(f"a_measurement_of_{k}" for k in range(4900))]) + "\n")
    begun = time.process_time()
    assert main(["fit", str(tmp_path / "t.csv"), "--task", "shop", "--target", "sales", "--quiet"]) == 1
    assert capsys.readouterr().err == "kinfolk: t.csv has a header but no rows\n"
    assert time.process_time() - begun < 15  # a minute where every column was asked in turn


@pytest.mark.parametrize("limit", [700, 1100, 1500], ids=lambda limit: f"{limit} MB")
def test_too_little_memory_for_the_process_is_one_line(limit, tmp_path):
    (tmp_path / "t.csv").write_bytes(lines(*GOOD))

    def starve():
        resource.setrlimit(resource.RLIMIT_AS, (limit * 2**20, limit * 2**20))

    done = kinfolk("fit", "t.csv", "--task", "shop", "--target", "sales", cwd=tmp_path, preexec_fn=starve, timeout=60)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr[-500:]
    assert "not enough memory" in done.stderr and "(ulimit -v) leaves" in done.stderr


def test_a_killed_worker_is_one_line(monkeypatch, tmp_path, capsys):
    from kinfolk import cli

    def killed(*_):
        Parallel(n_jobs=2)(delayed(die)() for _ in range(2))

    (tmp_path / "t.csv").write_bytes(lines(*GOOD))
    monkeypatch.setattr("kinfolk.cli.fit.run", killed)
    assert cli.main(["fit", str(tmp_path / "t.csv"), "--task", "shop", "--target", "sales"]) == 1
    said = capsys.readouterr().err
    assert said == "kinfolk: a worker process was killed, perhaps as memory ran out: fewer --jobs take less\n"


def die():
    """What the kernel does to a process when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
