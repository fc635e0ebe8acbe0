"""Ways to lay samples out for the map of a report: trustworthiness, torn clusters, time; Markdown.

    python benchmarks/layout.py FOLDER [--seeds 2] [--out benchmarks/results/layout.md]

Trustworthiness (scikit-learn's, 10 neighbours) is taken against the scaled views side by side, each
with the weight that the fit gave it. A cluster is torn where less than nine tenths of its samples
hang together on the map: in chains of samples of the cluster with gaps of at most 4 % of the width
of the map, or of 1.5 times that of n samples in a square grid where they are few. "Own" is the
share of the ten nearest samples on the map that are of the same cluster.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE, trustworthiness
from sklearn.neighbors import NearestNeighbors, radius_neighbors_graph

from omcal import OMCAL
from omcal.datasets import load_views
from omcal.model.subset_fits import before_and_after, fitted_views, graphs_of, mixed
from omcal.report.layout import sample_layout

warnings.simplefilter("ignore", UserWarning)  # doubts about results that are only drawn

FILES = (
    *("Coil", "Handwritten", "100leaves", "MSRCv1", "MNIST4", "Wiki", "BBC4view"),
    *("Dermatology", "Prokaryotic", "Movies"),
)
MOST = 2500  # samples, of which trustworthiness takes the square


def candidates():
    """Name -> what gives positions from the graph, the learned graph, F and the labels."""

    def tsne(rows, seed):
        perplexity = min(30, (len(rows) - 1) / 4)
        start = PCA(2, random_state=seed).fit_transform(rows)
        start = 1e-4 * start / start[:, 0].std()
        return TSNE(init=start, perplexity=perplexity, random_state=seed).fit_transform(rows)

    def own(rows, labels, seed, **options):
        return sample_layout(rows, labels, np.random.RandomState(seed), **options)

    def unit(rows):
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)

    def both(A, F):
        return np.hstack([unit(A), 0.5 * unit(F)])

    def alone(rows, labels, seed):
        # Each sample a cluster of its own: nothing but neighbours attracts.
        return own(rows, np.arange(len(labels)), seed, across=1.0)

    return {
        "principal plane of the learned graph": lambda A, Z, F, y, s: PCA(2).fit_transform(Z),
        "t-SNE of the graph": lambda A, Z, F, y, s: tsne(A, s),
        "t-SNE of the learned graph": lambda A, Z, F, y, s: tsne(Z, s),
        "t-SNE of F": lambda A, Z, F, y, s: tsne(unit(F), s),
        "t-SNE of graph and F": lambda A, Z, F, y, s: tsne(both(A, F), s),
        "forces, of the graph": lambda A, Z, F, y, s: alone(A, y, s),
        "forces, of the learned graph": lambda A, Z, F, y, s: alone(Z, y, s),
        "forces, of graph and F": lambda A, Z, F, y, s: alone(both(A, F), y, s),
        "forces, of graph and F, 2 mates, all neighbours alike": (
            lambda A, Z, F, y, s: own(both(A, F), y, s, mates=2, across=1.0)
        ),
        "forces, of graph and F, 2 mates, others .3": lambda A, Z, F, y, s: own(
            both(A, F), y, s, mates=2
        ),
        "forces, of graph and F, 4 mates, others .3 (taken)": lambda A, Z, F, y, s: own(
            both(A, F), y, s
        ),
        "forces, of graph and F, 4 mates, others 0": lambda A, Z, F, y, s: own(
            both(A, F), y, s, across=0.0
        ),
        "forces, of the graph, 4 mates, others .3": lambda A, Z, F, y, s: own(A, y, s),
    }


def torn_share(xy, labels) -> float:
    """Share of the clusters that do not hang together."""
    extent = float((np.quantile(xy, 0.998, axis=0) - np.quantile(xy, 0.002, axis=0)).max())
    reach = extent * max(0.04, 1.5 / np.sqrt(len(xy)))
    clusters, torn = np.unique(labels), 0
    for cluster in clusters:
        points = xy[labels == cluster]
        parts = connected_components(radius_neighbors_graph(points, reach), directed=False)[1]
        torn += np.bincount(parts).max() < 0.9 * len(points)
    return torn / len(clusters)


def own_share(xy, labels) -> float:
    near = NearestNeighbors(n_neighbors=min(10, len(xy) - 1)).fit(xy).kneighbors()[1]
    return float((labels[near] == labels[:, None]).mean())


def reference(model, X):
    """The scaled views side by side, each of size 1 times the root of its weight."""
    parts = []
    scalings = model._rule.learned.scalings
    for view, scaling, weight in zip(
        fitted_views(model, X), scalings, model.view_weights_, strict=True
    ):
        rows = scaling.apply(view.rows(np.arange(view.array.shape[0])))
        rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
        rows -= rows.mean(axis=0)
        parts.append(rows * np.sqrt(weight / max(float(np.square(rows).sum()), 1e-300)))
    return np.hstack(parts)


def measured(path: Path, seed: int, names):
    """For each of these candidates trustworthiness, torn share, own share and seconds."""
    data = load_views(path)
    rows = np.sort(np.random.RandomState(seed).permutation(data.n_samples)[:MOST])
    X = {name: view[rows] for name, view in data.views.items()}
    model = OMCAL(data.n_classes, random_state=seed).fit(X)
    graphs = graphs_of(model)
    A = mixed(graphs, model._rule.consensus.alpha)
    Z, F = before_and_after(model._rule.consensus, graphs)[1], model.transform(X)
    true = reference(model, X)
    found = []
    for name in names:
        start = perf_counter()
        xy = candidates()[name](A, Z, F, model.labels_, seed)
        seconds = perf_counter() - start
        trust = trustworthiness(true, xy, n_neighbors=10)
        found.append((trust, torn_share(xy, model.labels_), own_share(xy, model.labels_), seconds))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="", help="candidates with this in their names")
    parser.add_argument("--files", nargs="*", default=FILES)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "layout.md")
    options = parser.parse_args()
    names = [name for name in candidates() if options.only in name]
    every = []
    for file in options.files:
        found = np.mean(
            [
                measured(options.folder / f"{file}.mat", seed, names)
                for seed in range(options.seeds)
            ],
            axis=0,
        )
        every.append(found)
        print(file, flush=True)
        for name, (trust, torn, own, seconds) in zip(names, found, strict=True):
            print(f"  {name:40} {trust:.3f} {torn:.3f} {own:.3f} {seconds:.1f}", flush=True)
    means = np.mean(every, axis=0)
    lines = [
        f"Means over {', '.join(options.files)} (at most {MOST} samples each), number of seeds: "
        f"{options.seeds}. Of the seconds only ratios mean something.",
        "",
        "| layout | trustworthiness | torn clusters | own cluster near | seconds |",
        "|---|---|---|---|---|",
    ]
    for name, (trust, torn, own, seconds) in zip(names, means, strict=True):
        lines.append(f"| {name} | {trust:.3f} | {torn:.1%} | {own:.1%} | {seconds:.1f} |")
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
