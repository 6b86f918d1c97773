"""Every table ends in a finite certified fit or in an error that names what is wrong with it."""

from dataclasses import replace

import pytest
from certificates import broken_promises
from hypothesis import given
from random_tables import CASES, Case, cases, ends_well

from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import CCMTL, GFL, MSSL, MTRL, TAT, Independent, MeanShrunk, Pooled, RandomSlopes


@pytest.mark.parametrize("intercept", ["free", "coupled", "shrunk", None])
@given(case=CASES)
@cases(40, 1600)
def test_gamtl(intercept, case):
    ends_well(case, GAMTL(intercept=intercept), may_warn=False)


@pytest.mark.parametrize("metric", ["learned", "learned_full"])
@given(case=CASES)
@cases(20, 600)
def test_gamtl_with_a_learned_metric(metric, case):
    ends_well(case, GAMTL(metric=metric), may_warn=False)


@pytest.mark.parametrize("options", [{"anchor": 0.5}, {"weights_solver": "cg"}, {"ridge": 0.0}], ids=str)
@given(case=CASES)
@cases(15, 300)
def test_gamtl_with_other_choices(options, case):
    ends_well(case, GAMTL(**options))


@given(case=CASES)
@cases(5, 300)
def test_gamtlcv(case):
    small = {"neighbors": (3,), "strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "metrics": ("identity",)}
    ends_well(case, GAMTLCV(cv=2, **small))


@pytest.mark.parametrize("method", [Independent, Pooled, MeanShrunk], ids=lambda m: m.__name__)
@given(case=CASES)
@cases(20, 600)
def test_ridge_regressions(method, case):
    ends_well(case, method(), may_warn=False)


@given(case=CASES)
@cases(20, 400)
def test_mixed_models(case):
    ends_well(case, RandomSlopes())


@pytest.mark.parametrize("method", [MTRL, MSSL, TAT, CCMTL, GFL], ids=lambda m: m.__name__)
@given(case=CASES)
@cases(12, 200)
def test_competitors(method, case):
    ends_well(case, method())


@pytest.mark.parametrize(
    "model",
    [*(GAMTL(intercept=i) for i in ("free", "coupled", "shrunk", None)), Independent(), Pooled(), MeanShrunk()],
    ids=str,
)
def test_a_wrong_fit_breaks_its_promises(model):
    outcome = Case(1, 5, 2, 15, "texts", 1.0, 1.0, 1.0, 0.0, (), False).fit(model)
    assert not broken_promises(outcome, ordinary=True)
    model.model_ = replace(model.model_, coef=model.coef_ * (1 + 1e-4))
    assert broken_promises(outcome, ordinary=True)
