"""Figures of fits and studies, each drawn into Matplotlib Axes that it returns."""

from omcal.plots.clusters import (
    certainty,
    cluster_features,
    cluster_sizes,
    confusion,
    number_of_clusters,
    sample_map,
    settings,
    view_effects,
)
from omcal.plots.figures import (
    convergence,
    over_anchors,
    overview,
    parameter_grid,
    sample_similarity,
    scores_by_method,
    similarity,
    view_weights,
)

__all__ = [
    "certainty",
    "cluster_features",
    "cluster_sizes",
    "confusion",
    "convergence",
    "number_of_clusters",
    "over_anchors",
    "overview",
    "parameter_grid",
    "sample_map",
    "sample_similarity",
    "scores_by_method",
    "settings",
    "similarity",
    "view_effects",
    "view_weights",
]
