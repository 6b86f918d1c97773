"""The methods of the tables: how each is fitted and tuned on training rows. None of them scores itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from kinfolk.estimators.gamtl import GAMTL
from kinfolk.experiments.reproduction.splits import Split
from kinfolk.judge.contestants import fit_boosting
from kinfolk.judge.tuning import tune
from kinfolk.methods.rbf import RBFFeatures
from kinfolk.methods.registry import all_methods
from kinfolk.methods.ridges import Independent, TaskMean
from kinfolk.rivals.gfl import GFL
from kinfolk.rivals.responses import response_correlation
from kinfolk.rows.gram import Array
from kinfolk.rows.table import read_rows

Grid = Mapping[str, Sequence[Any]]
UNWEIGHTED = ("RBFGAMTL",)  # its centres count a row and its mirror image as rows of their own
GRAPH_THRESHOLD = 0.5  # of GFL's correlations, as in its paper's examples


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a method hands to the referee: a function from rows to predictions, what it chose, and its messages."""

    predict: Callable[[Array], Array]
    params: dict[str, Any] = field(default_factory=dict)
    model: Any = None
    messages: tuple[str, ...] = ()


Fitter = Callable[[Split, str, int], Fitted]


@dataclass(frozen=True, eq=False)
class Method:
    """One method of the tables.

    Attributes
    ----------
    name : in tables and files
    fit : (training rows, metric to tune for, seed) -> Fitted
    settings : what the cell's key must contain: constructor arguments and the grid
    seconds : of one cell by part, as measured on one core; for the order of work and the time left
    runs : at most so many runs by part or by the setting's `methods`; all of the setting's without an entry
    parts : where it takes part
    library, extra : module that it needs, and the extra that installs it
    """

    name: str
    fit: Fitter
    settings: dict[str, Any]
    seconds: dict[str, float]
    runs: dict[str, int] = field(default_factory=dict)
    parts: tuple[str, ...] = ("synthetic", "wiener", "birmingham", "parkinsons")
    library: str = ""
    extra: str = ""


def _tuned(kind: Any, fixed: dict[str, Any], grid: Grid) -> tuple[Fitter, dict[str, Any]]:
    """A method whose grid is searched on 5 folds of the training rows."""

    def fit(rows: Split, metric: str, seed: int) -> Fitted:
        estimator = kind(task=0, unseen="mean", extrapolate="linear", **fixed, **_graph_of(kind, rows))
        tuning = tune(estimator, grid, rows.X, rows.y, groups=rows.groups, scoring=metric, random_state=seed)
        messages = {row["message"] for row in tuning.cv_results_ if row["params"] == tuning.best_params_}
        model = tuning.best_estimator_
        return Fitted(model.predict, dict(tuning.best_params_), model, tuple(filter(None, messages)))

    return fit, {"fixed": fixed, "grid": {name: list(values) for name, values in grid.items()}}


def _own_cv(kind: Any, fixed: dict[str, Any]) -> tuple[Fitter, dict[str, Any]]:
    """A method that cross-validates by itself, or has nothing to tune."""

    def fit(rows: Split, metric: str, seed: int) -> Fitted:
        own: dict[str, Any] = {"random_state": seed} if "random_state" in kind().get_params() else {}
        own |= {"scoring": metric} if "penalty" in fixed else {}
        model = kind(task=0, unseen="mean", extrapolate="linear", **fixed, **own)
        weight = None if kind.__name__ in UNWEIGHTED else rows.weight
        model.fit(rows.X, rows.y, sample_weight=weight, groups=rows.groups)
        return Fitted(model.predict, _plain_params(model), model)

    return fit, {"fixed": fixed}


def _plain_params(model: Any) -> dict[str, Any]:
    """What the method says it chose."""
    chosen = ("penalty_", "best_params_", "mixture_", "graph_helps_", "gain_", "rbf_setting_")
    params = {name.rstrip("_"): getattr(model, name) for name in chosen if hasattr(model, name)}
    if hasattr(model, "diagnostics_"):
        params["rhat"] = model.diagnostics_["rhat_max"]
    return params


