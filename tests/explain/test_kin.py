"""Probabilities that tasks are kin: few false ones, power where groups are clear, and silence where there are none."""

import json

import networkx
import numpy as np
import pytest

from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import Independent
from kinfolk.datasets import load_car_parks, make_groups
from kinfolk.explain import communities, kinship, sure_edges
from kinfolk.explain.joint import shrunk_noise
from kinfolk.explain.kin import population_of
from kinfolk.explain.summary import account
from kinfolk.export import write_graph
from kinfolk.methods.gamtl import coupling
from kinfolk.report import compact_html, summarize
from kinfolk.rows.gram import GramStats


def drawn(W, n, seed):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(W)), n)
    X = rng.normal(size=(len(task), W.shape[1]))
    return np.column_stack([task, X]), (X * W[task]).sum(axis=1) + rng.normal(size=len(task))


def pairs(T):
    return np.triu_indices(T, k=1)


@pytest.mark.parametrize(("T", "n", "d"), [(20, 20, 5), (30, 25, 1), (16, 12, 10)])
def test_tasks_around_one_mean_have_no_groups(T, n, d):
    rng = np.random.default_rng(7)
    false = 0
    for seed in range(10):
        found = kinship(Independent(task=0).fit(*drawn(1 + rng.normal(size=(T, d)), n, seed)))
        false += bool(found.pairs().any())
    assert false <= 1  # at most 10 % of sets


def test_slopes_along_one_direction_are_not_taken_for_groups():
    rng = np.random.default_rng(3)
    sets = [1 + np.outer(rng.normal(size=24), rng.normal(size=4)) for _ in range(5)]
    assert not any(kinship(Independent(task=0).fit(*drawn(W, 20, 1))).found for W in sets)


def test_three_clusters_are_found_with_few_false_pairs():
    true_found = []
    false = []
    group = np.arange(24) % 3
    i, j = pairs(24)
    kin = group[i] == group[j]
    for seed in range(4):
        W = 1.5 * np.random.default_rng(seed).normal(size=(3, 6))[group]
        sure = kinship(Independent(task=0).fit(*drawn(W, 20, seed))).pairs()[i, j]
        true_found.append(sure[kin].mean())
        false.append((sure & ~kin).sum() / max(sure.sum(), 1))
    assert np.mean(true_found) > 0.8 and np.mean(false) < 0.1


def found_and_false(group, d, seeds, n=20):
    """Share of the planted pairs that are found, and share of the found ones that are not planted."""
    i, j = pairs(len(group))
    kin = group[i] == group[j]
    shares = []
    for seed in seeds:
        W = np.random.default_rng(seed).normal(size=(group.max() + 1, d))[group]
        sure = kinship(Independent(task=0).fit(*drawn(W, n, seed))).pairs()[i, j]
        shares.append(((sure & kin).sum() / kin.sum(), (sure & ~kin).sum() / max(sure.sum(), 1)))
    return np.mean(shares, axis=0)


def test_a_group_among_many_lone_tasks_is_found():
    group = np.maximum(np.arange(30) - 7, 0)  # 8 kin, 22 alone
    found, false = found_and_false(group, d=5, seeds=range(4))
    assert found > 0.5 and false < 0.1


def test_groups_are_found_where_slopes_have_more_directions_than_groups_span():
    found, false = found_and_false(np.arange(60) % 3, d=30, seeds=range(2))
    assert found > 0.5 and false < 0.1


def test_noise_is_shrunk_by_chance_and_kept_where_tasks_differ():
    rng = np.random.default_rng(0)
    sd = np.repeat([1.0, 10.0], 10)
    task = np.repeat(np.arange(20), 30)
    X = rng.normal(size=(600, 2))
    alike = shrunk_noise(GramStats.from_rows(X, rng.normal(size=600), task))
    apart = shrunk_noise(GramStats.from_rows(X, sd[task] * rng.normal(size=600), task))
    assert np.ptp(alike) < 0.5
    assert apart[:10].max() < 5 and apart[10:].min() > 30


@pytest.mark.parametrize("seed", [11, 15])
def test_groups_of_tasks_with_fewer_rows_than_features_hold_together(seed):
    syn = make_groups(random_state=seed)
    found = kinship(GAMTL(task=syn.task).fit(syn.data, syn.target)).probability
    i, j = np.transpose(syn.edges)
    assert found[i, j].mean() > 0.7  # with the noise of a mixed model 0.24 and 0.35
    assert found[:12, 12:].max() < 0.1


@pytest.fixture(scope="module")
def model():
    syn = make_groups(random_state=0)
    return GAMTL(task=syn.task).fit(syn.data, syn.target)


def test_edges_of_a_model_carry_their_confidence(model):
    edges = model.edges()
    inside = [e.confidence for e in edges if (e.task <= 12) == (e.neighbor <= 12) and max(e.task, e.neighbor) <= 18]
    assert np.mean(inside) > 0.9
    assert [(e.task, e.neighbor, e.weight) for e in edges] == [tuple(e) for e in model.graph_.edges()]


