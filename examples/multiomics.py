"""Cluster cells that were measured twice: counts of RNA, sparse, and amounts of protein, dense.

The data are made here, in the likeness of a blood sample: six cell types, of which two differ in
their surface proteins alone and two others in their RNA alone. The picture shows the cells as each
measurement sees them, in the colours of their clusters, and which clusters the types went to.
"""

import sys

import matplotlib as mpl
import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD

from omcal import OCAL, OMCAL
from omcal.metrics import evaluate

mpl.use("Agg")
import matplotlib.pyplot as plt

TYPES = ["CD4 T", "CD8 T", "NK", "B naive", "B memory", "monocyte"]
N_CELLS, N_GENES, N_PROTEINS = 2400, 1500, 20


def measure_rna(types, rng):
    """Counts of transcripts: many zeros, and another depth in every cell."""
    profile = rng.gamma(0.3, 1.0, size=N_GENES)
    programs = np.tile(profile, (len(TYPES), 1))
    for t in range(len(TYPES)):
        marked = rng.choice(N_GENES, size=60, replace=False)
        programs[t, marked] += rng.gamma(2.0, 2.0, size=60)
    programs[1] = programs[0]  # both kinds of T cell read the same genes
    programs /= programs.sum(axis=1, keepdims=True)
    depth = rng.lognormal(np.log(1200), 0.35, size=len(types))
    return sparse.csr_array(rng.poisson(programs[types] * depth[:, None]))


def measure_protein(types, rng):
    """Amounts of surface proteins, in counts of antibodies with a background."""
    levels = rng.normal(3.0, 0.4, size=(len(TYPES), N_PROTEINS))
    for t in range(len(TYPES)):
        levels[t, rng.choice(N_PROTEINS, size=4, replace=False)] += 1.6
    levels[4] = levels[3]  # both kinds of B cell carry the same proteins
    return rng.poisson(np.exp(levels[types] + rng.normal(0, 0.35, size=(len(types), N_PROTEINS))))


def normalise_rna(counts):
    """The same total for every cell, then logarithms; zeros stay zeros."""
    total = np.asarray(counts.sum(axis=1)).ravel()
    scaled = sparse.diags_array(np.median(total) / total) @ counts
    return scaled.log1p().tocsr()


def normalise_protein(counts):
    """Logarithms relative to the mean of the cell (centred log-ratio)."""
    logs = np.log1p(counts)
    return logs - logs.mean(axis=1, keepdims=True)


def draw(views, labels, types, weights, path):
    """The cells in two dimensions of each view, and types against clusters."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for ax, (name, view), weight in zip(axes, views.items(), weights, strict=False):
        flat = TruncatedSVD(3, random_state=0).fit_transform(view)
        # The first direction of uncentred data is their mean, which tells little.
        # In an order by chance, so that no cluster covers another.
        shuffled = np.random.default_rng(0).permutation(len(flat))
        colours = plt.get_cmap("tab10")(labels[shuffled])
        ax.scatter(*flat[shuffled, 1:].T, c=colours, s=7, linewidths=0)
        ax.set(title=f"the cells by their {name} (weight {weight:.2f})", xticks=[], yticks=[])
    table = np.zeros((len(TYPES), labels.max() + 1), dtype=int)
    np.add.at(table, (types, labels), 1)
    # Clusters in the order of the types that they hold most of.
    order = np.argsort(table.argmax(axis=0), kind="stable")
    table = table[:, order]
    axes[2].imshow(table / table.sum(axis=1, keepdims=True), cmap="Blues", vmin=0, vmax=1)
    for (i, j), count in np.ndenumerate(table):
        if count:
            dark = count > 0.5 * table[i].sum()
            axes[2].text(j, i, count, ha="center", va="center", color="w" if dark else "k")
    axes[2].set(title="cells of each type in each cluster", xlabel="cluster")
    axes[2].set_yticks(range(len(TYPES)), TYPES)
    axes[2].set_xticks(range(len(order)), order)
    for number, cluster in zip(axes[2].get_xticklabels(), order, strict=True):
        number.set(color=plt.get_cmap("tab10")(cluster), fontweight="bold")
    figure.savefig(path, dpi=120)


def main(path="multiomics.png"):
    """Measure, normalise, cluster, compare, draw."""
    rng = np.random.default_rng(0)
    types = rng.choice(len(TYPES), size=N_CELLS, p=[0.3, 0.2, 0.1, 0.15, 0.1, 0.15])
    views = {
        "RNA": normalise_rna(measure_rna(types, rng)),
        "protein": normalise_protein(measure_protein(types, rng)),
    }
    # scale="view" lets 20 proteins count as much as 1500 genes.
    settings = {"scale": "view", "max_iter": 500, "random_state": 0}
    # Alone each view sees five types, and a warning says that a sixth cluster may stay empty.
    for name, view in views.items():
        alone = OCAL(len(TYPES), **settings).fit_predict(view)
        print(f"{name + ' alone':24s} accuracy {evaluate(types, alone)['accuracy']:.3f}")
    for weighting in ("adaptive", "agreement"):
        model = OMCAL(len(TYPES), weighting=weighting, **settings).fit(views)
        accuracy = evaluate(types, model.labels_)["accuracy"]
        listed = ", ".join(f"{weight:.2f}" for weight in model.view_weights_)
        print(f"{'both, ' + weighting + ' weights':24s} accuracy {accuracy:.3f} (weights {listed})")
    # The last: neither view can tell all types apart, so that both must keep their say.
    draw(views, model.labels_, types, model.view_weights_, path)
    print(f"picture: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