def _graph_of(kind: Any, rows: Split) -> dict[str, Any]:
    """GFL's graph: correlations of responses over common rows, or of ridge coefficients where there are none."""
    if kind is not GFL:
        return {}
    R = response_correlation(read_rows(rows.X, rows.y, task=0), rows.X[:, 1:])
    if R is None:
        own = Independent(task=0, penalty="cv").fit(rows.X, rows.y, groups=rows.groups)
        R = np.corrcoef(own.coef_)
        np.fill_diagonal(R, 0.0)
    return {"graph": np.where(np.abs(R) > GRAPH_THRESHOLD, R, 0.0)}


def _task_mean(rows: Split, metric: str, seed: int) -> Fitted:
    """The mean of a task's training targets; of all targets for a task without."""
    codes = rows.X[:, 0].astype(int)
    T = len(rows.tasks)
    count = np.bincount(codes, minlength=T)
    mean = np.bincount(codes, rows.y, minlength=T) / np.maximum(count, 1)
    mean = np.where(count > 0, mean, rows.y.mean())
    return Fitted(lambda X: mean[X[:, 0].astype(int)])


def _persistence(rows: Split, metric: str, seed: int) -> Fitted:
    """The last value of the target, which is a column of the inputs; the scaling of that column is undone."""
    column = rows.persistent
    assert column is not None and rows.unit is not None
    centre, scale = rows.unit
    return Fitted(lambda X: centre[column - 1] + scale[column - 1] * X[:, column])


def _oracle(rows: Split, metric: str, seed: int) -> Fitted:
    """The true coefficients, in the directions that a task's training rows show; zero in the others."""
    W = rows.truth["coef"].copy()
    X = rows.truth["rows"]
    for t in range(len(W)):
        inside = X[X[:, 0] == t, 1:]
        W[t] = np.linalg.pinv(inside) @ (inside @ W[t])
    return Fitted(lambda X: np.einsum("nd,nd->n", X[:, 1:], W[X[:, 0].astype(int)]))


def _plane_oracle(rows: Split, metric: str, seed: int) -> Fitted:
    """Least squares inside the true plane of the coefficients: no method can place the tasks on it more surely."""
    W = rows.truth["coef"]
    centre = W.mean(axis=0)  # the plane does not go through the origin
    plane = np.linalg.svd(W - centre, full_matrices=False)[2][:2]
    coef = np.empty_like(W)
    for t in range(len(W)):
        inside = rows.X[:, 0] == t
        X = rows.X[inside, 1:]
        coef[t] = centre + np.linalg.lstsq(X @ plane.T, rows.y[inside] - X @ centre, rcond=None)[0] @ plane
    model = SimpleNamespace(coef_=coef)
    return Fitted(lambda X: np.einsum("nd,nd->n", X[:, 1:], coef[X[:, 0].astype(int)]), model=model)


def _boosting(rows: Split, metric: str, seed: int) -> Fitted:
    predict, params = fit_boosting(rows.X, rows.y, rows.groups, seed)
    return Fitted(predict, params)


def _seconds(synthetic: float, wiener: float, birmingham: float, parkinsons: float) -> dict[str, float]:
    return {"synthetic": synthetic, "wiener": wiener, "birmingham": birmingham, "parkinsons": parkinsons}


