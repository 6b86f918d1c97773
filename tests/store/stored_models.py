"""Fitted models of every kind, small, for the tests of model files."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
from sklearn import compose, decomposition, feature_selection, impute, kernel_approximation, pipeline, preprocessing
from sklearn.exceptions import ConvergenceWarning

from kinfolk import GAMTL, RBFFeatures
from kinfolk.methods.splines import SplineFeatures
from kinfolk.rows.columns import TableRules
from kinfolk.store.classes import MODELS
from problems import frame

QUICK = {
    "BMSL": {"n_samples": 40, "n_burn": 20, "n_chains": 2, "random_state": 0},
    "GAMTLCV": {"cv": 3, "metrics": ("identity",), "ridges": (1.0,)},
    "RBFGAMTL": {"cv": 3},
}
TABLE, Y = frame(n=(6, 12))
RNG = np.random.default_rng(0)
WIDE_X = RNG.normal(size=(20, 3))
WIDE_Y = WIDE_X @ RNG.normal(size=(3, 4)) + 0.1 * RNG.normal(size=(20, 4))


@cache
def fitted(name):
    """A model of every method; GFL needs shared inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "tasks .* have only|.* events for")
        model = MODELS[name](task=None if name == "GFL" else "who", **QUICK.get(name, {}))
        target = np.digitize(Y, np.quantile(Y, [0.3, 0.6])) if model.classifies else Y
        return model.fit(WIDE_X, WIDE_Y) if name == "GFL" else model.fit(TABLE, target)


def table_of(name):
    """The table that `fitted(name)` predicts."""
    return WIDE_X if name == "GFL" else TABLE


NUMBERS = ["x0", "x1", "x2", "x3"]
TRANSFORMERS = {
    "RBFFeatures": RBFFeatures(5, random_state=0),
    "SplineFeatures": SplineFeatures(),
    "TableRules": TableRules(scale=True),
    "Pipeline": pipeline.make_pipeline(preprocessing.StandardScaler(), RBFFeatures(4, random_state=0, linear=True)),
    "FeatureUnion": pipeline.FeatureUnion([("a", preprocessing.MinMaxScaler()), ("b", preprocessing.MaxAbsScaler())]),
    "ColumnTransformer": compose.ColumnTransformer(
        [
            ("kind", preprocessing.OneHotEncoder(sparse_output=False), ["kind"]),
            ("z", preprocessing.StandardScaler(), NUMBERS[:2]),
        ],
        remainder="passthrough",
    ),
    "StandardScaler": preprocessing.StandardScaler().set_output(transform="pandas"),
    "MinMaxScaler": preprocessing.MinMaxScaler(clip=True),
    "MaxAbsScaler": preprocessing.MaxAbsScaler(),
    "RobustScaler": preprocessing.RobustScaler(),
    "Normalizer": preprocessing.Normalizer(),
    "PowerTransformer": preprocessing.PowerTransformer(),
    "QuantileTransformer": preprocessing.QuantileTransformer(n_quantiles=10),
    "PolynomialFeatures": preprocessing.PolynomialFeatures(2, include_bias=False),
    "SplineTransformer": preprocessing.SplineTransformer(n_knots=3, include_bias=False),
    "KBinsDiscretizer": preprocessing.KBinsDiscretizer(3, strategy="uniform"),
    "Binarizer": preprocessing.Binarizer(threshold=np.float64(0.2)),
    "OneHotEncoder": preprocessing.OneHotEncoder(handle_unknown="ignore", dtype=np.float32),
    "OrdinalEncoder": preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
    "TargetEncoder": preprocessing.TargetEncoder(target_type="continuous", random_state=0),
    "FunctionTransformer": preprocessing.FunctionTransformer(np.arcsinh, feature_names_out="one-to-one"),
    "SimpleImputer": impute.SimpleImputer(add_indicator=True, strategy="median"),
    "MissingIndicator": impute.MissingIndicator(features="all"),
    "KNNImputer": impute.KNNImputer(n_neighbors=2),
    "PCA": decomposition.PCA(2),
    "VarianceThreshold": feature_selection.VarianceThreshold(),
    "RBFSampler": kernel_approximation.RBFSampler(n_components=5, random_state=0),
}


def table_for(name):
    """A table that suits a transformer: with gaps, texts or numbers only."""
    table = TABLE.copy()
    if name in ("SimpleImputer", "KNNImputer", "MissingIndicator"):
        table.loc[::7, "x1"] = np.nan
        return table
    if name in ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder"):
        return pd.DataFrame(
            {"who": table.who, "kind": np.where(table.x0 > 0, "high", "low"), "size": (table.x1 > 0) * 2}
        )
    if name == "ColumnTransformer":
        return table.assign(kind=np.where(table.x0 > 0, "high", "low"))
    return table


def with_transformer(name):
    """GAMTL on a transformer's features."""
    return GAMTL(task="who", ridge=1.0, features=TRANSFORMERS[name]).fit(table_for(name), Y)
