"""GAMTL: joint regression of many tasks with a sparse graph over them (Eq. 8 of the paper, with a ridge)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar

from kinfolk.estimators.graph_regressor import GraphRegressor
from kinfolk.methods.gamtl.alternate import Alternation
from kinfolk.methods.gamtl.calibrate import METRICS, SHOWN_BY, Recipe
from kinfolk.methods.gamtl.coupling import GraphCoupling
from kinfolk.methods.gamtl.defaults import PULL, RAW, completed, feature_scale
from kinfolk.methods.gamtl.problem import Problem, usual_rounds
from kinfolk.methods.given_graph import named_graph, unit_variance
from kinfolk.methods.model import Course, Model, Part
from kinfolk.methods.parameters import choice, number, parameters
from kinfolk.progress import Callback
from kinfolk.rows.gram import GramStats
from kinfolk.solvers.equations import INTERCEPTS
from kinfolk.solvers.graph import DENSE_TASKS, Candidates

GIVEN_ANCHOR = 0.1  # beside a given graph, whose neighbours are known, the mean of all tasks pulls less
FEW_ROUNDS = 1e-4  # residual of the weights in all rounds but the last, where few of them are wanted
BRIEF_ROUNDS = 3  # which give nearly all that there is to gain
BRIEF_PAIRS = 32  # per task: where all are alike a graph of the nearest does as well
BRIEF_RESIDUAL = 1e-3  # of all rounds but the last
DRAFT_RESIDUAL = 1e-4  # of the last: held-out errors do not feel more digits


@parameters
class GAMTL(GraphRegressor):
    """Graph adjacency multi-task learning: one regression per task, and the graph of tasks that are kin.

    Minimises, over the coefficients W (T, d) and the adjacency A (T, T; symmetric, A >= 0, zero diagonal),

        sum_t ||X_t w_t - y_t||^2 + ridge ||W||^2 + gamma sum_ij B_ij ||w_i - w_j||^2
            - alpha sum_i log(degree_i) + beta ||A||_F^2,       B = (1 - anchor) A + anchor / (T - 1),

    by exact alternating steps; mathematics in docs/maths.md.

    Parameters
    ----------
    alpha, beta, gamma : the paper's three numbers; all of them or none
    neighbors : about how many neighbours a task has in the graph that is shown, and in the first one that couples (used
        without alpha, beta, gamma); by default 1 + log T, at most half of the others, and 5 in the first that couples
    strength : how hard neighbours pull; 1: on average as hard as a task's own data. "auto", if ridge is too: features
        are put on one scale, and strength, ridge, anchor and metric come from a mixed model of the same statistics,
        unless tasks fall into groups. A number for strength, ridge or alpha, beta, gamma is used as given, on features
        as they are; what is "auto" beside it is strength=1, ridge=1, anchor=0, metric="identity", the raw form
    ridge : penalty on ||W||^2
    anchor : in [0, 1]; share of the coupling that ties every task to all others alike; "auto": see strength
    self_loops : None, or the price at which a task may stand alone instead of being tied to strangers. A number is in
        multiples of the median multiplier (alpha / degree; with alpha, beta, gamma it is the price itself) and holds
        for both graphs; "auto" leaves the coupling as it is, and finds the loners of the shown graph by a gap
    metric : "auto" (see strength); "identity": distances between coefficients as they are, so scale the features;
        "learned": in units of how much each coefficient varies between tasks (a mixed model on the same statistics);
        "learned_full": with the correlations of these variations; "function": mean squared differences of what two
        tasks predict, up to level
    graph_metric : what makes two tasks near in the graph that is shown: "function" (mean squared difference of their
        predictions over the inputs), "shape" (the same without level) or "coefficients" (distance of slopes)
    intercept : "free" (own, unpenalised), "shrunk" (towards their mean, as much as a mixed model says), "coupled"
        (along the graph) or None
    weights_solver : "auto", "direct", "shared", "cg" or "cmg" (multigrid, as in the paper); see `solve_weights`
    graph_solver : "auto", "newton" or "primal_dual"
    A0 : a graph to begin with, a `TaskGraph` or an array in the order of the tasks; "l2" begins as the paper does, with
        norms of the differences between independent fits. By default the first graph is the best for these fits. The
        problem is convex in weights and graph apart, not together, so that the start may matter
    graph_share : share of a given `graph` in the coupling, (1 - graph_share) A + graph_share K in place of
        A; with 1 no other graph couples. Its weights are scaled in every component, so that a strength means the same
        on every map; with strength="auto" coefficients vary along it as much as a mixed model says
    proximal : weight of the convergence theorem's variant, in which every step also pays for how far it moves, in
        multiples of the data's curvature (weights) and of beta (graph); more rounds to the same optimum. 0 for none
    tol, max_iter : stop when a round lowers the objective by less than `tol`, relative, or after `max_iter` rounds; by
        default 200, and 6 for more than 2,500 tasks, where the first rounds give nearly all that there is to gain
    effort : "whole"; "brief": the first rounds alone, for very many tasks whose graph is not looked at; "draft": the
        same without objective, certificates and graph, for coefficients that are tried on folds
    random_state : unused here; the method is deterministic
    callback : called with a `Progress` after every round

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    adjacency_ : sparse (T, T), the graph to be read: the best one at the fitted predictions, with about `neighbors`
        neighbours per task; with alpha, beta, gamma that of the joint optimum. graph_ : the same as a `TaskGraph`
    coupling_ : sparse (T, T), the graph along which coefficients were coupled; in groups it is nearly complete
    alpha_, beta_, gamma_ : the numbers of Eq. 8 that were used
    objective_history_, n_iter_, converged_ : the course of the alternation
    optimality_ : of weights and graph together weights_residual, graph_residual and duality_gap; of the last graph step
        alone last_step_gap and certified, the share of tasks for which it is proven best over all pairs: after few
        rounds (`converged_` is False) that may be 1 beside a duality gap of per cents; shown_gap of the shown graph
    relevance_ : how much each coefficient varies between tasks

    Examples
    --------
    >>> from kinfolk.datasets import make_groups
    >>> syn = make_groups(random_state=3)
    >>> model = GAMTL(task=syn.task).fit(syn.data, syn.target)
    >>> model.graph_.outliers()
    [19, 20]
    """

    shares: ClassVar[str] = "graph"
    simplicity: ClassVar[int] = 60
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "strength": (0.01, 0.1, 1.0, 10.0, 100.0),
        "ridge": (0.01, 1.0),
    }
    quick: ClassVar[dict[str, Any]] = {"tol": 1e-4, "max_iter": 30}

    alpha: float | None = number(None, above=0, also=(None,))
    beta: float | None = number(None, above=0, also=(None,))
    gamma: float | None = number(None, at_least=0, also=(None,))
    neighbors: float | None = number(None, above=0, also=(None,))
    strength: float | str = number("auto", at_least=0, also=("auto",))
    ridge: float | str = number("auto", at_least=0, also=("auto",))
    anchor: float | str = number("auto", at_least=0, at_most=1, also=("auto",))
    self_loops: float | str | None = number("auto", above=0, also=("auto", None))
    metric: str = choice("auto", *METRICS)
    graph_metric: str = choice(*SHOWN_BY)
    intercept: str | None = choice("free", *INTERCEPTS)
    weights_solver: str = "auto"
    graph_solver: str = "auto"
    A0: Any = None
    graph_share: float = number(1.0, at_least=0, at_most=1)
    proximal: float = number(0.0, at_least=0)
    tol: float = 1e-6
    max_iter: int | None = None
    effort: str = choice("whole", "brief", "draft")
    random_state: Any = None
    callback: Callback | None = None

    def needs_two_rows(self) -> bool:
        """Only a free intercept takes a row of its own."""
        return self.intercept == "free"

    def leaves_out_common(self, gram: GramStats) -> bool:
        """Unless there is no intercept: a column that is constant within tasks may then stand for it."""
        return self.intercept is not None

    def learn(self, gram: GramStats) -> Model:
        """Alternate between weights and graph."""
        self._check_numbers(gram.n_tasks)
        learn = self._draft if self.effort == "draft" else self._learn
        if not self.is_automatic():
            return learn(gram, Recipe(**RAW | self._given()))
        scale = feature_scale(gram)
        scaled = gram.rescaled(scale)
        model = learn(scaled, self._completed(scaled)).in_units(scale)
        return replace(model, gram=gram)

    def _completed(self, gram: GramStats) -> Recipe:
        """The recipe with strength, ridge, anchor and metric from the data."""
        if not self._share:
            return completed(self._given(), gram)
        recipe = completed({"anchor": GIVEN_ANCHOR, "metric": "learned"} | self._given(), gram)
        # On a map scaled to variance 1 the pull of all neighbours together stands for that variance.
        degree = float(unit_variance(self.graph.adjacency).sum()) / gram.n_tasks
        weight = (1 - self._share) * PULL + self._share * degree
        return replace(recipe, strength=recipe.strength * weight / PULL)

    @property
    def _share(self) -> float:
        return 0.0 if self.graph is None or not self.graph.adjacency.nnz else self.graph_share

    def is_automatic(self) -> bool:
        """Whether the data set how hard tasks pull: no number for strength, ridge or alpha, beta, gamma is given."""
        return self.gamma is None and self.strength == "auto" and self.ridge == "auto"

    def begins_near(self) -> bool:
        """Whether rounds go on from those that set gamma; where numbers are given, the course is the paper's."""
        return self.is_automatic() or self.effort != "whole"

    def _given(self) -> dict[str, Any]:
        """The parameters of the recipe that have a value; those of `RAW` may be left to the data."""
        values = {part.name: getattr(self, part.name) for part in fields(Recipe)}
        return {name: value for name, value in values.items() if name not in RAW or value != "auto"} | {
            "graph_share": self._share
        }

    def _learn(self, gram: GramStats, recipe: Recipe) -> Model:
        problem = recipe.problem(gram, **self._solvers(gram.n_tasks))
        result = problem.solve(
            tol=self.tol,
            max_iter=self._rounds(gram.n_tasks),
            quiet=self._is_quiet(gram.n_tasks),
            callback=self.callback,
            A0=self._first_graph(gram, problem),
            proximal=self.proximal,
            W0=problem.near if self.begins_near() else None,
        )
        return self._model(gram, recipe, problem, result)

    def _draft(self, gram: GramStats, recipe: Recipe) -> Model:
        """A few rounds without certificates, objective or graph: these cost as much again."""
        T = gram.n_tasks
        problem = recipe.problem(gram, **self._solvers(T), weights_tol=DRAFT_RESIDUAL)
        W = problem.start() if problem.near is None else problem.near
        dual = None
        # Up to DENSE_TASKS, gamma was set by two rounds already.
        rounds = BRIEF_ROUNDS if T > DENSE_TASKS else 1
        for k in range(rounds):
            graph = problem.graph_step(W, dual)
            W = problem.weight_step(graph.value, W, k + 1 < rounds).value
            dual = graph.dual
        return Model.of(gram, *problem.equations.coefficients(W))

    def _model(self, gram: GramStats, recipe: Recipe, problem: Problem, result: Alternation) -> Model:
        V = result.weights.value
        W, c = problem.equations.coefficients(V)
        coupling = GraphCoupling(problem.coupling(result.graph.value), problem.penalty, recipe)
        part = replace(Part.of(self.name, coupling, problem.equations, V, self.intercept), shown=True)
        effects = recipe.effects(gram)
        return Model.of(
            gram,
            W,
            c,
            parts=(part,),
            course=Course(problem.optimality(result), result.history, result.n_iter, result.converged),
            relevance=W.std(axis=0) if effects is None else effects.relevance,
            extras={
                "alpha_": problem.alpha,
                "beta_": problem.beta,
                "gamma_": problem.gamma,
                "solvers_": {"weights": result.weights.method, "graph": result.graph.method},
            },
        )

    def _first_graph(self, gram: GramStats, problem: Problem) -> Any:
        """The graph to begin with, if one was given."""
        if self.A0 is None or isinstance(self.A0, str):
            return None if self.A0 is None else problem.distances_as_weights()
        return named_graph(self.A0, gram.labels, gram.labels).adjacency

    def _rounds(self, n_tasks: int) -> int:
        return BRIEF_ROUNDS if self.effort != "whole" else self.max_iter or usual_rounds(n_tasks)

    def _is_quiet(self, n_tasks: int) -> bool:
        """Whether the rounds that are usual for so many tasks are meant to be enough."""
        return self.effort != "whole" or (self.max_iter is None and n_tasks > DENSE_TASKS)

    def _solvers(self, n_tasks: int) -> dict[str, Any]:
        asked: dict[str, Any] = {"weights_solver": self.weights_solver, "graph_solver": self.graph_solver}
        if self._share:
            asked |= {"given": unit_variance(self.graph.adjacency), "graph_share": self._share}
        if self.effort != "whole":
            candidates = Candidates(BRIEF_PAIRS * n_tasks, rough=True)
            return asked | {"candidates": candidates, "rough_tol": BRIEF_RESIDUAL}
        return asked | {"rough_tol": FEW_ROUNDS} if self._is_quiet(n_tasks) else asked

    def _check_numbers(self, n_tasks: int) -> None:
        given = [value is not None for value in (self.alpha, self.beta, self.gamma)]
        if isinstance(self.A0, str) and self.A0 != "l2":
            raise ValueError(f'A0={self.A0!r} must be a graph, an array, "l2" or None')
        if self.proximal and n_tasks > DENSE_TASKS:
            raise ValueError(f"proximal={self.proximal} is for up to {DENSE_TASKS} tasks, got {n_tasks}: leave it at 0")
        if any(given) and not all(given) and n_tasks > 1:  # a single task has no graph
            raise ValueError("give all of alpha, beta, gamma (Eq. 8) or none of them (neighbors and strength are used)")
