"""The joint problem of weights and graph for given statistics: its steps, its value and its certificates."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kinfolk.declared import holds
from kinfolk.memory import check_memory
from kinfolk.methods.gamtl.alternate import Alternation, Steps, alternate
from kinfolk.methods.gamtl.objective import (
    Pairs,
    duality_gap,
    graph_coupling,
    graph_residual,
    graph_terms,
    uniform_coupling,
)
from kinfolk.progress import Callback
from kinfolk.rows.gram import TINY, Array, task_loss
from kinfolk.solvers.batched import solve_each
from kinfolk.solvers.equations import NormalEquations
from kinfolk.solvers.graph import DENSE_TASKS, Candidates, EdgeList, graph_of_weights, squared_distances
from kinfolk.solvers.graph.newton import newton
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.weights import BlockInverses, WeightSystem, solve_system, weight_system

EXACT = 1e-6  # residual of a weight step above which another solver is asked
FACTORISED = 2000  # dT up to which that is a dense factorisation
NOISE = 1e-14  # of the squared targets: rounding of the objective, which for a good fit is a small difference of them
ROUNDS = 200
ROUNDS_MANY = 6  # for more than DENSE_TASKS tasks: a joint gap below a thousandth, and nearly all that there is to gain
FLOOR = 0.01  # of the typical diagonal: least penalty of the fits that the alternation begins with
PROOF = 1e-6  # duality gap above which better multipliers are looked for


@holds(
    ridge="p p",
    anchor="number >=0 <=1",
    alpha="number >=0",
    beta="number >=0",
    gamma="number >=0",
    scale="p",
    shrinkage="p >=0",
    self_loops="number >=0",
)
@dataclass(frozen=True, eq=False)
class Penalty:
    """All terms of the objective but the loss; p unknowns per task.

    Attributes
    ----------
    ridge : matrix (p, p) of the penalty v'ridge v
    anchor : share of gamma that ties every task to all others alike
    alpha, beta, gamma : the numbers of Eq. 8
    scale : (p,), 0 for a shrunk intercept, which the graph does not couple, else 1
    shrinkage : (p,), penalty on the squared distance of such an unknown to its mean over tasks
    self_loops : price kappa of a self-loop; None if every task must have an edge
    """

    ridge: Array
    anchor: float
    alpha: float
    beta: float
    gamma: float
    scale: Array
    shrinkage: Array
    self_loops: float | None = None

    @property
    def graph_terms(self) -> dict[str, Any]:
        """The numbers of the graph step."""
        return self.of_the_graph | {"gamma": self.gamma_along}

    @property
    def of_the_graph(self) -> dict[str, Any]:
        """The numbers of the terms of the graph alone."""
        return {"alpha": self.alpha, "beta": self.beta, "self_loops": self.self_loops}

    @property
    def gamma_along(self) -> float:
        """The part of gamma that acts along the graph."""
        return self.gamma * (1 - self.anchor)

    def of_weights(self, W: Array, A: sparse.csr_array) -> float:
        """The terms of the objective with weights in them, but the loss."""
        ridge = float(np.vdot(W @ self.ridge, W))
        coupled = W * self.scale
        coupling = (1 - self.anchor) * graph_coupling(A, coupled) + self.anchor * uniform_coupling(coupled)
        away = float(((W - W.mean(axis=0)) ** 2 @ self.shrinkage).sum())
        return ridge + self.gamma * coupling + away

    def of_graph(self, A: sparse.csr_array) -> float:
        """The terms of the graph alone."""
        return sum(graph_terms(A, **self.of_the_graph))


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem(Penalty):
    """One instance of the objective.

    `candidates` remembers which pairs were worth trying, for many tasks, and `blocks` a preconditioner; they make steps
    faster, never different. `given` is a graph that has the `graph_share` of the coupling; with all of it no other is
    learned. `near` are the weights of the rounds that gamma was set by: nearly those of the answer.
    """

    equations: NormalEquations
    weights_solver: str = "auto"
    graph_solver: str = "auto"
    weights_tol: float = 1e-10
    rough_tol: float = 1e-7
    candidates: Candidates = field(default_factory=Candidates, repr=False)
    blocks: BlockInverses = field(default_factory=BlockInverses, repr=False)
    near: Array | None = field(default=None, repr=False)
    given: sparse.csr_array | None = None
    graph_share: float = 0.0
    looks_ahead: ClassVar[bool] = True

    @property
    def noise(self) -> float:
        """Rounding of the objective."""
        return NOISE * float(self.equations.yy.sum())

    @property
    def penalty(self) -> Penalty:
        """The terms without the data."""
        return Penalty(**{term.name: getattr(self, term.name) for term in fields(Penalty)})

    @property
    def gamma_along(self) -> float:
        """The part of gamma that acts along the graph that is learned."""
        return self.gamma * (1 - self.anchor) * (1 - self.graph_share)

    def coupling(self, A: sparse.csr_array) -> sparse.csr_array:
        """The graph that couples: the one that is learned with the one that is given."""
        if self.given is None or not self.graph_share:
            return A
        if self.graph_share == 1:
            return self.given
        return sparse.csr_array((1 - self.graph_share) * A + self.graph_share * self.given)

    def system(self, A: sparse.csr_array) -> WeightSystem:
        """The linear system of the weight step."""
        T = self.equations.shape[0]
        A = self.coupling(A)
        return weight_system(
            self.equations.G,
            self.equations.b,
            A,
            self.gamma,
            ridge=self.ridge,
            anchor=self.anchor,
            scale=self.scale,
            extra_uniform=self.shrinkage / T,
        )

    def weight_step(self, A: sparse.csr_array, W: Array, rough: bool = False) -> Solution:
        """The weights that are best for a graph; where unknowns differ too much in size for one solver, by another.

        A `rough` step, after which there will be another, ends sooner, with weights that are better than W.
        """
        system = self.system(A)
        tol = max(self.weights_tol, self.rough_tol) if rough else self.weights_tol
        found = solve_system(system, method=self.weights_solver, start=W, tol=tol, blocks=self.blocks)
        if rough and found.converged:
            return found
        exact = max(EXACT, 10 * self.weights_tol)
        if self.weights_solver == "auto" and found.residual > exact:
            # A residual that large comes from unknowns of very different size: a factorisation does not mind.
            second = "direct" if system.b.size <= FACTORISED else "cg"
            found = min(found, solve_system(system, method=second, start=W), key=lambda step: step.residual)
        return replace(found, converged=found.converged and found.residual <= exact)

    def graph_step(self, W: Array, dual: Array | None, rough: bool = False) -> Solution:
        """The graph that is best for weights; a `rough` step of very many tasks is so over the pairs that are known."""
        if self.graph_share == 1:
            return Solution(self.given, 0, 0.0, True, "given")
        return graph_of_weights(
            W * self.scale,
            **self.graph_terms,
            method=self.graph_solver,
            start=dual,
            candidates=self.candidates,
            rough=rough,
        )

    def objective(self, W: Array, A: sparse.csr_array) -> float:
        """F at (W, A)."""
        loss = float(task_loss(self.equations, W).sum()) + float(np.vdot(W @ self.ridge, W))
        fixed = self.graph_share == 1
        barrier, frobenius = (0.0, 0.0) if fixed else graph_terms(A, **self.of_the_graph)
        coupled = W * self.scale
        coupling = (1 - self.anchor) * graph_coupling(self.coupling(A), coupled) + self.anchor * uniform_coupling(
            coupled
        )
        away = float(((W - W.mean(axis=0)) ** 2 @ self.shrinkage).sum())
        return loss + barrier + frobenius + self.gamma * coupling + away

    def start(self) -> Array:
        """The weights to begin with: ridge fits of every task alone."""
        return independent(self.equations, self.ridge)

    def distances_as_weights(self) -> sparse.csr_array:
        """The start that the paper names: norms of the differences between independent fits, as if they were edges."""
        return sparse.csr_array(np.sqrt(squared_distances(self.start() * self.scale)))

    def solve(
        self,
        *,
        tol: float,
        max_iter: int,
        quiet: bool = False,
        callback: Callback | None = None,
        A0: sparse.csr_array | None = None,
        W0: Array | None = None,
        proximal: float = 0.0,
    ) -> Alternation:
        """Alternate from the independent fits, from the weights W0, or from the best weights for the graph A0."""
        start = self.start() if W0 is None else W0
        steps: Steps = ProximalSteps(self, proximal) if proximal else self
        if A0 is not None:
            start = self.weight_step(A0, start).value
        return alternate(steps, start, tol=tol, max_iter=max_iter, quiet=quiet, callback=callback)

    def optimality(self, result: Alternation) -> dict[str, float]:
        """Where weights and graph stand together, and the last graph step alone, which later weights have left behind.

        For very many tasks the first are over the candidates, which suffice for the share `certified` of the tasks.
        """
        W = result.weights.value
        A = result.graph.value
        return {
            "weights_residual": self.system(A).residual(W),
            **self.of_graph_step(A, W, result.graph.dual),
            "last_step_gap": result.graph.residual,
            "certified": result.graph.certified,
        }

    def of_graph_step(self, A: sparse.csr_array, W: Array, dual: Array | None) -> dict[str, float]:
        """How far a graph is from the best for weights."""
        if self.graph_share == 1:
            return {"graph_residual": 0.0, "duality_gap": 0.0}
        Z = self._distances(W * self.scale)
        return {
            "graph_residual": graph_residual(A, Z, **self.graph_terms),
            "duality_gap": self._duality_gap(A, Z, W, dual),
        }

    def _distances(self, coupled: Array) -> Array | Pairs:
        """Of all pairs; for very many tasks of the candidates, which suffice for the share `certified` of them."""
        if len(coupled) <= DENSE_TASKS:
            return squared_distances(coupled)
        self.candidates.move_to(coupled)
        edges, z = self.candidates.edges()
        return Pairs(edges.i, edges.j, z)

    def _duality_gap(self, A: sparse.csr_array, Z: Array | Pairs, W: Array, dual: Array | None) -> float:
        """The least gap that multipliers prove: those of the degrees, else those of the best graph for W."""
        proven = partial(duality_gap, A, Z, **self.graph_terms)
        gap = proven()
        if gap <= PROOF or len(W) > DENSE_TASKS:  # a graph step would take a while: the bound by the degrees must do
            return gap
        return min(gap, proven(dual=self.graph_step(W, dual).dual))


def usual_rounds(n_tasks: int) -> int:
    """Rounds of the alternation at most, where the user gives no number."""
    return ROUNDS if n_tasks <= DENSE_TASKS else ROUNDS_MANY


def independent(equations: NormalEquations, ridge: Array) -> Array:
    """Ridge fits of every task alone, with `FLOOR` times the mean diagonal of the slopes in all G_t as more penalty."""
    T, d = equations.shape
    G = equations.G[:1] if equations.is_shared() else equations.G
    check_memory(
        16.0 * G.size,
        f"the normal equations of {T} tasks with {d} unknowns each",
        "Use fewer features (drop, select or project them), or fit groups of tasks apart.",
    )
    typical = np.diagonal(G, axis1=1, axis2=2)[:, equations.penalised() > 0].mean()
    # The floor keeps tasks with fewer rows than unknowns from starting at wild coefficients.
    return solve_each(G + ridge + max(FLOOR * typical, TINY) * np.eye(d), equations.b)


@dataclass(eq=False)
class ProximalSteps:
    """The proximal alternation of the paper's convergence theorem: every step also pays for how far it moves.

        W+ = argmin F(W', A)  + c_W ||W' - W||^2,      c_W = proximal times the mean of tr(G_t) / d
        A+ = argmin F(W+, A') + c_A ||A' - A||_F^2,    c_A = proximal times beta

    Each step lowers F by at least what it pays, so that the squared steps sum to no more than F falls. Both are steps
    of the plain kind, with other numbers: c_W joins the ridge and c_W W the right-hand side; c_A joins beta, and
    2 c_A A is taken from gamma Z.
    """

    problem: Problem
    proximal: float
    graph: sparse.csr_array | None = None
    looks_ahead: ClassVar[bool] = False

    @property
    def noise(self) -> float:
        """Rounding of the objective."""
        return self.problem.noise

    def objective(self, W: Array, A: sparse.csr_array) -> float:
        """F at (W, A), without what the last step has paid."""
        return self.problem.objective(W, A)

    def weight_step(self, A: sparse.csr_array, W: Array, rough: bool = False) -> Solution:
        """The best weights for a graph, near to W."""
        equations = self.problem.equations
        pay = self.proximal * float(np.diagonal(equations.G, axis1=1, axis2=2).mean())
        ridge = self.problem.ridge + pay * np.eye(len(self.problem.ridge))
        near = replace(self.problem, ridge=ridge, equations=replace(equations, b=equations.b + pay * W))
        return near.weight_step(A, W, rough)

    def graph_step(self, W: Array, dual: Array | None, rough: bool = False) -> Solution:
        """The best graph for weights, near to the last one; the first has nothing to be near to."""
        if self.graph is None:
            found = self.problem.graph_step(W, dual)
        else:
            found = near_graph(
                squared_distances(W * self.problem.scale),
                self.graph,
                self.proximal * self.problem.beta,
                start=dual,
                **self.problem.graph_terms,
            )
        self.graph = found.value
        return found


def near_graph(
    Z: Array, A: sparse.csr_array, pay: float, *, beta: float, gamma: float, start: Array | None, **terms: Any
) -> Solution:
    """The graph step with pay ||A' - A||_F^2 added to what is minimised over A', over all pairs."""
    edges = EdgeList.complete(len(Z))
    cost = (gamma * Z - 2 * pay * A.toarray())[edges.i, edges.j]
    step = newton(edges, cost, beta=beta + pay, start=start, **terms)
    return replace(step, value=edges.adjacency(step.value))
