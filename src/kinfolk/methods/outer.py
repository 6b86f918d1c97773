"""Fits of classes, counts and amounts: Newton's steps around any method that fits numbers.

    F(W, c, A) = sum of the deviances of all rows + the penalty of the method (and the terms of its graph A)

At a linear predictor the rows become statistics of working targets (`rows.working`). A method finds its numbers on
them: penalties, variances, a first graph. With these fixed F is a function of coefficients and graph, and falls from
step to step: to the best coefficients of the working targets, halved until F falls; then to the best graph of these
coefficients. The last steps are of the coefficients alone, until nothing is left of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit
from sklearn.exceptions import ConvergenceWarning

from kinfolk.methods.couplings import Hub
from kinfolk.methods.model import Course, Model, Population
from kinfolk.methods.part import LinearMap, Part, Scatter
from kinfolk.methods.search_report import ByFeature, ByTask
from kinfolk.rows.families import FARTHEST_TARGET
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import TINY, Array, GramStats
from kinfolk.rows.softmax import SoftmaxRows
from kinfolk.rows.working import WorkingRows
from kinfolk.solvers.equations import normal_equations
from kinfolk.solvers.mixed import mixed_model
from kinfolk.solvers.tolerances import ROUNDING
from kinfolk.words import warn_user

GRADIENT = 1e-8  # of the length of the errors: Newton's decrement at which the gradient counts as nothing
ENDED = 1e-9  # the same at which steps end
HALVINGS = 30  # of a step
SHORT = 0.1  # shares of a step below which another direction is tried
NEWTON = 1e9  # how far working targets may be from the predictor for steps that hardly differ from Newton's
MOST_STEPS = 200
PILOT_ROUNDS = 3  # of a mixed model and two steps each: statistics at its predictor are near those of the fit
ONE_ROW = 1.0  # rows that the prior of common slopes is worth in a pilot: classes that inputs separate have no others
GRAPH_SETTLED = 1e-9  # relative change of F in a round from which on the graph stays


Rows = TypeVar("Rows", bound=WorkingRows)


class NumbersMethod(Protocol):
    """What is asked of a method."""

    family_rounds: int

    def needs_two_rows(self) -> bool: ...
    def levels_are_free(self) -> bool: ...
    def finds_numbers(self, gram: GramStats) -> bool: ...
    def model_of(self, gram: GramStats, folds: Folds | None = None) -> Model: ...
    def _one_line(self, gram: GramStats, folds: Folds | None = None) -> Model: ...


class State(NamedTuple):
    """Unknowns of a part, the coefficients and intercepts that they stand for, the predictor of all rows, and F."""

    V: Array
    W: Array
    c: Array
    eta: Array
    value: float


@dataclass(frozen=True, eq=False)
class Descent:
    """The end of the steps: a part with its last graph, F after every step, and the last decrement, see `_stepped`."""

    part: Part
    state: State
    history: list[float]
    decrement: float

    @property
    def converged(self) -> bool:
        """Whether the gradient is nothing."""
        return self.decrement <= GRADIENT


class Pilot(NamedTuple):
    """A first fit: coefficients (T, d) and intercepts (T,); those of the population for tasks without rows."""

    W: Array
    c: Array


def first_predictor(rows: WorkingRows) -> Array:
    """The predictor of a pilot, at which a method first sees the rows."""
    if isinstance(rows, SoftmaxRows):
        each = [pilot(rows.of_class(k)) for k in range(rows.K)]
        alone = np.stack([rows.of_class(k).predictor(*one) for k, one in enumerate(each)], axis=1)
        return log_expit(alone)
    return rows.predictor(*pilot(rows))


def pilot(rows: WorkingRows) -> Pilot:
    """A mixed model of working targets, a few times anew: every task is drawn to the others as far as all are alike."""
    present = rows.counts() > 0
    some = rows.among(present)
    one_sided = some.one_sided()
    some = some.with_levels_of_all(one_sided & one_sided.all())
    eta = some.even()
    effects = None
    for _ in range(PILOT_ROUNDS):
        gram = some.gram(eta)
        equations = normal_equations(gram, "coupled")
        effects = mixed_model(gram) if effects is None else mixed_model(gram, near=effects)
        # Where inputs separate classes, or all rows have one level, common coefficients need a prior to be finite.
        size = np.einsum("tjj->j", equations.G) / max(float(some.weight.sum()), TINY)
        size[-1] = 0.0
        hub = Hub(effects.relative_covariance, np.diag(ONE_ROW * size))
        part = Part.of("", hub, equations, hub.solved(equations, np.zeros(equations.shape)), "coupled")
        state = descend(some, part, *part.coefficients(equations, part.V), steps=2).state
        eta = state.eta
    W = np.tile(state.W.mean(axis=0), (len(present), 1))
    c = np.full(len(present), state.c.mean())
    W[present] = state.W
    c[present] = state.c
    return Pilot(W, c)


def working_folds(rows: Callable[[int | None], WorkingRows], fold: NDArray[np.intp], *, in_time: bool = False) -> Folds:
    """Statistics of folds at pilots that have seen their training rows alone.

    `rows(f)` are the rows with the features that fold f has made, `rows(None)` those of all; `fold` has a number for
    every row of the table, -1 for rows that are never held out.
    """
    held_out = []
    own = []
    for f in range(int(fold.max()) + 1):
        some = rows(f)
        number = fold[some.row]
        trains = number < f if in_time else number != f
        first = pilot(some.take(trains))
        eta = some.predictor(first.W, first.c)
        held_out.append(some.take(number == f).gram(eta[number == f]))
        own.append(some.take(trains).gram(eta[trains]))
    every = rows(None)
    first = pilot(every)
    total = every.gram(every.predictor(first.W, first.c))
    return Folds(total, tuple(held_out), tuple(own))


def fit_family(method: NumbersMethod, rows: WorkingRows, folds: Folds | None = None) -> Model:
    """The model of a method for rows of any family; its numbers come from `folds`, if it cross-validates."""
    single = rows.counts() == 1
    lone = single & method.needs_two_rows()
    kept = (rows.counts() > 0) & (~lone | lone.all())
    learn = method._one_line if lone.all() else method.model_of
    some = _with_finite_levels(rows.among(kept), method.levels_are_free())
    learned, found = _found(method, learn, some, None if folds is None else folds.select(kept))
    model = _finished(some, learned, found)
    return _with_lone(model, rows, lone & ~lone.all())


def fit_classes(method: NumbersMethod, rows: SoftmaxRows, folds: Folds | None = None) -> Model:
    """The model of several classes: that of the first, with those of all beside it; they have one graph.

    Given the others, each is the model of a class versus all others.
    """
    kept = rows.counts() > 0
    some = _with_finite_levels(rows.among(kept), True)
    learned, found = _found(method, method.model_of, some, None if folds is None else folds.select(kept))
    whole = _course_of(some, found)
    models = []
    for k in range(rows.K):
        beside = some.of_class(k, found.state.eta)
        W = found.state.W.reshape(len(beside.labels), rows.K, -1)[:, k]
        gram = replace(beside.gram(found.state.eta[:, k] + beside.offset), dispersion=1.0)
        part = found.part.of_class(k, rows.K)
        own = Model.of(gram, W, found.state.c[:, k], parts=(part,), course=whole, family="binomial")
        own = _with_lone(own, rows.of_class(k), np.zeros_like(kept))
        models.append(replace(own, method=learned.method))
    numbers = {name: value for name, value in learned.extras.items() if not isinstance(value, ByFeature)}
    extras = numbers | {name: models[0].extras[name] for name in ("rows_", "means_")}
    return replace(models[0], by_class=tuple(models), extras=extras)


def _with_finite_levels(rows: Rows, free: bool) -> Rows:
    """With what is known from others of tasks whose own levels are infinite, if levels are `free`, or all are so."""
    one_sided = rows.one_sided()
    return rows.with_levels_of_all(one_sided & (free | one_sided.all()))


def _found(
    method: NumbersMethod, learn: Callable[..., Model], rows: WorkingRows, folds: Folds | None
) -> tuple[Model, Descent]:
    """What a method finds on working targets, and the end of the steps with its numbers."""
    # Numbers that are given need no pilot to be found.
    eta = rows.even()
    if method.finds_numbers(rows.gram(eta)):
        eta = first_predictor(rows)
    for k in range(method.family_rounds):
        # Penalties and a graph by these working targets; with them fixed there is one objective, which falls.
        near = rows.quadratic(eta)
        learned = learn(near.gram, None if folds is None else replace(folds, total=near.gram))
        if not learned.parts:
            raise ValueError(f"{learned.name} is no sum of linear maps, which a family other than numbers needs")
        tol = float(getattr(method, "tol", GRAPH_SETTLED))
        settled = min(tol, GRAPH_SETTLED) if k + 1 == method.family_rounds else tol
        levels = near.levels(learned.coef, learned.intercept)
        found = descend(rows, replace(learned.parts[0], share=1.0), learned.coef, levels, settled=settled)
        eta = found.state.eta
    return learned, found


def _course_of(rows: WorkingRows, found: Descent) -> Course:
    """How the steps went; a warning if they ended early."""
    if not found.converged:
        warn_user(
            f"the steps ended after {len(found.history) - 1} at a gradient of {found.decrement:.1e} of the errors. The "
            "objective falls all the same: scale the features, or take a larger penalty",
            ConvergenceWarning,
        )
    equations = found.part.equations(rows.gram(found.state.eta))
    certificates = {"gradient": found.decrement, **found.part.coupling.certificates(equations, found.part.V)}
    return Course(certificates, np.array(found.history), len(found.history), found.converged)


def _finished(rows: WorkingRows, learned: Model, found: Descent) -> Model:
    """The model at the end of the steps."""
    W, c = found.state.W, found.state.c
    # The population of a mixed model is not the mean of its tasks, but moves with it.
    before = learned.population
    population = Population(
        before.coef + (W - learned.coef).mean(axis=0), before.intercept + float((c - learned.intercept).mean())
    )
    gram = rows.gram(found.state.eta)
    noise = dispersion(rows, [found.part.map(gram)], found.state.eta)
    return replace(
        learned,
        coef=W,
        intercept=c,
        population=population,
        parts=(found.part,),
        course=_course_of(rows, found),
        held_out=None,
        gram=replace(gram, dispersion=noise),
        family=rows.family.name,
    )


def dispersion(rows: WorkingRows, maps: Sequence[LinearMap], eta: Array) -> float:
    """Variance of the targets over that of the family, from Pearson's residuals; 1 for single events.

    `maps` are the parts of the model on the working targets at the predictor eta.
    """
    real = slice(rows.n_rows)
    y = rows.y[real]
    weight = rows.weight[real]
    single = (y == 0) | (y == 1)
    if rows.family.name == "binomial" and bool((single & (weight == 1)).all()):
        return 1.0
    squares = float(weight @ rows.family.pearson(y, eta[real]))
    used = sum(float(part.shares @ _coefficients_in_use(part)) for part in maps)
    return max(squares / max(rows.n_rows - used, 1.0), TINY)


def _coefficients_in_use(part: LinearMap) -> Array:
    """By task (T,) the trace of what predictions are of their own targets, or a bound of it where that takes long."""
    T, p = part.equations.shape
    free = float(not part.equations.has_ones)
    if not part.inverse.at_once:
        return np.full(T, p / T + free)
    whole = part.inverse.diagonal(np.arange(T), Scatter(np.zeros(p), np.zeros((p, p)))).whole
    return np.asarray(np.einsum("tpq,tqp->t", whole, part.equations.G) + free)


def _with_lone(model: Model, rows: WorkingRows, lone: NDArray[np.bool_]) -> Model:
    """The model among all tasks; those of a single row have the slopes of the population, and a level of their own."""
    eta = rows.predictor(*_placed(model, rows.labels))
    among = model.among(rows.gram(eta).reindex(rows.labels))
    intercept = np.where(rows.counts() > 0, among.intercept, among.population.intercept)
    known = np.isin(rows.labels, model.labels)
    intercept[known] = model.intercept
    if lone.any():
        slopes = among.population.coef
        single = rows.take(lone[rows.codes])
        known_of = 0.0 if model.facts is None else model.facts.of_rows(single.X)
        beside = replace(single, offset=single.offset + single.X @ slopes + known_of).with_levels_of_all(lone)
        intercept[lone] = beside.levels()[lone]
    noise = None if model.gram is None else model.gram.dispersion
    gram = among.gram
    assert gram is not None
    if model.gram is not None:  # what is known of these from others is in the statistics that they were fitted to
        gram = model.gram if known.all() else gram.emptied(known) + model.gram
    extras = among.extras | observed(rows)
    return replace(among, intercept=intercept, gram=replace(gram, dispersion=noise), extras=extras)


def with_family(model: Model, rows: WorkingRows) -> Model:
    """A model of working targets at a pilot fit, one step from it, as one of the rows of a family.

    That is what folds have judged. Further steps would lead mixtures elsewhere: a task whose rows are all at one end of
    their range has no level that is best.
    """
    gram = model.gram
    assert gram is not None
    noise = dispersion(rows, model.maps, model.predictor(rows.X, rows.codes) + rows.offset)
    gram = replace(gram, dispersion=noise)
    return replace(model, gram=gram, family=rows.family.name, extras=model.extras | observed(rows))


def observed(rows: WorkingRows) -> dict[str, ByTask]:
    """Rows of every task and means of their targets, which statistics of working targets do not say."""
    real = rows.row >= 0
    count = np.bincount(rows.codes[real], minlength=len(rows.labels)).astype(np.float64)
    weight = np.bincount(rows.codes[real], rows.weight[real], minlength=len(rows.labels))
    total = np.bincount(rows.codes[real], (rows.weight * rows.y)[real], minlength=len(rows.labels))
    means = np.divide(total, weight, out=np.full(len(weight), np.nan), where=weight > 0)
    return {"rows_": ByTask(count), "means_": ByTask(means)}


def _placed(model: Model, labels: NDArray[Any]) -> tuple[Array, Array]:
    """Coefficients and intercepts of these tasks, the population's where the model has none."""
    W = np.tile(model.population.coef, (len(labels), 1))
    c = np.full(len(labels), model.population.intercept)
    known = np.isin(labels, model.labels)
    W[known] = model.coef
    c[known] = model.intercept
    return W, c


