"""TAT: a tree of tasks from layered coefficients (Han & Zhang, KDD 2015)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kinfolk.memory import check_memory
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Course, Model
from kinfolk.methods.parameters import number, parameters
from kinfolk.methods.search_report import ByTask
from kinfolk.methods.trees import TaskTree
from kinfolk.progress import Callback
from kinfolk.rivals.solvers.pair_fusion import Quadratics, collapse, fuse_tasks, layer_penalties
from kinfolk.rivals.solvers.stopped import warn_of_stop
from kinfolk.rivals.solvers.tree_cuts import grow_tree
from kinfolk.rows.gram import Array, GramStats

PAIR_ARRAYS = 8  # arrays of shape (T (T - 1) / 2, d) alive at once


@parameters
class TAT(MultiTaskRegressor):
    """Task tree: coefficients as a sum of layers, whose differences between tasks shrink from the leaves to the root.

    Minimises, over layers W^(1) ... W^(H) with W = sum_h W^(h) and lam_h = lam_1 / phi^(h - 1),

        sum_t ||X_t w_t - y_t||^2 / (T n_t) + sum_h lam_h sum_{i<j} ||w^(h)_i - w^(h)_j||_2
        subject to  |w^(h)_i - w^(h)_j| >= |w^(h+1)_i - w^(h+1)_j|   elementwise, for all pairs and h < H.

    The constraints are not convex, and yet the global minimum is found and certified, because the layers collapse: the
    minimum over all layers with a given sum W is c sum_{i<j} ||w_i - w_j||, c = min_r (lam_1 + ... + lam_r) / r,
    attained by W^(h) = W / r in the first r layers and 0 in the others (Notes). What is left is convex.

    Parameters
    ----------
    strength : c as a share of a value at which all tasks are fused; free of the scale of y (used without lam_1)
    lam_1 : the paper's lam_1, in the units of the objective above; instead of strength
    phi : ratio of the penalties of neighbouring layers; given lam_1, it acts on W only through c
    n_layers : H; also the largest number of levels of the tree, root included
    tol, max_iter : size of both certificates (`optimality_`) at which the iteration stops; iterations at most
    random_state : unused; the method is deterministic
    callback : called with a `Progress` at every check

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    layers_ : array of shape (H, T, d), a global minimiser; coef_ is its sum
    penalty_ : c; lambdas_ : lam_1 ... lam_H
    structure_ : `TaskTree`
    objective_history_, n_iter_, converged_ : the course of the iteration
    optimality_ : stationarity (gradient against multipliers, relative) and complementarity (at ~ 0: the global minimum)

    Notes
    -----
    *Collapse.* Let x_h = ||w^(h)_i - w^(h)_j||: not increasing in h by the constraints. Summing by parts, sum_h lam_h
    x_h = sum_r (x_r - x_{r+1}) (lam_1 + ... + lam_r) >= c sum_r r (x_r - x_{r+1}) = c sum_h x_h >= c ||w_i - w_j||.
    So W depends on lam_1, phi and H only through c, and the layers hold no tree: for phi >= 1 they are all equal, for
    phi < 1 only the first parts tasks. A constant row may move between layers at no cost; the choice above settles it.

    *Tree.* The layers being alike, the tree comes from W: normalised cuts inside each parent's group, root first, with
    levels where the heights of the cuts jump most. Fused tasks share a group at all levels.

    *Differs* from the paper: not proximal gradient around an ADMM over H layers, but one ADMM on the convex problem.
    There is no ridge: directions without data in any task get 0, nearly collinear features may get large coefficients.

    Examples
    --------
    >>> X = np.tile([[0.0], [1.0], [2.0]], (4, 1))
    >>> slope = np.repeat([1.0, 1.2, 5.0, 5.2], 3)
    >>> table = np.column_stack([np.repeat([0, 1, 2, 3], 3), X])
    >>> model = TAT(task=0, n_layers=2).fit(table, slope * X[:, 0])
    >>> model.structure_.members(0)
    [[0, 1], [2, 3]]
    """

    shares: ClassVar[str] = "tree of tasks"
    simplicity: ClassVar[int] = 110
    only_numbers: ClassVar[str] = (
        "its solver factorises squared errors once for all steps, and its certificate is about them"
    )
    quick: ClassVar[dict[str, Any]] = {"tol": 1e-4, "max_iter": 1000}
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {"strength": (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)}

    facts: Any = None
    strength: float = number(0.03, at_least=0)
    lam_1: float | None = number(None, at_least=0, also=(None,))
    phi: float = number(2.0, above=0)
    n_layers: int = number(3, at_least=1, whole=True)
    tol: float = number(1e-6, above=0)
    max_iter: int = number(10_000, at_least=1, whole=True)
    random_state: Any = None
    callback: Callback | None = None

    def learn(self, gram: GramStats) -> Model:
        T, d = gram.b.shape
        check_memory(
            PAIR_ARRAYS * 8.0 * d * T * (T - 1) / 2,
            f"the differences of all {T * (T - 1) // 2:,} pairs of {T:,} tasks in {d} features",
            "Use fewer tasks or features, or CCMTL, which ties near neighbours only.",
        )
        loss = Quadratics.mean_squares(gram)
        lam = self._penalties(loss)
        c, r = collapse(lam)
        fusion = fuse_tasks(loss, c, tol=self.tol, max_iter=self.max_iter, callback=self.callback)
        if not fusion.converged:
            remedy = (
                "Standardise the features, raise max_iter or tol, or raise strength: weak ties between nearly "
                "collinear features settle slowly."
            )
            warn_of_stop("TAT", f"{fusion.n_iter} iterations", fusion.details, self.tol, remedy)
        W = fusion.value
        layers = np.zeros((len(lam), *W.shape))
        layers[:r] = W / r
        tree = TaskTree(grow_tree(W, self.n_layers), gram.labels)
        return Model.of(
            gram,
            W,
            structure=tree,
            course=Course(fusion.details, fusion.history, fusion.n_iter, fusion.converged),
            extras={"layers_": ByTask(layers, axis=1), "lambdas_": lam, "penalty_": c},
        )

    def _penalties(self, loss: Quadratics) -> Array:
        """lam_1 ... lam_H: given, or scaled so that c is `strength` times the fusing penalty."""
        if self.lam_1 is not None:
            return layer_penalties(self.lam_1, self.phi, self.n_layers)
        unit = layer_penalties(1.0, self.phi, self.n_layers)
        return unit * (self.strength * loss.fusing_penalty() / collapse(unit)[0])
