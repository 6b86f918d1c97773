"""Tables with little in them are fitted, with a note: single rows, a single task, fewer rows or groups than folds."""

import warnings

import numpy as np
import pandas as pd
import pytest

from kinfolk import GAMTL, GAMTLCV, compare, load
from kinfolk.cli import main
from kinfolk.large import fit_file, folds_of_file
from kinfolk.methods.registry import all_methods

SINGLE = "every task has a single row: all tasks get one line, that of all rows together"
ALONE = "column 'shop' names one task: it is fitted, with no others to learn from"
QUIET = ("random-slopes", "task-mean")  # that take single rows as they are


def single_rows(n=40):
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"shop": [f"s{i:02d}" for i in range(n)], "a": rng.normal(size=n), "b": rng.normal(size=n)})
    return table, (3 + 2 * table.a - 1000 * table.b + rng.normal(scale=0.1, size=n)).to_numpy()


@pytest.mark.parametrize("name", [name for name in all_methods() if name not in QUIET])
def test_single_rows_are_fitted_together_by_every_method(name, tmp_path):
    table, y = single_rows()
    with pytest.warns(UserWarning, match=SINGLE):
        model = all_methods()[name](task="shop").fit(table, y)
    np.testing.assert_allclose(model.coef_, np.tile([2.0, -1000.0], (40, 1)), atol=1.0)
    new = table.assign(shop="new")
    with pytest.warns(UserWarning, match="is predicted by the population"):
        np.testing.assert_allclose(model.predict(new), model.predict(table))
    mean, std = model.predict(table, return_std=True)
    assert np.isfinite(std).all()
    model.save(tmp_path / "model.kin")
    np.testing.assert_array_equal(load(tmp_path / "model.kin").predict(table), mean)
    assert "40 tasks" in str(model.summary())


@pytest.mark.filterwarnings("ignore:every task has a single row")
def test_single_rows_under_other_names_give_the_same_line():
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(20, 4))
    y = inputs @ rng.normal(size=4) * 0.5 + rng.normal(size=20)
    one, two = (np.column_stack([name, inputs]) for name in (np.arange(20), rng.permutation(20)))
    np.testing.assert_allclose(GAMTL(task=0).fit(one, y).predict(one), GAMTL(task=0).fit(two, y).predict(two))


@pytest.mark.parametrize("name", QUIET)
def test_methods_that_take_single_rows_as_they_are_say_nothing(name):
    table, y = single_rows()
    assert all_methods()[name](task="shop").fit(table, y).score(table, y) > 0.99


def test_single_rows_are_one_line_in_files_comparisons_and_commands_too(tmp_path, capsys):
    table, y = single_rows()
    file = tmp_path / "shops.csv"
    table.assign(sales=y).to_csv(file, index=False)
    with pytest.warns(UserWarning, match=SINGLE):
        model = fit_file(GAMTLCV(task="shop"), file, target="sales")
    assert not model.graph_helps_ and model.graph_.edges() == []
    errors = [row["rmse_tasks"] for row in compare(table, y, task="shop", methods=["gamtlcv", "pooled"]).table()]
    assert len(errors) == 2 and max(errors) < 1
    assert main(["fit", str(file), "--task", "shop", "--target", "sales", "--out", str(tmp_path / "m.kin")]) == 0
    assert SINGLE in capsys.readouterr().err


def test_single_rows_grow_into_tasks_as_more_come():
    table, y = single_rows()
    model = GAMTLCV(task="shop")
    with pytest.warns(UserWarning, match=SINGLE):
        model.partial_fit(table, y)
    assert list(model.mixture_) == ["one line"]
    model.partial_fit(pd.concat([table.assign(a=0.0), table.assign(a=table.b)]), [*y, *y])
    assert "one line" not in model.mixture_


@pytest.mark.parametrize("name", all_methods())
def test_a_single_task_is_fitted_with_a_note_unless_the_method_shares_nothing(name):
    table, y = single_rows()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = all_methods()[name](task="shop", **all_methods()[name].quick).fit(table.assign(shop="only"), y)
    assert model.tasks_.tolist() == ["only"]
    assert (ALONE in [str(w.message) for w in caught]) == (name not in ("independent", "task-mean"))


def test_three_rows_are_three_folds_with_a_note():
    table, y = single_rows(3)
    table["shop"] = ["a", "a", "b"]
    with (
        pytest.warns(UserWarning, match="there are 3 rows: 3 folds in place of cv=5"),
        pytest.warns(UserWarning, match="a fold leaves every task a single row to train on"),
    ):
        model = GAMTLCV(task="shop").fit(table, y)
    assert np.isfinite(model.predict(table)).all()


def test_folds_of_a_file_without_rows_are_left_out_with_a_note(tmp_path):
    table, y = single_rows(3)
    file = tmp_path / "shops.csv"
    table.assign(shop="a", sales=y).to_csv(file, index=False)
    with pytest.warns(UserWarning, match="3 of the 5 folds have rows: 3 folds in place of cv=5"):
        folds = folds_of_file(file, task="shop", target="sales", cv=5)
    assert len(folds) == 3


def test_one_row_alone_is_refused():
    table, y = single_rows(1)
    for model in (GAMTL(task="shop"), GAMTLCV(task="shop")):
        with pytest.raises(ValueError, match="n_samples=1"), pytest.warns(UserWarning, match=ALONE):
            model.fit(table, y)
