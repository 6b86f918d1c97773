"""Weight step by conjugate gradients on V -> H_t v_t + coupling, never formed, and its preconditioners.

Each of these is an approximate solution, good for some of the directions:

    blocks      the inverse of every task's own d x d block: right when data dominate
    laplacian   the T x T matrix 2 gamma L + diag(mean diagonal of H_t), for each of the d columns: right when the
                coupling does; symmetric and diagonally dominant, so multigrid applies
    sum         both
    coarse      the pooled d x d problem of every connected component: the limit of infinite coupling, exactly;
                always added

The T x T system is solved by a sparse factorisation ("splu") where that stays sparse, else approximately by one cycle
of combinatorial multigrid ("cmg").
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.batched import inverse, times
from kinfolk.solvers.graph.edges import envelope
from kinfolk.solvers.krylov import Operator, conjugate_gradients
from kinfolk.solvers.solution import Solution
from kinfolk.solvers.tolerances import WEIGHTS_RESIDUAL
from kinfolk.solvers.weights.cmg import combinatorial_multigrid
from kinfolk.solvers.weights.system import WeightSystem
from kinfolk.threads import in_parts

PRECONDITIONERS = ("auto", "blocks", "laplacian", "sum")
SOLVERS = ("auto", "splu", "cmg")
STRONG = 4.0  # coupling over own data, above which the Laplacian pays for itself
MOST = 0.9  # share of the tasks in which the coupling must exceed every direction of H_t
FILL_PER_TASK = 40  # entries that the factors of a cheap factorisation may have, per task
MOST_KEPT = 10_000_000  # numbers of the inverses that are kept: 80 MB; more take memory from the graph step
AT_ONCE = 2**20  # numbers of the blocks that are inverted together
STALE = 0.2  # change of a task's block, as its mean diagonal tells, after which it is inverted anew
FILL = 300_000  # or in all: beyond, a cycle of multigrid takes less time than a pair of triangular solves


class BlockInverses:
    """Inverses of the tasks' own blocks, kept from one system to the next while the blocks change little.

    A preconditioner need not be exact: a graph that has moved a little leaves most of it as it was.
    """

    def __init__(self) -> None:
        self.size = np.empty(0)
        self.pull = np.empty(0)
        self.steps = 0  # of conjugate gradients, the last time
        self.inverses = np.empty((0, 0, 0))

    def of(self, system: WeightSystem) -> Array:
        """The inverses (T, d, d) of H_t plus the diagonal of the coupling, each exact or nearly so."""
        T, d = system.b.shape
        diagonal = system.pull[:, None] * system.scale + system.uniform * (T - 1)
        size = system.own + diagonal.mean(axis=1)
        if self.inverses.shape != (T, d, d):
            self.size = np.zeros(T)
            self.pull = np.zeros(T)
            self.inverses = np.zeros((T, d, d))
        changed = np.abs(size - self.size) > STALE * self.size
        if self.steps > d:  # an inverse takes less. In directions that rows leave free, the coupling is all there is.
            changed |= np.abs(system.pull - self.pull) > STALE * self.pull
        old = np.flatnonzero(changed)

        def invert(part: slice) -> None:
            tasks = old[part]
            blocks = system.H[tasks]
            blocks[:, np.arange(d), np.arange(d)] += diagonal[tasks]
            self.inverses[tasks] = inverse(blocks)

        in_parts(invert, len(old), max(1, AT_ONCE // d**2))
        self.size[old] = size[old]
        self.pull[old] = system.pull[old]
        return self.inverses


def make_preconditioner(
    system: WeightSystem, name: str = "auto", solver: str = "auto", blocks: BlockInverses | None = None
) -> tuple[Operator, str]:
    """The operator r -> approximate solution, and its name in words."""
    for kind, value, allowed in (("preconditioner", name, PRECONDITIONERS), ("Laplacian solver", solver, SOLVERS)):
        if value not in allowed:
            raise ValueError(f"unknown {kind} {value!r}: choose one of {', '.join(allowed)}")
    name = choose_preconditioner(system) if name == "auto" else name
    parts: list[Operator] = [_coarse(system)]
    if name in ("blocks", "sum"):
        kept = blocks if blocks is not None and system.H.size <= MOST_KEPT else BlockInverses()
        parts.append(partial(times, kept.of(system)))
    if name in ("laplacian", "sum"):
        solver = choose_solver(system.L) if solver == "auto" else solver
        parts.append(_laplacian(system, solver))
        name = f"{name}, {solver}"

    def apply(r: Array) -> Array:
        total = parts[0](r)
        for part in parts[1:]:
            total += part(r)
        return total

    return apply, name


def choose_preconditioner(system: WeightSystem) -> str:
    """Blocks when data dominate; the Laplacian when the coupling does in every direction; between, their sum.

    "In every direction": for nine tasks of ten the pull exceeds ||H_t||_F, so that H_t may stand for its mean diagonal,
    and no unknown is left out, as shrunk intercepts are.
    """
    if float(np.median(system.pull)) <= STRONG * float(np.median(system.own)):
        return "blocks"
    if not system.scale.all():
        return "sum"
    stiffness = np.sqrt(np.einsum("tij,tij->t", system.H, system.H))
    return "laplacian" if np.mean(system.pull > stiffness) > MOST else "sum"


def choose_solver(L: sparse.csr_array) -> str:
    """A factorisation if the envelope of the reordered matrix, which bounds its factor, is small; else multigrid."""
    return "splu" if envelope(L) <= max(FILL_PER_TASK * L.shape[0], FILL) else "cmg"


def _laplacian(system: WeightSystem, solver: str) -> Operator:
    excess = np.maximum(system.own, TINY) + len(system.b) * system.uniform.mean()
    if solver == "splu":
        return splu(sparse.csc_array(system.L + sparse.diags_array(excess))).solve
    A = sparse.csr_array(sparse.diags_array(system.pull) - system.L)
    return combinatorial_multigrid(A, excess).solve


def _coarse(system: WeightSystem) -> Operator:
    """Constant on every component: solve with the sum of its H_t. With an anchor all tasks are one component."""
    T, d = system.b.shape
    if system.uniform.any():
        count = 1
    else:
        count, component = connected_components(system.L, directed=False)
    if count == 1:
        whole = inverse(system.H.sum(axis=0, keepdims=True))
        return lambda r: np.repeat(times(whole, r.sum(axis=0, keepdims=True)), T, axis=0)
    gather = sparse.csr_array((np.ones(T), (component, np.arange(T))), shape=(count, T))
    pooled = inverse((gather @ system.H.reshape(T, d * d)).reshape(count, d, d))
    return lambda r: times(pooled, gather @ r)[component]


def solve_cg(
    system: WeightSystem,
    *,
    start: Array | None = None,
    preconditioner: str = "auto",
    laplacian_solver: str = "auto",
    tol: float = WEIGHTS_RESIDUAL,
    max_iter: int = 1000,
    blocks: BlockInverses | None = None,
) -> Solution:
    """Iterative solution to a relative residual of `tol`; memory T d^2.

    With "auto" the `method` of the result tells what was chosen, as in "cg (sum, cmg)".
    """
    apply, name = make_preconditioner(system, preconditioner, laplacian_solver, blocks)
    solution = conjugate_gradients(system.apply, system.b, apply, start=start, tol=tol, max_iter=max_iter)
    if blocks is not None:
        blocks.steps = solution.n_iter
    return replace(solution, method=f"cg ({name})")
