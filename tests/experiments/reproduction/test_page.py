"""What a reader gets: one page that needs nothing else, and tables a program can read."""

import csv
import re
from html.parser import HTMLParser

import pytest

from kinfolk.cli import main
from kinfolk.experiments.reproduction.methods import METHODS
from kinfolk.experiments.reproduction.page import MARKER, insert_tables
from kinfolk.experiments.reproduction.settings import chosen
from kinfolk.experiments.reproduction.splits import split
from kinfolk.experiments.reproduction.tables import Column, ResultTable
from kinfolk.reproduce import run


class Balance(HTMLParser):
    """Counts opened and closed elements."""

    void = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attributes):
        self.open += [tag] * (tag not in self.void)

    def handle_endtag(self, tag):
        self.wrong += [tag] * (self.open.pop() != tag)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for name in set(METHODS) - {"TAT", "Independent", "task mean", "row-space oracle"}:
            patch.delitem(METHODS, name)
        yield run("synthetic", tmp_path_factory.mktemp("page"), quick=True, n_jobs=1)


def test_the_page_is_whole_and_stands_alone(page):
    text = page.read_text()
    parser = Balance()
    parser.feed(text)
    assert not parser.open and not parser.wrong
    assert not re.search(r"(src|href)=\"(?!data:|#)", text)
    assert "<script" not in text
    assert text.count("data:image/png;base64") == 2  # structures of Syn 1 and Syn 2


def test_ours_stand_beside_the_published(page):
    text = (page.parent / "reproduction.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| TAT"))
    assert "6.016 ± 0.919" in row and len(row.split("|")[3].strip()) > 0
    assert "5.595 ± 0.983" in text  # GAMTL of the paper, though not among the methods of this test
    with (page.parent / "tables" / "syn1-shared.csv").open() as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert float(rows["TAT"]["paper"]) == 6.016
    assert 4 < float(rows["row-space oracle"]["tasks"]) <= float(rows["TAT"]["tasks"]) < 8


def test_the_page_says_that_it_is_a_part(page):
    assert "cells of the full version are in these tables" in page.read_text()


def test_the_command_finds_everything_done(page, capsys):
    before = {path: path.stat().st_mtime_ns for path in (page.parent / "cells").rglob("*.json")}
    assert main(["reproduce", "synthetic", "--quick", "--jobs", "1", "--out", str(page.parent)]) == 0
    assert capsys.readouterr().out == f"results: {page}\n"
    assert before == {path: path.stat().st_mtime_ns for path in (page.parent / "cells").rglob("*.json")}


def test_the_command_puts_its_tables_into_a_document(page, tmp_path, capsys):
    document = tmp_path / "doc.md"
    document.write_text(f"prose\n{MARKER}\nold")
    assert main(["reproduce", "synthetic", "--quick", "--out", str(page.parent), "--into", str(document)]) == 0
    tables = page.with_suffix(".md").read_text()
    assert document.read_text() == f"prose\n{MARKER}\n\n{tables}"


def test_missing_data_are_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setenv("KINFOLK_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("KINFOLK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("kinfolk.experiments.data.source.urlopen", refuse)
    with pytest.raises(OSError, match="KINFOLK_DATA"):
        run("birmingham", tmp_path / "out", quick=True, n_jobs=1)
    assert not (tmp_path / "out").exists()


def test_data_of_another_folder_are_not_taken_for_missing_ones(published_data, tmp_path, monkeypatch):
    setting = chosen("birmingham", quick=True)[0]
    split(setting, 0)
    monkeypatch.setenv("KINFOLK_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("KINFOLK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("kinfolk.experiments.data.source.urlopen", refuse)
    with pytest.raises(OSError, match="KINFOLK_DATA"):
        split(setting, 0)


def refuse(*arguments, **options):
    raise OSError("no route to host")


def test_a_markdown_table_lines_up():
    columns = [Column("method", "method"), Column("error", "error", 2)]
    lines = (
        ResultTable(columns, [{"method": "a", "error": 1.5}, {"method": "longer", "error": 10.25}])
        .markdown()
        .splitlines()
    )
    assert len({len(line) for line in lines}) == 1
    assert lines[1] == "| ------ | ----: |"


def test_a_column_is_shown_where_any_row_has_a_value():
    columns = [Column("method", "method"), Column("error", "error", 1, "sd"), Column("paper", "paper")]
    rows = [{"method": "a", "error": 1.5, "sd": 0.25, "paper": None}, {"method": "b", "error": float("nan")}]
    assert ResultTable(columns, rows).text() == [["method", "error"], ["a", "1.5 ± 0.2"], ["b", ""]]


def test_tables_replace_the_end_of_a_document(tmp_path):
    document, new = tmp_path / "doc.md", tmp_path / "new.md"
    document.write_text(f"prose\n{MARKER}\nold")
    new.write_text("new")
    insert_tables(new, document)
    assert document.read_text() == f"prose\n{MARKER}\n\nnew"
    with pytest.raises(ValueError, match="new.md has no line"):
        insert_tables(document, new)
