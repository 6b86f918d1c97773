"""How far apart tasks are in their data, and where to draw them: for pictures and sanity checks, not for fitting."""

from kinfolk.experiments.diagnostics.divergence import conditional_kl, knn_divergence
from kinfolk.experiments.diagnostics.embedding import Embedding, embed
from kinfolk.experiments.diagnostics.warping import dtw_distances

__all__ = ["Embedding", "conditional_kl", "dtw_distances", "embed", "knn_divergence"]
