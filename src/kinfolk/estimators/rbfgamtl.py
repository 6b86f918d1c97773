"""RBF-GAMTL: GAMTL on radial basis functions, beside the linear models that it must not lose to."""

from __future__ import annotations

from typing import Any, ClassVar

from kinfolk.estimators.gamtlcv import GAMTLCV
from kinfolk.methods.parameters import choice, parameters


@parameters
class RBFGAMTL(GAMTLCV):
    """Nonlinear GAMTL: radial basis functions shared by all tasks, one head per task, and a graph over the heads.

    Inputs are weighed by the slopes of a ridge per task, centres placed by k-means on the rows of all tasks, widths set
    in proportion to the spread around the centres; the exponent of the weights, the number of centres, the width and
    whether linear terms are added are chosen by cross-validation, with heads shrunk to their mean. Weights and centres
    come from the training rows of every fold alone. All that `GAMTLCV` tries is tried too, and the prediction is a
    mixture of lines and curves, with the shares that held-out errors support: it is `GAMTLCV(nonlinear=True)`.

    With `partial_fit`, input weights, centres and widths are those of the first rows; only statistics accumulate.

    Parameters and attributes are those of `GAMTLCV`; further

    rbf_ : the fitted `RBFFeatures`; rbf_setting_ : what was chosen; rbf_errors_ : the error of every setting tried

    Examples
    --------
    >>> import numpy as np
    >>> X = np.column_stack([np.repeat([0, 1], 40), np.tile(np.linspace(-3, 3, 40), 2)])
    >>> y = np.sin(X[:, 1]) + X[:, 0]
    >>> bool(RBFGAMTL(task=0).fit(X, y).score(X, y) > 0.99)
    True
    """

    shares: ClassVar[str] = "graph, nonlinear"
    simplicity: ClassVar[int] = 130

    nonlinear: bool | str = choice(True, False, "auto", "splines")
    trunk: Any = None
