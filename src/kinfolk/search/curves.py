"""Curves: splines and a random walk of the inputs or radial basis functions, and the members that see them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.methods.model import Model
from kinfolk.methods.random_slopes import RandomSlopes
from kinfolk.methods.ridges import Independent, MeanShrunk
from kinfolk.methods.splines import KNOTS, SplineFeatures, knots_for
from kinfolk.methods.walks import walk_column
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.levels import SINGULAR
from kinfolk.rows.splits import trains
from kinfolk.search.members import NAMES, OWN_CURVES, SLOPES, Learner, Member, OnColumns, baselines
from kinfolk.search.rbf_search import FeatureSearch, TaskRows, search_features
from kinfolk.solvers.ridge import START, choose_penalty, typical_eigenvalue
from kinfolk.solvers.tolerances import MIXED_MODEL
from kinfolk.threads import limited_threads

CURVES_RIDGE = 1e-4  # wide bumps are nearly collinear: without it their mean has wild errors away from the rows
NEAR = tuple(10.0 ** np.arange(-1, 1.5, 0.5))  # penalties of a head, over the best one of the last setting
MOST_CURVES = 4  # inputs that are bent: those whose curves explain most
MOST_TERMS = 20  # of all curves together
OWN_TERMS = (1, 2, 3, 5, 8, MOST_TERMS)  # of every curve that a ridge per task may have
STEPS = 200  # of their mixed model: with more, errors change little beside what curves gain
DRAFT_STEPS = 60  # the same on folds
MOST_NUMBERS = 3_000_000  # in the statistics of splines: beyond, they cost more than all that is tried beside them
MOST_VALUES = 300_000_000  # of the features of all rows, made block by block: beyond, they take minutes
ENOUGH = 1000  # rows that show whether an input has several values


def can_bend(X: Array) -> bool:
    """Whether some input has values enough for a spline, among the first rows."""
    return len(SplineFeatures().fit(X[:ENOUGH]).columns_) > 0


def spline_features(data: TaskRows, *, fine: bool) -> FeatureSearch | None:
    """Splines of the inputs and their folds; None if no input has values enough, or their statistics are too many.

    Knots do not depend on the target, so all folds have those of all rows; in time, where rows to come lie beyond all
    knots, those of its past. `fine` places more of them where tasks have rows enough; rows must then be drawn one by
    one. So must they for a walk, or be in time.
    """
    finest = knots_for(data.X, np.bincount(data.codes)) if fine else KNOTS
    in_time = bool((data.fold < 0).any())
    used = slice(None) if data.weight is None else data.weight > 0
    walk = walk_column(data.X[used], data.codes[used]) if fine or in_time else None
    for knots, along in dict.fromkeys(((finest, walk), (KNOTS, walk), (KNOTS, None))):
        features = SplineFeatures(knots, along).fit(data.X, sample_weight=data.weight)
        if features.n_terms and _fits(data, features.n_terms + data.X.shape[1]):
            by_fold = _by_fold(data, features)
            return FeatureSearch(None, features, by_fold, data.in_basis(features, by_fold).folds(), {})
    return None


def _by_fold(data: TaskRows, features: SplineFeatures) -> tuple[SplineFeatures, ...]:
    """The same splines in every fold; in time with the knots of its past."""
    folds = range(int(data.fold.max()) + 1)
    if not (data.fold < 0).any():
        return (features,) * len(folds)
    pasts = [trains(data.fold, f) & (data.weight is None or data.weight > 0) for f in folds]
    return tuple(features.among(data.inputs(f)[past]) for f, past in enumerate(pasts))


def _fits(data: TaskRows, D: int) -> bool:
    """Whether D features are few enough."""
    return len(data.labels) * D**2 <= MOST_NUMBERS and len(data.y) * D <= MOST_VALUES


@dataclass(frozen=True)
class BentSlopes:
    """A mixed model of the inputs, the last `inputs` features, and of the curves of those that bend most, `terms` each.

    Which these are is found among the rows at hand, so that folds judge it. The first `walk` features are no curves.
    """

    inputs: int
    terms: int
    walk: int = 0
    steps: int = STEPS

    def learn(self, gram: GramStats) -> Model:
        """Random slopes on the chosen features; the others have coefficients of 0."""
        columns = self.columns(gram)
        return OnColumns(RandomSlopes(tol=MIXED_MODEL, max_iter=self.steps), columns, np.ones(len(columns))).learn(gram)

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """The model of all tasks of `gram`."""
        return self.learn(gram.with_rows()).among(gram)

    def columns(self, gram: GramStats) -> NDArray[np.intp]:
        """The terms of the inputs that bend most, which explain most of what common lines leave, and all inputs."""
        D = gram.n_features
        lines = np.arange(D - self.inputs, D)
        terms = np.arange(self.walk, D - self.inputs).reshape(-1, self.terms)
        most = min(MOST_CURVES, MOST_TERMS // self.terms)
        if len(terms) <= most:
            return np.arange(self.walk, D)
        G = gram.G.sum(axis=0)
        b = gram.b.sum(axis=0)
        back = np.linalg.pinv(G[np.ix_(lines, lines)], rcond=SINGULAR, hermitian=True)
        explained = []
        for own in terms:
            beside = G[np.ix_(own, lines)] @ back
            left = G[np.ix_(own, own)] - beside @ G[np.ix_(lines, own)]
            rest = b[own] - beside @ b[lines]
            explained.append(float(rest @ np.linalg.pinv(left, rcond=SINGULAR, hermitian=True) @ rest))
        best = np.sort(np.argsort(-np.array(explained), kind="stable")[:most])
        return np.concatenate([terms[best].ravel(), lines])


def spline_members(curves: FeatureSearch, d: int) -> list[Member]:
    """The mixed models of splines and of a random walk, in features of which the last `d` are the inputs; and a ridge
    per task on the same curves, which others are compared with."""
    features = curves.features
    assert isinstance(features, SplineFeatures)
    D = curves.folds.total.n_features
    lines = np.arange(D - d, D)
    members = []
    terms: list[NDArray[np.intp]] = []  # of every curve, the smoothest first
    if len(features.columns_):
        whole = BentSlopes(d, features.terms, features.walk_terms)
        draft = replace(whole, steps=DRAFT_STEPS)
        members.append(Member("curves", f"curves, {NAMES[SLOPES]}", whole, draft, on_curves=True))
        terms.extend(whole.columns(curves.folds.total)[:-d].reshape(-1, features.terms))
    if features.walk_terms:
        walk = np.arange(features.walk_terms)
        terms.append(walk)
        slopes, drafted = (_slopes_on(np.concatenate([walk, lines]), steps) for steps in (STEPS, DRAFT_STEPS))
        members.append(Member("walk", f"walk, {NAMES[SLOPES]}", slopes, drafted, on_curves=True))
    return [*members, _own_curves(curves.folds, terms, lines)]


def _slopes_on(columns: NDArray[np.intp], steps: int) -> OnColumns:
    return OnColumns(RandomSlopes(tol=MIXED_MODEL, max_iter=steps), columns, np.ones(len(columns)))


def _own_curves(folds: Folds, curves: list[NDArray[np.intp]], lines: NDArray[np.intp]) -> Member:
    """A ridge per task on curves without any sharing: the first terms of each, as many as are best.

    A mixed model learns from all tasks how smooth curves are; a ridge on all terms would lose by their number alone.
    """
    scale = feature_scale(folds.total)
    tried = []
    for count in sorted({min(count, max(map(len, curves))) for count in OWN_TERMS}):
        columns = np.concatenate([*(terms[:count] for terms in curves), lines])
        some = folds.on_columns(columns).rescaled(scale[columns]).with_rows()
        tried.append((columns, choose_penalty(Independent().prepare, some, "tasks")))
    columns, chosen = min(tried, key=lambda pair: float(pair[1].errors.min()))
    ridge = OnColumns(Independent(penalty=chosen.best), columns, scale[columns])
    parameters = {"penalty": chosen.best}
    return Member(OWN_CURVES, NAMES[OWN_CURVES], ridge, parameters=parameters, on_curves=True, yardstick=True)


def radial_members(curves: FeatureSearch) -> list[Member]:
    """The methods without a graph on radial basis functions; the mean of a task is among those of lines."""
    heads = baselines(curves.folds.on_columns(curves.columns), mean_ridge=CURVES_RIDGE)
    return [on_curves(head, curves) for head in heads if head.parameters]


def on_curves(member: Member, curves: FeatureSearch) -> Member:
    """The same method on curves, and on what else the setting of their features has."""

    def on(method: Learner | None) -> OnColumns | None:
        return None if method is None else OnColumns(method, curves.columns, np.ones(len(curves.columns)))

    method = on(member.method)
    assert method is not None
    return replace(
        member,
        key=f"{member.key} curves",
        name=f"curves, {member.name}",
        method=method,
        draft=on(member.draft),
        brief=None,
        on_curves=True,
    )


def curves_of(
    data: TaskRows, nonlinear: bool | str, *, fine: bool, random_state: Any
) -> tuple[FeatureSearch | None, ...]:
    """The basis functions that are best on the folds, and splines, as they are asked for."""
    with limited_threads(len(data.labels), data.X.shape[1]):
        bumps = search_features(data, HeadError(), random_state=random_state) if nonlinear in (True, "auto") else None
        return bumps, spline_features(data, fine=fine) if nonlinear in ("splines", "auto") else None


class HeadError:
    """Least held-out error of heads shrunk to their mean, over penalties: first many, then those near the best.

    One setting of the features differs little from the next, and so does the penalty that suits it.
    """

    def __init__(self) -> None:
        self.multiples = START

    def __call__(self, folds: Folds) -> float:
        unit = typical_eigenvalue(folds.total)
        head = MeanShrunk(ridge=CURVES_RIDGE * unit)
        chosen = choose_penalty(head.prepare, folds, "tasks", self.multiples)
        self.multiples = tuple(chosen.best / unit * step for step in NEAR)
        return float(chosen.errors.min())
