"""What a report tells: everything that is computed, and nothing of how it looks."""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from html import escape
from importlib.metadata import version
from inspect import signature
from typing import Any

import numpy as np

from omcal.machine.arrays import Array
from omcal.method.graph import AnchorGraphs
from omcal.method.kinds import ASKED
from omcal.method.settings import GraphSettings
from omcal.method.starts import spectral_basis
from omcal.metrics import evaluate
from omcal.model.certainty import margins
from omcal.model.explain import MANY_ANCHORS, explain_graphs
from omcal.model.feature_effects import ClusterDescription
from omcal.model.structure import few_directions, gaussian_like
from omcal.model.subset_fits import refit, view_products
from omcal.model.view_effects import ViewExplanation
from omcal.places.data_scan import complete_sample
from omcal.places.memory import MemoryRows, learn_in_memory
from omcal.plots.clusters import class_counts, diagonal_order
from omcal.report.columns import Column, read_columns
from omcal.report.evidence import Evidence, find_evidence
from omcal.report.html import Html, mark
from omcal.report.layout import SampleMap, make_map
from omcal.views.view import View, Views

MAP_SAMPLES = 100_000
RESAMPLES = 5
LEAST_OF_A_CLUSTER = 10  # on the map, however small the cluster is
EXAMPLES = 5
LEAST_TYPICAL = 12
BETWEEN = 0.1  # certainty up to which a sample lies between two clusters
_NULL_SAMPLES = 500


@dataclass(frozen=True)
class ViewFacts:
    """A view as it went in, and its weight."""

    name: str
    n_features: int
    n_samples: int
    weight: float
    scaling: str  # how its values were scaled, in words


@dataclass(frozen=True)
class Doubtful:
    """A sample between two clusters."""

    sample: int
    certainty: float
    other: int


@dataclass(frozen=True)
class ClassTable:
    """Clusters against known classes.

    The rows of `counts` are the clusters of `order`, so that those of the best pairing of clusters
    and classes are on the diagonal; the columns are the classes of `names`.
    """

    names: list[str]
    order: list[int]
    counts: Array
    scores: dict[str, float]


@dataclass(frozen=True)
class Findings:
    """All that a report shows."""

    title: str
    source: str
    views: list[ViewFacts]
    labels: Array
    certainty: Array  # of each sample in its cluster, 0 to 1
    certainty_words: str  # what certainty is, in a sentence
    evidence: Evidence
    names: list[str] | None  # of the samples, where they have other than their numbers
    classes: list[str] | None  # of each sample
    columns: list[Column]
    sizes: Array
    map_rows: Array
    map: SampleMap
    null_sure: float | None  # share of clearly assigned samples in data without clusters
    class_table: ClassTable | None
    explanation: ViewExplanation | None  # where views can be compared
    description: ClusterDescription | None  # where the data are at hand
    typical: list[list[int]]
    least_typical: list[int]  # samples, the least typical first
    doubtful: list[list[Doubtful]]
    model: Any
    graphs: AnchorGraphs
    data: Views | None
    parameters: dict[str, Any]
    versions: dict[str, str]
    seconds: float | None
    command: str | None
    random_state: int

    def cluster_title(self, cluster: int) -> str:
        """Return the number of a cluster, and its name if it was given one."""
        names = getattr(self.model, "_cluster_names", None)
        return f"cluster {cluster}" + ("" if names is None else f": {names[cluster]}")

    def cluster_label(self, cluster: int) -> Html:
        """Return the title of a cluster with its mark."""
        return Html(f"{mark(cluster)}{escape(self.cluster_title(cluster))}")

    def name(self, sample: int) -> str:
        return f"sample {sample}" if self.names is None else self.names[sample]


