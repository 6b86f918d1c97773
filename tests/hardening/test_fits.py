"""Every table ends in a finite fit or in an error that names what is wrong with it."""

import sys
from pathlib import Path

import pytest
from hypothesis import given

sys.path.insert(0, str(Path(__file__).parent))

from random_tables import CASES, cases, ends_well

from kinfolk import GAMTL, GAMTLCV
from kinfolk.baselines import CCMTL, MSSL, MTRL, TAT, Independent, MeanShrunk, Pooled, RandomSlopes


@pytest.mark.parametrize("intercept", ["free", "coupled", "shrunk", None])
@given(case=CASES)
@cases(50, 1500)
def test_gamtl(intercept, case):
    ends_well(case, GAMTL(intercept=intercept))


@given(case=CASES)
@cases(30, 1000)
def test_gamtl_with_a_learned_metric(case):
    ends_well(case, GAMTL(metric="learned"))


@given(case=CASES)
@cases(10, 500)
def test_gamtlcv(case):
    small = {"neighbors": (3,), "strengths": (1.0,), "ridges": (1.0,), "anchors": (0.0,), "metrics": ("identity",)}
    ends_well(case, GAMTLCV(cv=2, **small))


@pytest.mark.parametrize("method", [Independent, Pooled, MeanShrunk, RandomSlopes], ids=lambda m: m.__name__)
@given(case=CASES)
@cases(20, 600)
def test_methods_without_a_graph(method, case):
    ends_well(case, method())


@pytest.mark.parametrize("method", [MTRL, MSSL, TAT, CCMTL], ids=lambda m: m.__name__)
@given(case=CASES)
@cases(12, 250)
def test_competitors(method, case):
    ends_well(case, method())
