"""A file whose parts make no sense is refused when it is loaded, with the name of the part; what loads predicts."""

import sys
import time
import warnings
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stored_models import TABLE, fitted

from kinfolk import GAMTLCV
from kinfolk.baselines import Independent
from kinfolk.declared import annotated, fits, held_by
from kinfolk.methods.couplings import Alone, Coupling
from kinfolk.methods.trunk import BoostedTrees
from kinfolk.rows.offsets import Offsets
from kinfolk.store import ModelFileError, load, save
from kinfolk.store.classes import RECORDS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # what the rules do with columns

RNG = np.random.default_rng(3)
N = 120
MIXED = pd.DataFrame(
    {
        "who": np.repeat(["a", "b", "c"], N // 3),
        "size": np.where(np.arange(N) % 11 == 0, np.nan, RNG.normal(size=N)),
        "when": [f"2024-{1 + k % 12:02}-{1 + k % 27:02}" for k in range(N)],
        "kind": np.resize(["red", "green", "blue"], N),
        "shop": np.resize([f"shop {k}" for k in range(52)], N),
        "open": np.resize([True, False, True, True], N),
    }
)
STEPS = pd.DataFrame(
    {"who": np.resize(["a", "b"], 240), "x": np.linspace(-3, 3, 240), "k": np.resize(["u", "v", "w"], 240)}
)
STEPS_Y = np.floor(3 * STEPS["x"]) * np.where(STEPS["k"] == "u", 1.0, -1.0) + 0.01 * np.arange(240) % 7
SMALL = {"strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "neighbors": (2,), "cv": 2}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Sound files: of a table with columns of every kind, of a search with its details, and of boosted trees."""
    warnings.simplefilter("ignore")
    folder = tmp_path_factory.mktemp("sound")
    models = {
        "rules": (Independent(task="who", penalty=1.0).fit(MIXED, np.arange(float(N))), MIXED),
        "search": (fitted("GAMTLCV"), TABLE),
        "trees": (GAMTLCV(task="who", trunk="auto", **SMALL).fit(STEPS, STEPS_Y), STEPS),
    }
    assert models["trees"][0].model_.trunk is not None
    return {name: (save(model, folder / f"{name}.kin"), table) for name, (model, table) in models.items()}


def spoiled(model, change, tmp_path):
    """The model in a file after `change`, which takes the model's record and returns another, or changes a part."""
    model.model_ = change(model.model_) or model.model_
    return save(model, tmp_path / "spoiled.kin")


def refuse(source, change, what, tmp_path):
    path = spoiled(load(source[0]), change, tmp_path)
    with pytest.raises(ModelFileError, match=f"is damaged: .*{what}") as caught:
        load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["rules", "search", "trees"])
def test_sound_models_load_and_predict_as_before(name, sources):
    path, table = sources[name]
    assert np.isfinite(load(path).predict(table)).all()


RULES = {
    "kind": {"kind": "strange"},
    "levels that are no list": {"levels": "red"},
    "levels that are no texts": {"levels": [1, 2, 3]},
    "levels twice": {"levels": ["red", "red", "blue"]},
    "others": {"others": 1},
    "gaps": {"gaps": None},
    "another field": {"else": 1},
    "one level less": {"levels": ["red", "blue"]},
}


@pytest.mark.parametrize("spoil", RULES.values(), ids=RULES)
def test_a_spoiled_rule_of_a_category_is_named(spoil, sources, tmp_path):
    refuse(sources["rules"], lambda m: _rule(m, "kind", spoil), "rule", tmp_path)


def _rule(model, column, spoil):
    model.columns.transformer.rules_[column] |= spoil


NUMBER_RULES = {
    "no mean": ("size", {"mean": "x"}),
    "infinite mean": ("size", {"mean": 1e300}),
    "no unit": ("size", {"std": 0.0}),
    "gaps": ("size", {"gaps": "yes"}),
    "cycles": ("when", {"cycles": ["month"]}),
    "origin": ("when", {"origin": 0.5}),
    "day": ("when", {"day": "%d%d"}),
    "unusual": ("open", {"unusual": "text"}),
    "effects": ("shop", {"effects": [1.0]}),
    "unit of effects": ("shop", {"std": -1.0}),
}


@pytest.mark.parametrize(("column", "spoil"), NUMBER_RULES.values(), ids=NUMBER_RULES)
def test_a_spoiled_rule_is_named_with_its_column(column, spoil, sources, tmp_path):
    refuse(sources["rules"], lambda m: _rule(m, column, spoil), f"the rule of column '{column}'", tmp_path)


def test_rules_of_other_columns_are_refused(sources, tmp_path):
    def change(model):
        rules = model.columns.transformer.rules_
        rules["strange"] = rules.pop("size")

    refuse(sources["rules"], change, "rules of other columns", tmp_path)


REPORTS = {
    "errors of a ridge": ("versus_ridge", 1.0),
    "gain": ("graph_gain", [0.0, 1.0]),
    "mixture": ("mixture", [1.0]),
    "names": ("mixture", {"one": 1.0}),
    "curves": ("curves", "x"),
    "folds": ("n_splits", "five"),
    "gains": ("gains", {"sharing": 1.0}),
    "shares": ("shares", np.ones(3)),
}


@pytest.mark.parametrize(("name", "value"), REPORTS.values(), ids=REPORTS)
def test_spoiled_reports_are_refused(name, value, sources, tmp_path):
    refuse(
        sources["search"],
        lambda m: replace(m, report=replace(m.report, **{name: value})),
        f"the {name} of a SearchReport",
        tmp_path,
    )


def test_a_report_of_other_tasks_is_refused(sources, tmp_path):
    def change(model):
        ridge = model.report.versus_ridge
        ridge = replace(ridge, errors=ridge.errors[:-1])
        return replace(model, report=replace(model.report, versus_ridge=ridge))

    refuse(sources["search"], change, "the errors of a VersusRidge", tmp_path)


def test_extras_that_are_no_attributes_are_refused(sources, tmp_path):
    refuse(sources["search"], lambda m: m.extras.update({"__class__": 1.0}), "the attribute", tmp_path)


def trees_with(**changed):
    return lambda m: replace(m, trunk=replace(m.trunk, regressor=replace(m.trunk.regressor, **changed)))


def trunk_with(name, value):
    def change(model):
        values = np.array(getattr(model.trunk, name))
        values.flat[0] = value
        return replace(model, trunk=replace(model.trunk, **{name: values}))

    return change


@pytest.mark.parametrize(
    ("name", "value"),
    [("shares", np.nan), ("shares", -1.0), ("shares", 2.0), ("beyond", np.inf), ("reach", np.nan), ("columns", 99)],
)
def test_spoiled_shares_of_trees_are_refused(name, value, sources, tmp_path):
    refuse(sources["trees"], trunk_with(name, value), f"the {name} of a Trunk", tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("values", np.nan), ("values", 1e300), ("tree", 10**6), ("feature", 99), ("bitset", 99), ("removed", 2**63)],
)
def test_spoiled_trees_are_refused(name, value, sources, tmp_path):
    def change(model):
        values = np.array(getattr(model.trunk.regressor, name))
        values.flat[0] = value
        return trees_with(**{name: values})(model)

    refuse(sources["trees"], change, "trees|BoostedTrees", tmp_path)


