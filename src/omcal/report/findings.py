"""Compute the contents of a report, without its layout: evidence, columns, a map."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.neighbors import NearestNeighbors

from omcal.machine.arrays import Array
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import indicate
from omcal.metrics import evaluate, overlaps
from omcal.model.certainty import margins, typicality
from omcal.model.explain import MANY_ANCHORS, explain_graphs
from omcal.model.feature_effects import ClusterDescription
from omcal.model.view_effects import ViewExplanation
from omcal.plots.clusters import class_table
from omcal.plots.figures import of_shape
from omcal.report.html import Html, mark
from omcal.report.layout import SampleMap, make_map
from omcal.views.like import PresentLike
from omcal.views.view import Views

if TYPE_CHECKING:
    from omcal.model.drift import Drift
    from omcal.select import ClusterTree

MISSING = 255  # code of missing numbers among the 256 shades
_MOST_INTEGERS = 12  # integers with at most this many distinct values are categories
_MOST_CATEGORIES = 200  # the rarest are merged


Scale = dict[str, Any]  # for the script of the page: how to display the values
_BLOCK = 8192
_LARGEST_CELL = 2000  # most samples to compare with one another
MAP_SAMPLES = 100_000
RESAMPLES = 5
LEAST_OF_A_CLUSTER = 10  # least number on the map, unless the cluster is smaller
EXAMPLES = 5
BETWEEN = 0.1  # a sample with at most this certainty lies between two clusters


def read_columns(columns: Mapping[str, Any], n: int) -> list[tuple[Scale, Array]]:
    """Check the columns of a user and convert them to shades and codes, as bytes."""
    found = []
    for k, (name, values) in enumerate(columns.items()):
        array = one_per_sample(f"columns[{name!r}]", values, n)
        continuous = array.dtype.kind == "f" or (
            array.dtype.kind in "iu" and len(np.unique(array)) > _MOST_INTEGERS
        )
        scale, codes = _shades(array) if continuous else _codes(array)
        found.append(({"title": str(name), "array": f"column{k}"} | scale, codes))
    return found


def one_per_sample(what: str, values: Any, n: int) -> Array:
    """Return an array of n values; raise for any other shape."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{what} has shape {array.shape}; give one value for each of {n} samples.")
    return array


def _shades(array: Array) -> tuple[Scale, Array]:
    x = array.astype(np.float64)
    finite = np.isfinite(x)
    low, high = (float(x[finite].min()), float(x[finite].max())) if finite.any() else (0.0, 1.0)
    scale = {"low": low, "high": high, "plain": True}
    return scale, to_shades(np.where(finite, x, np.nan), low, high)


def to_shades(x: Array, low: float, high: float) -> NDArray[np.uint8]:
    """Return shades, 0 to 254 between low and high; 255 for missing values."""
    # Halved first, because the range of very large numbers overflows.
    part = (x / 2 - low / 2) / max(high / 2 - low / 2, 1e-300)
    shades = np.floor(np.clip(np.nan_to_num(part), 0, 1) * (MISSING - 1) + 0.5)
    return np.where(np.isnan(x), MISSING, shades).astype(np.uint8)


def _codes(array: Array) -> tuple[Scale, Array]:
    texts = np.array([str(value) for value in array.tolist()])
    names, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    categories = names.tolist()
    if len(names) > _MOST_CATEGORIES:
        kept = np.sort(np.argsort(-counts, kind="stable")[: _MOST_CATEGORIES - 1])
        place = np.full(len(names), _MOST_CATEGORIES - 1)
        place[kept] = np.arange(len(kept))
        codes, categories = place[codes], [*names[kept].tolist(), "other"]
    return {"names": categories}, codes.astype(np.uint8)


@dataclass(frozen=True)
class Evidence:
    """Certainty of the cluster of each sample, and the part of each view; NaN if it is absent."""

    # (n,): tie to the sample's cluster less that to the next, as a share of all ties; for joined
    # runs the share of runs that put the sample into its cluster.
    certainty: Array
    second: Array  # (n,): the next cluster
    strength: Array  # (n,): tie to the sample's cluster
    score: Array  # (n,): how typical it is of any cluster, as `score_samples` returns it
    # (n, V): share of each view in the difference between the two clusters; negative if the view
    # prefers the next cluster.
    decision: Array
    agreement: Array  # (n, V): certainty by this view alone; negative if it prefers another
    # Share of the samples whose label is that of `predict`; None for joined runs.
    same_rule: float | None


