"""Numbers of clusters and parameters, chosen without labels."""

from omcal.select.number import ClusterNumber, n_clusters
from omcal.select.parameters import Trial, tune_without_labels

__all__ = ["ClusterNumber", "Trial", "n_clusters", "tune_without_labels"]
