"""The summary is plain data, and says what the model says."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kinfolk import GAMTL, GAMTLCV, RBFGAMTL
from kinfolk.baselines import CCMTL, TAT, Independent
from kinfolk.explain import account
from kinfolk.graph import squared_distances
from kinfolk.methods.gamtl.shown import graph_of_points, usual_neighbors
from kinfolk.plots.layouts import discs, positions
from kinfolk.progress import Progress
from kinfolk.report import compact_html, render, summarize, write_report
from kinfolk.report import summary as summary_module
from kinfolk.report.plain import plain_names, short
from problems import frame


def test_the_summary_survives_json(summary):
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_without_rows_there_are_no_errors_and_no_predictions(model):
    summary = summarize(model)
    assert summary["errors"] is None and summary["points"] is None and "error" not in summary["tasks"]


def test_the_fitted_level_is_the_fitted_graph(summary, model):
    level = summary["view"]["levels"][summary["view"]["fitted"]]
    A = sparse.coo_array((level["w"], (level["i"], level["j"])), shape=(20, 20)).toarray()
    np.testing.assert_allclose(A + A.T, model.adjacency_.toarray(), rtol=6e-3)


def test_the_path_goes_from_sparse_to_dense_around_the_fitted_graph(summary):
    counts = [len(level["i"]) for level in summary["view"]["levels"]]
    assert counts == sorted(set(counts)) and len(counts) >= 8
    assert 0 < summary["view"]["fitted"] < len(counts) - 1


def test_at_the_fitted_sparsity_the_path_meets_the_fitted_graph(model):
    """The graph step at the points of the graph, calibrated to as many neighbours, is the fitted graph."""
    A = graph_of_points(model.graph_.points, usual_neighbors(20), "auto").value
    np.testing.assert_allclose(A.toarray(), model.adjacency_.toarray(), atol=1e-9)


@pytest.mark.parametrize("kind", [GAMTL, GAMTLCV, RBFGAMTL])
def test_tasks_are_compared_by_what_they_predict(kind):
    table, y = frame(1)
    table["x1"] *= 100.0
    model = kind(task="who").fit(table, y)
    who = np.unique(table["who"])
    f = np.stack([model.predict(table.assign(who=name)) for name in who])
    Z = ((f[:, None] - f) ** 2).mean(axis=2)
    np.testing.assert_allclose(squared_distances(model.graph_.points), Z, rtol=1e-6, atol=1e-9)


def test_a_given_graph_is_thinned_by_weight(syn):
    model = CCMTL(task=syn.task).fit(syn.data, syn.target)
    levels = summarize(model)["view"]["levels"]
    assert all(min(level["w"]) >= max(levels[-1]["w"][len(level["w"]) :], default=0) for level in levels)


def test_predictions_are_those_of_predict(summary, model, syn):
    of_first = syn.data["task"] == 1
    observed, predicted = summary["points"][0]
    np.testing.assert_allclose(observed, np.asarray(syn.target)[of_first], rtol=1e-3)
    np.testing.assert_allclose(predicted, model.predict(syn.data[of_first]), rtol=1e-3, atol=1e-3)


def test_wide_targets_in_any_order_of_columns():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 3))
    Y = pd.DataFrame(X @ rng.normal(size=(3, 4)) + 0.1 * rng.normal(size=(30, 4)), columns=list("dbca"))
    Y.loc[:4, "b"] = np.nan
    summary = summarize(GAMTL().fit(X, Y), X, Y)
    assert summary["names"] == list("abcd")
    assert len(summary["points"][1][0]) == 25
    np.testing.assert_allclose(summary["points"][3][0], Y["d"], rtol=1e-3)
    assert max(summary["tasks"]["error"]) < 1


def test_many_rows_of_a_task_are_sampled():
    table, y = frame(T=3, n=(200, 300))
    points = summarize(GAMTL(task="who").fit(table, y), table, y)["points"]
    assert [len(p[0]) for p in points] == [60, 60, 60]


def test_only_the_largest_tasks_are_held_of_very_many(monkeypatch):
    monkeypatch.setattr(summary_module, "SHOWN", 4)
    table, y = frame(T=7, d=3, n=(4, 40))
    for method in (GAMTL, TAT, Independent):
        model = method(task="who").fit(table, y)
        summary = summarize(model, table, y)
        most = set(np.argsort(-model.gram_.n)[:4])
        assert summary["names"] == [str(name) for t, name in enumerate(model.tasks_) if t in most]
        assert {len(summary[k]) for k in ("names", "coef", "points")} == {4}
        assert "the 4 tasks with most rows, of 7" in summary["limit"]
        render(summary)


def test_confidence_stands_at_the_edges(model):
    C = np.full((20, 20), 0.25)
    level = summarize(model, confidence=C)["view"]
    assert set(level["levels"][level["fitted"]]["c"]) == {0.25}


def test_confidence_of_the_wrong_shape_is_refused(model):
    with pytest.raises(ValueError, match=r"shape \(3, 3\), expected \(20, 20\)"):
        summarize(model, confidence=np.eye(3))


def test_the_headline_says_whether_the_graph_helps():
    table, y = frame(T=8, n=(12, 20))
    model = GAMTLCV(task="who", strengths=(1.0,), ridges=(1.0,), anchors=(0.0,), metrics=("identity",)).fit(table, y)
    words = {True: "The graph helps", False: "The graph is a map only"}
    assert any(said.startswith(words[model.graph_helps_]) for said in summarize(model)["headline"])


def test_who_stands_alone_is_in_the_table(summary, model):
    alone = [name for name, group in zip(summary["names"], summary["tasks"]["group"], strict=True) if group < 0]
    assert alone == [str(task) for task in model.graph_.outliers()]


def test_the_headline_names_outliers(summary):
    assert any("2 tasks stand alone: \u206819\u2069 and \u206820\u2069" in s for s in summary["headline"])


def test_a_table_of_strangers_is_refused(model, syn):
    strangers = syn.data.assign(task=syn.data["task"] + 100)
    with pytest.raises(ValueError, match="none of the 20 tasks in X was seen in fit"):
        summarize(model, strangers, syn.target)


def test_tasks_that_fit_has_not_seen_are_left_out_and_counted(model, syn):
    mixed = syn.data.assign(task=np.where(syn.data["task"] == 3, 77, syn.data["task"]))
    summary = summarize(model, mixed, syn.target)
    assert ["Left out", "1 task in these rows that fit has not seen"] in summary["data"]
    assert summary["tasks"]["error"][2] is None and summary["points"][2] == [[], []]


def test_a_single_task_and_two_tasks_have_reports():
    for T in (1, 2):
        table, y = frame(T=T, n=(9, 12))
        summary = summarize(GAMTL(task="who").fit(table, y), table, y)
        assert len(summary["names"]) == T
        assert "start();" in render(summary)


def test_progress_is_told(model, syn):
    said: list[Progress] = []
    summarize(model, syn.data, syn.target, callback=said.append)
    assert {p.stage for p in said} >= {"report: errors by fold", "report: path of graphs", "report"}
    assert all(p.done <= p.total for p in said)


def test_the_file_is_whole_or_not_there(model, syn, tmp_path):
    path = write_report(model, syn.data, syn.target, tmp_path / "deep" / "report.html", title="Ours")
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>") and "<h1>Ours</h1>" in path.read_text("utf-8")
    with pytest.raises(ValueError, match="inconsistent numbers"):
        write_report(model, syn.data, syn.target[:-1], tmp_path / "other.html")
    assert [p.name for p in tmp_path.iterdir()] == ["deep"]


def test_two_hundred_tasks_stay_below_three_megabytes():
    table, y = frame(T=200, d=25, n=(70, 90))
    model = Independent(task="who").fit(table, y)
    with pytest.warns(ConvergenceWarning):
        graph = GAMTL(task="who", strength=1.0, max_iter=2, tol=1.0).fit(table, y).structure_
    summary = summarize(replace(model.model_, structure=graph), table, y)
    assert summary["view"]["kind"] == "graph" and len(render(summary)) < 3e6


def test_the_page_refers_to_nothing_outside(hostile):
    page = render(hostile)
    outside = page.replace("http://www.w3.org/2000/svg", "")
    assert "http" not in outside.replace("http-equiv", "")
    assert page.count("<script") == 2 and page.count("</script>") == 2


def test_the_compact_form_escapes_names_and_draws_every_task(model):
    table, y = frame(T=5)
    table["who"] = table["who"].str.replace("task_", "<script>")
    html = compact_html(GAMTL(task="who").fit(table, y))
    assert "<script>" not in html and html.count("<circle") == 5 and "&lt;script&gt;00" in html
    assert compact_html(model).count("<line") == model.adjacency_.nnz // 2


@pytest.mark.parametrize("value", [3.14159265e-12, -271828.18, 0.5, 1e300, -1e-300, 0.0])
def test_short_numbers_keep_four_digits(value):
    assert short(value) == pytest.approx(value, rel=5e-4, abs=1e-22)
    assert len(repr(short(value)).replace("-", "").replace(".", "").split("e")[0].strip("0")) <= 4


def test_names_that_no_file_can_hold_are_replaced():
    assert plain_names(np.array(["a\ud800", ""], dtype=object)) == ["a?", "(empty)"]


def test_positions_fill_the_unit_square_without_overlaps(model):
    xy = positions(model.graph_, model.graph_.groups())
    apart = np.linalg.norm(xy[:, None] - xy[None], axis=2) + np.eye(20)
    assert xy.min() == 0 and xy.max() == 1 and apart.min() > 0.05


def test_discs_of_groups_do_not_touch():
    groups = np.append(np.repeat(np.arange(12), np.arange(60, 0, -5)), [-1] * 9)
    xy = discs(np.ones(len(groups)), groups)
    apart = np.linalg.norm(xy[:, None] - xy[None], axis=2)
    between = apart[groups[:, None] != groups[None, :]].min()
    np.fill_diagonal(apart, np.inf)
    assert between > apart.min() > 0.5


def test_a_table_of_single_rows_has_no_verdict_and_says_why_it_has_no_groups():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"]).assign(who=[f"s{k:02d}" for k in range(30)])
    y = table["a"] + 0.1 * rng.normal(size=30)
    with pytest.warns(UserWarning, match="every task has a single row"):
        model = GAMTLCV(task="who").fit(table, y)
    summary = summarize(model, table, y)
    assert summary["headline"][0] == "No groups: a single row per task cannot show who is alike."
    assert all(set(summary["tasks"][key]) == {None} for key in ("own", "pooled", "gain"))
    assert "cannot show who is alike" in compact_html(model)


def test_one_task_forms_no_group():
    table, y = frame(T=1, n=(20, 21))
    with pytest.warns(UserWarning, match="names one task"):
        model = GAMTL(task="who").fit(table, y)
    summary = summarize(model, table, y)
    assert not any("group" in said for said in summary["headline"]) and summary["kinds"] == []
    assert "one task, so there are no others to compare it with" in " ".join(account(model.model_, "gamtl", 1.0))
