"""Points in the plane or in space whose distances follow given dissimilarities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import smacof
from sklearn.utils import check_random_state

from kinfolk.rows.gram import TINY, Array
from kinfolk.solvers.graph.learn import SYMMETRIC

STARTS = 8  # random ones, beside the classical solution


@dataclass(frozen=True, eq=False)
class Embedding:
    """Coordinates for dissimilarities, and how well they fit.

    Attributes
    ----------
    coordinates : array of shape (T, dimensions), centred, widest along the first axis
    stress : sqrt(sum (D_ij - distance_ij)^2 / sum D_ij^2): 0 is exact; above 0.2 the picture misleads
    """

    coordinates: Array
    stress: float

    def __repr__(self) -> str:
        T, dimensions = self.coordinates.shape
        return f"Embedding({T} points in {dimensions} dimensions, stress {self.stress:.3f})"


def embed(D: ArrayLike, *, dimensions: int = 2, random_state: Any = 0) -> Embedding:
    """Metric multidimensional scaling: points whose distances are as near to D as they can be.

    Minimises sum_ij (D_ij - ||z_i - z_j||)^2 with scikit-learn's SMACOF from the classical solution and from eight
    random starts, and keeps the best. The points are turned to their principal axes, so that equal input gives an
    equal picture.

    Parameters
    ----------
    D : symmetric dissimilarities (T, T), zero diagonal
    dimensions : of the picture, usually 2 or 3
    random_state : seed of the random starts

    Examples
    --------
    Three, four, five is a triangle:

    >>> plane = embed([[0, 3, 4], [3, 0, 5], [4, 5, 0]])
    >>> plane.stress < 1e-6
    True
    >>> bool(np.isclose(np.linalg.norm(plane.coordinates[1] - plane.coordinates[2]), 5))
    True
    """
    D = _dissimilarities(D)
    if dimensions < 1:
        raise ValueError(f"dimensions={dimensions}: give 2 or 3 for a picture, at least 1")
    if not D.any():
        return Embedding(np.zeros((len(D), dimensions)), 0.0)
    scale = D.max()  # SMACOF's tolerance is absolute: it sees distances of about 1, whatever the unit
    rng = check_random_state(random_state)
    starts = [_classical(D / scale, dimensions)] + [rng.uniform(size=(len(D), dimensions)) for _ in range(STARTS)]
    # Every argument whose default differs between versions of scikit-learn is given.
    settings = {"n_init": 1, "max_iter": 1000, "eps": 1e-9, "normalized_stress": False}
    best, _ = min((smacof(D / scale, init=start, **settings) for start in starts), key=lambda fit: fit[1])
    coordinates = _principal_axes(scale * best)
    wanted = squareform(D, checks=False)
    return Embedding(coordinates, float(np.linalg.norm(wanted - pdist(coordinates)) / np.linalg.norm(wanted)))


def _classical(D: Array, dimensions: int) -> Array:
    """Leading eigenvectors of the doubly centred squares, scaled by the roots of their eigenvalues."""
    squares = D**2
    mean = squares.mean(axis=0)
    # For true distances this is the Gram matrix of the centred points.
    values, vectors = np.linalg.eigh((mean[:, None] + mean - mean.mean() - squares) / 2)
    kept = min(dimensions, len(D))
    start = np.zeros((len(D), dimensions))
    # eigh sorts upwards; dissimilarities that no points have give negative eigenvalues too.
    start[:, :kept] = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :kept]
    return start


def _principal_axes(Z: Array) -> Array:
    """Centred and turned so that the variance falls from axis to axis; the largest entry of each is positive."""
    Z = Z - Z.mean(axis=0)
    Z = Z @ np.linalg.svd(Z, full_matrices=True)[2].T
    largest = Z[np.abs(Z).argmax(axis=0), np.arange(Z.shape[1])]
    return Z * np.where(largest < 0, -1.0, 1.0)


def _dissimilarities(D: ArrayLike) -> Array:
    D = np.asarray(D, dtype=np.float64)
    if D.ndim != 2 or D.shape[0] != D.shape[1] or not len(D):
        raise ValueError(f"D of shape {D.shape}: give a square matrix of dissimilarities, one row per task")
    if not np.isfinite(D).all() or (D < 0).any():
        raise ValueError("D has negative, infinite or missing entries: dissimilarities are finite and at least 0")
    if np.abs(D - D.T).max() > SYMMETRIC * max(D.max(), TINY):
        i, j = np.unravel_index(np.argmax(np.abs(D - D.T)), D.shape)
        raise ValueError(
            f"D is not symmetric (D[{i}, {j}] = {D[i, j]:g}, D[{j}, {i}] = {D[j, i]:g}): use (D + D.T) / 2"
        )
    half: Array = (D + D.T) / 2
    np.fill_diagonal(half, 0.0)
    return half
