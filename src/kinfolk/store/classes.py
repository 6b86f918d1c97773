"""What a model file may hold: the classes that are stored by name. Nothing outside these tables is ever looked up."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from sklearn import compose, decomposition, feature_selection, impute, kernel_approximation, pipeline, preprocessing

from kinfolk.baselines import METHODS
from kinfolk.estimators.gamtl import GAMTL
from kinfolk.estimators.gamtlcv import GAMTLCV
from kinfolk.estimators.rbfgamtl import RBFGAMTL
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.rbf import RBFFeatures
from kinfolk.methods.rbf_search import Setting
from kinfolk.methods.search import Gain
from kinfolk.methods.structures import Edge, TaskCovariance, TaskGraph, TaskPrecision
from kinfolk.methods.trees import TaskTree
from kinfolk.rows.gram import GramStats
from kinfolk.rows.rules import TableRules
from kinfolk.rows.tasks import Schema

MODELS: dict[str, type[MultiTaskRegressor]] = {"GAMTL": GAMTL, "GAMTLCV": GAMTLCV, "RBFGAMTL": RBFGAMTL, **METHODS}

# Transformers whose fitted state is numbers, texts and arrays.
TRANSFORMERS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        RBFFeatures,
        TableRules,
        pipeline.Pipeline,
        pipeline.FeatureUnion,
        compose.ColumnTransformer,
        preprocessing.StandardScaler,
        preprocessing.MinMaxScaler,
        preprocessing.MaxAbsScaler,
        preprocessing.RobustScaler,
        preprocessing.Normalizer,
        preprocessing.PowerTransformer,
        preprocessing.QuantileTransformer,
        preprocessing.PolynomialFeatures,
        preprocessing.SplineTransformer,
        preprocessing.KBinsDiscretizer,
        preprocessing.Binarizer,
        preprocessing.OneHotEncoder,
        preprocessing.OrdinalEncoder,
        preprocessing.FunctionTransformer,
        impute.SimpleImputer,
        impute.MissingIndicator,
        impute.KNNImputer,
        decomposition.PCA,
        feature_selection.VarianceThreshold,
        kernel_approximation.RBFSampler,
    )
}

ESTIMATORS: dict[str, type[Any]] = {**MODELS, **TRANSFORMERS}

RECORDS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (GramStats, Schema, TaskGraph, TaskCovariance, TaskPrecision, TaskTree, Gain, Setting, Edge)
}

# Types and functions that appear as parameters: OneHotEncoder(dtype=...), FunctionTransformer(func=...).
TYPES: dict[str, type[Any]] = {
    **{cls.__name__: cls for cls in (bool, int, float, str, object)},
    **{
        f"numpy.{np.dtype(code).type.__name__}": np.dtype(code).type
        for code in ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "O", "U")
    },
}
UFUNCS: dict[str, np.ufunc] = {
    ufunc.__name__: ufunc
    for ufunc in (
        *(np.abs, np.sign, np.negative, np.reciprocal, np.square, np.sqrt, np.cbrt),
        *(np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p),
        *(np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh, np.arcsinh),
        *(np.floor, np.ceil, np.rint, np.trunc),
    )
}

# Fields of other libraries' records, given to the constructor in this order, which checks them.
BSPLINE: tuple[type[Any], tuple[str, ...]] = (BSpline, ("t", "c", "k", "extrapolate"))

NOT_STORED = ("callback",)
