"""Claims of the paper and aims of our own beside the results: the number found, its limit, and whether the claim holds.

A claim whose cells are not all there yet is left out. Nothing here enters a fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinfolk.experiments.reproduction import paper
from kinfolk.experiments.reproduction.cells import Results
from kinfolk.experiments.reproduction.methods import ORACLE
from kinfolk.experiments.reproduction.referee import paired, pooled_over
from kinfolk.experiments.reproduction.settings import SETTINGS
from kinfolk.experiments.reproduction.tables import SPARSE_LOTS, Column, ResultTable, agreement_table


@dataclass(frozen=True)
class Check:
    """One claim: a number found, its limit, and on which side of the limit it should be."""

    claim: str
    found: float
    limit: float
    below: bool = True

    @property
    def holds(self) -> bool:
        """Whether the number is on the right side of the limit, or at it."""
        return self.found <= self.limit if self.below else self.found >= self.limit


def _mean(cells: dict[str, Any], method: str, measure: str = "tasks") -> float:
    """Mean over runs of an error, or of a measure of the recovered structure; NaN without cells."""
    values = [(cell | cell.get("recovery", {})).get(measure, np.nan) for cell in cells.get(method, {}).values()]
    return float(np.mean(values)) if values else np.nan


def _few_rows(cells: dict[str, Any], method: str) -> float:
    """Mean over runs of the pooled error over the car parks with one training day; NaN without cells."""
    values = [pooled_over(cell, SPARSE_LOTS) for cell in cells.get(method, {}).values()]
    return float(np.mean(values)) if values else np.nan


def checks(results: Results) -> list[Check]:
    """All claims that the results suffice for."""
    claims = (_synthetic, _parkinsons, _birmingham, _wiener, _yardsticks)
    every = [check for part in claims for check in part(results)]
    return [check for check in every if np.isfinite(check.found) and np.isfinite(check.limit)]


def check_table(claims: list[Check]) -> ResultTable:
    """The claims as a table."""
    rows = []
    for check in claims:
        wanted = f"{'at most' if check.below else 'at least'} {check.limit:.4g}"
        holds = "yes" if check.holds else "no"
        rows.append({"claim": check.claim, "found": f"{check.found:.4g}", "wanted": wanted, "holds": holds})
    return ResultTable([Column(name, name) for name in ("claim", "found", "wanted", "holds")], rows)


def _strongest_rival(cells: dict[str, Any]) -> tuple[str, float]:
    """The competitor that GAMTL stays behind by most standard errors, and by how many; negative: ahead of all."""
    behind = {}
    for name in cells:
        difference = paired(cells.get("GAMTL", {}), cells[name], "tasks")
        if "GAMTL" not in name and "oracle" not in name and difference and difference.standard_error > 0:
            behind[name] = difference.mean / difference.standard_error
    return max(behind.items(), key=lambda rival: rival[1], default=("its rivals", np.nan))


def _synthetic(results: Results) -> Iterator[Check]:
    titles = {"syn1": "Syn 1", "syn2": "Syn 2"}
    structure = {
        "syn1": ("adjusted Rand index of GAMTL's communities", "rand_index", 1.0),
        "syn2": ("AUC of GAMTL's edges", "edge_auc", 0.9),
    }
    for data, title in titles.items():
        cells = results.get(f"{data}-shared", {})
        shared = f"{title}, shared inputs"
        ratio = _mean(cells, "GAMTL") / _mean(cells, ORACLE)
        yield Check(f"{shared}: error of GAMTL over that of the row-space oracle", ratio, 1.05)
        name, distance = _strongest_rival(cells)
        yield Check(f"{shared}: GAMTL behind {name}, in standard errors", distance, 2.0)
        words, measure, least = structure[data]
        yield Check(f"{shared}: {words}", _mean(cells, "GAMTL", measure), least, below=False)
    for data, title in titles.items():
        cells = results.get(f"{data}-own", {})
        for method in ("GAMTL", "GAMTLCV"):
            ratio = _mean(cells, method) / _mean(cells, "Independent")
            yield Check(f"{title}, own inputs: error of {method} over that of a ridge per task", ratio, 0.6)


def _parkinsons(results: Results) -> Iterator[Check]:
    for ratio, published in paper.PARKINSONS.items():
        title = f"Parkinson, voice and time, rows, r = {ratio}"
        cells = results.get(f"parkinsons-voice+time-rows-{ratio}", {})
        error = _mean(cells, "GAMTLCV")
        yield Check(f"{title}: GAMTLCV against the paper's GAMTL", error, published["GAMTL"][0])
        yield Check(f"{title}: GAMTLCV against a ridge per patient", error, _mean(cells, "Independent"))
        yield Check(f"{title}: RBF-GAMTL against the paper's", _mean(cells, "RBF-GAMTL"), published["RBF-GAMTL"][0])


def _birmingham(results: Results) -> Iterator[Check]:
    for lags, aim in ((4, 0.0862), (8, 0.0866)):
        published = paper.BIRMINGHAM[lags]
        title = f"Birmingham, {lags // 2} hours, across nights, pooled"
        cells = results.get(f"birmingham-across_nights-{lags}", {})
        error = _mean(cells, "GAMTLCV", "pooled")
        yield Check(f"{title}: GAMTLCV against the paper's GAMTL", error, published["GAMTL"][0])
        yield Check(f"{title}: GAMTLCV against our aim", error, aim)
        for rival, name in (("Independent", "a ridge per lot"), ("Pooled", "one ridge for all")):
            claim = f"{title}, lots with one training day: GAMTLCV against {name}"
            yield Check(claim, _few_rows(cells, "GAMTLCV"), _few_rows(cells, rival))
        error = _mean(cells, "RBF-GAMTL", "pooled")
        yield Check(f"{title}: RBF-GAMTL against the paper's", error, published["RBF-GAMTL"][0])


def _wiener(results: Results) -> Iterator[Check]:
    for n in (200, 1000):
        title = f"Wiener network, {n:,} rows per node"
        cells = results.get(f"wiener-{n}", {})
        error, linear = (_mean(cells, method, "pooled") for method in ("RBF-GAMTL", "GAMTL"))
        yield Check(f"{title}: error of RBF-GAMTL against GAMTL", error, linear)
        index, linear = (_mean(cells, method, "rand_index") for method in ("RBF-GAMTL", "GAMTL"))
        yield Check(f"{title}: Rand index of RBF-GAMTL's communities against GAMTL's", index, linear, below=False)


def _yardsticks(results: Results) -> Iterator[Check]:
    """The paper's "close correspondence" of graphs and yardsticks, as numbers."""
    titles = {"parkinsons-voice+time-rows-0.5": "Parkinson", "birmingham-across_nights-4": "Birmingham"}
    for setting in SETTINGS:
        title = titles.get(setting.key, "")
        rows = agreement_table(setting, results.get(setting.key, {})).rows if title else ()
        for row in rows:
            method = row["method"]
            if method in ("GAMTL", "RBF-GAMTL", "GAMTLCV"):
                who = f"{title}: {method}'s graph beside the yardstick"
                yield Check(f"{who}, AUC", row.get("auc", np.nan), 0.8 if title == "Parkinson" else 0.5, below=False)
                yield Check(f"{who}, p-value by shuffling", row.get("p_value", np.nan), 0.01)
                together = row.get("same_place", np.nan)
                yield Check(f"{title}: {method} joins 8, 9 and 17, of three pairs", together, 2, below=False)
