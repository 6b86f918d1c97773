"""Model files of format 2, an early state of version 0.2: their records with the fields of today."""

from __future__ import annotations

from typing import Any

from kinfolk.methods.search_report import ByTask, CurvesTried, SearchReport, TreesTried, VersusRidge
from kinfolk.words import warn_user

SAME = ("gains", "best_params", "n_splits", "cv_results", "time_column")  # attributes that are fields of a report

LAST_ROWS = "LastRows"  # a record of parts that followed the last rows of every task, and are not searched any more


def note_of_last_rows() -> None:
    """Predictions are those of the file; what is computed from parts takes all rows for the last."""
    warn_user(
        "this model has a share of the mean of the last rows, which later versions do not search: it predicts as "
        "before, and for standard deviations and contributions fit again"
    )


def rename_fields(record: str, values: dict[str, Any]) -> None:
    """Bring the fields of an earlier record to the present ones.

    What a search found, and all that a method reports, was a dict of fitted attributes, `details`.
    """
    if record == "Part":
        values.pop("last", None)
    if record == "Model" and "details" in values:
        values |= _report_of(values.pop("details"))


def _report_of(details: dict[str, Any]) -> dict[str, Any]:
    """The fields of a model that fitted attributes are now."""
    relevance = details.pop("relevance_", None)
    if "mixture_" not in details:
        return {"relevance": relevance, "extras": details}
    left: dict[str, Any] = {
        name: value.values if isinstance(value, ByTask) else value for name, value in details.items()
    }
    report = SearchReport(
        graph_helps=left["graph_helps_"],
        graph_gain=left["gain_"],
        mixture=left["mixture_"],
        shares=left["shares_"],
        too_large_for_curves="nonlinear_gain_" in left and left["nonlinear_gain_"] is None,
        versus_ridge=_versus_ridge(left),
        curves=_curves(left),
        trees=_trees(left),
        **{name: left.get(f"{name}_") for name in SAME},
    )
    return {"relevance": relevance, "report": report, "extras": {}}


def _versus_ridge(left: dict[str, Any]) -> VersusRidge | None:
    if "own_errors_" not in left:
        return None
    return VersusRidge(left["own_errors_"], left["own_gain_"], left.get("own_chance_"))


def _curves(left: dict[str, Any]) -> CurvesTried | None:
    if left.get("nonlinear_gain_") is None:
        return None
    basis = {name: left.get(f"{name}_") for name in ("splines", "rbf", "rbf_setting", "rbf_errors")}
    return CurvesTried(left["nonlinear_gain_"], **basis)


def _trees(left: dict[str, Any]) -> TreesTried | None:
    if "trunk_gain_" not in left:
        return None
    return TreesTried(left["trunk_gain_"], left["trunk_helps_"], left["trunk_setting_"])
