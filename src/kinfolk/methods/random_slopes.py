"""Random slopes: the linear mixed model, the statistician's way to let tasks learn from each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kinfolk.methods.constant_within import can_tell_common, has_facts
from kinfolk.methods.couplings import Hub
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Course, Model, Part, Population
from kinfolk.methods.outer import dispersion
from kinfolk.methods.parameters import choice, number, parameters
from kinfolk.methods.part import placed_columns
from kinfolk.methods.search_report import ByFeature, ByTask
from kinfolk.methods.uncertainty import noise_of_tasks
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import TINY, Array, GramStats, squared_errors
from kinfolk.rows.working import WorkingRows
from kinfolk.solvers.equations import NormalEquations, normal_equations
from kinfolk.solvers.mixed import LaplaceModel, MixedModel, laplace, mixed_model
from kinfolk.solvers.mixed.effects import RANDOM_INTERCEPTS
from kinfolk.solvers.tolerances import LAST_DIGIT
from kinfolk.threads import limited_threads
from kinfolk.words import warn_user

FEWEST_TASKS = 20  # that show how far the noise of tasks varies
NOISE_ROUNDS = 2  # of noise by task and coefficients in turn: with more, errors on real tables are the same


@parameters
class RandomSlopes(MultiTaskRegressor):
    """Linear mixed model: every task's coefficients are drawn around common ones.

        y_t = X_t w_t + c_t + e,    w_t ~ N(mu, Sigma),    e ~ N(0, sigma2 I)

    mu, Sigma and sigma2 maximise the likelihood; then w_t is its conditional mean given the rows (the BLUP), which is
    the minimiser of

        sum_t ||y_t - X_t w_t - c_t||^2 + sigma2 sum_t (w_t - mu)' Sigma^-1 (w_t - mu).

    Classes, counts and amounts (`family`) have the likelihood by Laplace's approximation, with covariance="diagonal",
    intercept="random" and noise="common"; coefficients are the means of w_t to its order, which lie a little farther
    out than the likeliest ones. Other choices, facts that move slopes, and tasks with so few rows that this likelihood
    has no maximum, are fitted by working targets, which takes tasks of few rows for more alike than they are.

    There is nothing to tune. Units of the features do not matter, and tasks may have a single row with random
    intercepts. Tasks not seen in fit are predicted by mu (unseen="mean").

    Parameters
    ----------
    covariance : "diagonal", coefficients vary independently; or "full", which can win on correlated inputs and many
        tasks, and has d (d + 1) / 2 variances to learn
    intercept : "random", c_t ~ N(c0, s^2) at the average input of all rows; or "free", one fixed effect per task
    noise : "common", one sigma2 for all tasks; or "task": among 20 tasks or more, rows of noisier tasks count less. The
        residuals of the model with common noise tell how much, as far as they differ by more than chance
    fact_slopes : what facts about tasks do to slopes is "shrunk", as far as the likelihood says; "free", the fixed
        effects of products of facts and features (levels are free as well); or "none": facts move levels alone
    tol, max_iter : largest gradient of the log-likelihood per task, in parameters without units; steps at most

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    population_coef_, population_intercept_ : the fixed effects mu and c0
    relevance_ : standard deviation between tasks of every coefficient; 0 for those that all tasks have in common
    covariance_ : Sigma (d, d); intercept_sd_ : s, NaN for free intercepts; sigma2_ : variance of the noise
    noise_ : (T,), variance of the noise of every task
    dispersion_ : of classes, counts and amounts, in place of the two
    log_likelihood_, objective_history_ : at the end, and its negative after every step
    n_iter_, converged_, optimality_ : steps taken, the start included; whether, and how nearly, the gradient is zero

    Examples
    --------
    Two tasks with slopes 1 and 3, hardly any noise: the common slope is 2, and slopes vary by 1 about it.

    >>> import numpy as np
    >>> X = np.column_stack([np.repeat([0, 1], 50), np.tile(np.linspace(-1, 1, 50), 2)])
    >>> y = X[:, 1] * (1 + 2 * X[:, 0]) + 0.01 * np.tile([1, -1], 50)
    >>> model = RandomSlopes(task=0, intercept="free").fit(X, y)
    >>> model.population_coef_.round(2), model.relevance_.round(2), model.coef_.ravel().round(2)
    (array([2.]), array([1.]), array([1., 3.]))
    """

    shares: ClassVar[str] = "mixed model"
    simplicity: ClassVar[int] = 40
    family_rounds: ClassVar[int] = 5
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {}  # maximum likelihood sets what others tune

    covariance: str = choice("diagonal", "full")
    intercept: str = choice("random", "free")
    noise: str = choice("common", "task")
    fact_slopes: str = choice("shrunk", "free", "none")
    tol: float = number(1e-5, above=0)
    max_iter: int = number(1000, at_least=0, whole=True)

    def needs_two_rows(self) -> bool:
        """Only a free intercept takes a row of its own; but one row in all says nothing about the noise."""
        return self.intercept == "free"

    def fact_products(self) -> str:
        """As asked for."""
        return self.fact_slopes

    def leaves_out_common(self, gram: GramStats) -> bool:
        """Unless they are fixed effects of this very model, and there are tasks enough for them."""
        fixed_effects = self.covariance == "diagonal" and self.intercept == "random"
        return not (fixed_effects and can_tell_common(gram))

    def learn(self, gram: GramStats) -> Model:
        """The maximum of the likelihood, and the coefficients that it expects."""
        if gram.n.sum() <= 1 and gram.n_tasks == 1 and gram.dispersion is None:
            raise ValueError("got n_samples=1, but a mixed model needs at least 2 rows")
        treatment = RANDOM_INTERCEPTS[self.intercept]
        effects, noise = self._with_noise(gram)
        self._warn_of(effects)
        equations = about_weighted_mean(gram, treatment, noise)
        settled = effects.converged and not effects.bounded
        coupling = _hub(effects, None if (noise == 1).all() else 1 / noise)
        V = equations.unknowns(effects.coef, effects.intercept)
        return Model.of(
            gram,
            effects.coef,
            effects.intercept,
            population=Population(effects.mean, effects.intercept_mean),
            parts=(Part.of(self.name, coupling, equations, V, treatment),),
            course=Course({"gradient": effects.residual}, -effects.history, len(effects.history), settled),
            relevance=effects.relevance,
            extras={
                "covariance_": ByFeature(effects.covariance),
                "intercept_sd_": effects.intercept_sd,
                "sigma2_": effects.sigma2,
                "noise_": ByTask(effects.sigma2 * noise),
                "log_likelihood_": float(effects.history[-1]),
            },
        )

    def learn_rows(self, rows: WorkingRows, folds: Folds | None = None) -> Model:
        """Classes, counts and amounts by Laplace's approximation, with the choices of parameters that it is for."""
        some = rows.among(rows.counts() > 0)
        for_laplace = (self.covariance, self.intercept, self.noise) == ("diagonal", "random", "common")
        gram = some.summed(some.y, some.weight)
        # Products of facts and features are drawn to 0 together, which are no effects of tasks; and with too few tasks
        # for them, coefficients in common are 0.
        products = self.fact_slopes != "none" and has_facts(gram)
        zeros = self.leaves_out_common(gram) and bool(gram.common().any())
        if rows.family.is_plain or not for_laplace or products or zeros:
            return super().learn_rows(rows, folds)
        one_sided = some.one_sided()
        with limited_threads(len(some.labels), some.X.shape[1]):
            model = self._by_laplace(some.with_levels_of_all(one_sided & one_sided.all()))
        if model is None:
            return super().learn_rows(rows, folds)
        model = model.among(model.statistics("a fit").reindex(rows.labels))
        return replace(model, family=rows.family.name, method=self.unfitted())

    def _by_laplace(self, rows: WorkingRows) -> Model | None:
        """The mixed model of greatest likelihood; None where that is no likelihood, as many effects fit few rows."""
        # Levels vary independently of slopes at the mean input, as they do in the model of numbers.
        x0 = rows.weight @ rows.X / rows.weight.sum()
        random = ~rows.summed(rows.y, rows.weight).common()
        about = {"weight": rows.weight, "offset": rows.offset, "random": random}
        found = laplace(rows.X - x0, rows.y, rows.codes, rows.family, tol=self.tol, **about)
        if not found.holds:
            return None
        if not found.converged:
            self._warn_of_steps(len(found.history) - 1, found.residual)
        variances = placed_columns(found.variances, np.flatnonzero(random), np.zeros(len(random)))
        model = _linear_map(rows, found, np.append(variances, found.intercept_variance), x0, self.name)
        return replace(
            model,
            course=Course({"gradient": found.residual}, -found.history, len(found.history), found.converged),
            relevance=np.sqrt(variances),
            extras={
                "covariance_": ByFeature(np.diag(variances)),
                "intercept_sd_": float(np.sqrt(found.intercept_variance)),
                "log_likelihood_": found.loglik,
            },
        )

    def _with_noise(self, gram: GramStats) -> tuple[MixedModel, Array]:
        """The mixed model, and the noise of every task over that of a typical one."""
        effects = self._fitted(gram)
        noise = np.ones(gram.n_tasks)
        for _ in range(NOISE_ROUNDS if self.noise == "task" else 0):
            before = noise
            equations = about_weighted_mean(gram, RANDOM_INTERCEPTS[self.intercept], before)
            noise = noise_by_task(gram, effects, equations, before)
            if (noise == before).all():  # the model is at hand
                break
            effects = self._fitted(gram.scaled(1 / noise), near=effects)
        return effects, noise

    def _fitted(self, gram: GramStats, near: MixedModel | None = None) -> MixedModel:
        if self.covariance == "full" and near is None:
            near = mixed_model(gram, "diagonal", self.intercept, tol=self.tol)
        return mixed_model(gram, self.covariance, self.intercept, tol=self.tol, max_iter=self.max_iter, near=near)

    def _warn_of(self, model: MixedModel) -> None:
        if model.bounded:
            warn_user(
                "the rows do not tell the noise: no task has more rows than coefficients, and the likelihood grows "
                "without end towards an exact fit. The variance of the noise was held at a hundredth of that of y "
                'within tasks. Use covariance="diagonal", fewer features, or more rows.',
                ConvergenceWarning,
            )
        if not model.converged:
            self._warn_of_steps(len(model.history) - 1, model.residual)

    def _warn_of_steps(self, steps: int, residual: float) -> None:
        or_diagonal = ', or use covariance="diagonal"' if self.covariance == "full" else ""
        warn_user(
            f"the mixed model stopped after {steps} steps at a gradient of {residual:.1e}, "
            f"above tol={self.tol:g}. The likelihood rises all the same; raise max_iter or drop features that "
            f"repeat others{or_diagonal}.",
            ConvergenceWarning,
        )


