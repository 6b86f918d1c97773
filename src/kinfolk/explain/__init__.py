"""What a fitted graph says, and how far it can be trusted."""

from kinfolk.explain.coefficients import (
    FeatureComparison,
    FeatureMark,
    GroupProfile,
    SharedFeatures,
    group_profile,
    shared_features,
)
from kinfolk.explain.confidence import EdgeConfidence, SureEdge, edge_confidence, sure_edges
from kinfolk.explain.contributions import Contribution, Contributions, contributions
from kinfolk.explain.gains import TaskGains, task_gains
from kinfolk.explain.groups import Community, communities, group_sentences, outliers
from kinfolk.explain.kin import Kinship, kinship
from kinfolk.explain.summary import Summary, account, coef_frame, get_feature_names_out, summary

__all__ = [
    "Community",
    "Contribution",
    "Contributions",
    "EdgeConfidence",
    "FeatureComparison",
    "FeatureMark",
    "GroupProfile",
    "Kinship",
    "SharedFeatures",
    "Summary",
    "SureEdge",
    "TaskGains",
    "account",
    "coef_frame",
    "communities",
    "contributions",
    "edge_confidence",
    "get_feature_names_out",
    "group_profile",
    "group_sentences",
    "kinship",
    "outliers",
    "shared_features",
    "summary",
    "sure_edges",
    "task_gains",
]