ORACLE = "row-space oracle"
PLANE_ORACLE = "plane oracle"  # of the circle
PRINTED = "RBF-GAMTL as printed"
USUAL_SECONDS = _seconds(2, 2, 2, 5)
# What the experiments alone know about the methods of the package: how long a cell takes, and in how many runs.
SECONDS: dict[str, dict[str, float]] = {
    "MTRL": _seconds(1, 1, 1, 10),
    "MSSL": _seconds(2, 1, 1, 45),
    "BMSL": _seconds(6, 2, 2, 10),
    "TAT": _seconds(1, 1, 1, 3),
    "GFL": _seconds(10, 5, 5, 100),
    "CCMTL": _seconds(2, 1, 2, 4),
    "GAMTL": _seconds(6, 2, 3, 16),
    "RBF-GAMTL": _seconds(3, 7, 8, 60),
    "GAMTLCV": _seconds(1, 0.5, 1, 3),
    "Independent": _seconds(0.1, 0.1, 0.2, 0.2),
    "Pooled": _seconds(0.1, 0.1, 0.2, 0.2),
    "MeanShrunk": _seconds(0.5, 0.3, 0.5, 1),
    "RandomSlopes": _seconds(0.1, 0.1, 0.2, 0.3),
}
RUNS: dict[str, dict[str, int]] = {
    "MTRL": {"parkinsons": 5},
    "MSSL": {"parkinsons": 2, "light": 1},
    "BMSL": {"parkinsons": 5},
    "RBF-GAMTL": {"parkinsons": 3, "light": 1},
}
PARTS = {"GFL": ("synthetic", "wiener")}  # where tasks have rows in common
# The paper's method has no ridge; a tiny one makes its answer unique. The tuned one keeps to lines, as those beside it.
PAPER: dict[str, tuple[dict[str, Any], Grid]] = {
    "GAMTL": ({"ridge": 1e-6}, {"neighbors": (2, 5, 10), "strength": (0.01, 0.1, 1.0, 10.0, 100.0)}),
    "GAMTLCV": ({"nonlinear": False}, {}),
}
ORDER = ("MTRL", "MSSL", "BMSL", "TAT", "GFL", "CCMTL", "GAMTL", "RBF-GAMTL", "GAMTLCV")  # as in the paper's tables


def _of_package(kind: type[Any]) -> Method:
    """A method of the package, with its own grid and quick settings; those of the paper are in `PAPER`."""
    name = kind.__name__.replace("RBFGAMTL", "RBF-GAMTL")
    fixed, grid = PAPER.get(name, ({}, kind.default_grid))
    fixed = {**fixed, **kind.quick}
    if set(grid) <= {"penalty"}:  # nothing to tune, or done by the method itself
        fitter, settings = _own_cv(kind, fixed | dict.fromkeys(grid, "cv"))
    else:
        fitter, settings = _tuned(kind, fixed, grid)
    seconds = SECONDS.get(name, USUAL_SECONDS)
    parts = PARTS.get(name, tuple(USUAL_SECONDS))
    return Method(name, fitter, settings, seconds, RUNS.get(name, {}), parts)


def _as_printed() -> Method:
    """The paper's nonlinear method to the letter: k-means on the inputs as they are, widths by the optimal-width rule.

    No weights of inputs, no anchor, no ridge; number of centres, width and strength by cross-validation.
    """
    grid = {"features__n_centers": (20, 50), "features__width": (2.0, 4.0, 8.0, 16.0), "strength": (1.0, 10.0, 100.0)}
    fixed = {"ridge": 1e-6, "features": RBFFeatures(random_state=0)}
    fitter, settings = _tuned(GAMTL, fixed, grid)
    settings["fixed"] = {name: repr(value) for name, value in fixed.items()}
    return Method(PRINTED, fitter, settings, _seconds(40, 40, 60, 90), {"parkinsons": 1, "light": 1, "synthetic": 2})


def _of_experiments() -> list[Method]:
    """What the experiments add: the paper's nonlinear form, boosting, and predictions without a fit."""
    none = _seconds(0.1, 0.1, 0.1, 0.1)
    return [
        _as_printed(),
        Method(
            "LightGBM",
            _boosting,
            {"version": 1},
            _seconds(3, 5, 5, 10),
            runs={"parkinsons": 3},
            library="lightgbm",
            extra="kinfolk[boosting]",
        ),
        Method("task mean", _task_mean, {}, none),
        Method("persistence", _persistence, {}, none, parts=("birmingham",)),
        Method(ORACLE, _oracle, {}, none, parts=("synthetic",)),
        Method(PLANE_ORACLE, _plane_oracle, {"version": 2}, none, parts=("synthetic",)),
    ]


def _all() -> dict[str, Method]:
    methods = [_of_package(kind) for kind in all_methods().values() if kind is not TaskMean]
    methods.sort(key=lambda method: ORDER.index(method.name) if method.name in ORDER else len(ORDER))
    return {method.name: method for method in (*methods, *_of_experiments())}


METHODS: dict[str, Method] = _all()
