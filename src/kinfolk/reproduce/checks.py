"""Claims of the paper and aims of our own, held against the results: what was found, what was wanted, whether it holds.

An aim whose cells are not all there yet is left out. Nothing here enters a fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kinfolk.reproduce import paper
from kinfolk.reproduce.methods import ORACLE
from kinfolk.reproduce.referee import paired, pooled_over, spread
from kinfolk.reproduce.runner import Results
from kinfolk.reproduce.tables import SPARSE_LOTS, Cells


@dataclass(frozen=True)
class Check:
    """One claim: a number found, the limit it is held against, and which side of it is right."""

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
    found = []
    for make in (_shared, _own, _parkinsons, _birmingham, _wiener):
        found += list(make(_Means(results)))
    return found


def check_cells(found: list[Check]) -> Cells:
    """The claims as a table of text."""
    rows = [
        [c.claim, f"{c.found:.4g}", f"{'at most' if c.below else 'at least'} {c.limit:.4g}", "yes" if c.holds else "no"]
        for c in found
    ]
    return [["claim", "found", "wanted", "holds"], *rows]


class _Means:
    """Means over runs by setting, method and measure; asks for what is missing raise KeyError."""

    def __init__(self, results: Results) -> None:
        self.results = results

    def __call__(self, setting: str, method: str, measure: str = "tasks") -> float:
        return spread([cell[measure] for cell in self.results[setting][method].values()]).mean

    def structure(self, setting: str, method: str, measure: str) -> float:
        return spread([cell["recovery"][measure] for cell in self.results[setting][method].values()]).mean

    def few_rows(self, setting: str, method: str) -> float:
        return spread([pooled_over(cell, SPARSE_LOTS) for cell in self.results[setting][method].values()]).mean

    def has(self, setting: str, *methods: str) -> bool:
        return all(method in self.results.get(setting, {}) for method in methods)


def _shared(mean: _Means) -> Iterator[Check]:
    for data, title in (("syn1", "Syn 1"), ("syn2", "Syn 2")):
        key = f"{data}-shared"
        if mean.has(key, "GAMTL", ORACLE):
            ratio = mean(key, "GAMTL") / mean(key, ORACLE)
            yield Check(f"{title}, shared inputs: error of GAMTL over that of the row-space oracle", ratio, 1.05)
            name, distance = _strongest_rival(mean.results[key])
            yield Check(f"{title}, shared inputs: GAMTL behind {name}, in standard errors", distance, 2.0)
    if mean.has("syn1-shared", "GAMTL"):
        found = mean.structure("syn1-shared", "GAMTL", "rand_index")
        yield Check("Syn 1, shared inputs: adjusted Rand index of GAMTL's communities", found, 1.0, below=False)
    if mean.has("syn2-shared", "GAMTL"):
        found = mean.structure("syn2-shared", "GAMTL", "edge_auc")
        yield Check("Syn 2, shared inputs: AUC of GAMTL's edges", found, 0.9, below=False)


def _strongest_rival(results: dict[str, Any]) -> tuple[str, float]:
    """The competitor that GAMTL stays behind by most standard errors, and by how many; negative: ahead of all."""
    behind = {}
    for name, cells in results.items():
        difference = paired(results["GAMTL"], cells, "tasks")
        if "GAMTL" not in name and name != ORACLE and difference and difference.standard_error > 0:
            behind[name] = difference.mean / difference.standard_error
    name = max(behind, key=lambda rival: behind[rival])
    return name, behind[name]


def _own(mean: _Means) -> Iterator[Check]:
    for data, title in (("syn1", "Syn 1"), ("syn2", "Syn 2")):
        for method in ("GAMTL", "GAMTLCV"):
            if mean.has(f"{data}-own", method, "Independent"):
                ratio = mean(f"{data}-own", method) / mean(f"{data}-own", "Independent")
                yield Check(f"{title}, own inputs: error of {method} over that of a ridge per task", ratio, 0.6)


def _parkinsons(mean: _Means) -> Iterator[Check]:
    for ratio, published in paper.PARKINSONS.items():
        key, title = f"parkinsons-voice+time-rows-{ratio}", f"Parkinson, voice and time, rows, r = {ratio}"
        if mean.has(key, "GAMTLCV", "Independent"):
            found = mean(key, "GAMTLCV")
            yield Check(f"{title}: GAMTLCV against the paper's GAMTL", found, published["GAMTL"][0])
            yield Check(f"{title}: GAMTLCV against a ridge per patient", found, mean(key, "Independent"))
        if mean.has(key, "RBF-GAMTL"):
            found = mean(key, "RBF-GAMTL")
            yield Check(f"{title}: RBF-GAMTL against the paper's", found, published["RBF-GAMTL"][0])


def _birmingham(mean: _Means) -> Iterator[Check]:
    for lags, published, aim in ((4, paper.BIRMINGHAM[4], 0.0862), (8, paper.BIRMINGHAM[8], 0.0866)):
        key, title = f"birmingham-across_nights-{lags}", f"Birmingham, {lags // 2} hours, across nights, pooled"
        if mean.has(key, "GAMTLCV", "Independent", "Pooled"):
            found = mean(key, "GAMTLCV", "pooled")
            yield Check(f"{title}: GAMTLCV against the paper's GAMTL", found, published["GAMTL"][0])
            yield Check(f"{title}: GAMTLCV against our aim", found, aim)
            few = mean.few_rows(key, "GAMTLCV")
            for rival, name in (("Independent", "a ridge per lot"), ("Pooled", "one ridge for all")):
                limit = mean.few_rows(key, rival)
                yield Check(f"{title}, lots with one training day: GAMTLCV against {name}", few, limit)
        if mean.has(key, "RBF-GAMTL"):
            found = mean(key, "RBF-GAMTL", "pooled")
            yield Check(f"{title}: RBF-GAMTL against the paper's", found, published["RBF-GAMTL"][0])


def _wiener(mean: _Means) -> Iterator[Check]:
    for n in (200, 1000):
        key, title = f"wiener-{n}", f"Wiener network, {n:,} rows per agent"
        if mean.has(key, "RBF-GAMTL", "GAMTL"):
            limit = mean(key, "GAMTL", "pooled")
            yield Check(f"{title}: error of RBF-GAMTL against GAMTL", mean(key, "RBF-GAMTL", "pooled"), limit)
            found = mean.structure(key, "RBF-GAMTL", "rand_index")
            limit = mean.structure(key, "GAMTL", "rand_index")
            yield Check(f"{title}: Rand index of RBF-GAMTL's communities against GAMTL's", found, limit, below=False)
