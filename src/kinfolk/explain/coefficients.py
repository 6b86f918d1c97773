"""Reading edges and groups feature by feature: what tasks share, where they differ, and what is only noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kinfolk.explain.joint import Joint, joint_of, position
from kinfolk.methods.gamtl.problem import independent
from kinfolk.methods.model import Fitted, Model, as_model
from kinfolk.rows.gram import TINY, Array
from kinfolk.threads import on_few_threads

ERROR_RATE = 0.05  # over all features of a comparison together, for "differs"
NEAR = 2.0  # standard errors around a difference that must lie within the spread, for "shared"


class FeatureComparison(NamedTuple):
    """One feature of two tasks; `spread` is the difference in units of how much tasks vary in it; NaN if not at all."""

    feature: Any
    coef: float
    neighbor_coef: float
    difference: float
    standard_error: float
    spread: float
    alone: float
    verdict: str


@dataclass(frozen=True, eq=False)
class SharedFeatures:
    """Two tasks compared feature by feature, the surest difference first; see `shared_features`."""

    task: Any
    neighbor: Any
    weight: float
    features: tuple[FeatureComparison, ...]

    def table(self) -> list[dict[str, Any]]:
        """One row per feature."""
        return [row._asdict() for row in self.features]

    def having(self, verdict: str) -> list[Any]:
        """Names of the features with a verdict: "shared", "differs" or "unclear"."""
        return [row.feature for row in self.features if row.verdict == verdict]

    def __repr__(self) -> str:
        differs = self.having("differs")
        shown = ", ".join(map(str, differs[:3])) + (", ..." if len(differs) > 3 else "")
        return (
            f"SharedFeatures({self.task!r} and {self.neighbor!r}, weight {self.weight:.3g}: "
            f"{len(self.having('shared'))} features shared, {len(self.having('unclear'))} unclear, "
            f"{len(differs)} differ{': ' + shown if shown else ''})"
        )


class FeatureMark(NamedTuple):
    """One feature of a community against the rest; `distance` is the difference in spreads over all these tasks."""

    feature: Any
    mean: float
    within: float
    rest: float
    difference: float
    standard_error: float
    distance: float


@dataclass(frozen=True, eq=False)
class GroupProfile:
    """One community and the coefficients that mark it, the most telling first; see `group_profile`."""

    community: int
    tasks: tuple[Any, ...]
    features: tuple[FeatureMark, ...]

    def table(self) -> list[dict[str, Any]]:
        """One row per feature."""
        return [{"community": self.community, **row._asdict()} for row in self.features]

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.tasks[:3])) + (", ..." if len(self.tasks) > 3 else "")
        marks = ", ".join(f"{row.feature} {row.difference:+.3g}" for row in self.features[:3])
        return f"GroupProfile({self.community}: {len(self.tasks)} tasks ({names}); marked by {marks})"


@on_few_threads
def shared_features(model: Fitted, task: Any, neighbor: Any) -> SharedFeatures:
    """Which features two tasks share, and where they differ.

    Compared are the coefficients behind the graph: for GAMTLCV those of its best graph candidate. Every difference
    has the standard error that the noise gives it for the fitted graph, and is given in units of `model.relevance_`,
    how much the coefficient varies between tasks. The verdict is

        "shared"    even two standard errors more would leave the difference within one such unit; or the coefficient
                    varies between tasks by less than the standard error, and these two are no exception
        "differs"   not shared, too large for noise at 5 % over all features together (Bonferroni), and the fits without
                    any graph differ the same way by two standard errors: the coupling itself may bias a difference
        "unclear"   neither: the data cannot tell

    Features are sorted by the difference over its standard error. An edge pulls its ends together, so "shared" is in
    part what the model assumes; `alone` is the difference of the two fits without any graph, to compare with.

    Parameters
    ----------
    model : fitted GAMTL, GAMTLCV or RBFGAMTL
    task, neighbor : two tasks by name; they need not be joined, and then `weight` is 0

    Examples
    --------
    >>> from kinfolk import GAMTL
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([np.repeat([0, 1, 2, 3], 50), rng.normal(size=(200, 2))])
    >>> y = X[:, 1] + np.where(X[:, 0] < 2, 2, -2) * X[:, 2] + 0.1 * rng.normal(size=200)
    >>> first = shared_features(GAMTL(task=0).fit(X, y), 0, 3).features[0]
    >>> first.feature, first.verdict
    (1, 'differs')
    """
    model = as_model(model, "shared_features")
    joint = joint_of(model, "shared_features")
    i, j = (_seen(model, joint, name) for name in (task, neighbor))
    if i == j:
        raise ValueError(f"shared_features compares two tasks, got {task!r} twice")
    c = np.zeros(joint.gram.n_tasks)
    c[i], c[j] = 1.0, -1.0
    difference, error = joint.contrast(c)
    alone, alone_error = _alone(joint, i, j)
    assert model.relevance is not None  # a method with a graph says it
    unit = model.relevance
    confirmed = np.sign(difference) * alone > NEAR * alone_error
    verdict = _verdicts(difference, error, unit, confirmed)
    order = np.argsort(-np.abs(difference) / np.maximum(error, TINY), kind="stable")
    names = feature_names(joint)
    rows = tuple(
        FeatureComparison(
            feature=names[k],
            coef=float(joint.coef[i, k]),
            neighbor_coef=float(joint.coef[j, k]),
            difference=float(difference[k]),
            standard_error=float(error[k]),
            spread=float(difference[k] / unit[k]) if unit[k] > 0 else np.nan,
            alone=float(alone[k]),
            verdict=verdict[k],
        )
        for k in order
    )
    return SharedFeatures(task, neighbor, float(joint.graph.adjacency[i, j]), rows)


@on_few_threads
def group_profile(model: Fitted) -> list[GroupProfile]:
    """Which coefficients mark each community against all other tasks; outliers are left out on both sides.

    Per feature: the mean over the community, the standard deviation within it, the mean over the rest, their
    difference with its standard error from the noise, and that difference in standard deviations over all tasks that
    are not outliers. Features are sorted by the last. With a single community there is nothing to compare it with:
    `rest` and what follows are NaN, and the features are sorted by their mean. Features that do not vary within tasks
    are left out: all tasks have one coefficient of them.

    Parameters
    ----------
    model : fitted GAMTL, GAMTLCV or RBFGAMTL
    """
    joint = joint_of(as_model(model, "group_profile"), "group_profile")
    group = joint.graph.groups()
    labels = joint.gram.labels
    names = feature_names(joint)
    common = joint.gram.common()
    return [
        GroupProfile(
            g, tuple(labels[group == g].tolist()), marks_of(joint.coef, names, group == g, group, joint, common=common)
        )
        for g in range(group.max() + 1)
    ]


def marks_of(
    coef: Array,
    names: Sequence[Any],
    inside: NDArray[np.bool_],
    group: NDArray[np.intp],
    joint: Joint | None = None,
    *,
    common: NDArray[np.bool_] | None = None,
) -> tuple[FeatureMark, ...]:
    """What marks some tasks against all others of the groups, the most telling feature first.

    Features whose coefficient all tasks have in `common` mark nobody and are left out: they differ by rounding alone.
    Standard errors are those of the noise in the `joint` problem; without one, or where its inverse is not kept, they
    come from how much the tasks of a group differ, which holds the noise.

    Examples
    --------
    Two groups of two: both scatter by 1 around their means, which are 10 apart.

    >>> W = np.array([[1.0], [3.0], [11.0], [13.0]])
    >>> marks_of(W, ["x"], np.arange(4) < 2, np.array([0, 0, 1, 1]))[0][4:6]
    (-10.0, 1.0)
    """
    rest = (group >= 0) & ~inside
    difference = error = np.full(coef.shape[1], np.nan)
    if rest.any() and joint is not None and joint.is_small:
        difference, error = joint.contrast(inside / inside.sum() - rest / rest.sum())
    elif rest.any():
        difference, error = _contrast_by_scatter(coef, inside, rest, group)
    deviation = np.maximum(coef[group >= 0].std(axis=0), TINY)
    mean = coef[inside].mean(axis=0)
    distance = difference / deviation
    order = np.argsort(-np.abs(distance if rest.any() else mean), kind="stable")
    order = order if common is None else order[~common[order]]
    columns = (mean, coef[inside].std(axis=0), mean - difference, difference, error, distance)
    return tuple(FeatureMark(names[k], *(float(column[k]) for column in columns)) for k in order)


def _contrast_by_scatter(
    coef: Array, inside: NDArray[np.bool_], rest: NDArray[np.bool_], group: NDArray[np.intp]
) -> tuple[Array, Array]:
    grouped = group >= 0
    means = np.array([coef[group == g].mean(axis=0) for g in range(group.max() + 1)])
    variance = np.mean((coef[grouped] - means[group[grouped]]) ** 2, axis=0)
    difference = coef[inside].mean(axis=0) - coef[rest].mean(axis=0)
    return difference, np.sqrt(variance * (1 / inside.sum() + 1 / rest.sum()))


def _verdicts(difference: Array, error: Array, unit: Array, confirmed: NDArray[np.bool_]) -> list[str]:
    # Two-sided, and over all features together (Bonferroni).
    beyond_noise = np.abs(difference) > stats.norm.isf(ERROR_RATE / (2 * len(difference))) * error
    near = np.abs(difference) + NEAR * error <= unit
    shared = near | ((unit < error) & ~beyond_noise)
    return np.where(shared, "shared", np.where(beyond_noise & confirmed, "differs", "unclear")).tolist()


def _alone(joint: Joint, i: int, j: int) -> tuple[Array, Array]:
    """Difference of two tasks' own ridges, the start of the alternation, and its standard errors."""
    equations = joint.problem.equations
    pair = [i, j]
    V = independent(equations, joint.problem.ridge)
    W = joint.part.coefficients(equations, V)[0][pair]
    # V is linear in b: with the matrix in place of b, `independent` gives its inverse column by column.
    units = (replace(equations, b=np.tile(e, (len(V), 1))) for e in np.eye(V.shape[1]))
    inverse = np.stack([independent(unit, joint.problem.ridge)[pair] for unit in units], axis=2)
    C = np.einsum("p,pai,pij,pbj->ab", joint.noise[pair], inverse, equations.G[pair], inverse)
    return W[0] - W[1], joint.standard_errors(C)


def feature_names(joint: Joint) -> list[Any]:
    """Names of the features, or their positions."""
    return list(joint.gram.feature_names or range(joint.gram.n_features))


def _seen(model: Model, joint: Joint, name: Any) -> int:
    """Position of a task among those with rows."""
    position(model.labels, name)
    at = np.flatnonzero(joint.gram.labels == name)
    if not len(at):
        raise ValueError(f"task {name!r} had no target in fit: it has no coefficients of its own to compare")
    return int(at[0])
