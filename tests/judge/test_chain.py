"""The chain of gains: what curves, sharing, the graph and trees give, and the same numbers wherever they are told."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL, compare
from kinfolk.baselines import Independent
from kinfolk.explain.summary import account
from kinfolk.judge.verdict import ALONG_GRAPH, is_map, judged_gains, verdict_of
from kinfolk.methods.splines import SplineFeatures
from kinfolk.report.summary import summarize
from kinfolk.search.errors import Errors, chain_of_gains
from kinfolk.store import load

T = 16
STEPS = ["curves", "sharing", "graph", "trees"]


def airports(kind, rows=40, seed=0):
    """A table of T airports whose delays differ by what is named: curves of their own, common slopes, or nothing."""
    rng = np.random.default_rng(seed)
    t = np.tile(np.arange(T), rows)
    x = rng.uniform(-2, 2, size=(len(t), 2))
    truth = np.random.default_rng(99)
    level, slopes, size = truth.normal(size=T), truth.normal(size=(T, 2)), truth.uniform(-3, 3, size=T)
    y = {
        "curves": size[t] * np.cos(2.5 * x[:, 0]) + 2 * (slopes[t] * x).sum(axis=1),
        "sharing": x @ [1.0, -1.0],
        "groups": 2 * (slopes[t % 3] * x).sum(axis=1),
        "nothing": 3 * (slopes[t] * x).sum(axis=1),
        "boxes": 3.0 * ((x[:, 0] > 0) ^ (x[:, 1] > 0)),
    }[kind]
    table = pd.DataFrame({"airport": [f"A{k:02d}" for k in t], "wind": x[:, 0], "rain": x[:, 1]})
    return table, y + 2 * level[t] + 0.5 * rng.normal(size=len(t))


def fitted(kind, rows=40, **parameters):
    return GAMTLCV(task="airport", **{"trunk": None} | parameters).fit(*airports(kind, rows))


def task_errors(model, table, y):
    squared = pd.Series((model.predict(table) - y) ** 2).groupby(table["airport"].to_numpy()).mean()
    return np.sqrt(squared.to_numpy()).mean()


@pytest.mark.parametrize(("kind", "rows"), [("curves", 40), ("curves", 100), ("sharing", 16), ("nothing", 40)])
def test_the_chain_is_what_fresh_rows_say(kind, rows):
    """Straight ridges, ridges with the same splines, and the model, on 200 fresh rows per task."""
    table, y = airports(kind, rows)
    model = fitted(kind, rows)
    fresh = airports(kind, 200, seed=1)
    curves = make_pipeline(SplineFeatures(), StandardScaler())
    with_curves = Independent(task="airport", penalty="cv", features=curves).fit(table, y)
    straight = Independent(task="airport", penalty="cv", features=StandardScaler()).fit(table, y)
    start, bent, end = (task_errors(one, *fresh) for one in (straight, with_curves, model))
    step = (start - bent) / start if model.nonlinear_helps_ else 0.0
    assert model.gains_["curves"].mean == pytest.approx(step, abs=0.05)
    assert sum(gain.mean for gain in model.gains_.values()) == pytest.approx((start - end) / start, abs=0.06)


def test_all_of_the_gain_may_be_that_of_curves():
    model = fitted("curves", 100)
    gains = model.gains_
    assert gains["curves"].mean > 0.4 > 0.1 > gains["sharing"].mean
    first = model.summary().verdict[0]
    said = [float(number) for number in re.findall(r"-?\d+\.?\d*", first)]
    np.testing.assert_allclose(
        said, [100 * g for g in (model.own_gain_.mean, *(gains[s].mean for s in STEPS[:3]))], atol=0.5
    )
    assert re.sub(r"[\d.]+\b", "#", first) == (
        "# % less error than a straight-line ridge per airport: curves give #, sharing #, the graph #."
    )
    assert not any("Sharing" in said for said in model.summary().verdict)


def test_sharing_is_all_of_the_gain_where_lines_are_common():
    gains = fitted("sharing", 8).gains_
    assert gains["curves"] == (0.0, 0.0) and gains["sharing"].mean > 0.05 > abs(gains["graph"].mean)


def test_the_graph_has_its_own_step_where_there_are_groups():
    model = fitted("groups", 12)
    assert model.graph_helps_ and model.gains_["graph"].mean > 2 * model.gains_["graph"].standard_error > 0
    assert any(said.startswith("The graph helps: ") for said in model.summary().verdict)


def test_trees_are_a_step_of_their_own():
    model = fitted("boxes", trunk="auto")
    assert model.gains_["trees"].mean > 0.3 and "trees" in model.summary().verdict[0]
    assert not model.graph_helps_ and model.gains_["graph"] == (0.0, 0.0)
    assert list(model.gains_) == STEPS
    assert sum(gain.mean for gain in model.gains_.values()) == pytest.approx(model.own_gain_.mean, abs=1e-12)
    without = fitted("sharing", 8).summary().verdict
    assert "trees" not in without[0] and without[-1].endswith("Boosted trees were not tried: trunk='auto' judges them.")


@pytest.mark.parametrize("options", [{}, {"nonlinear": False}, {"nonlinear": True}])
@pytest.mark.parametrize("in_time", [False, True])
def test_steps_add_up_to_the_whole(options, in_time):
    table, y = airports("curves", 20)
    time = np.repeat(np.arange(20), T) if in_time else None
    model = GAMTLCV(task="airport", trunk=None, **options).fit(table, y, time=time)
    assert list(model.gains_) == STEPS
    assert sum(gain.mean for gain in model.gains_.values()) == pytest.approx(model.own_gain_.mean, abs=1e-12)
    assert all(gain.standard_error >= 0 for gain in model.gains_.values())
    straight = options.get("nonlinear") is False
    assert ("curves" in judged_gains(model.model_)) is not straight and (model.gains_["curves"].mean == 0) >= straight


@pytest.mark.parametrize("estimator", [GAMTL(task="airport"), Independent(task="airport")])
def test_methods_that_try_nothing_else_have_no_chain(estimator):
    table, y = airports("sharing", 8)
    model = estimator.fit(table, y)
    assert not hasattr(model, "gains_") and judged_gains(model.model_) is None and verdict_of(model.model_) == []
    page = summarize(model, table, y)
    assert page["gains"] is None and page["headline"][0].startswith("Sharing ")


def test_basis_functions_are_judged_as_curves():
    table, y = airports("curves", 20)
    model = RBFGAMTL(task="airport").fit(table, y)
    assert list(model.gains_) == STEPS
    assert " % less error than a straight-line ridge per airport: curves give " in model.summary().verdict[0]
    # Without a chain, what curves and sharing give is not told apart.
    earlier = replace(model.model_, report=replace(model.model_.report, gains=None))
    assert verdict_of(earlier)[0].startswith("The held-out error of this model is lower than that of a ridge per task")


def test_one_run_says_one_thing(tmp_path):
    """Fit, summary, file, report and compare have the same chain, the same sentences and the same standard errors."""
    table, y = airports("sharing", 8)
    model = GAMTLCV(task="airport").fit(table, y)
    said = model.summary().verdict
    model.save(tmp_path / "a.kin")
    loaded = load(tmp_path / "a.kin")
    assert loaded.summary().verdict == said and loaded.gains_ == model.gains_
    page = summarize(model, table, y)
    assert [text.replace("\u2068", "").replace("\u2069", "") for text in page["headline"][: len(said)]] == said
    assert {step["name"]: step["mean"] for step in page["gains"]} == pytest.approx(
        {name: gain.mean for name, gain in judged_gains(model.model_).items()}, rel=1e-3
    )
    found = compare(table, y, task="airport", methods=["independent", GAMTLCV()])
    assert found.gains == judged_gains(model.model_)
    assert f"gamtlcv in its own cross-validation on all rows: {said[0]}" in found.verdict
    assert next(text for text in said if text.startswith("The graph")) in found.verdict
    assert json.dumps(page["gains"])


def test_a_graph_without_a_part_is_drawn_as_a_map():
    without = fitted("nothing", 20)
    along = fitted("groups", 12)
    assert not without.graph_helps_ and along.graph_helps_
    assert summarize(without)["map"].startswith("This graph is a map") and summarize(along)["map"] == ""
    assert any(line.startswith("map: ") for line in account(without, "gamtlcv", 1.0))
    assert any(line.startswith("graph: ") for line in account(along, "gamtlcv", 1.0))
    # A share of 0.024 is no help.
    shares = [0.024 * (part.coupling.source == ALONG_GRAPH and part.shown) for part in along.model_.parts]
    parts = [replace(p, share=s, own_shares=None) for p, s in zip(along.model_.parts, shares, strict=True)]
    assert is_map(replace(along.model_, parts=tuple(parts))) and not is_map(along.model_)


def test_groups_are_told_by_their_levels_first_and_levels_are_those_at_mean_inputs():
    """Two groups that differ in level and by a slope, along a year that is far from 0."""
    rng = np.random.default_rng(4)
    t = np.tile(np.arange(12), 30)
    year = rng.uniform(2000, 2010, size=len(t))
    high = t % 2 == 0
    y = np.where(high, 50.0, 10.0) + np.where(high, 2.0, -1.0) * (year - 2005) + 0.5 * rng.normal(size=len(t))
    table = pd.DataFrame({"school": [f"s{k:02d}" for k in t], "year": year})
    model = GAMTLCV(task="school", nonlinear=False).fit(table, y)
    at_mean = pd.DataFrame({"school": model.tasks_, "year": year.mean()})
    level = model.predict(at_mean)
    np.testing.assert_allclose(model.model_.levels, level)
    first = next(said for said in model.summary().groups if said.startswith("Group 1"))
    inside = np.array([name in first.split(")")[0] for name in model.tasks_])
    assert f"): level {level[inside].mean():.1f} (elsewhere {level[~inside].mean():.1f}), year " in first
    printed = repr(model.summary()).split("Coefficients")[1]
    assert "level at mean inputs" in printed and "intercept" not in printed
    row = next(line for line in printed.splitlines() if line.startswith("s00"))
    assert float(row.split()[1]) == pytest.approx(level[0], abs=0.1)
    assert summarize(model)["tasks"]["level"] == pytest.approx(level, rel=1e-3)
    assert abs(model.intercept_).min() > 1000  # the attribute stays what it is


def test_a_task_that_never_varies_is_named():
    table, y = airports("sharing", 8)
    y[table["airport"] == "A03"] = 7.0
    model = GAMTLCV(task="airport", nonlinear=False).fit(table, y)
    whom = next(said for said in model.summary().verdict if "ridge of their own" in said)
    assert "1 task has a target that never varies: A03." in whom and "A03 (" not in whom


def test_files_without_a_chain_speak_of_the_ridge_alone():
    model = fitted("sharing", 8)
    earlier = replace(model.model_, report=replace(model.model_.report, gains=None))
    assert verdict_of(earlier)[0].startswith("Sharing helps: the held-out error of this ")


def test_standard_errors_cover_that_folds_train_on_fewer_rows():
    rng = np.random.default_rng(1)
    errors = {
        name: Errors(scale * rng.uniform(0.9, 1.1, (1, 30)), np.ones((1, 30)))
        for name, scale in {"start": 1.0, "curves": 0.8, "sharing": 0.5}.items()
    }
    plain = chain_of_gains(errors, shared=False)
    found = chain_of_gains(errors, shared=False, left_out=0.2)
    assert found["curves"] == plain["curves"]
    assert found["sharing"].mean == plain["sharing"].mean
    expected = np.hypot(plain["sharing"].standard_error, 0.2 * plain["sharing"].mean)
    assert found["sharing"].standard_error == pytest.approx(expected)
    model = fitted("sharing", 16)
    assert model.own_gain_.standard_error == pytest.approx(model.gains_["sharing"].standard_error, rel=0.05)
