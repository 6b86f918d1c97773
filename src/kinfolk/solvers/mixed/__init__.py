"""The linear mixed model of many tasks, on Gram statistics alone: one door, `mixed_model`, and one record.

`likelihood` compresses tasks and says how likely a covariance is, `maximum` finds the best, `effects` is the model in
the units of the rows: estimates of greatest likelihood, with variances of exactly 0 for what tasks have in common.
`by_facts` is the same model around a centre that depends on what is known about tasks.
`components` are means over what the same likelihood leaves open, hence never 0 by chance: the law by which errors of
predictions are judged.
"""

from kinfolk.solvers.mixed.by_facts import ByFacts, mixed_model_by_facts
from kinfolk.solvers.mixed.components import VarianceComponents, integrated_components
from kinfolk.solvers.mixed.effects import MixedModel, mixed_model

__all__ = [
    "ByFacts",
    "MixedModel",
    "VarianceComponents",
    "integrated_components",
    "mixed_model",
    "mixed_model_by_facts",
]