def find(
    model: Any,
    graphs: AnchorGraphs,
    y: Any = None,
    *,
    data: Views | None = None,
    description: ClusterDescription | None = None,
    names: Collection[object] | None = None,
    columns: Mapping[str, Any] | None = None,
    positions: Any = None,
    title: str | None = None,
    source: str = "",
    seconds: float | None = None,
    command: str | None = None,
    random_state: int = 0,
) -> Findings:
    """Look at a fitted model and the graphs of its data; see `write_report` for the parameters."""
    n = graphs.n
    labels = np.asarray(model.labels_)
    if len(labels) != n:
        raise ValueError(
            f"X has {n} samples and the model was fitted to {len(labels)}; pass the X of fit."
        )
    classes = _one_per_sample("y", y, n)
    listed = _one_per_sample("names", names, n)
    others = read_columns(columns or {}, n)
    rng = np.random.RandomState(random_state)
    n_clusters = model.n_clusters_
    evidence = find_evidence(model, graphs, labels)
    certainty, words = _certainty(model, evidence)
    rows = _spread_sample(labels, MAP_SAMPLES, rng)
    return Findings(
        title=title or f"{n:,} samples in {n_clusters} clusters",
        source=source,
        views=_view_facts(model, graphs),
        labels=labels,
        certainty=certainty,
        certainty_words=words,
        evidence=evidence,
        names=None if listed is None else [str(name) for name in listed],
        classes=None if classes is None else [str(name) for name in classes],
        columns=others,
        sizes=np.bincount(labels, minlength=n_clusters),
        map_rows=rows,
        map=make_map(
            *(model, graphs, data, rows),
            np.random.RandomState(random_state),
            check_positions(positions, n),
        ),
        null_sure=None if hasattr(model, "runs_") else sure_by_chance(model, data),
        class_table=None if classes is None else _class_table(classes, labels, n_clusters),
        explanation=_explanation(model, graphs, rng),
        description=description,
        typical=_typical(labels, certainty, evidence.strength, n_clusters),
        least_typical=np.argsort(evidence.score, kind="stable")[:LEAST_TYPICAL].tolist(),
        doubtful=_doubtful(labels, certainty, evidence.second, n_clusters),
        model=model,
        graphs=graphs,
        data=data,
        parameters=model.get_params() | {"n_anchors": len(model.basis_)},
        versions=_versions(),
        seconds=seconds,
        command=command,
        random_state=random_state,
    )


def _one_per_sample(what: str, values: Any, n: int) -> Array | None:
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{what} has shape {array.shape}; give one value for each of {n} samples.")
    return array


def check_positions(positions: Any, n: int) -> Array | None:
    """Return positions that a user has given as an array of shape (n, 2)."""
    if positions is None:
        return None
    array = np.asarray(positions, dtype=np.float64)
    if array.shape != (n, 2) or not np.isfinite(array).all():
        raise ValueError(
            f"positions has shape {array.shape}; give two finite coordinates for each of {n} "
            "samples."
        )
    return array


def sure_by_chance(model: Any, data: Views | None) -> float | None:
    """Return the share of samples with a clear cluster in a fit to data without clusters.

    The data are drawn from one Gaussian with the covariance of a sample of the scaled views. None
    where the views are not in memory, or the sample is too small for the model's anchors.
    """
    if data is None or data.stored or model.n_clusters_ < 2:
        return None
    m = len(model.basis_)
    rows = complete_sample(data.n, data.present, max(_NULL_SAMPLES, 2 * m))
    if len(rows) < max(2 * m, 50):
        return None
    scaled = [
        few_directions(scaling.apply(view.rows(rows)))
        for scaling, view in zip(model._rule.learned.scalings, data, strict=True)
    ]
    scaled = [X for X in scaled if X.shape[1]]
    if not scaled:
        return None
    (drawn,) = gaussian_like(np.hstack(scaled), np.random.default_rng(0))
    views = np.split(drawn, np.cumsum([X.shape[1] for X in scaled])[:-1], axis=1)
    settings = GraphSettings(model.n_clusters_, m, model.n_neighbors, None, "kmeans")
    null = Views([View(f"view{v}", X) for v, X in enumerate(views)])
    (learned,) = learn_in_memory(null, settings, [np.random.RandomState(0)])
    graphs = learned.graphs(null)
    AtA = MemoryRows(graphs, 1).gram().sum(axis=(0, 1))
    problem = model._problem(len(model.view_names_))
    problem = replace(problem, alpha=np.full(len(views), 1 / len(views)))
    start = spectral_basis(AtA, model.n_clusters_)
    fit = refit(graphs, start, problem, view_products(graphs))
    return float((margins(fit.F, fit.labels)[0] > BETWEEN).mean())


