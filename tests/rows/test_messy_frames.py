"""Columns of unusual types, in frames and in files: understood by the rules, or told with a remedy."""

import datetime
import decimal
import re

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

from kinfolk.baselines import MeanShrunk
from kinfolk.cli import main
from kinfolk.large import fit_file, predict_file
from kinfolk.rows.columns import text_counts

N = 120
RNG = np.random.default_rng(11)
BASE = pd.DataFrame({"shop": RNG.choice(["a", "b", "c", "d"], N), "x": RNG.normal(size=N)})
MINUTES = RNG.integers(1, 90, N)
Y = 2 * BASE.x + 0.02 * MINUTES + 0.1 * RNG.normal(size=N)

UNDERSTOOD = {
    "timedelta": (pd.to_timedelta(MINUTES, unit="m"), 1, "durations are counted in days: 'new'"),
    "time of day": ([datetime.time(int(m) % 24, 30) for m in MINUTES], 1, "dates become days"),
    "time zone": (pd.date_range("2024-01-01", periods=N, freq="3h", tz="Europe/Berlin"), 5, "dates become days"),
    "unused levels": (pd.Categorical(["p", "q"] * (N // 2), ["p", "q", "r"]), 1, "one-hot encoded .2 categories"),
    "nullable": (pd.array([None, 2, 3, 4] * (N // 4), dtype="Int64"), 2, "missing values are filled in"),
    "arrow": (pd.array(["u", "v", "w"] * (N // 3), dtype="string[pyarrow]"), 3, "one-hot encoded .3 categories"),
    "bytes": ([b"ab", b"cd"] * (N // 2), 1, "one-hot encoded .2 categories"),
    "yes and no": (["yes", "no"] * (N // 2), 1, "one-hot encoded .2 categories"),
    "an id": (RNG.permutation(10**6)[:N], 0, "it numbers or names the rows.*'new_id'"),
}


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_a_column_of_an_unusual_type_is_understood(name):
    values, width, note = UNDERSTOOD[name]
    table = BASE.assign(**{{"an id": "new_id"}.get(name, "new"): values})
    with pytest.warns(UserWarning, match=note):
        model = MeanShrunk(task="shop").fit(table, Y)
    assert model.coef_.shape[1] == 1 + width
    assert model.score(table, Y) > 0.5


def test_decimals_are_numbers():
    prices = [decimal.Decimal(int(minutes)) for minutes in MINUTES]
    model = MeanShrunk(task="shop").fit(BASE.assign(price=prices), Y)
    np.testing.assert_allclose(model.coef_, MeanShrunk(task="shop").fit(BASE.assign(price=MINUTES * 1.0), Y).coef_)


def test_durations_are_days_in_frames_files_and_commands(tmp_path):
    frame = pl.from_pandas(BASE).with_columns(wait=pl.duration(minutes=pl.Series(MINUTES)), sales=pl.Series(Y))
    rows = tmp_path / "rows.parquet"
    frame.write_parquet(rows)
    with pytest.warns(UserWarning, match="durations are counted in days: 'wait'"):
        model = MeanShrunk(task="shop").fit(frame, "sales")
    with pytest.warns(UserWarning, match="durations are counted in days: 'wait'"):
        of_file = fit_file(MeanShrunk(task="shop"), rows, target="sales")
    np.testing.assert_allclose(of_file.coef_, model.coef_, rtol=1e-9)
    out = predict_file(of_file, rows, tmp_path / "out.parquet")
    np.testing.assert_allclose(pl.read_parquet(out)["prediction"], model.predict(frame), rtol=1e-9)
    kin = tmp_path / "m.kin"
    method = ["--method", "mean-shrunk", "--cv", "0", "--set", "penalty=1"]
    assert main(["fit", str(rows), "--task", "shop", "--target", "sales", "--out", str(kin), "--quiet", *method]) == 0
    assert main(["predict", str(kin), str(rows), "--out", str(tmp_path / "out.csv"), "--quiet"]) == 0
    by_command = pl.read_csv(tmp_path / "out.csv")["prediction"]
    assert np.corrcoef(by_command, Y)[0, 1] > 0.95


TOLD = {
    "periods": (pd.period_range("2020-01", periods=N, freq="M"), r"values of type period\[M\], which are neither"),
    "complex": (np.array(BASE.x) + 1j, "values of type complex128, which are neither"),
    "infinite": (np.where(np.arange(N) == 4, np.inf, 1.0), "row 4; 1 row in all.. Correct those values, or set them"),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_column_that_cannot_be_used_is_told_with_its_type(name):
    values, text = TOLD[name]
    with pytest.raises(ValueError, match=text):
        MeanShrunk(task="shop").fit(BASE.assign(new=values), Y)


def test_names_of_several_levels_are_told():
    table = BASE.set_axis(pd.MultiIndex.from_tuples([("k", "shop"), ("k", "x")]), axis=1)
    with pytest.raises(TypeError, match="several levels, like .'k', 'shop'.: make them one"):
        MeanShrunk(task="shop").fit(table, Y)


def test_a_lazy_frame_with_text_is_told_what_to_do():
    lazy = pl.from_pandas(BASE.assign(town="Bonn", sales=Y)).lazy()
    with pytest.raises(ValueError, match="'town' .String.*select the others, or collect the rows"):
        MeanShrunk(task="shop").fit(lazy, "sales")


def test_a_title_above_the_header_is_told(tmp_path):
    text = tmp_path / "title.csv"
    text.write_text("Sales of 2024\n\nshop,x,sales\na,1,2\n")
    with pytest.raises(ValueError, match="Titles above the header must go"):
        fit_file(MeanShrunk(task="shop"), text, target="sales")
    book = tmp_path / "title.xlsx"
    pd.DataFrame([["Sales of 2024", None], ["shop", "sales"], ["a", 2]]).to_excel(book, index=False, header=False)
    with pytest.raises(ValueError, match="Of a workbook the first sheet is read"):
        fit_file(MeanShrunk(task="shop"), book, target="sales")


def test_texts_are_counted_alike_by_an_engine_and_one_by_one():
    texts = [" Rome ", "Rome", "n/a", None, "", "  ", "\u00a0Paris", "- ", "a b", "Rome\t"]
    by_hand = text_counts(nw.from_native(pd.DataFrame({"town": texts})), "town")
    assert by_hand == text_counts(nw.from_native(pl.DataFrame({"town": texts})), "town")
    assert by_hand == text_counts(nw.from_native(pl.LazyFrame({"town": texts})), "town")
    assert by_hand == ({"Rome": 3, "Paris": 1, "a b": 1}, 5)


@pytest.mark.parametrize(
    "write", ["%m/%d/%y", "%b %d %Y", "%B %d, %Y", "%d %b %Y", "%d-%b-%y", "%d.%m.%y", "%b %d %Y %H:%M"]
)
def test_dates_as_people_write_them_are_dates(write):
    days = pd.date_range("1998-06-01", periods=N, freq="D")
    with pytest.warns(UserWarning, match="dates become days since the first.*'new'"):
        model = MeanShrunk(task="shop").fit(BASE.assign(new=days.strftime(write)), Y)
    with pytest.warns(UserWarning, match="dates become days"):
        plain = MeanShrunk(task="shop").fit(BASE.assign(new=days), Y)
    np.testing.assert_allclose(model.coef_[:, :2], plain.coef_[:, :2], rtol=1e-9)


def test_what_looks_like_dates_and_is_not_understood_says_so():
    with pytest.warns(UserWarning, match="column 'new' looks like dates, but not all in one way of writing"):
        MeanShrunk(task="shop").fit(BASE.assign(new=["Sept 3 1998", "Jun 12 1998"] * (N // 2)), Y)
    each = [f"Sept {1 + k % 28} {1990 + k // 28}" for k in range(N)]
    with pytest.warns(UserWarning, match="left out, since it looks like dates"):
        MeanShrunk(task="shop").fit(BASE.assign(new=each), Y)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([f"{k % 40}.5 C" for k in range(N)], "column 'new' looks like numbers with a unit, as in '0.5 C'"),
        ([f"{k % 3} rooms" for k in range(N)], "column 'new' looks like numbers with a unit, as in '0 rooms'"),
        ([f"{k}.5 km/h" for k in range(N)], "left out, since it looks like numbers with a unit .*'new'"),
    ],
)
def test_numbers_with_a_unit_are_named(values, said):
    with pytest.warns(UserWarning) as notes:
        MeanShrunk(task="shop").fit(BASE.assign(new=values), Y)
    assert sum(re.search(said, str(note.message)) is not None for note in notes) == 1


def test_texts_with_other_numbers_in_them_are_no_amounts():
    with pytest.warns(UserWarning) as said:
        MeanShrunk(task="shop").fit(BASE.assign(new=[f"{k % 3}{'ab'[k % 2]}" for k in range(N)]), Y)
    assert not any("with a unit" in str(note.message) for note in said)


def test_drop_missing_leaves_out_rows_without_a_task(tmp_path, capsys):
    table = BASE.assign(y=Y, shop=BASE.shop.where(BASE.index > 4))
    table.to_csv(tmp_path / "t.csv", index=False)
    command = ["fit", str(tmp_path / "t.csv"), "--task", "shop", "--target", "y", "--method", "pooled"]
    assert main(command) == 1
    assert "a row needs its task. Fill it in, or drop the row (--drop-missing)" in capsys.readouterr().err
    assert main([*command, "--drop-missing"]) == 0
    said = capsys.readouterr()
    assert "left out 5 of 120 rows with missing values ('shop' 5)" in said.out + said.err


@pytest.mark.parametrize("kind", ["Int8", "Int64", "UInt64", "Float32", "boolean"])
def test_a_nullable_column_without_any_value_is_left_out_and_may_come_later(kind):
    empty = pd.array([None] * N, dtype=kind)
    with pytest.warns(UserWarning, match="left out, since empty: 'new'"):
        model = MeanShrunk(task="shop").fit(BASE.assign(new=empty), Y)
    np.testing.assert_array_equal(
        model.predict(BASE.assign(new=empty)), MeanShrunk(task="shop").fit(BASE, Y).predict(BASE)
    )
    filled = MeanShrunk(task="shop").fit(BASE.assign(new=MINUTES / 2), Y)
    with pytest.warns(UserWarning, match=f"column 'new': {N} missing values, filled in as the mean of fit"):
        assert np.isfinite(filled.predict(BASE.assign(new=empty))).all()


def test_tasks_that_are_true_and_false_are_the_same_in_every_type_of_column():
    model = MeanShrunk(task="shop").fit(BASE.assign(shop=BASE.shop == "a"), Y)
    nullable = BASE.assign(shop=pd.array(BASE.shop == "a", dtype="boolean"))
    np.testing.assert_array_equal(model.predict(nullable), model.predict(BASE.assign(shop=BASE.shop == "a")))
