"""The experiments as data: every data set under every protocol, with its published numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kinfolk.experiments.reproduction import paper
from kinfolk.experiments.reproduction.paper import Published

VERSION = 1  # of the protocols; a new one starts all cells anew
PARTS = {
    "synthetic": "Synthetic data",
    "wiener": "Dynamical systems over a network",
    "birmingham": "Parking in Birmingham",
    "parkinsons": "Parkinson's disease",
}


@dataclass(frozen=True, eq=False)
class Setting:
    """One data set under one protocol: one table of the report.

    Attributes
    ----------
    key : its name in file names
    part : one of `PARTS`
    title : its name in tables
    source : name of a function of `kinfolk.experiments.reproduction.splits`
    options : what that function is given
    metric : "tasks" or "pooled": what the paper averages, and what every method is tuned for
    published : the paper's numbers, if this is the paper's protocol or what its text says
    runs : draws of data and splits
    methods : "all", "light" (without the slowest) or "few"
    quick : whether the small version has it
    figure : key of the paper's figure that it redraws, or ""
    note : what a reader must know
    """

    key: str
    part: str
    title: str
    source: str
    options: dict[str, Any]
    metric: str
    published: Published = field(default_factory=dict)
    runs: int = paper.RUNS
    methods: str = "all"
    quick: bool = False
    figure: str = ""
    note: str = ""


def _synthetic() -> Iterator[Setting]:
    for name, title in (("syn1", "Syn 1"), ("syn2", "Syn 2")):
        yield Setting(
            f"{name}-shared",
            "synthetic",
            f"{title}, all tasks share their inputs",
            name,
            {"shared_inputs": True},
            "tasks",
            paper.SYNTHETIC[name],
            quick=True,
            figure=name,
            note="The paper's protocol. 20 rows for 30 unknowns, the same for all tasks: ten directions are seen by no "
            "task. The row-space oracle knows the true coefficients in the other twenty: nobody can expect less error.",
        )
        yield Setting(
            f"{name}-own",
            "synthetic",
            f"{title}, every task has its own inputs",
            name,
            {"shared_inputs": False},
            "tasks",
            quick=name == "syn1",
            note="Not in the paper. Here tasks see different directions, so that sharing can show.",
        )
    yield Setting(
        "syn1-shared-var10",
        "synthetic",
        "Syn 1, shared inputs, the last task with variance 10 instead of standard deviation 10",
        "syn1",
        {"shared_inputs": True, "outlier": "var10"},
        "tasks",
        paper.SYNTHETIC["syn1"],
        methods="few",
        note="The other reading of N(0, 10 I). Its oracle is far below the paper's best row, that with sd 10 is not: "
        "so the paper's data had standard deviation 10.",
    )


def _wiener() -> Iterator[Setting]:
    for n, quick in ((200, True), (1000, False)):
        yield Setting(
            f"wiener-{n}",
            "wiener",
            f"Wiener network, {n:,} training rows per node",
            "wiener",
            {"n_samples": n},
            "pooled",
            runs=10 if n == 200 else 3,
            quick=quick,
            figure="wiener" if n == 1000 else "",
            note="The paper prints no errors, lengths or inputs; the inputs are those of the last three steps.",
        )


def _birmingham() -> Iterator[Setting]:
    for windows in ("across_nights", "within_day"):
        for lags in (4, 8):
            theirs = windows == "across_nights"
            yield Setting(
                f"birmingham-{windows}-{lags}",
                "birmingham",
                f"Birmingham, {lags // 2} hours, windows {windows.replace('_', ' ')}",
                "birmingham",
                {"windows": windows, "lags": lags},
                "pooled",
                paper.BIRMINGHAM[lags] if theirs else {},
                runs=3,
                quick=theirs and lags == 4,
                figure="birmingham" if theirs and lags == 4 else "",
                note="The split is fixed (first week trains); runs differ in the folds of the cross-validation, whole "
                "days each. NIA North has no training row and is predicted by the mean of the others.",
            )


def _parkinsons() -> Iterator[Setting]:
    for inputs, by, ratios, runs in (
        ("voice+time", "rows", (0.3, 0.4, 0.5, 0.6), paper.RUNS),
        ("voice", "rows", (0.5,), 3),
        ("voice+time", "sittings", (0.5,), 3),
        ("voice", "sittings", (0.5,), 3),
    ):
        for ratio in ratios:
            theirs = inputs == "voice+time" and by == "rows"
            yield Setting(
                f"parkinsons-{inputs}-{by}-{ratio}",
                "parkinsons",
                f"Parkinson, {inputs.replace('+', ' and ')}, {by} held out, r = {ratio}",
                "parkinsons",
                {"inputs": inputs, "by": by, "ratio": ratio},
                "tasks",
                paper.PARKINSONS[ratio] if by == "rows" else {},
                runs=runs,
                methods="all" if theirs else "light",
                quick=theirs and ratio == 0.5,
                figure="parkinsons" if theirs and ratio == 0.5 else "",
                note=_PARKINSONS_NOTE[theirs, by],
            )


_PARKINSONS_NOTE = {
    (True, "rows"): "The protocol that fits the paper's numbers: time among the inputs, random rows. Rows of one "
    "sitting, all with one score, lie on both sides, and the score was interpolated in time.",
    (False, "rows"): "What the paper's text says: voice alone. Its numbers cannot be reached from these inputs.",
    (False, "sittings"): "Whole sittings are held out, and whole sittings are the folds.",
}

SETTINGS: tuple[Setting, ...] = (*_synthetic(), *_wiener(), *_birmingham(), *_parkinsons())


def chosen(which: str, *, quick: bool = False) -> list[Setting]:
    """The settings of a part, or of all parts."""
    if which != "all" and which not in PARTS:
        raise ValueError(f"{which!r} is no part of the reproduction: choose one of {', '.join(PARTS)}, all")
    return [s for s in SETTINGS if which in ("all", s.part) and (s.quick or not quick)]