def find_evidence(model: Any, graphs: AnchorGraphs, labels: Array) -> Evidence:
    """Compute the evidence of every sample, by blocks of rows."""
    n, V = graphs.n, graphs.n_views
    certainty, strength, score = np.zeros((3, n))
    second = np.zeros(n, dtype=np.intp)
    decision, agreement = np.zeros((2, n, V), dtype=np.float32)
    alpha, P = model._rule.consensus.alpha, model._rule.consensus.f_step()[0]
    joined = hasattr(model, "runs_")
    order = np.arange(P.shape[1])
    if joined:  # for each cluster of the joint result the matching column of F of the run
        counts = overlaps(labels, model.joined_by.estimator_.labels_, len(order), len(order))
        order = linear_sum_assignment(counts, maximize=True)[1]
    P, same = P[:, order], 0
    for block in row_blocks(n, _BLOCK):
        U, predicted = indicate(model._rule.consensus, graphs[block])
        U, block_labels = U[:, order], labels[block]
        same += int((predicted == block_labels).sum())
        margin, second[block], strength[block] = margins(U, block_labels)
        score[block] = typicality(np.maximum(U, 0))
        certainty[block] = np.clip(margin, 0, 1)
        for v in range(V):
            ties = graphs[block].of_views([v]).side_by_side() @ P
            at = np.arange(len(block_labels))
            decision[block, v] = alpha[v] * (ties[at, block_labels] - ties[at, second[block]])
            agreement[block, v] = margins(ties, block_labels)[0]
    total = np.abs(decision).sum(axis=1, keepdims=True)
    decision = np.divide(decision, total, out=np.zeros_like(decision), where=total > 0)
    if graphs.present is not None:
        decision[~graphs.present] = agreement[~graphs.present] = np.nan
    rule = None if joined else same / n
    if joined:
        certainty = model.certainty_
    return Evidence(certainty, second, strength, score, decision, agreement, rule)


def nearest_samples(f: Findings, count: int) -> NDArray[np.uint32]:
    """Return the nearest samples in each view, as positions on the map, (rows, V, count).

    Samples are compared with those that have the same nearest anchor in the view: by the scaled
    features, or without data by their ties to the anchors. The number of rows marks missing
    entries: too few samples, or a sample that is absent.
    """
    graphs, rows, rng = f.graphs, f.map_rows, np.random.RandomState(f.random_state)
    found = np.full((len(rows), graphs.n_views, count), len(rows), dtype=np.uint32)
    for v in range(graphs.n_views):
        cell_of = graphs.indices[rows, v, 0]
        if graphs.present is not None:
            cell_of = np.where(graphs.present[rows, v], cell_of, graphs.n_anchors)
        view = None if f.data is None or f.data[v].stored else f.data[v]
        for cell in np.unique(cell_of[cell_of < graphs.n_anchors]):
            members = rng.permutation(np.flatnonzero(cell_of == cell))
            for part in np.array_split(members, -(-len(members) // _LARGEST_CELL)):
                k = min(count, len(part) - 1)
                if k < 1:
                    continue
                values = (
                    graphs[rows[part]].of_views([v]).side_by_side()
                    if view is None
                    else f.model._rule.learned.scalings[v].apply(view.rows(rows[part]))
                )
                near = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(values)
                found[part, v, :k] = part[near.kneighbors(return_distance=False)]
    return found


class ReportOptions(TypedDict, total=False):
    """The options of `write_report`, whose docstring describes them."""

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
    """The contents of a report on a fitted model and the graphs of its data."""

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
        self.data, self.description = data, description  # if X is given
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
        # Classes, clusters and counts from `class_table`, and all scores.
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
        """Return the most certain samples of each cluster; ties are broken by the strength."""
        return self._first(
            np.lexsort((-self.evidence.strength, -np.round(self.evidence.certainty, 2)))
        )

    def doubtful(self) -> list[list[int]]:
        """Return the least certain samples of each cluster."""
        order = np.argsort(self.evidence.certainty, kind="stable")
        return self._first(order[self.evidence.certainty[order] < 1])

    def _first(self, order: Array) -> list[list[int]]:
        own = self.labels[order]
        return [order[own == c][:EXAMPLES].tolist() for c in range(len(self.sizes))]

    def cluster_title(self, cluster: int) -> str:
        """Return the number of a cluster, and its name if it has one."""
        names = self.model._cluster_names
        return f"cluster {cluster}" + ("" if names is None else f": {names[cluster]}")

    def cluster_label(self, cluster: int) -> Html:
        """Return the title of a cluster with its mark."""
        return Html(f"{mark(cluster)}{escape(self.cluster_title(cluster))}")

    def name(self, sample: int) -> str:
        """Return the name of a sample, or "sample" and its number."""
        return f"sample {sample}" if self.names is None else self.names[sample]


def _explanation(
    model: Any, graphs: AnchorGraphs, rng: np.random.RandomState
) -> ViewExplanation | None:
    """Explain the views; None for one view, or if fewer than two samples are in all views.

    With many anchors a fit takes long, so there is only one resample.
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
