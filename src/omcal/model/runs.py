"""What the runs of a Consensus found, and how far they agree with what was made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omcal.machine.arrays import Array, Floats
from omcal.method.rows import Assignment
from omcal.method.solver import Solution


@dataclass(frozen=True)
class Run:
    """What one run gave.

    Attributes
    ----------
    labels : array of shape (n,)
        Cluster of each sample, as the run numbers them.
    solution : omcal.method.solver.Solution
        Where the solver ended.

    Examples
    --------
    >>> from omcal import OMCAL, Consensus
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(90, n_clusters=3, random_state=0)
    >>> runs = Consensus(OMCAL(3, n_anchors=12), n_runs=2, random_state=0).fit(data.views).runs_
    >>> runs[0].labels.shape, runs[0].view_weights.shape, runs[0].objective > 0
    ((90,), (3,), True)
    """

    labels: Array
    solution: Solution

    @property
    def view_weights(self) -> Floats:
        """Weights of the views."""
        return self.solution.alpha

    @property
    def objective(self) -> float:
        """The objective at the end."""
        return self.solution.history[-1]


def run_table(run: Array, labels: Array, n_clusters: int) -> Array:
    """Numbers of samples by their cluster in a run, and in the result."""
    few = np.min_scalar_type(n_clusters**2)  # bytes, which are sooner read
    cells = run.astype(few) * few.type(n_clusters) + labels.astype(few)
    return np.bincount(cells, minlength=n_clusters**2).reshape(n_clusters, n_clusters)


def certainty(runs: Sequence[Array], labels: Array, tables: Sequence[Array]) -> Floats:
    """For each sample the share of runs that agree with its label.

    A cluster of a run stands for the cluster of the result that most of its samples are in.

    Examples
    --------
    >>> runs, labels = [np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0])], np.array([0, 0, 1, 1])
    >>> certainty(runs, labels, [run_table(run, labels, 2) for run in runs]).tolist()
    [1.0, 1.0, 0.5, 1.0]
    """
    agreed = np.zeros(len(labels), dtype=np.min_scalar_type(len(runs)))
    labels = labels.astype(runs[0].dtype, copy=False)  # few bytes are compared sooner
    for run, counts in zip(runs, tables, strict=True):
        agreed += counts.argmax(axis=1).astype(labels.dtype).take(run) == labels
    return agreed / len(runs)


def small(assignment: Assignment, n_clusters: int) -> Assignment:
    """What a run found, in as few bytes as hold it; what is on a device stays there as it is."""
    if hasattr(assignment.labels, "cpu"):
        return assignment
    labels, second, share = (
        np.asarray(on_host(part))
        for part in (assignment.labels, assignment.second, assignment.share)
    )
    dtype = np.min_scalar_type(max(n_clusters - 1, 1))
    return Assignment(labels.astype(dtype), 0, second.astype(dtype), share)


def on_host(part: Any) -> Any:
    """An array from a device, or from a cluster, in the memory of this process."""
    if hasattr(part, "cpu"):
        return part.cpu().numpy()
    return part.compute() if hasattr(part, "compute") else part
