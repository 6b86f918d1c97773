"""What a search found, as part of the record of a fit: gains, shares, and what was tried beside lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kinfolk.declared import holds
from kinfolk.methods.rbf import RBFFeatures, Setting
from kinfolk.methods.splines import SplineFeatures
from kinfolk.rows.gram import Array


@holds(mean="number any", standard_error="number any")
class Gain(NamedTuple):
    """Relative fall of the held-out error, mean over tasks, and its standard error."""

    mean: float
    standard_error: float

    def clears(self, guard: float, tasks: int) -> bool:
        """Whether it is larger than chance makes it as rarely as a normal variable exceeds `guard`.

        The standard error is itself an estimate over tasks, so the quantile is that of Student's distribution.

        Examples
        --------
        >>> Gain(0.022, 0.01).clears(2.0, 1000), Gain(0.022, 0.01).clears(2.0, 10)
        (True, False)
        """
        quantile = float(stats.t.isf(stats.norm.sf(guard), max(tasks - 1, 1)))
        return bool(self.mean > quantile * float(self.standard_error))

    def of_fewer_rows(self, change: float, left_out: float) -> Gain:
        """With a standard error that also covers that folds train on fewer rows than the model does.

        What sharing and trees gain (`change`) grows or shrinks with the rows of a task, by about the share of them that
        a fold leaves out.
        """
        return Gain(self.mean, float(np.hypot(self.standard_error, left_out * change)))


NO_GAIN = Gain(0.0, 0.0)  # of what takes no part


@holds()
@dataclass(frozen=True, eq=False)
class ByTask:
    """Values with an entry per task along `axis`."""

    values: NDArray[Any]
    axis: int = 0

    def placed(self, position: NDArray[np.intp], T: int) -> ByTask:
        """The same among T tasks, where these stand at `position`; NaN (-1 for whole numbers) at the others."""
        shape = list(self.values.shape)
        shape[self.axis] = T
        # A whole number has no NaN: groups and clusters count from 0, so that -1 is none of them.
        grown = np.full(shape, np.nan if self.values.dtype.kind == "f" else -1, self.values.dtype)
        np.moveaxis(grown, self.axis, 0)[position] = np.moveaxis(self.values, self.axis, 0)
        return ByTask(grown, self.axis)

    def taken(self, tasks: NDArray[Any]) -> ByTask:
        """The entries of some tasks, by position."""
        return ByTask(np.take(self.values, tasks, self.axis), self.axis)


@holds(values="d d")
@dataclass(frozen=True, eq=False)
class ByFeature:
    """A matrix (d, d) with an entry per pair of features."""

    values: Array

    def placed(self, columns: NDArray[np.intp], d: int) -> ByFeature:
        """The same among d features, where these are `columns`; 0 at the others, which do not vary."""
        grown = np.zeros((d, d))
        grown[np.ix_(columns, columns)] = self.values
        return ByFeature(grown)


@holds(errors="T any >=0", chance="T any >=0 <=1", common_slopes="T any >=0", gain="record")
@dataclass(frozen=True, eq=False)
class VersusRidge:
    """The model beside a ridge per task on the same folds.

    Attributes
    ----------
    errors : (T,), held-out RMSE of the ridge; NaN for tasks with a single row
    gain : what the model gains over it
    chance : (T,), probability that the error of the model lies so far above that of the ridge by chance; None in files
        of earlier versions
    common_slopes : (T,), held-out RMSE of one set of slopes for all tasks, with a level for each; None in such files,
        and where it was not tried on all folds
    """

    errors: Array
    gain: Gain
    chance: Array | None = None
    common_slopes: Array | None = None

    def attributes(self) -> dict[str, Any]:
        """These as fitted attributes."""
        return {"own_errors_": self.errors, "own_gain_": self.gain, "own_chance_": self.chance}


@holds(gain="record")
@dataclass(frozen=True, eq=False)
class CurvesTried:
    """Curves that were tried beside lines: they take part in predictions if there is a basis, and are left out if not.

    Attributes
    ----------
    gain : what lines and curves gain over lines alone
    splines, rbf : the features that take part, of one kind
    rbf_setting, rbf_errors : of radial basis functions what was chosen, and the error of every setting
    """

    gain: Gain
    splines: SplineFeatures | None = None
    rbf: RBFFeatures | None = None
    rbf_setting: Setting | None = None
    rbf_errors: dict[Setting, float] | None = None

    @property
    def basis(self) -> SplineFeatures | RBFFeatures | None:
        """The features that take part."""
        return self.rbf if self.splines is None else self.splines

    def attributes(self) -> dict[str, Any]:
        """These as fitted attributes."""
        return {
            "nonlinear_helps_": self.basis is not None,
            "nonlinear_gain_": self.gain,
            "splines_": self.splines,
            "rbf_": self.rbf,
            "rbf_setting_": self.rbf_setting,
            "rbf_errors_": self.rbf_errors,
        }


@holds(gain="record")
@dataclass(frozen=True, eq=False)
class TreesTried:
    """Boosted trees, or a given regressor, that were tried: what they gain, whether they take part, what was chosen."""

    gain: Gain
    helps: bool
    setting: dict[str, Any]

    def attributes(self) -> dict[str, Any]:
        """These as fitted attributes."""
        return {"trunk_helps_": self.helps, "trunk_gain_": self.gain, "trunk_setting_": self.setting}


@holds(graph_gain="record", shares="T M any >=0", versus_ridge="record T", curves="record", trees="record")
@dataclass(frozen=True, eq=False)
class SearchReport:
    """What a search found.

    Attributes
    ----------
    graph_helps, graph_gain : whether the graph takes part in predictions, and what it gains
    mixture : share of every member, by its name
    shares : (T, M), the same by task
    gains : what "curves", "sharing", "graph" and "trees" gain, each beside what was there before; None where too few
        rows left nothing to search, and in files of earlier versions
    versus_ridge : the model beside a ridge per task, None as above
    best_params : of the best member with a graph; None as above
    n_splits, cv_results : folds, and a row per member that was tried; None as above
    curves : None if none were tried
    too_large_for_curves : whether that is because the table is too large for them
    trees : None if none were tried
    time_column : a column that looks like the time of the rows, where neither groups nor time were given
    """

    graph_helps: bool
    graph_gain: Gain
    mixture: dict[str, float]
    shares: Array
    gains: dict[str, Gain] | None = None
    versus_ridge: VersusRidge | None = None
    best_params: dict[str, Any] | None = None
    n_splits: int | None = None
    cv_results: list[dict[str, Any]] | None = None
    curves: CurvesTried | None = None
    too_large_for_curves: bool = False
    trees: TreesTried | None = None
    time_column: str | None = None

    def placed(self, position: NDArray[np.intp], T: int) -> SearchReport:
        """The same among T tasks, where these stand at `position`."""
        return self._by_task(lambda values: ByTask(values).placed(position, T).values)

    def taken(self, tasks: NDArray[Any]) -> SearchReport:
        """That of some tasks, by position."""
        return self._by_task(lambda values: values[tasks])

    def _by_task(self, change: Callable[[Array], Array]) -> SearchReport:
        ridge = self.versus_ridge
        # Gains are means over the tasks of fit, and stay.
        if ridge is not None:
            chance = None if ridge.chance is None else change(ridge.chance)
            common_slopes = None if ridge.common_slopes is None else change(ridge.common_slopes)
            ridge = replace(ridge, errors=change(ridge.errors), chance=chance, common_slopes=common_slopes)
        return replace(self, shares=change(self.shares), versus_ridge=ridge)

    def attributes(self) -> dict[str, Any]:
        """These as fitted attributes; what was not searched for has none."""
        named: dict[str, Any] = {
            "gains_": self.gains,
            "graph_helps_": self.graph_helps,
            "gain_": self.graph_gain,
            "nonlinear_helps_": False,
            "best_params_": self.best_params,
            "mixture_": self.mixture,
            "shares_": self.shares,
            "n_splits_": self.n_splits,
            "cv_results_": self.cv_results,
        }
        for record in (self.versus_ridge, self.curves, self.trees):
            named |= {} if record is None else record.attributes()
        # What is None was not searched for; but curves that a table is too large for have a gain, which is None.
        found: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        if self.too_large_for_curves:
            found["nonlinear_gain_"] = None
        return found | {"time_column_": self.time_column}
