"""Formulas of lme4: the same fits as those that are written out, and refusals that say what to write instead."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kinfolk
from kinfolk import GAMTL
from kinfolk.baselines import RandomSlopes

RNG = np.random.default_rng(0)
SHOP = np.repeat(np.arange(30), 10)
DATA = pd.DataFrame(RNG.normal(size=(300, 2)), columns=["x", "z"]).assign(
    shop=[f"s{k:02d}" for k in SHOP], region=[f"r{k % 3}" for k in SHOP], size=(SHOP % 7).astype(float)
)
DATA["y"] = 2 * DATA.z + DATA.x * (1 + RNG.normal(size=30)[SHOP]) + DATA["size"] + RNG.normal(size=300)


@pytest.mark.parametrize(
    ("formula", "columns", "method"),
    [
        ("y ~ x + z + (1 + x || shop)", ["x", "z"], RandomSlopes(common=["z"])),
        ("y ~ x + z + (x | shop)", ["x", "z"], RandomSlopes(common=["z"], covariance="full")),
        ("y ~ 1 + x + (1 | shop)", ["x"], RandomSlopes(common=["x"])),
    ],
)
def test_a_formula_is_the_fit_that_it_stands_for(formula, columns, method):
    found = kinfolk.fit(formula, DATA)
    expected = method.set_params(task="shop", facts=None).fit(DATA[[*columns, "shop"]], DATA.y)
    np.testing.assert_allclose(found.coef_, expected.coef_)


def test_the_likelihood_is_that_of_statsmodels():
    from statsmodels.formula.api import mixedlm

    theirs = mixedlm("y ~ x + z + size", DATA, groups="shop").fit(reml=False, method="powell")
    ours = kinfolk.fit("y ~ x + z + size + (1 | shop)", DATA)
    assert abs(ours.log_likelihood_ - theirs.llf) < 1e-3
    np.testing.assert_allclose(ours.population_coef_, theirs.fe_params[["x", "z", "size"]], atol=1e-3)


def test_a_point_is_all_other_columns_and_a_slash_joins_names():
    data = DATA[["y", "x", "z", "shop", "region"]]
    found = kinfolk.fit("y ~ . + (x || region/shop)", data)
    assert found.feature_names_in_.tolist() == ["x", "z", "region / shop"]
    assert found.common == ["z"]


def test_another_method_and_its_parameters():
    found = kinfolk.fit("y ~ x + z + (x | shop)", DATA, method=GAMTL(), neighbors=3)
    assert type(found) is GAMTL and found.neighbors == 3 and found.common == ["z"]


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ x", "with one term in brackets"),
        ("y ~ x + (1 | shop) + (1 | region)", "of several groupings take the finest as the task"),
        ("y ~ x * z + (1 | shop)", r"'x \* z' is not understood; multiply the columns before"),
        ("y ~ log(x) + (1 | shop)", "is not understood; compute the column before"),
        ("y ~ x + (0 + x | shop)", r"leave 0 out, or use GAMTL\(task=\"shop\", intercept=None\)"),
        ("y ~ z + (x | shop)", r"add it, y ~ z \+ x \+"),
        ("y ~ w + (1 | shops)", "no column 'w', 'shops'"),
    ],
)
def test_anything_else_is_refused_with_what_to_write(formula, message):
    with pytest.raises(ValueError, match=message):
        kinfolk.fit(formula, DATA)