def descend(
    rows: WorkingRows, part: Part, W: Array, c: Array, *, settled: float = GRAPH_SETTLED, steps: int = MOST_STEPS
) -> Descent:
    """Steps of coefficients and graph in turn, from what a method has found or, if that is better, from nothing.

    The graph stays once a round lowers F by less than `settled`, relative; steps go on until the gradient is nothing.
    """
    state = min(_state(rows, part, part.V, W, c), _null(rows, part), key=lambda one: one.value)
    constant = part.coupling.constant
    history = [state.value + constant]
    learns = part.coupling.settled(state.V) is not part.coupling
    decrement = np.inf
    for _ in range(steps):
        following, decrement = _stepped(rows, part, state)
        if learns:
            coupling = part.coupling.settled(following.V)
            moved = following._replace(value=rows.loss(following.eta) + coupling.cost(following.V))
            value = moved.value + coupling.constant
            learns = history[-1] - value > settled * abs(history[-1])
            if value <= following.value + constant:
                part, following, constant = replace(part, coupling=coupling), moved, coupling.constant
        history.append(min(history[-1], following.value + constant))
        ended = following is state
        state = following
        if not learns and (decrement <= ENDED or ended):
            break
    return Descent(replace(part, V=state.V), state, history, decrement)


def _state(rows: WorkingRows, part: Part, V: Array, W: Array, c: Array) -> State:
    eta = rows.predictor(W, c)
    value = rows.loss(eta) + part.coupling.cost(V)
    return State(V, W, c, eta, value if np.isfinite(value) else np.inf)