def test_a_feature_is_split_by_categories_or_by_numbers(sources, tmp_path):
    def change(model):
        trees = model.trunk.regressor
        one = trees.feature == trees.feature[0]
        assert one.sum() > 1
        bitset = trees.bitset.copy()
        bitset[0] = 0 if bitset[0] < 0 else -1
        return trees_with(bitset=bitset, bitsets=np.ones((1, 8), np.uint32), threshold=np.zeros(len(one)))(model)

    refuse(sources["trees"], change, "by categories and by numbers|splits of trees", tmp_path)


def crafted(n_trees, n_splits, n_features):
    """Many trees of one split: few bytes whose tables were as large as trees times features."""
    kind = np.random.default_rng(0).integers(0, n_features, n_splits)
    return BoostedTrees(
        0.0,
        np.zeros((n_trees, 64)),
        (np.arange(n_splits) % n_trees).astype(np.int32),
        np.sort(kind).astype(np.int32),
        np.arange(n_splits) % 250.0,
        np.ones(n_splits, np.uint64),
        np.zeros(n_splits, bool),
        np.full(n_splits, -1, np.int32),
        np.zeros((0, 8), np.uint32),
    )


def test_tables_of_trees_grow_with_the_splits_and_not_with_features_times_trees():
    few, many = crafted(4000, 4000, 10), crafted(4000, 4000, 1000)
    cells = [sum(table.size for *_, table in trees._tables) for trees in (few, many)]
    assert cells[1] < cells[0] <= 252 * 3 * 4000


