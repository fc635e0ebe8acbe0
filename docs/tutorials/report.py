"""
Reading the report
==================

``model.report("report.html")`` writes one file that opens in any browser and needs no network: the
result of a clustering, and reasons to doubt it. This page makes one, explains its parts, and lists
the checks to make before you believe a cluster.
"""

# %%
# A fit with a view of noise
# --------------------------
# Four views of handwritten digits, and a fifth that is noise, like measurements of a broken sensor.
# The known classes are passed to the report as well (``y``, optional), which compares the clusters
# with them.

import base64
import tempfile
import warnings

import matplotlib.pyplot as plt
import numpy as np

from omcal import OMCAL, plots
from omcal.datasets import load_digits_views
from omcal.metrics import clustering_accuracy
from omcal.report import model_layout

digits = load_digits_views()
some = slice(0, 600)
views = {name: view[some] for name, view in digits.views.items()}
views["broken"] = np.random.default_rng(0).normal(size=(600, 20))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = OMCAL(n_clusters=10, random_state=0).fit(views)
for warning in caught:
    print(warning.message)
path = model.report(
    tempfile.mkdtemp() + "/report.html",
    views,
    digits.labels[some],
    names=[f"digit {i}" for i in range(600)],
    title="Digits with a broken sensor",
)
print(path.name, f"{path.stat().st_size / 1e6:.2f} MB")

# %%
# This is the complete report in a frame. Move the map, click on a cluster, choose a colour.


class Framed:
    """The report within this page."""

    def _repr_html_(self):
        page = base64.b64encode(path.read_bytes()).decode()
        style = "width: 100%; height: 640px; border: 1px solid #ccc"
        return (
            f'<iframe src="data:text/html;base64,{page}" title="report" style="{style}"></iframe>'
        )


Framed()

# %%
# Reasons to trust and to doubt
# -----------------------------
# The page begins with sentences, not with pictures. *What to doubt* lists the warnings of ``fit``,
# which are in ``model.doubts_``: an empty cluster, a cluster of nearly all samples, a fit
# that did not converge, a view that is the same for all samples, a view with all the weight or
# none, views that contradict each other, and, here, a view that does not show the clusters. Each
# has one remedy.

for doubt in model.doubts_:
    print(f"seen: {doubt.what}\ntry:  {doubt.advice}")

# %%
# The map
# -------
# Samples that are neighbours in the scaled views lie together; the clusters have no influence on
# the positions. The text beside the map states its trustworthiness, and names clusters that it
# mixes with others. Read which clusters touch; distances between clusters that do not touch mean
# nothing, as on every such map. If a cluster has two pieces, click on both. Colour by certainty, by
# a class, by a column of your own (``columns={"age": ...}``): a batch number that agrees with the
# clusters is a warning.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
plots.sample_map(model_layout(model), model.labels_, left)
plots.certainty(model.transform(views), model.labels_, right)

# %%
# On the right: how certain each cluster is of its samples. It is the tie to the own cluster less
# that to the next one: 1 is a sample that belongs to one cluster only, 0 one that lies between
# two.
#
# The features of each cluster
# ----------------------------
# Effects in standard deviations, the largest first. Ask for each cluster whether its features make
# sense to you. If a cluster has features of one view only, it may exist for one sensor alone.

described = model.describe_clusters(views, top=2)
print("\n".join(str(described).splitlines()[:7]))

# %%
# The contribution of each view
# -----------------------------
# Three numbers for each view. *Weight*: its share in the consensus graph. *Without it*: agreement
# of the result without the view with that of all views; near 1 the view is not needed. *Alone*:
# agreement of the result of the view alone. The broken sensor has a weight,
# since a cosine is never 0, and it finds nothing alone.

explanation = model.explain_views(n_resamples=2)
print(explanation)
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
plots.view_effects(explanation, ax)

# %%
# Follow the advice
# -----------------
# Fit without the view, and compare.

repaired = OMCAL(n_clusters=10, random_state=0).fit(
    {k: v for k, v in views.items() if k != "broken"}
)
for name, fitted in (("with it", model), ("without", repaired)):
    print(f"{name}: accuracy {clustering_accuracy(digits.labels[some], fitted.labels_):.3f}")

# %%
# Typical and doubtful samples, and how to repeat it
# --------------------------------------------------
# The last sections name samples: those nearest to the middle of each cluster, which are the ones
# to show to a colleague, and those between two, which are the ones to ask about. They also have
# everything that is needed to repeat the result: parameters, versions, seed, and the scaling of
# each view.
#
# From the shell ``omcal cluster digits.npz --clusters 10 --report report.html`` makes the same
# page. Up to 100 000 samples are on the map; of more a random choice is drawn, and the page says
# so.

plt.show()
