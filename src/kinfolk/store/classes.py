"""What a model file may hold: the classes that are stored by name. Nothing outside these tables is ever looked up."""

from __future__ import annotations

from typing import Any

from scipy.interpolate import BSpline
from sklearn import compose, decomposition, feature_selection, impute, kernel_approximation, pipeline, preprocessing

from kinfolk.methods.couplings import Alone, Hub, ToMean
from kinfolk.methods.gamtl.calibrate import Recipe
from kinfolk.methods.gamtl.coupling import GraphCoupling
from kinfolk.methods.gamtl.problem import Penalty
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.model import Bound, Course, Model, Part, Population
from kinfolk.methods.parts import LastRows
from kinfolk.methods.rbf import RBFFeatures, Setting
from kinfolk.methods.registry import all_methods
from kinfolk.methods.search_report import ByFeature, ByTask, CurvesTried, Gain, SearchReport, TreesTried, VersusRidge
from kinfolk.methods.splines import SplineFeatures
from kinfolk.methods.structures import Edge, TaskCovariance, TaskGraph, TaskPrecision
from kinfolk.methods.trees import TaskTree
from kinfolk.methods.trunk import BoostedTrees, Trunk
from kinfolk.methods.uncertainty import HeldOut
from kinfolk.methods.walks import Walk
from kinfolk.rows.columns import TableRules
from kinfolk.rows.folds import Folds
from kinfolk.rows.gram import GramStats
from kinfolk.rows.schema import Columns
from kinfolk.rows.table import Schema
from kinfolk.search.rbf_search import FeatureSearch
from kinfolk.search.stream import Stream

MODELS: dict[str, type[MultiTaskRegressor]] = {method.__name__: method for method in all_methods().values()}

# Transformers whose fitted state is numbers, texts and arrays.
TRANSFORMERS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        RBFFeatures,
        SplineFeatures,
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
        preprocessing.TargetEncoder,
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

# What a fitted model is made of.
RECORDS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        *(Model, Bound, Part, LastRows, Population, ByTask, Course, HeldOut, Gain, Setting, Edge),
        *(GramStats, Columns, Schema, TaskGraph, TaskCovariance, TaskPrecision, TaskTree),
        *(GraphCoupling, Penalty, Recipe, Hub, Alone, ToMean, Trunk, BoostedTrees),
        *(Stream, Folds, FeatureSearch, Walk),
        *(SearchReport, VersusRidge, CurvesTried, TreesTried, ByFeature),
    )
}

# Fields of other libraries' records, given to the constructor in this order, which checks them.
BSPLINE: tuple[type[Any], tuple[str, ...]] = (BSpline, ("t", "c", "k", "extrapolate"))

NOT_STORED = ("callback", "method")  # progress belongs to a run; the method is the estimator itself
