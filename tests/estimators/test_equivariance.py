"""What changes nothing but names, units or order changes no prediction: for every method and every choice of GAMTL.

Stated exceptions: without an intercept zero has a meaning, so nothing may be shifted; methods with a penalty on raw
columns want them on one scale (`StandardScaler`, as the command line does); folds and centres follow the order of the
rows; the sampler of BMSL draws in the order of tasks and columns.
"""

import warnings
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTL, GAMTLCV
from kinfolk.methods.gamtl.calibrate import METRICS
from kinfolk.methods.gamtl.defaults import fall_into_groups
from kinfolk.methods.registry import all_methods
from kinfolk.rows.splits import assign_folds
from kinfolk.solvers.equations import INTERCEPTS

ROUNDING = 1e-9  # of the range of the predictions
# One stops at a duality gap; the other chooses among centres whose k-means may turn at a last digit.
SOLVER = {"ccmtl": 1e-5, "rbf-gamtl": 0.01}
DRAWS = 0.1  # of the range: another course of a short chain of BMSL
QUICK = {
    "bmsl": {"n_samples": 40, "n_burn": 20, "n_chains": 2, "random_state": 0},
    "gamtlcv": {"strengths": (1.0, 10.0), "ridges": (1.0,), "anchors": (0.0,), "cv": 3},
    "rbf-gamtl": {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "cv": 3},
}
CHOICES = {
    f"gamtl {metric} {intercept}": {"metric": metric, "intercept": intercept}
    for metric, intercept in product(METRICS, INTERCEPTS)
}
METHODS = sorted(set(all_methods()) - {"gfl"})  # its tasks share their inputs: see the wide table below
RNG = np.random.default_rng(0)
CODES = RNG.permutation(np.repeat(np.arange(6), [8, 9, 10, 11, 12, 13]))
X = RNG.normal(size=(len(CODES), 3)) * [1.0, 2.0, 0.5]
COEF = RNG.normal(size=(2, 3))[np.arange(6) % 2] + 0.2 * RNG.normal(size=(6, 3))
Y = (X * COEF[CODES]).sum(axis=1) + RNG.normal(size=6)[CODES] + 0.5 * RNG.normal(size=len(CODES))
TABLE = pd.DataFrame(X, columns=list("abc")).assign(task=[f"t{code}" for code in CODES])
ORDER = RNG.permutation(len(Y))
FOLD = assign_folds(CODES, 3, random_state=0)


def scaled(model):
    """A model that puts columns on one scale, by itself or by a transformer."""
    return model if model.scales_itself else model.set_params(features=StandardScaler())


def made(name, **more):
    """An unfitted model by its name here."""
    return GAMTL(task="task", **CHOICES[name]) if name in CHOICES else all_methods()[name](task="task", **more)


def predictions(model, table, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(table, y).predict(table)


@cache
def undisturbed(name):
    return predictions(scaled(made(name, **QUICK.get(name, {}))), TABLE, Y)


# A change of the table and the targets, and the way back for predictions.
CHANGES = {
    "y in a smaller unit": (lambda t, y: (t, y * 1e3), lambda p: p / 1e3),
    "y in a larger unit": (lambda t, y: (t, y * 1e-3), lambda p: p * 1e3),
    "a in another unit": (lambda t, y: (t.assign(a=t.a * 100), y), lambda p: p),
    "y shifted": (lambda t, y: (t, y + 7), lambda p: p - 7),
    "a shifted": (lambda t, y: (t.assign(a=t.a + 5), y), lambda p: p),
    "tasks in another order": (lambda t, y: (t.assign(task=[f"t{9 - int(v[1:])}" for v in t.task]), y), lambda p: p),
    "columns in another order": (lambda t, y: (t[["c", "task", "b", "a"]], y), lambda p: p),
}
SHIFTS = ("y shifted", "a shifted")
ORDERED = ("tasks in another order", "columns in another order")


def tolerance(name, change):
    return DRAWS if name == "bmsl" and change in ORDERED else SOLVER.get(name, ROUNDING)


CASES = [
    (name, change)
    for name, change in product([*METHODS, *CHOICES], CHANGES)
    if not (name.endswith("None") and change == "y shifted")
]


@pytest.mark.parametrize(("name", "change"), CASES)
def test_names_units_and_order_change_no_prediction(name, change):
    do, undo = CHANGES[change]
    found = undo(predictions(scaled(made(name, **QUICK.get(name, {}))), *do(TABLE, Y)))
    assert np.abs(found - undisturbed(name)).max() <= tolerance(name, change) * np.ptp(undisturbed(name))


def in_pairs(fold):
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]


