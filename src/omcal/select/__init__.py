"""Numbers of clusters and parameters, chosen without labels."""

from omcal.select.number import n_clusters
from omcal.select.parameters import Trial, tune_without_labels
from omcal.select.suggestion import ClusterNumber
from omcal.select.tree import ClusterTree, cluster_tree

__all__ = [
    "ClusterNumber",
    "ClusterTree",
    "Trial",
    "cluster_tree",
    "n_clusters",
    "tune_without_labels",
]
