"""The linear mixed model of many tasks, on Gram statistics alone: one door, `mixed_model`, and one record.

`likelihood` compresses tasks and says how likely a covariance is, `maximum` finds the best, `effects` is the model in
the units of the rows. `components` is what the same likelihood leaves open: the law by which errors are judged.
"""

from kinfolk.solvers.mixed.components import VarianceComponents, integrated_components
from kinfolk.solvers.mixed.effects import MixedModel, mixed_model

__all__ = ["MixedModel", "VarianceComponents", "integrated_components", "mixed_model"]
