"""Claims are compared with the means of the stored cells."""

import numpy as np
import pytest

from kinfolk.experiments.reproduction.checks import Check, check_table, checks


def runs(*errors, **recovery):
    return {
        run: {"tasks": e, "pooled": e, "by_task": [e, e], "fixed_split": False, "recovery": recovery}
        for run, e in enumerate(errors)
    }


SYN1 = {
    "GAMTL": runs(2.0, 2.2, rand_index=0.9),
    "row-space oracle": runs(2.0, 2.0),
    "MTRL": runs(1.9, 2.0),
    "TAT": runs(3.0, 3.1),
}


def by_claim(results):
    return {check.claim: check for check in checks(results)}


def test_the_mean_is_compared_with_that_of_the_oracle():
    found = by_claim({"syn1-shared": SYN1})["Syn 1, shared inputs: error of GAMTL over that of the row-space oracle"]
    assert found.found == pytest.approx(1.05) and found.limit == 1.05


def test_the_strongest_rival_is_named_with_its_distance():
    found = by_claim({"syn1-shared": SYN1})["Syn 1, shared inputs: GAMTL behind MTRL, in standard errors"]
    d = np.array([0.1, 0.2])
    assert found.found == pytest.approx(d.mean() / (d.std(ddof=1) / np.sqrt(2)))
    assert not found.holds


def test_structure_must_be_at_least_its_limit():
    found = by_claim({"syn1-shared": SYN1})["Syn 1, shared inputs: adjusted Rand index of GAMTL's communities"]
    assert (found.found, found.holds) == (0.9, False)
    assert Check("x", 1.0, 1.0, below=False).holds


def test_claims_without_cells_are_left_out():
    assert checks({}) == []
    assert check_table([]).rows == []


def test_a_claim_is_a_row_of_the_table():
    assert check_table([Check("x", 1.0, 2.0)]).text()[1] == ["x", "1", "at most 2", "yes"]


def test_the_papers_number_is_the_limit_on_real_data():
    results = {"parkinsons-voice+time-rows-0.3": {"GAMTLCV": runs(1.0), "Independent": runs(1.1)}}
    limits = [check.limit for check in checks(results)]
    assert limits == [1.121, 1.1]
