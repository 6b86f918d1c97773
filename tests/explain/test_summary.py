"""The summary of a fit: labelled, with intervals that cover, and the same words as the command line."""

import re
import sys

import numpy as np
import pandas as pd
import pytest

from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import TAT, Independent, RandomSlopes
from kinfolk.cli import main
from kinfolk.explain import account, summary
from kinfolk.explain.summary import BETWEEN, NINETY, standard_errors, variance_components


def table(T=12, n=15, d=3, seed=0, names=("price", "rain", "heat")):
    rng = np.random.default_rng(seed)
    slopes = 1 + rng.normal(size=(T, d))
    level = rng.normal(size=T)
    task = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, d))
    y = (X * slopes[task]).sum(axis=1) + level[task] + 0.5 * rng.normal(size=T * n)
    return pd.DataFrame(X, columns=list(names)).assign(shop=[f"s{t:02d}" for t in task]), y, slopes, level


@pytest.fixture(scope="module")
def fitted():
    X, y, _, _ = table()
    return GAMTLCV(task="shop", strengths=(1.0,), ridges=(1.0,), metrics=("identity",)).fit(X, y)


def test_every_number_has_its_label(fitted):
    found = fitted.summary()
    frame = found.frame()
    assert list(frame.index) == [*fitted.tasks_, "population"]
    assert list(frame.columns[:5]) == ["rows", "level", "error", "alone", "gain"]
    np.testing.assert_allclose(frame["rain"][:-1], fitted.coef_[:, 1])
    np.testing.assert_allclose(frame.loc["population", "rain"], fitted.population_coef_[1])
    np.testing.assert_allclose(frame["error"][:-1], fitted.cv_errors_)
    np.testing.assert_allclose(frame["rain high"] - frame["rain"], NINETY * frame["rain se"])
    long = found.coefficients()
    assert len(long) == 13 * 4 and set(long["feature"]) == {"intercept", "price", "rain", "heat"}


def test_coefficients_come_with_names(fitted):
    frame = fitted.coef_frame()
    assert list(frame.columns) == ["intercept", *fitted.get_feature_names_out()]
    np.testing.assert_allclose(frame.drop(columns="intercept"), fitted.coef_)


