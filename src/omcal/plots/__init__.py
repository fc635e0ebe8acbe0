"""Figures of fits and studies, each drawn into Matplotlib Axes that it returns."""

from omcal.plots.clusters import (
    certainty,
    cluster_features,
    cluster_sizes,
    confusion,
    sample_map,
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
from omcal.plots.studies import number_of_clusters, settings, view_effects

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