def test_many_splits_on_many_features_take_time_in_proportion_to_their_number():
    started = time.process_time()
    crafted(10_000, 400_000, 100_000)._tables  # noqa: B018
    assert time.process_time() - started < 20


def test_trees_predict_the_same_whichever_trees_ask_for_a_feature():
    trees = crafted(40, 200, 30)
    trees = replace(trees, values=np.random.default_rng(1).normal(size=(40, 64)))
    Z = np.random.default_rng(2).uniform(-10, 260, size=(50, 30))
    Z[::7, 3] = np.nan
    leaf = np.zeros((50, 40), int)
    for t, j, edge, passes in zip(trees.tree, trees.feature, trees.threshold, trees.missing_passes, strict=True):
        fails = np.where(np.isnan(Z[:, j]), not passes, Z[:, j] > edge)
        leaf[fails, t] = 1  # every split takes the first leaf away
    np.testing.assert_allclose(trees.predict(Z), trees.values[np.arange(40), leaf].sum(axis=1), atol=1e-12)


def test_every_array_of_every_record_is_declared():
    for record in RECORDS.values():
        hints = {name: (hint, *get_args(hint)) for name, hint in annotated(record).items()}
        arrays = {name for name, some in hints.items() if np.ndarray in map(get_origin, some)}
        known = {"values", "levels", "labels"} if record.__name__ == "ByTask" else set()
        assert arrays <= set(held_by(record)) | known, record


def test_only_records_of_the_package_that_declare_their_fields_are_read_from_files():
    for name, record in RECORDS.items():
        assert record.__module__.startswith("kinfolk.") and record.__name__ == name
        assert is_dataclass(record) or issubclass(record, tuple)
        assert "__held__" in vars(record)


def test_every_annotation_of_every_record_can_be_checked():
    hints = {(record, name): hint for record in RECORDS.values() for name, hint in annotated(record).items()}
    strange = {where for where, hint in hints.items() if fits(object(), hint)}
    assert {hints[where] for where in strange} <= {Any}


@pytest.mark.parametrize("value", [True, np.True_, "1", None, [1.0]], ids=repr)
def test_what_is_no_number_fits_no_number(value):
    assert not fits(value, float) and not fits(value, int)


def test_what_has_the_members_of_a_protocol_fits_it():
    assert fits(Alone(1.0), Coupling) and not fits(np.eye(2), Coupling)


def test_declarations_name_fields():
    for record in RECORDS.values():
        names = {f.name for f in fields(record)} if is_dataclass(record) else set(record._fields)
        assert set(held_by(record)) <= names, record


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda m: replace(m, population=m.population._replace(intercept=10**30)), "the intercept of a Population"),
        (lambda m: replace(m, labels=m.labels[::-1]), "names of tasks that are not sorted"),
        (lambda m: replace(m, labels=np.array(["a", "a", "b"])), "names of tasks that are not sorted"),
        (lambda m: replace(m, labels=np.array(["x", "y", "z"])), "a GramStats of other tasks"),
        (lambda m: replace(m, columns=m.columns.with_labels(np.array(["x", "y", "z"]))), "a Schema of other tasks"),
        (lambda m: replace(m, private=True), "a model without statistics"),
        (lambda m: replace(m, gram=None), "a model without statistics"),
        (lambda m: replace(m, gram=None, private=True), "a private model with more"),
    ],
    ids=["large int", "order", "twice", "statistics", "table", "private", "no gram", "private parts"],
)
def test_parts_that_contradict_each_other_are_refused(change, what, sources, tmp_path):
    refuse(sources["rules"], change, what, tmp_path)


def test_the_task_column_of_a_table_is_that_of_the_method(sources, tmp_path):
    def change(model):
        return replace(model, columns=replace(model.columns, schema=replace(model.columns.schema, task="x0")))

    refuse(sources["search"], change, "the name of the task column", tmp_path)


@pytest.mark.parametrize("end", [np.inf, -np.inf])
def test_limits_that_no_number_lies_between_are_refused(end, sources, tmp_path):
    def change(model):
        model.columns.limits[:, 0] = end

    refuse(sources["search"], change, "limits that no number lies between", tmp_path)


@pytest.mark.parametrize("name", ["exposure", "offset"])
def test_the_exposure_and_the_offset_of_a_table_are_those_of_the_method(name, sources, tmp_path):
    def change(model):
        return replace(model, columns=replace(model.columns, offsets=Offsets(**{name: 0})))

    refuse(sources["search"], change, "the exposure or the offset", tmp_path)
