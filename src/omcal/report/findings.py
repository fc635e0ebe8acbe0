"""Compute everything that a report shows, and nothing of how it looks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from omcal.machine.arrays import Array
from omcal.method.graph import AnchorGraphs
from omcal.metrics import evaluate
from omcal.model.explain import MANY_ANCHORS, explain_graphs
from omcal.model.feature_effects import ClusterDescription
from omcal.model.view_effects import ViewExplanation
from omcal.plots.clusters import class_table
from omcal.plots.figures import of_shape
from omcal.report.columns import one_per_sample, read_columns
from omcal.report.evidence import Evidence, find_evidence
from omcal.report.html import Html, mark
from omcal.report.layout import SampleMap, make_map
from omcal.views.like import PresentLike
from omcal.views.view import Views

if TYPE_CHECKING:
    from omcal.model.drift import Drift
    from omcal.select import ClusterTree

MAP_SAMPLES = 100_000
RESAMPLES = 5
LEAST_OF_A_CLUSTER = 10  # on the map, however small the cluster is
EXAMPLES = 5
BETWEEN = 0.1  # certainty up to which a sample lies between two clusters


class ReportOptions(TypedDict, total=False):
    """The options of `write_report`, which describes them."""

    names: Collection[object] | None
    feature_names: Mapping[str, Collection[object]] | None
    columns: Mapping[str, ArrayLike] | None
    positions: ArrayLike | None
    title: str | None
    source: str
    seconds: float | None
    command: str | None
    present: PresentLike | None
    tree: ClusterTree | None
    drift: Drift | None
    random_state: int


class Findings:
    """Everything that a report shows of a fitted model and the graphs of its data."""

    def __init__(
        self,
        model: Any,
        graphs: AnchorGraphs,
        y: Any = None,
        *,
        data: Views | None = None,
        description: ClusterDescription | None = None,
        **options: Unpack[ReportOptions],
    ) -> None:
        n, c = graphs.n, model.n_clusters_
        labels = np.asarray(model.labels_)
        self.model, self.graphs, self.labels = model, graphs, labels
        self.data, self.description = data, description  # where X is at hand
        self.title = options.get("title") or f"{n:,} samples in {c} clusters"
        self.source = options.get("source", "")
        self.seconds, self.command = options.get("seconds"), options.get("command")
        self.random_state = options.get("random_state", 0)
        classes = None if y is None else one_per_sample("y", y, n)
        names = options.get("names")
        self.classes = None if classes is None else [str(name) for name in classes]
        self.names = None if names is None else list(map(str, one_per_sample("names", names, n)))
        self.columns = read_columns(options.get("columns") or {}, n)
        positions: Any = options.get("positions")
        if positions is not None:
            positions = of_shape("positions", positions, (n, 2), "two coordinates per sample")
            if not np.isfinite(positions).all():
                raise ValueError("positions holds NaN or infinity; give finite coordinates.")
        # Classes, clusters and counts, as `class_table` returns them, and all scores.
        self.class_table = None if classes is None else class_table(classes, labels, c)
        self.scores = {} if classes is None else evaluate(classes, labels)
        self.view_names: list[str] = list(model.view_names_)
        self.weights: list[float] = model.view_weights_.tolist()
        self.sizes = np.bincount(labels, minlength=c)
        self.evidence: Evidence = find_evidence(model, graphs, labels)
        rng = np.random.RandomState(self.random_state)
        self.map_rows = _spread_sample(labels, MAP_SAMPLES, rng)
        self.map: SampleMap = make_map(
            model, graphs, data, self.map_rows, np.random.RandomState(self.random_state), positions
        )
        self.explanation: ViewExplanation | None = _explanation(model, graphs, rng)
        self.parameters: dict[str, Any] = model.get_params() | {"n_anchors": len(model.basis_)}

    def typical(self) -> list[list[int]]:
        """Return the surest samples of each cluster, and of equally sure ones the most tied."""
        return self._first(
            np.lexsort((-self.evidence.strength, -np.round(self.evidence.certainty, 2)))
        )

    def doubtful(self) -> list[list[int]]:
        """Return the least sure samples of each cluster."""
        order = np.argsort(self.evidence.certainty, kind="stable")
        return self._first(order[self.evidence.certainty[order] < 1])

    def _first(self, order: Array) -> list[list[int]]:
        own = self.labels[order]
        return [order[own == c][:EXAMPLES].tolist() for c in range(len(self.sizes))]

    def cluster_title(self, cluster: int) -> str:
        """Return the number of a cluster, and its name if it was given one."""
        names = self.model._cluster_names
        return f"cluster {cluster}" + ("" if names is None else f": {names[cluster]}")

    def cluster_label(self, cluster: int) -> Html:
        """Return the title of a cluster with its mark."""
        return Html(f"{mark(cluster)}{escape(self.cluster_title(cluster))}")

    def name(self, sample: int) -> str:
        """Return the name of a sample, or its number in words."""
        return f"sample {sample}" if self.names is None else self.names[sample]


def _explanation(
    model: Any, graphs: AnchorGraphs, rng: np.random.RandomState
) -> ViewExplanation | None:
    """Explain the views; None for one view, or where no two samples are in all views.

    With many anchors there are many clusters, and a fit takes long: one resample does.
    """
    complete = graphs.n if graphs.present is None else int(graphs.present.all(axis=1).sum())
    if graphs.n_views < 2 or complete < 2:
        return None
    resamples = 1 if graphs.n_anchors > MANY_ANCHORS else RESAMPLES
    return explain_graphs(model, graphs, resamples, None, rng, resample_without=False)


def _spread_sample(labels: Array, count: int, rng: np.random.RandomState) -> Array:
    """Return up to about `count` random samples, with at least ten of every cluster."""
    n = len(labels)
    if n <= count:
        return np.arange(n)
    order = rng.permutation(n)
    own = [order[labels[order] == c][:LEAST_OF_A_CLUSTER] for c in np.unique(labels)]
    return np.unique(np.concatenate([order[:count], *own]))