def about_weighted_mean(gram: GramStats, treatment: str, noise: Array) -> NormalEquations:
    """The normal equations about the origin of the mixed model, whose rows count as often as their noise is small.

    Random levels vary there independently of slopes; about another origin they would not.
    """
    if treatment == "free" or (noise == 1).all():
        return normal_equations(gram, treatment)
    weighted = normal_equations(gram.scaled(1 / noise), treatment)
    return normal_equations(gram, treatment, origin=(weighted.x0[0], float(weighted.y0[0])))


def noise_by_task(gram: GramStats, effects: MixedModel, equations: NormalEquations, before: Array) -> Array:
    """The noise of every task (T,) over that of a typical one, from the residuals of a mixed model.

    With H_t = K_t G_t, as the BLUP takes the rows of a task, the residuals r_t of the right model have the expectation
    ||r_t||^2 = sigma2_t (n_t - tr H_t). Ratios to that are drawn to 1 as much as their own spread suggests. `before` is
    the noise that the model was fitted with.
    """
    if gram.n_tasks < FEWEST_TASKS:
        return before
    used = np.einsum("tpq,tqp->t", _hub(effects, 1 / before).inverse(equations).K, equations.G)
    freedom = np.maximum(gram.n - used - (not equations.has_ones), 0.0)
    squares = squared_errors(gram, effects.coef, effects.intercept)
    size = float(gram.yy.sum() + gram.n @ gram.y_mean**2)
    if squares.sum() <= LAST_DIGIT**2 * size * max(float(freedom.sum()), TINY):  # rounding is no noise
        return before
    noise = noise_of_tasks(squares, freedom)
    if np.ptp(noise) == 0:  # and not 1 to rounding
        return np.ones_like(noise)
    # Weights of 1 / noise leave as many rows as there are, which the likelihood counts.
    return np.asarray(noise * (gram.n / noise).sum() / gram.n.sum())


def _hub(effects: MixedModel, weights: Array | None = None) -> Hub:
    # The fixed effects have no penalty of their own: R = 0.
    return Hub(effects.relative_covariance, np.zeros_like(effects.relative_covariance), weights)


def _linear_map(rows: WorkingRows, found: LaplaceModel, variances: Array, x0: Array, name: str) -> Model:
    """The mixed model of working targets that has the effects of `found`, whose inputs are those about x0."""
    gram = rows.summed(found.response, found.weight)
    equations = normal_equations(gram, "coupled", origin=(x0, found.intercept))
    # The noise of a working target of weight 1 is the dispersion.
    covariance = np.diag(variances) / found.dispersion
    coupling = Hub(covariance, np.zeros_like(covariance))
    V = coupling.inverse(equations).unknowns(equations.b)
    W, c = equations.coefficients(V)
    part = Part.of(name, coupling, equations, V, "coupled")
    noise = found.dispersion
    if rows.family.dispersion is not None:  # tasks may explain less than all by which counts vary more than they should
        noise = dispersion(rows, [part.map(gram)], rows.predictor(W, c))
    population = Population(found.beta, found.intercept - float(x0 @ found.beta))
    return Model.of(replace(gram, dispersion=noise), W, c, population=population, parts=(part,))
