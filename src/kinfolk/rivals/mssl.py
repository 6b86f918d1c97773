"""MSSL: a sparse precision over the tasks, learned together with the coefficients (Goncalves et al. 2016)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Course, Model
from kinfolk.methods.parameters import number, parameters
from kinfolk.methods.structures import TaskPrecision
from kinfolk.progress import Callback
from kinfolk.rivals.solvers.stopped import warn_of_stop
from kinfolk.rivals.solvers.structured import WEIGHTS_TOL, StructuredProblem, alternate
from kinfolk.rows.gram import Array, GramStats


@parameters
class MSSL(MultiTaskRegressor):
    """Multi-task sparse structure learning: the coefficients, and which tasks depend on each other given the rest.

    Minimises, over the coefficients W (T, d), own intercepts c and the precision Om (positive definite),

        sum_t (1/n_t) ||X_t w_t + c_t - y_t||^2 + lasso ||W||_1
            + strength d/2 (tr(S Om) - log|Om| + sparsity_ ||Om||_1),       S = W W'/d,

    with y in units of its pooled standard deviation within tasks, and sparsity_ = sparsity times the typical S_tt of
    ridge fits, so that nothing depends on the scale of y. Every feature's T coefficients are one draw from
    N(0, Om^-1). Two exact steps alternate, a linear system (accelerated gradients with a lasso) for W and a graphical
    lasso on S for Om, from a point extrapolated along the last move; rounds that climb are undone. The problem is
    convex in W and in Om, not in both: the end is stationary in each.

    Differs from the paper's l0 tr(W' Om W) - d/2 log|Om| + l1 ||Om||_1: there l0 is redundant (Om/c, c l0 and c l1 do
    as Om, l0 and l1), and the weight of the prior hides in the unit of y. In raw units theirs is, with l0 = 1/2,
    strength = 1/s^2 and sparsity_ = 2 l1/(d s^2), where s is `target_scale_`.

    Parameters
    ----------
    strength : weight of the prior on W, positive
    sparsity : penalty on |Om_ij|, positive; 0.3: covariances below about 30 % of a typical variance are taken for zero
    lasso : penalty on |W|, not negative
    penalise_diagonal : whether ||Om||_1 includes the diagonal. Without it the problem is unbounded below (W = 0 and
        Om -> infinity), so that only a local minimum is found; with it every variance is at least `sparsity_`
    tol, max_iter : W is exact for the last Om; stop when the duality gap of Om for W, per task, is below `tol`; rounds
        at most
    callback : called with a `Progress` after every round

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    structure_ : Om, in units of coef_, as a `TaskPrecision`
    target_scale_, sparsity_ : the unit of y, and the penalty that was used
    objective_history_, n_iter_, converged_ : the course of the alternation
    optimality_ : weights_residual and precision_gap (duality gap of the graphical lasso, per task)

    References
    ----------
    A. R. Goncalves, F. J. Von Zuben, A. Banerjee, Multi-task sparse structure learning with Gaussian copula models,
    JMLR 17(33), 2016.

    Examples
    --------
    Tasks 0 and 1 have nearly the same coefficients, task 2 has unrelated ones.

    >>> X = np.vstack([np.eye(4), -np.eye(4)])
    >>> W = np.array([[3.0, 1.0, -1.0, 1.0], [3.0, 1.0, -1.0, 0.9], [1.0, -1.0, 1.0, -1.0]])
    >>> model = MSSL(strength=1e-3).fit(X, X @ W.T)
    >>> model.structure_.partial_correlation.round(1)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """

    shares: ClassVar[str] = "task precision"
    simplicity: ClassVar[int] = 90
    only_numbers: ClassVar[str] = (
        "its penalties are in units of the noise of the targets, which classes and counts have none of"
    )
    quick: ClassVar[dict[str, Any]] = {"tol": 1e-3, "max_iter": 15}
    default_grid: ClassVar[dict[str, tuple[Any, ...]]] = {"strength": (1e-4, 1e-3, 1e-2, 1e-1), "sparsity": (0.1, 1.0)}

    facts: Any = None
    strength: float = number(0.01, above=0)
    sparsity: float = number(0.3, above=0)
    lasso: float = number(0.0, at_least=0)
    penalise_diagonal: bool = True
    tol: float = 1e-6
    max_iter: int = number(200, at_least=1)
    callback: Callback | None = None

    def learn(self, gram: GramStats) -> Model:
        # In units of the targets, so that strength and sparsity mean the same for dollars and cents.
        unit = float(np.sqrt(gram.yy.sum() / gram.n.sum())) or 1.0
        problem = StructuredProblem.of(
            gram,
            unit,
            strength=self.strength,
            sparsity=self.sparsity,
            lasso=self.lasso,
            penalise_diagonal=self.penalise_diagonal,
        )
        # The penalty of the precision is compared with S = WW'/d: it is a share of the typical entry of that.
        problem = replace(problem, sparsity=self.sparsity * typical_variance(problem.start()))
        end = alternate(problem, tol=self.tol, max_iter=self.max_iter, callback=self.callback)
        Om = end.details["precision"]
        residual = problem.weights_residual(end.value, Om)
        converged = end.converged and residual <= max(self.tol, 10 * WEIGHTS_TOL)
        certificates = {"weights_residual": residual, "precision_gap": end.residual}
        if not converged:
            remedy = "The objective falls all the same; scale the features, raise sparsity, max_iter or tol."
            warn_of_stop("MSSL", f"{end.n_iter} rounds", certificates, self.tol, remedy)
        return Model.of(
            gram,
            end.value * unit,
            # Coefficients grow with the unit, so their precision falls with its square.
            structure=TaskPrecision(Om / unit**2, gram.labels),
            course=Course(certificates, end.history, end.n_iter, converged),
            extras={"target_scale_": unit, "sparsity_": problem.sparsity},
        )


def typical_variance(W: Array) -> float:
    """Median over tasks of the mean squared coefficient; the mean if the median is zero, 1 if all is zero.

    >>> typical_variance(np.array([[1.0, 1.0], [2.0, 0.0], [9.0, 9.0]]))
    2.0
    """
    # The median, so that one task of large coefficients does not set the unit for all.
    variance = (W * W).mean(axis=1)
    return float(np.median(variance)) or float(variance.mean()) or 1.0
