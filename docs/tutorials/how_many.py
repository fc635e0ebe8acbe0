"""
How many clusters?
==================

Hardly anyone knows the number of clusters beforehand. This page asks for a suggestion, looks at how
far to trust it, and then draws a tree that shows how the clusters split as their number grows. It
ends with the labels of a level that was picked by eye.
"""

# %%
# Cells of two kinds of measurement
# ---------------------------------
# Synthetic data: three families of cells, of two, two and three types each. Families differ in many
# genes, types of the same family in few; a second view, of surface proteins, tells some types apart
# better than the genes do.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from omcal import OMCAL, Consensus
from omcal.metrics import ari
from omcal.select import cluster_tree, n_clusters

rng = np.random.default_rng(0)
family_of_type = np.array([0, 0, 1, 1, 2, 2, 2])
cell_type = rng.integers(7, size=1400)
family = family_of_type[cell_type]


def measured(kind, n_features, between_families, between_types):
    """Return a table of features with the given distances between families and between types."""
    centres = rng.normal(0, between_families, (3, n_features))[family]
    centres += rng.normal(0, between_types, (7, n_features))[cell_type]
    table = centres + rng.normal(size=centres.shape)
    return pd.DataFrame(table, columns=[f"{kind} {j}" for j in range(n_features)])


views = {"genes": measured("gene", 60, 2.5, 0.6), "proteins": measured("protein", 15, 1.5, 1.0)}

# %%
# "auto"
# ------
# Without a number, a fit takes the one that the data suggest. ``selection_`` has the numbers that
# were tried, with the best first.

model = Consensus(OMCAL("auto"), n_runs=4, random_state=0).fit(views)
print(model.n_clusters_, "clusters")
model.selection_

# %%
# How far to trust it
# -------------------
# ``n_clusters`` computes the same suggestion without a fit. Modularity says whether neighbours
# share a cluster, and stability whether runs with other anchors agree. Runs agree by chance, too,
# most of all on few clusters: stability counts as far as it exceeds that of data without clusters.
# The ``confidence`` is the estimated probability that the number is right within one.

found = n_clusters(views)
print(found.sentence())
found.to_frame().round(2)

# %%
# As curves: a suggestion is firm where the score has one clear peak.

found.plot()
plt.show()

# %%
# A tree
# ------
# One number is one cut through the data. In the tree each row is a number of clusters, each bar a
# cluster, as wide as its share of the cells. Bands lead to the clusters of the next row. Here the
# three families split into their types; below seven clusters the bars grow pale, since further cuts
# are arbitrary and runs differ on them.

tree = cluster_tree(views, [2, 3, 5, 7, 9, 12])
tree

# %%
# The same in figures. A good level is stable, and few samples jump to another branch below it.

print(tree)

# %%
# Labels of the level of choice
# -----------------------------
# Both the families and the types are in the tree; which of them is wanted is not in the data. A
# cluster keeps its number along its branch.

families, types = tree.labels(3), tree.labels(7)
print(f"families: ARI {ari(family, families):.2f}, types: ARI {ari(cell_type, types):.2f}")
pd.crosstab(families, types, rownames=["of 3"], colnames=["of 7"])

# %%
# The features that set a cluster apart, and their means in standard deviations:

level = tree.numbers.index(3)
pd.DataFrame(tree.features[level][0])

# %%
# The page
# --------
# ``write`` makes a page for colleagues: with the tree, the features of each cluster, and the labels
# of each level to download. On the command line: ``omcal tree cells.npz --out tree.html``.

page = tree.write(Path(tempfile.mkdtemp()) / "tree.html", title="Synthetic cells")
print(page.name, f"{page.stat().st_size / 1000:.0f} kB")
