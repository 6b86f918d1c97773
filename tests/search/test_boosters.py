"""Boosted trees of either library: what they predict as arrays, and how many threads they leave for what follows."""

import time

import numpy as np
import pytest

from kinfolk.rows.families import FAMILIES
from kinfolk.search import boosters

lightgbm = pytest.importorskip("lightgbm")


def rows(n=400, seed=0):
    """A category with effects of its own, gaps in one input, a step in the other."""
    rng = np.random.default_rng(seed)
    Z = np.column_stack([rng.integers(0, 30, n), rng.normal(size=(n, 2))]).astype(float)
    y = np.sin(Z[:, 0]) + (Z[:, 1] > 0) + 0.1 * rng.normal(size=n)
    Z[rng.random(n) < 0.1, 2] = np.nan
    return Z, y


def without_lightgbm():
    raise ImportError("not here")


def targets(family, seed=2):
    """Targets of a family for the rows, with exposures of counts and amounts, and a start that is no mean."""
    Z, y = rows()
    rng = np.random.default_rng(seed)
    offset = rng.uniform(-1.0, 1.0, len(y))
    if family == "gaussian":
        return Z, boosters.Boosted(y)
    if family == "binomial":
        made = (rng.random(len(y)) < 1 / (1 + np.exp(-2 * y))).astype(float)
        return Z, boosters.Boosted(made, rng.integers(1, 4, len(y)) * 1.0, FAMILIES[family], None, 0.1)
    mean = np.exp(y + offset)
    made = rng.poisson(mean).astype(float) if family == "poisson" else rng.gamma(2.0, mean / 2)
    return Z, boosters.Boosted(made, None, FAMILIES[family], offset, 0.1)


@pytest.mark.parametrize("category", [[0], None])
@pytest.mark.parametrize("family", FAMILIES)
def test_light_trees_as_arrays_predict_what_lightgbm_predicts(category, family):
    Z, made_of = targets(family)
    made = boosters.booster(Z, made_of, category=category, leaves=8, seed=0)
    assert isinstance(made, boosters._LightTrees)
    made.grow(60)
    new = rows(500, seed=1)[0]
    new[:50, 0] = np.nan if category else 0.0  # a task that nobody knows
    np.testing.assert_allclose(made.trees().predict(new), made.predict(new, 0, 60), atol=1e-12)


@pytest.mark.parametrize("library", ["lightgbm", "scikit-learn"])
@pytest.mark.parametrize("family", FAMILIES)
def test_trees_that_grow_in_steps_are_those_that_grow_at_once(library, family, monkeypatch):
    if library == "scikit-learn":
        monkeypatch.setattr(boosters, "lightgbm", without_lightgbm)
    Z, made_of = targets(family)
    slowly, at_once = (boosters.booster(Z, made_of, category=[0], leaves=8, seed=0) for _ in range(2))
    total = np.zeros(len(Z))
    for last in (10, 20, 30):
        slowly.grow(last)
        total += slowly.predict(Z, last - 10, last)
    at_once.grow(30)
    np.testing.assert_allclose(total, at_once.predict(Z, 0, 30), atol=1e-12)
    np.testing.assert_allclose(at_once.trees().predict(Z), total, atol=1e-12)


@pytest.mark.parametrize("library", ["lightgbm", "scikit-learn"])
@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
def test_trees_of_a_family_lower_its_deviance_beside_the_offset(library, family, monkeypatch):
    if library == "scikit-learn":
        monkeypatch.setattr(boosters, "lightgbm", without_lightgbm)
    Z, made_of = targets(family)
    made = boosters.booster(Z, made_of, category=[0], leaves=8, seed=0)
    made.grow(60)
    offset = 0.0 if made_of.offset is None else made_of.offset
    deviance = FAMILIES[family].deviance
    level = min(deviance(made_of.y, start + offset).mean() for start in np.linspace(-2, 2, 81))
    assert deviance(made_of.y, made.predict(Z, 0, 60) + offset).mean() < 0.8 * level


def test_targets_of_one_class_grow_no_trees():
    assert boosters.can_boost(boosters.Boosted(np.ones(5)))
    assert not boosters.can_boost(boosters.Boosted(np.ones(5), family=FAMILIES["binomial"]))


def test_either_library_is_used_for_what_it_is():
    Z, y = rows()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosters, "lightgbm", without_lightgbm)
        assert isinstance(boosters.booster(Z, boosters.Boosted(y), category=[0], leaves=8, seed=0), boosters._HistTrees)


def test_a_value_that_no_training_row_missed_goes_with_most_rows():
    Z, y = rows()
    made = boosters.booster(Z, boosters.Boosted(y), category=None, leaves=2, seed=0)
    made.grow(1)
    (tree,) = made.model.dump_model()["tree_info"]
    split = tree["tree_structure"]
    most = max((split["left_child"], split["right_child"]), key=lambda leaf: leaf["leaf_count"])
    assert split["missing_type"] == "None"
    np.testing.assert_allclose(made.trees().predict(np.full((1, 3), np.nan)), most["leaf_value"])


def test_a_few_rows_are_for_one_thread():
    """A prediction with all threads leaves them to the next round, where they wait for each other."""
    Z, y = rows(20_000)
    made = boosters.booster(Z, boosters.Boosted(y), category=[0], leaves=8, seed=0)
    everywhere, here = time.process_time(), time.thread_time()
    for last in range(5, 300, 5):
        made.grow(last)
        made.predict(Z, last - 5, last)
    assert time.process_time() - everywhere < 1.2 * (time.thread_time() - here)
