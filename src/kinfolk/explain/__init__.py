"""What a fitted graph says, and how far it can be trusted."""

from kinfolk.explain.coefficients import (
    FeatureComparison,
    FeatureMark,
    GroupProfile,
    SharedFeatures,
    group_profile,
    shared_features,
)
from kinfolk.explain.confidence import EdgeConfidence, edge_confidence
from kinfolk.explain.contributions import Contribution, Contributions, contributions
from kinfolk.explain.gains import TaskGains, task_gains
from kinfolk.explain.roles import Bridge, Role, bridges, communities, outliers, roles
from kinfolk.explain.summary import Summary, account, coef_frame, get_feature_names_out, summary

__all__ = [
    "Bridge",
    "Contribution",
    "Contributions",
    "EdgeConfidence",
    "FeatureComparison",
    "FeatureMark",
    "GroupProfile",
    "Role",
    "SharedFeatures",
    "Summary",
    "TaskGains",
    "account",
    "bridges",
    "coef_frame",
    "communities",
    "contributions",
    "edge_confidence",
    "get_feature_names_out",
    "group_profile",
    "outliers",
    "roles",
    "shared_features",
    "summary",
    "task_gains",
]
