"""Missing values inside folds: filled in by the rows that train, in every door."""

import numpy as np
import pandas as pd
import pytest

from kinfolk import GAMTLCV, tune
from kinfolk.baselines import Independent
from kinfolk.rows.columns import TableRules
from kinfolk.rows.folds import folds_by_number, refilled
from kinfolk.rows.schema import Columns, ruled
from kinfolk.rows.splits import fold_of_rows
from kinfolk.rows.table import read_rows

pytestmark = pytest.mark.filterwarnings("ignore:missing values are filled in:UserWarning")


def table_with_gaps(rng, n=120, tasks=4):
    """Two inputs with gaps and one without."""
    table = pd.DataFrame(rng.normal(3, 1, (n, 3)), columns=["a", "b", "c"])
    table["y"] = table.sum(axis=1) + 0.1 * rng.normal(size=n)
    table.loc[rng.random(n) < 0.2, "a"] = np.nan
    table.loc[rng.random(n) < 0.1, "b"] = np.nan
    return table.assign(task=np.arange(n) % tasks)


def test_statistics_of_a_fold_are_those_of_rows_filled_in_by_its_training_rows():
    table = table_with_gaps(np.random.default_rng(3))
    rows = read_rows(table.drop(columns="y"), table["y"], task="task")
    columns = ruled(Columns(rows.schema), rows)
    X = columns.features(rows.table)
    fold = np.random.default_rng(4).integers(3, size=len(table))
    names = tuple(columns.transformer.get_feature_names_out())
    folds = refilled(folds_by_number(rows, X, rows.gram(X, names), fold), columns.gaps)
    for f in range(3):
        trains = np.flatnonzero(fold != f)
        rules = TableRules().fit(rows.table.take(trains).native)
        by_rows = rows.take(trains).gram(rules.transform(rows.table.take(trains).native), names)
        held_out = np.flatnonzero(fold == f)
        judged = rows.take(held_out).gram(rules.transform(rows.table.take(held_out).native), names)
        for found, expected in ((folds.training(f), by_rows), (folds.held_out[f], judged)):
            np.testing.assert_allclose(found.x_mean, expected.x_mean, atol=1e-12)
            np.testing.assert_allclose(found.G, expected.G, atol=1e-10)
            np.testing.assert_allclose(found.b, expected.b, atol=1e-10)


def test_a_value_far_out_in_a_held_out_row_does_not_reach_the_rows_that_train():
    table = table_with_gaps(np.random.default_rng(5))
    rows = read_rows(table.drop(columns="y"), table["y"], task="task")
    fold = np.arange(len(table)) % 2
    spoiled = table.copy()
    spoiled.loc[table.index[(fold == 0) & table["a"].notna()][0], "a"] = 1e6
    found = []
    for one in (table, spoiled):
        rows = read_rows(one.drop(columns="y"), one["y"], task="task")
        columns = ruled(Columns(rows.schema), rows)
        X = columns.features(rows.table)
        found.append(refilled(folds_by_number(rows, X, rows.gram(X, None), fold), columns.gaps).training(0))
    np.testing.assert_allclose(found[0].x_mean, found[1].x_mean, rtol=1e-8)


def test_tuning_by_the_rules_and_by_rules_fitted_anew_in_every_fold_agree():
    table = table_with_gaps(np.random.default_rng(6))
    X = table.drop(columns="y")
    kinds = TableRules().fit(X.drop(columns="task")).found_kinds
    errors = [
        tune(Independent(task="task", features=features), {"penalty": [0.1, 1.0]}, X, table["y"]).best_error_
        for features in (None, TableRules(kinds=kinds))
    ]
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)


def test_a_method_that_cross_validates_is_tuned_on_a_table_with_gaps():
    table = table_with_gaps(np.random.default_rng(7))
    found = tune(GAMTLCV(task="task", cv=3), {"guard": [2.0]}, table.drop(columns="y"), table["y"], cv=3)
    assert 0 < found.best_error_ < table["y"].std()


@pytest.mark.parametrize("door", ["fit", "partial_fit"])
def test_the_tuned_estimator_judges_folds_by_what_their_training_rows_fill_in(door):
    table = table_with_gaps(np.random.default_rng(8))
    table.loc[table["a"].notna().idxmax(), "a"] = 100.0  # its own fold is filled in without it
    X = table.drop(columns="y")
    model = GAMTLCV(task="task", cv=3, trunk=None)
    rows = read_rows(X, table["y"], task="task")
    columns, features, names = model.fit_columns(rows)
    gram = rows.gram(features, names)
    folds = folds_by_number(rows, features, gram, fold_of_rows(rows, features, gram, cv=3, random_state=0))
    expected = model.learn_folds(refilled(folds, columns.gaps)).held_out.errors
    getattr(model, door)(X, table["y"])
    np.testing.assert_allclose(model.cv_errors_, expected, rtol=1e-8)
    assert np.abs(model.learn_folds(folds).held_out.errors / expected - 1).max() > 1e-3
