"""Where a curve goes on as steeply as it ended: at ends where it has shown to, when the rows at the end are held out.

Beyond its rows a curve returns to its line, which is the more careful guess. Growth and decay are not like that.
"""

from __future__ import annotations

import numpy as np

from kinfolk.methods.couplings import Hub
from kinfolk.methods.ends import End, ends_of, slopes_at
from kinfolk.methods.extrapolation import END
from kinfolk.methods.model import Model, Part
from kinfolk.methods.rbf_search import TaskRows
from kinfolk.methods.splines import SplineFeatures
from kinfolk.rows.gram import Array
from kinfolk.threads import limited_threads

# Set on the tables of benchmarks/arena.py marked "tuned", and on others; docs/maths.md has the numbers.
LEAST_FALL = 0.2  # of the error at an end, for the slope to be followed beyond it
STANDARD_ERRORS = 2.0  # over tasks, that the fall must be


def with_ends(data: TaskRows, model: Model) -> SplineFeatures:
    """The splines of a fitted model, with the ends beyond which its curves go on with their slope.

    That is tried on the rows in the outer third of an input and, if there are enough, in the outer sixth.
    """
    features: SplineFeatures = model.details["splines_"]
    part = next(part for part in model.parts if part.name.startswith("curves"))
    assert part.basis is not None
    used = part.basis[: features.n_terms].any(axis=1).reshape(-1, features.terms).any(axis=1)
    place = {int(features.columns_[i]): int(i) for i in np.flatnonzero(used)}
    on = np.zeros(features.ends_.shape, bool)
    with limited_threads(*model.coef.shape):
        for end in ends_of(data, [(side, j) for j in place for side in (0, 1)]):
            i = place[end.feature]
            nearer = ends_of(data, [(end.side, end.feature)], END / 2)
            on[end.side, i] = all(_goes_on(data, features, part, one, i) for one in (end, *nearer))
    return features.going_on(on) if on.any() else features


def _goes_on(data: TaskRows, features: SplineFeatures, part: Part, end: End, i: int) -> bool:
    """Whether the slope at an end of the i-th bent input beats the return to the line, and slopes without curves.

    The part is fitted to the inner rows, with knots among these and the variances of all.
    """
    there = features.among(data.X[end.inner])
    on = np.zeros(features.ends_.shape, bool)
    on[end.side, i] = True
    gram = data.gram(there.transform(data.X), end.inner).with_rows()
    equations = part.equations(gram)
    assert isinstance(part.coupling, Hub)
    W, c = part.coefficients(equations, part.coupling.inverse(equations).unknowns(equations.b))
    t = np.searchsorted(gram.labels, data.labels[data.codes[end.judged]])

    def predicted(basis: SplineFeatures) -> Array:
        return np.asarray(c[t] + np.einsum("nd,nd->n", basis.transform(data.X[end.judged]), W[t]))

    follows = predicted(there.going_on(on))
    # Slopes have a mixed model of their own to fit, which few ends come to.
    return _clearly(data, end, follows, predicted(there)) and _clearly(data, end, follows, slopes_at(data, end))


def _clearly(data: TaskRows, end: End, one: Array, other: Array) -> bool:
    """Whether one prediction of the rows at an end is clearly better than another."""
    squared = [(guess - data.y[end.judged]) ** 2 for guess in (one, other)]
    weighted = squared if data.weight is None else [data.weight[end.judged] * part for part in squared]
    t = np.unique(data.codes[end.judged], return_inverse=True)[1].reshape(-1)
    mine, others = (np.bincount(t, part) for part in weighted)
    fall = others - mine
    least = max((1 - (1 - LEAST_FALL) ** 2) * others.sum(), STANDARD_ERRORS * np.sqrt(len(fall)) * fall.std())
    return bool(fall.sum() > least)
