"""Tables larger than memory, from files and from Dask: rows become statistics where they are.

`gram_of_file` and `folds_of_file` read Parquet, Arrow and CSV in one pass; `gram_of_dask` and `folds_of_dask` do the
same on a cluster. `fit_file` and `fit_dask` fit a model from them; `predict_file` and `predict_dask` predict in blocks.
See docs/scaling.md.
"""

from kinfolk.sources.fits import fit_dask, fit_file
from kinfolk.sources.partitions import folds_of_dask, gram_of_dask
from kinfolk.sources.predictions import predict_dask, predict_file
from kinfolk.sources.stream import folds_of_file, gram_of_file

__all__ = [
    "fit_dask",
    "fit_file",
    "folds_of_dask",
    "folds_of_file",
    "gram_of_dask",
    "gram_of_file",
    "predict_dask",
    "predict_file",
]
