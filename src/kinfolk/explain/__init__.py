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
    "TaskGains",
    "bridges",
    "communities",
    "contributions",
    "edge_confidence",
    "group_profile",
    "outliers",
    "roles",
    "shared_features",
    "task_gains",
]
