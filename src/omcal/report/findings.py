"""What a report tells: everything that is computed, and nothing of how it looks."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import indicate
from omcal.metrics import evaluate
from omcal.model.explain import explain_graphs, sampled_graphs
from omcal.model.small_fits import before_and_after
from omcal.model.view_effects import ViewExplanation
from omcal.report.layout import lay_out

MAP_SAMPLES = 4000
STRUCTURE_SAMPLES = 240
EXPLAINED_SAMPLES = 4000
RESAMPLES = 5
LEAST_OF_A_CLUSTER = 10  # on the map, however small the cluster is
EXAMPLES = 5
_BLOCK = 8192


@dataclass(frozen=True)
class ViewFacts:
    """A view as it went in, and its weight."""

    name: str
    n_features: int
    n_samples: int
    weight: float


@dataclass(frozen=True)
class Doubtful:
    """A sample between two clusters."""

    sample: int
    certainty: float
    other: int


@dataclass(frozen=True)
class ClassTable:
    """Clusters against known classes: counts (n_clusters, n_classes), and the scores."""

    names: list[str]
    counts: NDArray
    scores: dict[str, float]


@dataclass(frozen=True)
class Structure:
    """Similarity of some samples before and after learning, 0 to 255, and where groups begin."""

    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    boundaries: list[int]
    sorted_by: str


@dataclass(frozen=True)
class Findings:
    """All that a report shows."""

    title: str
    source: str
    views: list[ViewFacts]
    labels: NDArray
    certainty: NDArray  # of each sample in its cluster, 0 to 1
    names: list[str] | None  # of the samples, where they have other than their numbers
    classes: list[str] | None  # of each sample
    sizes: NDArray
    map_rows: NDArray
    map_positions: NDArray
    structure: Structure
    class_table: ClassTable | None
    explanation: ViewExplanation | None  # where views can be compared
    typical: list[list[int]]
    doubtful: list[list[Doubtful]]
    same_rule: float  # share of samples that `predict` would put into the same cluster
    model: Any
    parameters: dict[str, Any]
    versions: dict[str, str]
    seconds: float | None
    command: str | None

    def name(self, sample: int) -> str:
        return f"sample {sample}" if self.names is None else self.names[sample]


def find(
    model: Any,
    graphs: AnchorGraphs,
    y: Any = None,
    *,
    names: Sequence[Any] | None = None,
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
    rng = np.random.RandomState(random_state)
    n_clusters = model.n_clusters
    sizes = np.bincount(labels, minlength=n_clusters)
    certainty, second, strength, same = _certainty(model, graphs, labels)
    rows = _spread_sample(labels, MAP_SAMPLES, rng)
    positions = lay_out(model, graphs[rows], labels[rows], rng)
    return Findings(
        title=title or f"{n:,} samples in {n_clusters} clusters",
        source=source,
        views=_view_facts(model, graphs),
        labels=labels,
        certainty=certainty,
        names=None if listed is None else [str(name) for name in listed],
        classes=None if classes is None else [str(name) for name in classes],
        sizes=sizes,
        map_rows=rows,
        map_positions=positions,
        structure=_structure(model, graphs, labels, classes, rng),
        class_table=None if classes is None else _class_table(classes, labels, n_clusters),
        explanation=_explanation(model, graphs, rng),
        typical=_typical(labels, certainty, strength, n_clusters),
        doubtful=_doubtful(labels, certainty, second, n_clusters),
        same_rule=same,
        model=model,
        parameters=model.get_params() | {"n_anchors": len(model.basis_)},
        versions=_versions(),
        seconds=seconds,
        command=command,
    )


def _one_per_sample(what: str, values: Any, n: int) -> NDArray | None:
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{what} has shape {array.shape}; give one value for each of {n} samples.")
    return array


def _view_facts(model: Any, graphs: AnchorGraphs) -> list[ViewFacts]:
    V = graphs.n_views
    counts = [graphs.n] * V if graphs.present is None else graphs.present.sum(axis=0).tolist()
    weights = model.view_weights_.tolist()
    facts = zip(model.view_names_, model.n_features_per_view_, counts, weights, strict=True)
    return [ViewFacts(*view) for view in facts]


def _explanation(
    model: Any, graphs: AnchorGraphs, rng: np.random.RandomState
) -> ViewExplanation | None:
    """What each view contributes; None for one view, or where no two samples are in all views."""
    complete = graphs.n if graphs.present is None else int(graphs.present.all(axis=1).sum())
    if graphs.n_views < 2 or complete < 2:
        return None
    sample = sampled_graphs(graphs, EXPLAINED_SAMPLES, rng)
    return explain_graphs(model, sample, RESAMPLES, rng)


def _certainty(
    model: Any, graphs: AnchorGraphs, labels: NDArray
) -> tuple[NDArray, NDArray, NDArray, float]:
    """Of each sample how sure its cluster is, the next best one, and the strength of its tie.

    The last value is the share of samples that the rule for new ones leaves where they are.
    """
    n = graphs.n
    certainty, strength = np.zeros(n), np.zeros(n)
    second = np.zeros(n, dtype=np.intp)
    same = 0
    for block in row_blocks(n, _BLOCK):
        U, predicted = indicate(model._rule.consensus, graphs[block])
        F = np.maximum(U, 0)
        own, at = labels[block], np.arange(len(F))
        same += int((predicted == own).sum())
        mine, total = F[at, own].copy(), F.sum(axis=1)
        F[at, own] = -1.0
        second[block] = F.argmax(axis=1)
        rival = np.maximum(F[at, second[block]], 0)
        certainty[block] = np.divide(mine - rival, total, out=np.zeros(len(own)), where=total > 0)
        strength[block] = mine
    return np.clip(certainty, 0, 1), second, strength, same / n


def _spread_sample(labels: NDArray, count: int, rng: np.random.RandomState) -> NDArray:
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


def _structure(
    model: Any,
    graphs: AnchorGraphs,
    labels: NDArray,
    classes: NDArray | None,
    rng: np.random.RandomState,
) -> Structure:
    some = rng.permutation(graphs.n)[:STRUCTURE_SAMPLES]
    groups = labels if classes is None else np.unique(classes, return_inverse=True)[1]
    some = some[np.lexsort((labels[some], groups[some]))]
    before, after = before_and_after(model._rule.consensus, graphs[some])
    return Structure(
        _shades(before),
        _shades(after),
        (np.flatnonzero(np.diff(groups[some])) + 1).tolist(),
        "cluster" if classes is None else "class",
    )


def _shades(graph: NDArray) -> NDArray[np.uint8]:
    """B = S D⁻¹ Sᵀ, 255 where it is largest; a few very similar pairs must not bleach the rest."""
    degree = np.abs(graph).sum(axis=0)
    inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    B = np.maximum((graph * inverse) @ graph.T, 0)
    top = float(np.quantile(B[B > 0], 0.98)) if (B > 0).any() else 1.0
    return np.round(255 * np.minimum(B / top, 1)).astype(np.uint8)


def _class_table(classes: NDArray, labels: NDArray, n_clusters: int) -> ClassTable:
    names, codes = np.unique(classes, return_inverse=True)
    counts = np.zeros((n_clusters, len(names)), dtype=np.int64)
    np.add.at(counts, (labels, codes), 1)
    return ClassTable([str(name) for name in names], counts, evaluate(classes, labels))


def _typical(
    labels: NDArray, certainty: NDArray, strength: NDArray, n_clusters: int
) -> list[list[int]]:
    """The samples of each cluster that are surest and, among those, most strongly tied to it."""
    order = np.lexsort((-strength, -np.round(certainty, 2)))
    return [order[labels[order] == c][:EXAMPLES].tolist() for c in range(n_clusters)]


def _doubtful(
    labels: NDArray, certainty: NDArray, second: NDArray, n_clusters: int
) -> list[list[Doubtful]]:
    order = np.argsort(certainty, kind="stable")
    return [
        [
            Doubtful(int(i), float(certainty[i]), int(second[i]))
            for i in order[labels[order] == c][:EXAMPLES]
        ]
        for c in range(n_clusters)
    ]


def _versions() -> dict[str, str]:
    libraries = ("omcal", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version(), **{name: version(name) for name in libraries}}