def _null(rows: WorkingRows, part: Part) -> State:
    """No slopes, and one level for all."""
    equations = part.equations(rows.gram(rows.even()))
    V = np.zeros(equations.shape)
    W, c = part.coefficients(equations, V)
    if part.intercept == "free":
        c = np.tile(rows.level(), (len(c), 1)).reshape(c.shape + np.shape(rows.level()))
    return _state(rows, part, V, W, c)


def _stepped(rows: WorkingRows, part: Part, state: State) -> tuple[State, float]:
    """Newton's step, halved until F falls; and its length in the metric of F, relative to that of the errors.

    That is the gradient in the metric of the inverse curvature. If no step lowers F, the state itself comes back.
    """
    best = state
    decrement = np.inf
    # Where the model of F is good nowhere but very near, steps are shorter, in a direction in which F is curved more.
    for farthest in (NEWTON, FARTHEST_TARGET):
        V, W, c, length = _aim(rows, part, state, farthest)
        decrement = min(decrement, length)
        share = 1.0
        for _ in range(HALVINGS):
            here = _state(
                rows,
                part,
                state.V + share * (V - state.V),
                state.W + share * (W - state.W),
                state.c + share * (c - state.c),
            )
            # Near the end F falls by less than its rounding.
            if here.value <= state.value + ROUNDING * abs(state.value):
                best = min(best, here, key=lambda one: one.value) if best is not state else here
                break
            share /= 2
        if share >= SHORT:
            break
    return best, decrement


def _aim(rows: WorkingRows, part: Part, state: State, farthest: float) -> tuple[Array, Array, Array, float]:
    """The best unknowns, coefficients and intercepts for the working targets, and how far these are: the decrement."""
    near = rows.quadratic(state.eta, farthest)
    equations = part.equations(near.gram)
    V = part.coupling.solved(equations, state.V)
    W, c = part.coefficients(equations, V)
    c = near.levels(W, c)
    length = near.square(rows.predictor(W, c) - state.eta) + part.coupling.cost(V - state.V)
    # Classes that inputs separate leave no errors; those of a true model have the length of their dispersion.
    errors = max(near.errors, (rows.family.dispersion or 0.0) * float(rows.weight.sum()))
    return V, W, c, float(np.sqrt(length / max(errors, ROUNDING**2 * near.size, TINY)))
