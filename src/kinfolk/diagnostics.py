"""How far apart tasks are in their data, and where to draw them: for pictures and sanity checks, not for fitting."""

from kinfolk.experiments.diagnostics import Embedding, conditional_kl, dtw_distances, embed, knn_divergence

__all__ = ["Embedding", "conditional_kl", "dtw_distances", "embed", "knn_divergence"]