def test_without_pandas_the_tables_are_columns(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert fitted.coef_frame()["task"] == list(fitted.tasks_)
    assert "a straight-line ridge per shop" in repr(fitted.summary()) and len(fitted.summary().frame()["rain se"]) == 13


@pytest.mark.parametrize("method", [RandomSlopes(task="shop"), GAMTL(task="shop", anchor=0.9, strength=0.3)])
def test_ninety_per_cent_intervals_hold_about_ninety_per_cent(method):
    inside = []
    for seed in range(8):
        X, y, slopes, level = table(T=20, n=12, seed=seed)
        model = method.fit(X, y)
        truth = np.column_stack([level, slopes])
        coef = np.column_stack([model.intercept_, model.coef_])
        inside.append(np.abs(coef - truth) < NINETY * standard_errors(model.model_))
    assert 0.84 < np.mean(inside) < 0.96


def test_an_own_ridge_has_the_standard_errors_of_least_squares():
    X, y, _, _ = table(T=3, n=40)
    model = Independent(task="shop", penalty=1e-9).fit(X, y)
    rows = X["shop"] == "s01"
    Z = np.column_stack([np.ones(40), X.loc[rows, ["price", "rain", "heat"]]])
    expected = np.sqrt(np.diagonal(np.linalg.inv(Z.T @ Z)))
    found = standard_errors(model.model_)[1]
    np.testing.assert_allclose(found / found[0], expected / expected[0], rtol=1e-4)


def test_a_method_that_is_not_linear_has_a_summary_without_standard_errors():
    X, y, _, _ = table(T=4)
    found = summary(TAT(task="shop").fit(X, y))
    assert np.isnan(found.error[:-1]).all() and "[" not in aligned_row(found, "s01")


def aligned_row(found, name):
    return [line for line in repr(found).splitlines() if line.startswith(name)][-1]


def test_how_much_tasks_differ_is_told_of_every_value_of_a_category():
    """A column of the table for each value, whose variances share what tasks differ by: none of them is 0."""
    rng = np.random.default_rng(6)
    task = np.repeat(np.arange(20), 40)
    day = rng.integers(5, size=800)
    x = rng.normal(size=800)
    y = rng.normal(0, 3, size=(20, 5))[task, day] + np.linspace(5, 25, 20)[task] * x + rng.normal(size=800)
    table = pd.DataFrame({"task": task, "day": [f"day {k}" for k in day], "x": x})
    with pytest.warns(UserWarning, match="one-hot encoded"):
        model = RandomSlopes(task="task").fit(table, y)
    found = variance_components(model.model_)
    between = [sd for name, sd in found.items() if "day_" in name]
    assert len(between) == 5 and min(between) > 1.5 and max(between) < 4.5
    assert found[BETWEEN + "x"] == pytest.approx(np.linspace(5, 25, 20).std(), rel=0.2)


def test_text_and_page_say_the_same(fitted):
    found = fitted.summary()
    page = re.sub("<[^>]+>", " ", found._repr_html_())
    assert all(sentence in repr(found) for sentence in found.verdict)
    assert all(sentence in page.replace("&#x27;", "'") for sentence in found.verdict)
    assert "population" in repr(found) and "sd between tasks" in page


def test_decimal_points_stand_below_each_other(fitted):
    lines = repr(fitted.summary()).split("Tasks\n")[1].splitlines()[1:13]
    assert len({line.index(".") for line in lines}) == 1


def test_the_population_stands_below_the_tasks_with_rows_and_errors(fitted):
    tasks, coefficients = (text.splitlines() for text in repr(fitted.summary()).split("Tasks\n")[1].split("\n\n"))
    assert tasks[-1].split()[:2] == ["population", "180"] and coefficients[-2].startswith("population")


def test_what_is_left_out_of_the_tables_stands_in_one_bracket():
    X, y, _, _ = table(T=33, n=8, d=8, names=list("abcdefgh"))
    said = repr(RandomSlopes(task="shop").fit(X, y).summary())
    assert "Tasks (the first 30, 3 more in frame())\n" in said
    assert "(the 6 of 8 features that differ most; the first 30, 3 more in frame())" in said


def test_tasks_with_a_single_row_are_not_held_against_a_ridge_of_their_own():
    X, y, _, _ = table()
    keep = (X["shop"] > "s02") | ~X["shop"].duplicated()
    model = GAMTLCV(task="shop", strengths=(1.0,), ridges=(1.0,)).fit(X[keep], y[keep])
    assert np.isnan(model.own_errors_[:3]).all() and np.isfinite(model.own_errors_[3:]).all()
    assert np.isnan(model.own_chance_[:3]).all() and np.isfinite(model.cv_errors_).all()
    whom = next(said for said in model.summary().verdict if "lower error than with a ridge" in said)
    assert " of 9 tasks" in whom
    assert whom.endswith(" 3 tasks with a single row have no ridge of their own and are not judged.")
    assert model.summary().frame()["gain"][:3].isna().all()


def test_a_loss_is_coloured_on_the_page():
    rng = np.random.default_rng(1)
    X, y, _, _ = table(T=6, n=30)
    odd = X["shop"] == "s05"
    y = np.where(odd, -20 * X["rain"], 0.1 * X["rain"]) + 0.1 * rng.normal(size=len(y))
    model = GAMTLCV(task="shop", strengths=(1.0,), ridges=(1.0,), metrics=("identity",)).fit(X, y)
    lost = (np.asarray(model.cv_errors_) > 1.001 * model.own_errors_).sum()
    assert model.summary()._repr_html_().count("color:#b3261e") == lost


def test_verbose_prints_what_the_command_line_prints(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y, _, _ = table(T=5)
    X.assign(sales=y).to_csv("shops.csv", index=False)
    GAMTLCV(task="shop", verbose=1, strengths=(1.0,)).fit(X, y)
    python = capsys.readouterr().out.splitlines()
    assert main(["fit", "shops.csv", "--task", "shop", "--target", "sales", "--set", "strengths=1.0"]) == 0
    command = capsys.readouterr().out.splitlines()
    assert python[1:] == command[1 : len(python)]
    assert (
        python[0].split(" in ")[0]
        == command[0].split(" in ")[0]
        == "fitted gamtlcv on 75 rows, 5 tasks, 3 feature columns"
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_verbose_draws_a_bar_on_a_terminal_alone(terminal, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    X, y, _, _ = table(T=3)
    GAMTLCV(task="shop", verbose=1, strengths=(1.0,), nonlinear=False).fit(X, y)
    assert ("\x1b" in capsys.readouterr().err) == terminal


def test_after_a_long_fit_what_follows_is_announced(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kinfolk.methods.method.LONG", 0.0)
    monkeypatch.setattr("kinfolk.cli.fit.LONG", 0.0)
    X, y, _, _ = table(T=3)
    Independent(task="shop", verbose=1).fit(X, y)
    assert capsys.readouterr().out.startswith("fitted in 0 s; the verdict follows, which may take as long again\n")
    X.assign(sales=y).to_csv("shops.csv", index=False)
    main(["fit", "shops.csv", "--task", "shop", "--target", "sales", "--method", "independent", "--report", "r.html"])
    assert "note: fitted in 0 s; the report with the verdict follows" in capsys.readouterr().err


def test_a_silent_fit_is_silent(capsys):
    X, y, _, _ = table(T=3)
    model = GAMTL(task="shop").fit(X, y)
    assert capsys.readouterr() == ("", "")
    assert (
        account(model.model_, "gamtl", 0.1)[0] == "fitted gamtl on 45 rows, 3 tasks, 3 feature columns in less than 1 s"
    )
