"""Communities, outliers and the sentences about them."""

import pytest

from kinfolk import GAMTL
from kinfolk.datasets import make_groups
from kinfolk.explain import communities, group_sentences, outliers


def test_models_pass_through_to_their_graph():
    syn = make_groups(random_state=3)
    model = GAMTL(task=syn.task).fit(syn.data, syn.target)
    assert outliers(model) == model.graph_.outliers() == [19, 20]
    assert communities(model) == communities(model.graph_) == model.graph_.communities()


def test_sentences_take_an_estimator_as_all_explanations_do():
    syn = make_groups(random_state=0)
    model = GAMTL(task="task").fit(syn.data, syn.target)
    groups, alone = group_sentences(model)
    assert (groups, alone) == group_sentences(model.model_) and groups
    with pytest.raises(TypeError, match="group_sentences takes a fitted model, got str"):
        group_sentences("model.kin")
