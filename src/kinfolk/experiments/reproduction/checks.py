"""Claims of the paper and aims of our own beside the results: the number found, its limit, and whether the claim holds.

A claim whose cells are not all there yet is left out. Nothing here enters a fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import kinfolk.experiments.reproduction.paper as paper
from kinfolk.experiments.reproduction.cells import Results
from kinfolk.experiments.reproduction.methods import ORACLE
from kinfolk.experiments.reproduction.referee import paired, pooled_over
from kinfolk.experiments.reproduction.tables import SPARSE_LOTS, Table, agreement_rows


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


def checks(results: Results) -> list[Check]:
    """All claims that the results suffice for."""
    rules = (_shared, _own, _parkinsons, _birmingham, _wiener, _yardsticks)
    return [check for rule in rules for check in rule(results)]


def check_table(found: list[Check]) -> Table:
    """The claims as a table of text."""
    table = [["claim", "found", "wanted", "holds"]]
    for check in found:
        side = "at most" if check.below else "at least"
        holds = "yes" if check.holds else "no"
        table.append([check.claim, f"{check.found:.4g}", f"{side} {check.limit:.4g}", holds])
    return table


def _mean(cells: dict[int, Any], measure: str = "tasks") -> float:
    """Mean over runs of an error, or of a measure of the recovered structure."""
    return float(np.mean([(cell | cell.get("recovery", {}))[measure] for cell in cells.values()]))


def _few_rows(cells: dict[int, Any]) -> float:
    return float(np.mean([pooled_over(cell, SPARSE_LOTS) for cell in cells.values()]))


def _shared(results: Results) -> Iterator[Check]:
    for data, title, measure, words, least in (
        ("syn1", "Syn 1", "rand_index", "adjusted Rand index of GAMTL's communities", 1.0),
        ("syn2", "Syn 2", "edge_auc", "AUC of GAMTL's edges", 0.9),
    ):
        cells = results.get(f"{data}-shared", {})
        if cells.keys() >= {"GAMTL", ORACLE}:
            ratio = _mean(cells["GAMTL"]) / _mean(cells[ORACLE])
            yield Check(f"{title}, shared inputs: error of GAMTL over that of the row-space oracle", ratio, 1.05)
            name, distance = _strongest_rival(cells)
            yield Check(f"{title}, shared inputs: GAMTL behind {name}, in standard errors", distance, 2.0)
            yield Check(f"{title}, shared inputs: {words}", _mean(cells["GAMTL"], measure), least, below=False)


def _strongest_rival(cells: dict[str, Any]) -> tuple[str, float]:
    """The competitor that GAMTL stays behind by most standard errors, and by how many; negative: ahead of all."""
    behind = {}
    for name in cells:
        difference = paired(cells["GAMTL"], cells[name], "tasks")
        if "GAMTL" not in name and "oracle" not in name and difference and difference.standard_error > 0:
            behind[name] = difference.mean / difference.standard_error
    return max(behind.items(), key=lambda rival: rival[1])


def _own(results: Results) -> Iterator[Check]:
    for data, title in (("syn1", "Syn 1"), ("syn2", "Syn 2")):
        cells = results.get(f"{data}-own", {})
        for method in ("GAMTL", "GAMTLCV"):
            if cells.keys() >= {method, "Independent"}:
                ratio = _mean(cells[method]) / _mean(cells["Independent"])
                yield Check(f"{title}, own inputs: error of {method} over that of a ridge per task", ratio, 0.6)


def _parkinsons(results: Results) -> Iterator[Check]:
    for ratio, published in paper.PARKINSONS.items():
        title = f"Parkinson, voice and time, rows, r = {ratio}"
        cells = results.get(f"parkinsons-voice+time-rows-{ratio}", {})
        if cells.keys() >= {"GAMTLCV", "Independent"}:
            found = _mean(cells["GAMTLCV"])
            yield Check(f"{title}: GAMTLCV against the paper's GAMTL", found, published["GAMTL"][0])
            yield Check(f"{title}: GAMTLCV against a ridge per patient", found, _mean(cells["Independent"]))
        if "RBF-GAMTL" in cells:
            yield Check(f"{title}: RBF-GAMTL against the paper's", _mean(cells["RBF-GAMTL"]), published["RBF-GAMTL"][0])


def _birmingham(results: Results) -> Iterator[Check]:
    for lags, aim in ((4, 0.0862), (8, 0.0866)):
        published = paper.BIRMINGHAM[lags]
        title = f"Birmingham, {lags // 2} hours, across nights, pooled"
        cells = results.get(f"birmingham-across_nights-{lags}", {})
        if cells.keys() >= {"GAMTLCV", "Independent", "Pooled"}:
            found = _mean(cells["GAMTLCV"], "pooled")
            yield Check(f"{title}: GAMTLCV against the paper's GAMTL", found, published["GAMTL"][0])
            yield Check(f"{title}: GAMTLCV against our aim", found, aim)
            few = _few_rows(cells["GAMTLCV"])
            for rival, name in (("Independent", "a ridge per lot"), ("Pooled", "one ridge for all")):
                claim = f"{title}, lots with one training day: GAMTLCV against {name}"
                yield Check(claim, few, _few_rows(cells[rival]))
        if "RBF-GAMTL" in cells:
            found = _mean(cells["RBF-GAMTL"], "pooled")
            yield Check(f"{title}: RBF-GAMTL against the paper's", found, published["RBF-GAMTL"][0])


def _wiener(results: Results) -> Iterator[Check]:
    for n in (200, 1000):
        title = f"Wiener network, {n:,} rows per node"
        cells = results.get(f"wiener-{n}", {})
        if cells.keys() >= {"RBF-GAMTL", "GAMTL"}:
            rbf = cells["RBF-GAMTL"]
            linear = cells["GAMTL"]
            yield Check(f"{title}: error of RBF-GAMTL against GAMTL", _mean(rbf, "pooled"), _mean(linear, "pooled"))
            claim = f"{title}: Rand index of RBF-GAMTL's communities against GAMTL's"
            yield Check(claim, _mean(rbf, "rand_index"), _mean(linear, "rand_index"), below=False)


def _yardsticks(results: Results) -> Iterator[Check]:
    """The paper's "close correspondence" of graphs and yardsticks, as numbers."""
    for key, title in (("parkinsons-voice+time-rows-0.5", "Parkinson"), ("birmingham-across_nights-4", "Birmingham")):
        for row in agreement_rows(key, results.get(key, {})):
            if row["method"] in ("GAMTL", "RBF-GAMTL", "GAMTLCV") and "auc" in row:
                who = f"{title}: {row['method']}'s graph beside the yardstick"
                yield Check(f"{who}, AUC", row["auc"], 0.8 if title == "Parkinson" else 0.5, below=False)
                yield Check(f"{who}, p-value by shuffling", row["p_value"], 0.01)
                if "same_place" in row:
                    yield Check(
                        f"{title}: {row['method']} joins 8, 9 and 17, of three pairs", row["same_place"], 2, False
                    )