@pytest.mark.parametrize("format", ["graphml", "json"])
def test_written_edges_carry_their_confidence(model, tmp_path, format):
    path = write_graph(model, tmp_path / f"graph.{format}")
    read = {
        "graphml": lambda: networkx.read_graphml(path).edges(data="confidence"),
        "json": lambda: [(0, 0, link["confidence"]) for link in json.loads(path.read_text())["links"]],
    }
    expected = sorted(e.confidence for e in sure_edges(model))
    assert sorted(sure for _, _, sure in read[format]()) == pytest.approx(expected)


def test_every_group_and_every_loner_has_a_sentence(model):
    found = communities(model)
    assert found == model.graph_.communities()
    assert found[0].said.startswith("Group 1 (1, 2, 3") and " beside " in found[0].said
    assert found[-1].said.startswith("20 stands alone: ")


@pytest.mark.parametrize(
    "exact_up_to", [coupling.DENSE_UNKNOWNS, 0]
)  # beyond it, errors come from the scatter within groups
def test_the_sentence_names_the_feature_that_was_made_to_differ(monkeypatch, exact_up_to):
    monkeypatch.setattr(coupling, "DENSE_UNKNOWNS", exact_up_to)
    W = np.ones((12, 4))
    W[6:, 2] = -1.0
    X, y = drawn(W, 40, 0)
    said = communities(GAMTL(task=0).fit(X, y))[0].said
    assert "2 works the other way" in said and said.count("beside") == 1


def test_a_pair_is_called_a_pair():
    W = np.ones((10, 6))  # with three features the probability is 0.8, and whether it is drawn above 0.9 is chance
    W[8:] = [[6.0, -6.0] * 3]
    found = communities(GAMTL(task=0, neighbors=3).fit(*drawn(W, 40, 1)))
    (said,) = [group.said for group in found if group == [8, 9]]
    assert (
        said.startswith("Pair (8 and 9)")
        and "; a sure pair: the two have the same slopes with a probability of 1.00" in said
    )


def test_groups_whose_tasks_are_not_kin_are_called_loose_by_summary_page_and_command_line():
    parks = load_car_parks()
    with pytest.warns(UserWarning, match="one-hot"):
        model = GAMTLCV(task="car_park").fit(parks.data, parks.target)
    first, *others = model.summary().groups
    assert kinship(model).found and first == "No clear groups: these tasks differ by degrees."
    assert [said.split(" (")[0] for said in others] == [f"Loose group {k}" for k in (1, 2, 3, 4)]
    assert communities(model)[0].said == others[0]
    assert f"{first} There are 4 loose groups, of 8, 8, 8 and 4 tasks." in summarize(model)["headline"]
    assert "; 4 loose groups of 8, 8, 8 and 4 tasks" in "".join(account(model.model_, "gamtlcv", 1.0))
    # What rows of a category have more than the other rows of the task, in units of the target.
    assert "when_weekend noon +19.7 (elsewhere -14.7)" in others[1]


def test_no_groups_is_said_where_there_are_none():
    W = 1 + np.random.default_rng(5).normal(size=(15, 3))
    found = GAMTL(task=0).fit(*drawn(W, 20, 2)).summary()
    assert found.groups == ["No groups: these tasks scatter around one mean."] and "group" not in found.columns


def test_without_groups_communities_and_the_page_say_so_and_loners_stay():
    W = 1 + np.random.default_rng(5).normal(size=(16, 3))
    W[15] = 40.0
    model = GAMTL(task=0).fit(*drawn(W, 20, 2))
    assert not kinship(model).found
    assert {group.said for group in communities(model)[:-1]} == {"No groups: these tasks scatter around one mean."}
    said = model.summary().groups
    assert len(said) == 2 and said[1].startswith("15 stands alone: ")
    page = summarize(model)
    assert page["groupless"] and page["tasks"]["group"] == [0] * 15 + [-1]
    assert said[0] in compact_html(model)
    assert page["headline"][-3:-1] == [said[0], "1 task stands alone: \u206815\u2069."]


def test_a_model_is_judged_once_until_it_changes(model):
    first = kinship(model)
    assert kinship(model) is first
    assert kinship(model, random_state=1) is not first
    X, y = drawn(np.ones((5, 4)), 12, 0)
    changed = GAMTL(task=0).fit(X, y)
    before = kinship(changed)
    changed.drop([4])
    assert len(kinship(changed).labels) == 4 and len(before.labels) == 5


def test_nothing_is_known_of_slopes_where_only_a_lone_task_has_several_rows():
    rng = np.random.default_rng(0)
    task = np.concatenate([np.zeros(20, int), np.arange(1, 7)])
    gram = GramStats.from_rows(rng.normal(size=(26, 2)), rng.normal(size=26), task)
    assert population_of(gram, np.arange(7) > 0, None) is None
