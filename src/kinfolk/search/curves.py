"""Curves beside lines: methods that use some of the features, linear models in the features of all, and splines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinfolk.methods.gamtl.defaults import feature_scale
from kinfolk.methods.model import Model
from kinfolk.methods.random_slopes import RandomSlopes
from kinfolk.methods.ridges import Independent, LastMean, MeanShrunk
from kinfolk.methods.splines import KNOTS, SplineFeatures, knots_for
from kinfolk.methods.walks import walk_column
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import Array, GramStats
from kinfolk.rows.levels import SINGULAR
from kinfolk.rows.splits import trains
from kinfolk.search.mixture import OWN_CURVES, SLOPES, Learner, Member, Search, limits
from kinfolk.search.rbf_search import FeatureSearch, TaskRows, search_features
from kinfolk.search.trials import Trial
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


@dataclass(frozen=True, eq=False)
class OnColumns:
    """A method that sees `columns` of the features, divided by `units`."""

    method: Learner
    columns: NDArray[np.intp]
    units: Array

    def learn(self, gram: GramStats) -> Model:
        """The method's model; the other features have coefficients of 0."""
        key = self.columns.tobytes(), self.units.tobytes()
        # Remembered, so that methods share what depends on these statistics alone.
        part = gram.once(key, lambda: gram.on_columns(self.columns).rescaled(self.units))
        model = self.method.model_of(part).in_units(self.units)
        if "relevance_" in model.details:
            model = replace(model, details=model.details | {"relevance_": model.details["relevance_"] / self.units})
        return replace(model.on_columns(self.columns, gram.n_features), gram=gram)

    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model:
        """The model of all tasks of `gram`."""
        return self.learn(gram.with_rows()).among(gram)


def on_columns(member: Member, name: str, columns: NDArray[np.intp], units: Array) -> Member:
    """A member of a mixture that sees `columns` of the features, divided by `units`."""
    draft = None if member.draft is None else OnColumns(member.draft, columns, units)
    return replace(member, name=name, method=OnColumns(member.method, columns, units), draft=draft)


def line_beside_curves(member: Member, trial: Trial, found: FeatureSearch, scale: Array) -> tuple[Member, Trial]:
    """A linear member, and what it predicted on folds of inputs over `scale`, in the features that were found."""
    D = found.folds.total.n_features
    columns = np.arange(D - len(scale), D)
    coef = np.zeros((*trial.coef.shape[:2], D))
    intercept = trial.intercept.copy()
    for f, features in enumerate(found.by_fold[: len(coef)]):  # a member that lost by far was tried on the first
        factor, origin = features.of_lines()
        W = trial.coef[f] / scale
        coef[f][:, columns] = np.divide(W, factor, out=np.zeros_like(W), where=factor > 0)
        intercept[f] += W @ origin
    factor, origin = found.features.of_lines()
    if isinstance(member.method, LastMean):
        member = replace(member, method=member.method.about(origin / scale))
    units = scale * factor
    there = on_columns(member, member.name, columns, np.where(units > 0, units, 1.0))
    return there, Trial(coef, intercept, trial.errors, trial.message)


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


def search_splines(found: FeatureSearch, lines: Search) -> Search:
    """The mixed models of splines, and of a walk, on the folds that `lines` were tried on."""
    search = Search(found.folds, lines.n_jobs, lines.callback)
    features = found.features
    assert isinstance(features, SplineFeatures)
    d = lines.folds.total.n_features
    D = found.folds.total.n_features
    members = []
    curves: list[NDArray[np.intp]] = []  # the terms of every curve, the smoothest first
    if len(features.columns_):
        whole = BentSlopes(d, features.terms, features.walk_terms)
        members.append(Member(f"curves, {SLOPES}", whole, draft=replace(whole, steps=DRAFT_STEPS)))
        curves.extend(whole.columns(found.folds.total)[:-d].reshape(-1, features.terms))
    if features.walk_terms:
        curves.append(np.arange(features.walk_terms))
        members.append(_walk_member(np.concatenate([curves[-1], np.arange(D - d, D)])))
    for member in members:
        search.tried[member.name] = member, search.trial_on(member, range(len(found.folds)))
    own = _own_curves(found.folds, curves, np.arange(D - d, D))
    search.yardsticks[OWN_CURVES] = search.trial_on(own, range(len(found.folds)))
    return search


def _own_curves(folds: Folds, curves: list[NDArray[np.intp]], lines: NDArray[np.intp]) -> Member:
    """A ridge per task on curves without any sharing: the first terms of each, as many as are best.

    A mixed model learns from all tasks how smooth curves are; a ridge on all terms would lose by their number alone.
    """
    scale = feature_scale(folds.total)
    tried = []
    for count in sorted({min(count, max(map(len, curves))) for count in OWN_TERMS}):
        columns = np.concatenate([*(terms[:count] for terms in curves), lines])
        part = folds.on_columns(columns).rescaled(scale[columns]).with_rows()
        tried.append((columns, choose_penalty(Independent().prepare, part, "tasks")))
    columns, chosen = min(tried, key=lambda one: float(one[1].errors.min()))
    ridge = OnColumns(Independent(penalty=chosen.best), columns, scale[columns])
    return Member(OWN_CURVES, ridge, parameters={"penalty": chosen.best})


def _walk_member(columns: NDArray[np.intp]) -> Member:
    """The mixed model of the features of a walk and of the inputs."""
    whole, draft = (
        OnColumns(RandomSlopes(tol=MIXED_MODEL, max_iter=steps), columns, np.ones(len(columns)))
        for steps in (STEPS, DRAFT_STEPS)
    )
    return Member(f"walk, {SLOPES}", whole, draft=draft)


def curves_of(
    data: TaskRows, nonlinear: bool | str, *, fine: bool, random_state: Any
) -> tuple[FeatureSearch | None, ...]:
    """The basis functions that are best on the folds, and splines, as they are asked for."""
    with limited_threads(len(data.labels), data.X.shape[1]):
        bumps = search_features(data, HeadError(), random_state=random_state) if nonlinear in (True, "auto") else None
        return bumps, spline_features(data, fine=fine) if nonlinear in ("splines", "auto") else None


def heads_of(found: FeatureSearch) -> list[Member]:
    """The methods without a graph on basis functions."""
    return limits(found.folds.on_columns(found.columns), mean_ridge=CURVES_RIDGE, slopes=False)


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