@pytest.mark.parametrize("name", [*METHODS, *CHOICES])
def test_rows_in_another_order_in_the_same_folds_change_no_prediction(name):
    folds = {"cv": in_pairs(FOLD)} if "cv" in QUICK.get(name, {}) else {}
    moved = {"cv": in_pairs(FOLD[ORDER])} if folds else {}
    quick = QUICK.get(name, {})
    one = predictions(scaled(made(name, **quick | folds)), TABLE, Y)
    two = predictions(scaled(made(name, **quick | moved)), TABLE.iloc[ORDER], Y[ORDER])
    assert np.abs(two - one[ORDER]).max() <= SOLVER.get(name, ROUNDING) * np.ptp(one)


@pytest.mark.parametrize("options", [{}, {"strength": 1.0, "anchor": 0.5}], ids=["defaults", "anchored"])
def test_among_many_tasks_too_names_say_nothing(options):
    """Groups and variances of many tasks are judged by some of them: by content, not by the order of labels."""
    rng = np.random.default_rng(2)
    T, d, n = 220, 5, 12
    codes = np.repeat(np.arange(T), n)
    inputs = rng.normal(size=(T * n, d))
    slopes = rng.normal(size=(12, d))[rng.integers(12, size=T)] + 0.2 * rng.normal(size=(T, d))
    y = (inputs * slopes[codes]).sum(axis=1) + rng.normal(size=T * n)
    grams = []
    found = []
    for name in (np.arange(T), rng.permutation(T), rng.permutation(T)):
        model = GAMTL(task=0, unseen="mean", **options).fit(np.column_stack([name[codes], inputs]), y)
        grams.append(model.gram_)
        known = model.predict(np.column_stack([name[codes], inputs])[:240], return_std=True)
        stranger = model.predict(np.column_stack([np.full(20, T), inputs[:20]]), return_std=True)
        found.append(np.hstack([*known, *stranger]))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-7, atol=1e-9)
    assert len({bool(fall_into_groups(gram)) for gram in grams}) == 1


BY_TREES = {"columns in another order": 1e-2}  # of two columns that split alike they take the first


@pytest.fixture(scope="module")
def few_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kinfolk.search.trees.ROUNDS", 60)
        patch.setattr("kinfolk.search.trees.STEP", 30)
        yield


# Curves are a mixed model that is searched for to a tolerance of 1e-3: rounding on the way moves where that ends.
BESIDE = {False: ROUNDING, "splines": 1e-7}


@pytest.fixture(scope="module", params=BESIDE)
def with_a_trunk(few_trees, request):
    y = Y + 4 * (np.abs(TABLE.b) > 1).to_numpy() + (TABLE.b**2).to_numpy()  # a step for the trees, and a bend
    model = GAMTLCV(task="task", trunk="auto", nonlinear=request.param, **QUICK["gamtlcv"])
    before = predictions(model, TABLE, y)
    assert model.trunk_helps_ and model.nonlinear_helps_ is bool(request.param)
    return model, before, y


@pytest.mark.parametrize("change", CHANGES)
def test_beside_a_trunk_too(with_a_trunk, few_trees, change):
    model, before, y = with_a_trunk
    do, undo = CHANGES[change]
    after = undo(predictions(clone(model), *do(TABLE, y)))
    assert np.abs(after - before).max() <= BY_TREES.get(change, BESIDE[model.nonlinear]) * np.ptp(before)


def test_folds_follow_positions_alone():
    groups = np.array(list("cabd"))[np.arange(len(CODES)) % 4]
    renamed = np.array(list("zyxw"))[np.arange(len(CODES)) % 4]
    for names in (5 - CODES, 2 * CODES):
        np.testing.assert_array_equal(assign_folds(names, 3, random_state=0), FOLD)
    one, two = (assign_folds(CODES, 3, groups=g, random_state=0) for g in (groups, renamed))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["gfl", "gamtl", "gamtlcv"])
def test_wide_targets_in_another_unit_and_order(name):
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(24, 3))
    targets = inputs @ rng.normal(size=(3, 5)) + 0.3 * rng.normal(size=(24, 5))
    quick = QUICK.get(name, {})
    one = predictions(all_methods()[name](**quick), inputs, targets)
    two = predictions(all_methods()[name](**quick), inputs[:, ::-1], 1e3 * targets[:, ::-1] + 5)
    limit = {"gfl": 1e-4}.get(name, ROUNDING)
    np.testing.assert_allclose((two[:, ::-1] - 5) / 1e3, one, atol=limit * np.ptp(one))
