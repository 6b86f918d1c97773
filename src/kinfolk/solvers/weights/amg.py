"""Algebraic multigrid by pyamg: its levels, our cycle. The only importer of pyamg."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from kinfolk.rows.gram import Array
from kinfolk.solvers.graph.edges import laplacian
from kinfolk.solvers.weights.multigrid import Level, Multigrid


def algebraic_multigrid(A: sparse.csr_array, excess: Array) -> Multigrid:
    """Smoothed aggregation for M = diag(excess) + Laplacian(A), applied to many columns at once."""
    try:
        import pyamg
    except ImportError as error:
        raise ImportError('this preconditioner needs pyamg: pip install "kinfolk[large]"') from error
    M = sparse.csr_matrix(laplacian(A) + sparse.diags_array(excess))
    M.indices, M.indptr = M.indices.astype(np.int32), M.indptr.astype(np.int32)
    built = pyamg.smoothed_aggregation_solver(M, coarse_solver="splu", max_coarse=500)
    levels = [
        Level.of(sparse.csr_array(level.A.tocsr()), sparse.csr_array(level.P.tocsr()), 1) for level in built.levels[:-1]
    ]
    return Multigrid(levels, sparse.csr_array(built.levels[-1].A.tocsr()))
