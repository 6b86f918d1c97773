"""The generalised linear mixed model of many tasks, its likelihood by Laplace's approximation.

    eta_i = o_i + b0 + x_i'beta + z_i'u_t,    z_i = (x_ij of random slopes, 1),    u_t ~ N(0, diag(s)^2),

with o_i a given offset and a target of mean exp(eta) or 1 / (1 + exp(-eta)). With the modes b_t and the Hessians H_t of
`modes`, the log-likelihood is approximately

    F = sum_t h_t(b_t) - log|H_t| / 2,

exact for normal targets, and the better the more rows tasks have. Its gradient follows the modes. With q_i = z_i'S
H_t^-1 S z_i, a_i = q_i dW_i/deta, c_t = H_t^-1 S Z_t'a and Y_t = H_t^-1 S M_t it is

    dF/dbeta = X'(r - (a - W Z S c) / 2),    dF/ds_j = sum_t (b_tj g_tj - Y_tjj - g_tj c_tj),    g_t = Z_t'r.

F is even in s_j and smooth, so that s_j = 0 is no wall but may be a saddle: there it is dF/d(s_j^2) that counts, which
has the same form without s_j. Expected second derivatives are X'(W - W Z S H^-1 S Z'W)X and 2 sum_t Y_tjk Y_tkj.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import polygamma, psi

from kinfolk.rows.families import FLAT, Family
from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.batched import inverse_definite
from kinfolk.solvers.mixed.modes import (
    FARTHEST,
    Modes,
    ModeTargets,
    OrderedRows,
    conditional_modes,
    solve_tasks,
)
from kinfolk.solvers.tolerances import LAST_DIGIT, ROUNDING

MOST_STEPS = 500
SCORING = 4  # steps with expected second derivatives; later ones correct them by how the gradient changes
HALVINGS = 30
SUSPECT = 4.0  # standard deviation of an effect, for columns of size 1, from which on the approximation is looked at
BROKEN = (
    1.0  # log-likelihood per task above its lower bound: 0.1 at most in tables where it is right, 30 where it is lost
)
HERMITE, HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
RISE = 1e-4  # of what the gradient promises, at least
VAGUE = (
    100.0  # of a normal prior on all effects and standard deviations, for columns of size 1: nothing where rows tell
)
FIRST = (0.1, 1.0)  # range of the standard deviations that the search starts from, for columns of size 1
NEAR = 1e-9  # of F: where no more is promised, rounding may hide it
SMALL = 1e-3  # variances below this, in units of their standard error, are zero if that is as likely
LEAST_NOISE = 1e-10  # dispersion of gamma targets: exact fits would have an unbounded likelihood


@dataclass(frozen=True, eq=False)
class LaplaceModel:
    """The fitted model; the k effects of a task are the slopes of `random`, in their order, and then its level.

    Attributes
    ----------
    family : as given; random : (d,), which columns have a slope of their own in every task
    beta : (d,), slopes of all tasks; intercept : that of all tasks
    u, v : (T, k - 1) and (T,), conditional modes of slopes and levels, as deviations from those
    variances, intercept_variance : of slopes (k - 1,) and levels between tasks; 0 is a legal answer
    dispersion : of gamma targets, the variance over the squared mean; else 1
    loglik : Laplace's approximation of the log-likelihood, with all constants
    residual : largest derivative over its standard deviation, where a variance of 0 would have to fall
    converged : whether `residual` is within the tolerance
    above_bound : how far `loglik` is above a lower bound of what it approximates, per task: about 0.1 at most
    holds : whether that is little enough; with fewer rows than effects per task the search may leave all reason, and
        is then stopped
    history : what is maximised, by step: the log-likelihood, less next to nothing for a vague prior on all effects
    fixed_covariance : (d + 1, d + 1), of the errors of (beta, intercept), with variances as they are
    response, weight : (n,), working targets and weights by row, offsets included: with the variances as they are, the
        linear mixed model of these has the same fixed effects. Its random effects are the means of those of this model
        to the order of the approximation, which lie beside the modes as -S c_t / 2
    """

    family: Family
    random: NDArray[np.bool_]
    beta: Array
    intercept: float
    u: Array
    v: Array
    variances: Array
    intercept_variance: float
    dispersion: float
    loglik: float
    residual: float
    converged: bool
    above_bound: float
    history: Array
    fixed_covariance: Array
    response: Array
    weight: Array
    _covariances: Array

    @property
    def holds(self) -> bool:
        """Whether the approximation is one."""
        return self.above_bound <= BROKEN

    @property
    def conditional(self) -> tuple[Array, Array]:
        """Slopes (T, d) and intercepts (T,) of every task, given its rows."""
        W = np.tile(self.beta, (len(self.v), 1))
        W[:, self.random] += self.u
        return W, self.intercept + self.v

    def covariance(self, tasks: NDArray[np.intp]) -> Array:
        """Covariances (m, k, k) of the effects of some tasks given their rows, with beta and variances as they are."""
        return self._covariances[tasks]


def laplace(
    X: Array,
    y: Array,
    task: NDArray[np.intp],
    family: Family,
    *,
    weight: Array | None = None,
    offset: Array | None = None,
    random: NDArray[np.bool_] | None = None,
    tol: float = 1e-6,
) -> LaplaceModel:
    """The fixed effects and variances of greatest likelihood, jointly, and the modes that go with them.

    Parameters
    ----------
    X : (n, d), without a column of ones; y : (n,), proportions, counts or positive numbers
    task : (n,), the task of every row, from 0; a number without rows is a task without rows
    family : of shares, counts or amounts; for numbers there is `mixed_model`
    weight : (n,) > 0, trials of a proportion, else how often a row counts
    offset : (n,), a known part of the linear predictor
    random : (d,), columns with a slope of their own in every task; none if not given. Every task has a level
    tol : largest derivative over its standard deviation

    Examples
    --------
    Two tasks of twenty draws each, 5 and 15 of which are hits: levels differ, but less than log-odds of -1.1 and 1.1.

    >>> from kinfolk.rows.families import FAMILIES
    >>> y = np.repeat([0.0, 1.0, 0.0, 1.0], [15, 5, 5, 15])
    >>> model = laplace(np.zeros((40, 0)), y, np.repeat([0, 1], 20), FAMILIES["binomial"])
    >>> abs(round(model.intercept, 6)), model.v.round(2)
    (0.0, array([-0.88,  0.88]))
    """
    n, d = X.shape
    chosen = np.zeros(d, bool) if random is None else np.asarray(random, bool)
    weight = np.ones(n) if weight is None else weight
    Z = np.column_stack([X[:, chosen], np.ones(n)])
    problem = _Problem.of(X, Z, np.zeros(n) if offset is None else offset, task, (family, y, weight))
    state, history = _maximum(problem, tol)
    residual = max(_residuals(problem, state))
    model = _in_units(problem, state, family, chosen, residual, int(task.max(initial=-1)) + 1)
    return replace(model, converged=residual <= tol, history=np.array(history))


@dataclass(frozen=True, eq=False)
class _Problem:
    """Rows in the order of their tasks, X with a column of ones at the end; columns of X and Z have the size 1.

    The unknowns of the search are fixed effects, the standard deviations s, which may have either sign, and of gamma
    targets the logarithm of the inverse dispersion.
    """

    targets: ModeTargets
    X: Array
    offset: Array
    centre: Array
    scale: Array
    size: Array

    @classmethod
    def of(
        cls, X: Array, Z: Array, offset: Array, task: NDArray[np.intp], targets: tuple[Family, Array, Array]
    ) -> _Problem:
        """Rows (n, d), columns of the random effects (n, k), offsets and tasks, and family, y and weights."""
        family, y, weight = targets
        share = weight / weight.sum()
        centre = share @ X
        scale = np.sqrt(share @ (X - centre) ** 2)
        scale = np.where(scale > LAST_DIGIT * np.abs(centre), scale, np.inf)  # constant columns have no effect
        size = np.sqrt(share @ Z**2)
        size = np.where(size > 0, size, 1.0)
        rows = OrderedRows.of(Z / size, task)
        order = rows.order
        X = np.column_stack([(X - centre) / scale, np.ones(len(X))])[order]
        return cls(ModeTargets(rows, family, y[order], weight[order]), X, offset[order], centre, scale, size)

    def split(self, unknowns: Array) -> tuple[Array, Array, float]:
        """Fixed effects, standard deviations, and the inverse dispersion."""
        p, k = self.X.shape[1], len(self.size)
        return unknowns[:p], unknowns[p : p + k], min(float(np.exp(unknowns[p + k :].sum())), 1 / LEAST_NOISE)


@dataclass(frozen=True, eq=False)
class _State:
    """F at some unknowns, and with a vague prior on them the value that is maximised, with its gradient `slope`.

    rise : (k,), derivatives of the value in the variances s^2; at s = 0 they say whether it wants to grow
    rise_scale : (k,), the standard deviations of these
    """

    unknowns: Array
    modes: Modes
    loglik: float
    value: float
    slope: Array
    rise: Array
    rise_scale: Array
    Y: Array


def _evaluated(problem: _Problem, unknowns: Array, near: _State | None = None) -> _State:
    """F and its gradient, with modes looked for from those of a state nearby."""
    fixed, s, shape = problem.split(unknowns)
    targets = replace(problem.targets, weight=shape * problem.targets.weight)
    rows = targets.rows
    b = np.zeros((len(rows.count), len(s)))
    if near is not None:
        # Effects change less than what they are in units of a standard deviation that changes.
        before = problem.split(near.unknowns)[1]
        b = near.modes.b * np.divide(before, s, out=np.zeros_like(s), where=s != 0)
    modes = conditional_modes(targets, problem.offset + problem.X @ fixed, s, b)
    inverse = solve_tasks(modes.H, np.broadcast_to(np.diag(s), modes.H.shape))  # H^-1 S
    Y = inverse @ modes.M
    a = rows.quadratic(s[:, None] * inverse) * modes.curve.weight * targets.family.bend(modes.eta)
    Za = rows.sums(a)
    c = np.einsum("tjk,tk->tj", inverse, Za)
    along = modes.curve.slope - (a - modes.curve.weight * rows.by_row(s * c)) / 2
    parts = [problem.X.T @ along, (modes.g * (modes.b - c)).sum(axis=0) - np.einsum("tjj->j", Y)]
    if len(unknowns) > len(fixed) + len(s):
        used = float(np.einsum("tjj,j->", Y, s) + (c * modes.b).sum())
        parts.append(np.array([_slope_of_shape(targets, modes) - used / 2]))
    # The same as the second part without the factor 2 s: M - M S Y in place of Y, and Z'a - M S c in place of c.
    Q = np.einsum("tjj->tj", modes.M - modes.M @ (s[:, None] * Y))
    c = Za - np.einsum("tjk,tk->tj", modes.M, s * c)
    loglik = float(modes.h.sum() - _log_determinants(modes.H).sum() / 2)
    loglik += float(targets.family.peak(targets.y, targets.weight).sum())
    bounded = unknowns[: len(fixed) + len(s)]
    slope = np.concatenate(parts)
    slope[: len(bounded)] -= bounded / VAGUE**2
    if shape >= 1 / LEAST_NOISE:
        slope[-1] = 0.0
    return _State(
        unknowns,
        modes,
        loglik,
        loglik - float(bounded @ bounded) / VAGUE**2 / 2,
        slope,
        (modes.g * (modes.g - c) - Q).sum(axis=0) / 2 - 1 / VAGUE**2 / 2,
        np.sqrt((Q**2).sum(axis=0) / 2),
        Y,
    )


def _slope_of_shape(targets: ModeTargets, modes: Modes) -> float:
    """The derivative of the likelihood of gamma targets in the logarithm of the inverse dispersion, at given eta."""
    alpha = targets.weight
    return float(modes.curve.value.sum() + alpha @ (np.log(alpha) - psi(alpha)))


def _log_determinants(H: Array) -> Array:
    return np.log(H[:, 0, 0]) if H.shape[1] == 1 else np.linalg.slogdet(H)[1]


def _fixed_information(problem: _Problem, state: _State) -> Array:
    """Expected minus second derivatives in the fixed effects, X'(W - W Z S H^-1 S Z'W)X."""
    rows, X, W = problem.targets.rows, problem.X, state.modes.curve.weight
    s = problem.split(state.unknowns)[1]
    C = np.stack([rows.sums(W * x) for x in X.T], axis=2) * s[:, None]
    return (X * W[:, None]).T @ X - np.einsum("tkp,tkq->pq", C, solve_tasks(state.modes.H, C))


def _information(problem: _Problem, state: _State) -> Array:
    """Expected minus second derivatives in all unknowns; in s that tend to zero, what F falls with s^2 counts twice."""
    p, k = problem.X.shape[1], len(state.rise)
    size = len(state.unknowns)
    J = np.zeros((size, size))
    J[:p, :p] = _fixed_information(problem, state)
    J[p : p + k, p : p + k] = 2 * np.einsum("tjk,tkj->jk", state.Y, state.Y)
    J[: p + k, : p + k] += np.diag(np.append(np.zeros(p), np.maximum(-2 * state.rise, 0.0)) + 1 / VAGUE**2)
    if size > p + k:
        alpha = problem.split(state.unknowns)[2] * problem.targets.weight
        J[-1, -1] = (alpha**2 * polygamma(1, alpha) - alpha).sum()
    return J


def _residuals(problem: _Problem, state: _State) -> tuple[float, float]:
    """The largest derivatives over their standard deviations: of what moves, and of zero variances that would grow."""
    s = problem.split(state.unknowns)[1]
    scale = np.sqrt(np.maximum(np.diagonal(_information(problem, state)), TINY))
    growth = np.where(s == 0, state.rise, 0.0) / np.maximum(state.rise_scale, np.sqrt(TINY))
    return float((np.abs(state.slope) / scale).max()), float(growth.max())


def _start(problem: _Problem) -> _State:
    """The model without tasks, and variances between them from how their derivatives scatter around it."""
    X, targets = problem.X, problem.targets
    n, p = X.shape
    whole = replace(targets, rows=OrderedRows.of(X, np.zeros(n, np.intp)))
    b = conditional_modes(whole, problem.offset, np.full(p, VAGUE), np.zeros((1, p))).b[0]
    k = len(problem.size)
    unknowns = np.concatenate([VAGUE * b, np.zeros(k)])
    if targets.family.dispersion is None:
        squares = targets.family.pearson(targets.y, problem.offset + X @ unknowns[:p])
        unknowns = np.append(unknowns, -np.log(max(targets.weight @ squares / n, ROUNDING)))
    state = _evaluated(problem, unknowns)
    if len(targets.rows.count) == 1:  # one task cannot differ from itself
        return state
    variance = state.rise / np.maximum(state.rise_scale**2, TINY)
    s = np.clip(np.sqrt(np.maximum(variance, 0.0)), *FIRST)
    return _evaluated(problem, np.concatenate([unknowns[:p], s, unknowns[p + k :]]))


def _maximum(problem: _Problem, tol: float) -> tuple[_State, list[float]]:
    """The state at the maximum of F, by quasi-Newton steps that begin with expected second derivatives.

    Variances that fall to zero stay there until nothing else moves.
    """
    state = _start(problem)
    history = [state.value]
    inverse = None
    for step in range(MOST_STEPS):
        state = _with_zeros(problem, state)
        moving, growing = _residuals(problem, state)
        if max(moving, growing) <= tol or _is_lost(problem, state):
            break
        if moving <= tol:
            following = _with_raised(problem, state, tol)
            inverse = None
        else:
            expected = inverse is None or step < SCORING
            if inverse is None or expected:
                inverse = inverse_definite(_information(problem, state))
            following = _searched(problem, state, inverse @ state.slope)
            inverse = None if following is None else _corrected(inverse, state, following)
        if following is None and (moving <= tol or expected):
            break
        state = following or state
        history.append(state.value)
    return state, history


def _searched(problem: _Problem, state: _State, towards: Array) -> _State | None:
    """The first of ever shorter steps after which F is higher; None if there is none."""
    p = problem.X.shape[1]
    room = FARTHEST + np.abs(problem.X @ state.unknowns[:p]).max()
    farthest = max(np.abs(problem.X @ towards[:p]).max() / room, np.abs(towards[p:]).max())
    towards = towards / max(farthest, 1.0)
    promise = float(state.slope @ towards)
    near = promise <= NEAR * (1 + abs(state.value))
    for halved in range(HALVINGS):
        share = 0.5**halved
        found = _evaluated(problem, state.unknowns + share * towards, state)
        if found.value >= state.value + RISE * share * promise:
            return found
        # At the end values agree to rounding, and only derivatives tell which is better.
        if near and abs(found.slope @ towards) < promise / 2:
            return found
    return None


def _corrected(inverse: Array, state: _State, following: _State) -> Array:
    """The update of Broyden, Fletcher, Goldfarb and Shanno of the inverse of minus the second derivatives."""
    step = following.unknowns - state.unknowns
    change = state.slope - following.slope
    curvature = float(step @ change)
    if curvature <= ROUNDING * np.linalg.norm(step) * np.linalg.norm(change):
        return inverse
    half = np.eye(len(step)) - np.outer(step, change) / curvature
    return half @ inverse @ half.T + np.outer(step, step) / curvature


def _with_zeros(problem: _Problem, state: _State) -> _State:
    """The state with next to no variances at zero, if that is as likely."""
    s = problem.split(state.unknowns)[1]
    small = (s != 0) & (state.rise < 0) & (s**2 * state.rise_scale < SMALL)
    if not small.any():
        return state
    found = _with_deviations(problem, state, np.where(small, 0.0, s))
    return found if found.value >= state.value - ROUNDING * abs(state.value) else state


def _with_raised(problem: _Problem, state: _State, tol: float) -> _State | None:
    """The state with variances above zero that want to grow; None if that is less likely, however little they are."""
    s = problem.split(state.unknowns)[1]
    scale = np.maximum(state.rise_scale, np.sqrt(TINY))
    grows = (s == 0) & (state.rise > tol * scale)
    for halved in range(HALVINGS):
        raised = 0.5**halved * np.sqrt(np.maximum(state.rise, 0.0)) / scale
        found = _with_deviations(problem, state, np.where(grows, raised, s))
        if found.value > state.value:
            return found
    return None


def _with_deviations(problem: _Problem, state: _State, s: Array) -> _State:
    """The state with other standard deviations."""
    unknowns = state.unknowns.copy()
    p = problem.X.shape[1]
    unknowns[p : p + len(s)] = s
    return _evaluated(problem, unknowns, state)


def _is_lost(problem: _Problem, state: _State) -> bool:
    """Whether the search has left what the approximation is for: looked at where standard deviations are large."""
    s = problem.split(state.unknowns)[1]
    return bool(np.abs(s).max() > SUSPECT) and _above_bound(problem, state) > BROKEN


def _above_bound(problem: _Problem, state: _State) -> float:
    """How far F is above a lower bound of the log-likelihood, per task.

    For any density q of the effects, the log-likelihood is at least the mean of log p(y | b) + log p(b) - log q(b).
    With the normal q of the approximation that is a little less than F; but where many effects fit few rows, F grows
    with s without end, and the bound falls.
    """
    # Means over the predictor of a row by Gauss-Hermite quadrature.
    _, s, shape = problem.split(state.unknowns)
    modes, targets = state.modes, problem.targets
    T, k = modes.b.shape
    covariance = solve_tasks(modes.H, np.broadcast_to(np.eye(k), modes.H.shape))
    deviation = np.sqrt(np.maximum(targets.rows.quadratic(s[:, None] * covariance * s), 0.0))
    share = HERMITE_WEIGHTS / HERMITE_WEIGHTS.sum()
    means = sum(
        w * targets.family.deviance(targets.y, modes.eta + x * deviation) for x, w in zip(HERMITE, share, strict=True)
    )
    away = float(np.einsum("tjj->", covariance) + (modes.b**2).sum() + _log_determinants(modes.H).sum()) - T * k
    peak = float(targets.family.peak(targets.y, shape * targets.weight).sum())
    return (state.loglik - (peak - shape * float(targets.weight @ means) / 2 - away / 2)) / T


def _working(problem: _Problem, state: _State) -> tuple[Array, Array]:
    """Working targets eta + (r - a / 2) / W and weights W times the dispersion, in the order of the table."""
    _, s, shape = problem.split(state.unknowns)
    modes = state.modes
    rows = problem.targets.rows
    inverse = solve_tasks(modes.H, np.broadcast_to(np.diag(s), modes.H.shape))
    q = rows.quadratic(s[:, None] * inverse)
    W = np.maximum(modes.curve.weight, FLAT * modes.curve.weight.mean())
    response = np.empty_like(q)
    response[rows.order] = modes.eta + modes.curve.slope / W - q * problem.targets.family.bend(modes.eta) / 2
    weight = np.empty_like(q)
    weight[rows.order] = W / shape
    return response, weight


def _in_units(
    problem: _Problem, state: _State, family: Family, random: NDArray[np.bool_], residual: float, tasks: int
) -> LaplaceModel:
    """The model in the units of the columns, for all tasks."""
    fixed, s, shape = problem.split(state.unknowns)
    rows = problem.targets.rows
    unit = s / problem.size
    u = np.zeros((tasks, len(s)))
    u[rows.tasks] = state.modes.b * unit
    C = np.tile(np.diag(unit**2), (tasks, 1, 1))
    C[rows.tasks] = unit[:, None] * solve_tasks(state.modes.H, np.broadcast_to(np.diag(unit), state.modes.H.shape))
    response, weight = _working(problem, state)
    # beta = fixed / scale, and the intercept is that at x = 0.
    back = np.diag(1 / np.append(problem.scale, 1.0))
    back[-1, :-1] = -problem.centre / problem.scale
    effects = back @ fixed
    return LaplaceModel(
        family=family,
        random=random,
        beta=effects[:-1],
        intercept=float(effects[-1]),
        u=u[:, :-1],
        v=u[:, -1],
        variances=unit[:-1] ** 2,
        intercept_variance=float(unit[-1] ** 2),
        dispersion=1 / shape,
        loglik=state.loglik,
        residual=residual,
        converged=False,
        above_bound=_above_bound(problem, state),
        history=np.array([]),
        fixed_covariance=back @ inverse_definite(_fixed_information(problem, state)) @ back.T,
        response=response,
        weight=weight,
        _covariances=C,
    )
