"""Mixed models of many tasks: of numbers by `mixed_model`, of classes, counts and amounts by `laplace`.

That of numbers needs Gram statistics alone. `likelihood` compresses tasks and says how likely a covariance is,
`maximum` finds the best, `effects` is the model in the units of the rows: estimates of greatest likelihood, with
variances of exactly 0 for what tasks have in common. `by_facts` is the same model around a centre that depends on what
is known about tasks. `components` are means over what the same likelihood leaves open, hence never 0 by chance: the law
by which errors of predictions are judged.

Other targets need their rows. `modes` finds the likeliest random effects of all tasks at once, `laplace` the fixed
effects and variances by the approximation of the likelihood that rests on them.
"""

from kinfolk.solvers.mixed.by_facts import ByFacts, mixed_model_by_facts, too_many_products
from kinfolk.solvers.mixed.components import VarianceComponents, integrated_components
from kinfolk.solvers.mixed.effects import MixedModel, mixed_model
from kinfolk.solvers.mixed.laplace import LaplaceModel, laplace

__all__ = [
    "ByFacts",
    "LaplaceModel",
    "MixedModel",
    "VarianceComponents",
    "integrated_components",
    "laplace",
    "mixed_model",
    "mixed_model_by_facts",
    "too_many_products",
]
