"""Independent: one ridge regression per task, nothing shared but the penalty."""

from __future__ import annotations

from typing import Any

from kinfolk.methods.penalised import _Penalised
from kinfolk.methods.smoother import HubInverse
from kinfolk.rows.gram import Array, GramStats
from kinfolk.solvers.batched import relative, times
from kinfolk.solvers.ridge import Model, Spectrum, own_intercepts


class Independent(_Penalised):
    """One ridge regression per task, each with an intercept of its own.

    Minimises, for every task t on its own,

        ||y_t - X_t w_t - c_t||^2 + penalty ||w_t||^2.

    What multi-task methods have to beat, with the penalty chosen well: penalty="cv".

    Parameters
    ----------
    task : name or position of the task column of X; None if y has one column per task
    penalty : a number; or "cv", the one number for all tasks of least held-out error, among multiples of the mean of
        tr(G_t) / d, on a grid that grows while its edge is best
    cv, scoring : folds (a number, or (train, test) pairs of row positions that share out all rows), and their error:
        "pooled", "tasks" or "normalised" (see `kinfolk.rows.folds.cv_error`)
    features : a transformer for the non-task columns, e.g. StandardScaler()
    unseen : "error" or "mean": what predict does with tasks that fit has not seen
    random_state : draws the folds

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (T, d) and (T,); tasks_ : their labels
    penalty_ : the number used; penalties_, cv_errors_ : those tried and their errors, for "cv"
    optimality_ : residual of the normal equations

    Examples
    --------
    Two rows at x = -1 and 1 have G = 2; a penalty of 2 halves their slope.

    >>> X = np.array([["a", -1.0], ["a", 1.0], ["b", -1.0], ["b", 1.0]], dtype=object)
    >>> Independent(task=0, penalty=2.0).fit(X, [0.0, 4.0, 5.0, 5.0]).coef_.ravel()
    array([1., 0.])
    """

    def __init__(
        self,
        task: str | int | None = None,
        *,
        penalty: float | str = 1.0,
        cv: Any = 5,
        scoring: str = "pooled",
        features: Any = None,
        unseen: str = "error",
        random_state: Any = 0,
    ) -> None:
        self.task = task
        self.penalty = penalty
        self.cv = cv
        self.scoring = scoring
        self.features = features
        self.unseen = unseen
        self.random_state = random_state

    def _prepare(self, gram: GramStats) -> Model:
        spectrum = Spectrum.of(gram.G, gram.b)

        def model(penalty: float) -> tuple[Array, Array]:
            W = spectrum.ridge(penalty)
            return W, own_intercepts(gram, W)

        return model

    def _inverse(self, gram: GramStats, penalty: float) -> HubInverse:
        return HubInverse.alone(Spectrum.of(gram.G, gram.b).inverse(penalty), gram.G)

    def _residual(self, gram: GramStats, W: Array, penalty: float) -> float:
        return relative(times(gram.G, W) + penalty * W - gram.b, gram.b)
