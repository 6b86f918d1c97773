"""What a model file may hold: the classes that are stored by name. Nothing outside these tables is ever looked up."""

from __future__ import annotations

from typing import Any

from scipy.interpolate import BSpline
from sklearn import compose, decomposition, feature_selection, impute, kernel_approximation, pipeline, preprocessing

from kinfolk.declared import DECLARED
from kinfolk.methods.method import MultiTaskRegressor
from kinfolk.methods.rbf import RBFFeatures
from kinfolk.methods.registry import all_classifiers, all_methods
from kinfolk.methods.splines import SplineFeatures
from kinfolk.rows.columns import TableRules

MODELS: dict[str, type[MultiTaskRegressor]] = {
    **{method.__name__: method for method in all_methods().values()},
    **all_classifiers(),
}

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

# What a fitted model is made of: the records that declare what their fields hold. All modules of methods have been
# imported for the table of models, and with them every record.
RECORDS: dict[str, type[Any]] = {name: cls for name, cls in DECLARED.items() if cls not in TRANSFORMERS.values()}

# Fields of other libraries' records, given to the constructor in this order, which checks them.
BSPLINE: tuple[type[Any], tuple[str, ...]] = (BSpline, ("t", "c", "k", "extrapolate"))

NOT_STORED = ("callback", "method")  # progress belongs to a run; the method is the estimator itself
