"""Tables as people export them: read alike by the command and in Python, and every liberty is told."""

import warnings

import numpy as np
import pandas as pd
import pytest

from kinfolk import load
from kinfolk.baselines import Independent
from kinfolk.cli import main
from kinfolk.rows.texts import NUMBERS, number_in

RNG = np.random.default_rng(8)
N = 36
SIZE = RNG.uniform(1, 9, N).round(2)
SHARE = RNG.uniform(0, 40, N).round(1)
LOSS = RNG.normal(0, 50, N).round(2)
SALES = (1000 + 200 * SIZE + 10 * SHARE + LOSS).round(2)
SHOP = np.array(["Köln", "Bonn", "Ulm"])[np.arange(N) % 3]


def european(number):
    """1.234,5 for 1234.5."""
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def american(number):
    """$1,234.50, a loss in brackets."""
    return f"(${-number:,.2f})" if number < 0 else f"${number:,.2f}"


def table(write, separator, per_cent):
    """Lines of a file whose numbers are written like this; names and labels have spaces around them."""
    cells = [SHOP, SIZE, SHARE, LOSS, SALES]
    rows = [
        [f" {shop}", write(size), f"{write(share)}{per_cent}", write(loss), write(sales), ""]
        for shop, size, share, loss, sales in zip(*cells, strict=True)
    ]
    rows[4][1] = "n/a"
    rows[7][4] = "n/a"
    quoted = [[f'"{cell}"' if separator in cell else cell for cell in row] for row in rows]
    return "\n".join(separator.join(row) for row in [["shop ", " size", "share", "loss", "sales", "empty"], *quoted])


STYLES = {
    "plain": ("{}".format, ",", ""),
    "european": (european, ";", " %"),
    "american": (american, ",", "%"),
    "american, tabs": (american, "\t", "%"),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Predictions from the plain table."""
    return predictions(tmp_path_factory.mktemp("plain"), "plain")


def predictions(folder, style):
    """Of the command, for the rows that it was fitted to."""
    file, model, out = folder / "t.csv", folder / "t.kin", folder / "p.csv"
    file.write_text("\ufeff" + table(*STYLES[style]), encoding="utf-8")
    command = ["fit", file, "--task", "shop", "--target", "sales", "--method", "independent", "--out", model]
    assert main([*map(str, command), "--quiet"]) == 0
    assert main([*map(str, ["predict", model, file, "--out", out, "--quiet"])]) == 0
    return pd.read_csv(out)["prediction"].to_numpy()


@pytest.mark.parametrize("style", STYLES)
def test_numbers_are_the_same_however_they_are_written(style, expected, tmp_path):
    np.testing.assert_allclose(predictions(tmp_path, style), expected, rtol=1e-9)
    assert load(tmp_path / "t.kin").gram_.n.sum() == N - 1


@pytest.mark.parametrize(("style", "separator"), [("european", ";"), ("american", ",")])
@pytest.mark.filterwarnings("ignore:missing values are filled in:UserWarning")
@pytest.mark.filterwarnings("ignore:left out 1 of 36 rows:UserWarning")
def test_python_reads_numbers_that_are_texts_of_a_frame(style, separator, tmp_path):
    numbers = pd.DataFrame({"shop": SHOP, "size": SIZE, "share": SHARE, "loss": LOSS, "sales": SALES})
    numbers.loc[4, "size"] = numbers.loc[7, "sales"] = np.nan
    expected = Independent(task="shop", penalty=0.1).fit(numbers, "sales")
    (tmp_path / "t.csv").write_text(table(*STYLES[style]), encoding="utf-8")
    frame = pd.read_csv(tmp_path / "t.csv", sep=separator, dtype=str, keep_default_na=False)
    frame = frame.rename(columns=str.strip)
    frame["shop"] = frame["shop"].str.strip()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = Independent(task="shop", penalty=0.1).fit(frame, "sales")
    told = [str(w.message) for w in caught]
    assert any("column 'share' is read as numbers" in note for note in told)
    np.testing.assert_allclose(model.predict(frame), expected.predict(numbers), rtol=1e-9)


def test_dates_may_be_written_in_two_ways(tmp_path, capsys):
    day = pd.date_range("2023-01-13", periods=N, freq="9D")
    written = [d.strftime("%Y-%m-%d" if k % 2 else "%m/%d/%Y") for k, d in enumerate(day)]
    frame = pd.DataFrame({"shop": SHOP, "day": written, "sales": SALES + np.arange(N)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    command = ["fit", tmp_path / "t.csv", "--task", "shop", "--target", "sales", "--method", "independent"]
    assert main([*map(str, command), "--out", str(tmp_path / "t.kin")]) == 0
    assert "dates become days since the first" in capsys.readouterr().err
    assert load(tmp_path / "t.kin").features_.rules_["day"]["day"] == "%Y-%m-%d|%m/%d/%Y"


def test_labels_that_differ_only_in_spaces_are_told():
    frame = pd.DataFrame({"shop": ["a", "a ", "b"] * 6, "size": np.arange(18) % 7, "sales": np.arange(18.0)})
    with pytest.warns(UserWarning, match=r"differ only in spaces \('a', 'a '\)"):
        Independent(task="shop").fit(frame, "sales")


def test_what_only_looks_like_a_number_is_none():
    assert "comma" in NUMBERS
    assert [number_in(text) for text in ("1,23", "12-34", "1.2.3", "$", "%", "1,2345", "A1")] == [None] * 7
