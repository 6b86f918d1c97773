import os

import pytest

from kinfolk.files import replacing


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "result.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as partial:
        partial.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_are_made_and_the_new_file_takes_the_place_of_the_old(tmp_path):
    path = tmp_path / "deep" / "result.txt"
    for text in ("one", "two"):
        with replacing(path) as partial:
            partial.write_text(text)
        assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


def test_the_file_has_ordinary_permissions(tmp_path):
    plain = tmp_path / "plain.txt"
    plain.write_text("")
    with replacing(tmp_path / "result.txt") as partial:
        partial.write_text("")
    assert (tmp_path / "result.txt").stat().st_mode == plain.stat().st_mode


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder: give the path of a file"), replacing(tmp_path):
        pass
    assert list(tmp_path.parent.glob(f".{tmp_path.name}*")) == []


def test_an_interrupt_while_the_temporary_file_is_made_leaves_nothing(tmp_path, monkeypatch):
    make = os.open

    def interrupted(path, flags, *more, **options):
        os.close(make(path, flags, *more, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "result.txt"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path):
    path = tmp_path / ("\u6a21" * 83 + ".kin")  # 253 of 255 bytes
    with replacing(path) as partial:
        partial.write_text("whole")
    assert path.read_text() == "whole"