def _certainty(model: Any, evidence: Evidence) -> tuple[Array, str]:
    """How sure each sample is of its cluster: over several runs where there were any."""
    over_runs = getattr(model, "certainty_", None)
    if over_runs is not None:
        return np.asarray(over_runs), (
            f"Certainty is the share of the {len(model.runs_)} runs that put a sample into its "
            "cluster."
        )
    return evidence.certainty, (
        "Certainty is how much stronger the tie of a sample to its own cluster is than to the "
        "next, as a share of all its ties: 100% is sure, 0% a tie between two clusters."
    )


_SCALINGS = {
    "feature": "each feature to mean 0 and deviation 1",
    "standard": "each feature to mean 0 and deviation 1, the view to variance 1",
    "log": "logarithm of each feature, to mean 0 and deviation 1, the view to variance 1",
    "tfidf": "damped counts, rare features up, each sample to length 1",
    "unit": "each sample to length 1",
    "sample": "each sample to mean 0 and deviation 1",
    "view": "one factor for the whole view",
    None: "as given",
}


def _view_facts(model: Any, graphs: AnchorGraphs) -> list[ViewFacts]:
    V = graphs.n_views
    counts = [graphs.n] * V if graphs.present is None else graphs.present.sum(axis=0).tolist()
    scaling = [
        _SCALINGS.get(kind.name, str(kind.name))
        + ("" if kind.reason == ASKED.reason else f" ({kind.reason})")
        for kind in model.view_scales_
    ]
    facts = zip(
        model.view_names_,
        model.n_features_per_view_,
        counts,
        model.view_weights_.tolist(),
        scaling,
        strict=True,
    )
    return [ViewFacts(*view) for view in facts]


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
    """At most about `count` samples at random, with some of every cluster among them."""
    n = len(labels)
    if n <= count:
        return np.arange(n)
    order = rng.permutation(n)
    chosen = set(order[:count].tolist())
    for cluster in np.unique(labels):
        members = order[labels[order] == cluster]
        chosen.update(members[:LEAST_OF_A_CLUSTER].tolist())
    return np.array(sorted(chosen))


def _class_table(classes: Array, labels: Array, n_clusters: int) -> ClassTable:
    names, counts = class_counts(classes, labels, n_clusters)
    order = diagonal_order(counts)
    return ClassTable(
        [str(name) for name in names], order.tolist(), counts[order], evaluate(classes, labels)
    )


def _typical(labels: Array, certainty: Array, strength: Array, n_clusters: int) -> list[list[int]]:
    """The samples of each cluster that are surest and, among those, most strongly tied to it."""
    order = np.lexsort((-strength, -np.round(certainty, 2)))
    return [order[labels[order] == c][:EXAMPLES].tolist() for c in range(n_clusters)]


def _doubtful(
    labels: Array, certainty: Array, second: Array, n_clusters: int
) -> list[list[Doubtful]]:
    order = np.argsort(certainty, kind="stable")
    order = order[certainty[order] < 1]
    return [
        [
            Doubtful(int(i), float(certainty[i]), int(second[i]))
            for i in order[labels[order] == c][:EXAMPLES]
        ]
        for c in range(n_clusters)
    ]


def changed(model: Any) -> dict[str, Any]:
    """The parameters that are not the defaults, the number of clusters always."""
    given = model.get_params(deep=False)
    defaults = {k: p.default for k, p in signature(type(model).__init__).parameters.items()}
    found = {"n_clusters": given["n_clusters"]} if "n_clusters" in given else {}
    for name, value in given.items():
        default = defaults[name]
        if type(value) is not type(default) or value != default:
            found[name] = value
    return found


def _versions() -> dict[str, str]:
    from omcal import __version__  # known also where the package is not installed but found

    libraries = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), "omcal": __version__, **libraries}
