"""
Reading the report
==================

``model.report("report.html")`` writes one file that opens in any browser and needs no network: the
result of a clustering, made to be doubted. This page makes one, walks through it, and names what to
look at before you believe a cluster.
"""

# %%
# A fit that has something to be doubted
# --------------------------------------
# Four views of handwritten digits, and a fifth that is noise: a column of measurements that went
# wrong, as there is one in most tables. The known classes are passed to the report as well, as
# ``y``, which is optional; with them it compares.

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
# Here it is, whole, in a frame. Move the map, click on a cluster, choose a colour.


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
# What to trust, what to doubt
# ----------------------------
# The page begins with sentences, not with pictures. *What to doubt* begins with what ``fit``
# warned of and ``model.doubts_`` holds: an empty cluster, one that holds nearly everything, a fit
# that did not converge, a view that is the same for all, that took all the weight or none, views
# that contradict each other, and, here, a view in which the clusters are not to be seen. Each
# comes with the one thing to try.

for doubt in model.doubts_:
    print(f"seen: {doubt.what}\ntry:  {doubt.advice}")

# %%
# The map
# -------
# Samples that are tied to the same anchors lie together. What it shows truly is which clusters
# touch; distances between clusters that do not touch mean nothing, as on every such map. A cluster
# in two pieces is worth a look: click on both. Colour by certainty, by a class, by a column of
# your own (``columns={"age": ...}``): a batch number that lines up with the clusters is bad news.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
plots.sample_map(model_layout(model), model.labels_, left)
plots.certainty(model.transform(views), model.labels_, right)

# %%
# On the right: how certain each cluster is of its samples. It is the tie to the own cluster less
# that to the next one: 1 is a sample that belongs to one cluster only, 0 one that lies between
# two.
#
# What makes each cluster
# -----------------------
# Effects in standard deviations, the largest first. Ask of each cluster: would I have known this
# name for it? Features of one view only, in a cluster that the other views do not show, are the
# mark of a cluster that exists for one sensor.

described = model.describe_clusters(views, top=2)
print("\n".join(str(described).splitlines()[:7]))

# %%
# What each view contributes
# --------------------------
# Three numbers for each view, which answer three questions. Its *weight*: how much it was listened
# to. *Without it*: how far the result stays the same if the view is left out; near 1, nobody would
# miss it. *Alone*: how far it finds the same result by itself. The broken sensor has a weight,
# since a cosine is never 0, and it finds nothing alone.

explanation = model.explain_views(n_resamples=2)
print(explanation)
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
plots.view_effects(explanation, ax)

# %%
# What to do about it
# -------------------
# Take the advice: fit without the view, and compare.

repaired = OMCAL(n_clusters=10, random_state=0).fit(
    {k: v for k, v in views.items() if k != "broken"}
)
for name, fitted in (("with it", model), ("without", repaired)):
    print(f"{name}: accuracy {clustering_accuracy(digits.labels[some], fitted.labels_):.3f}")

# %%
# Typical and doubtful samples, and how to repeat it
# --------------------------------------------------
# The last sections name samples: those nearest to the middle of each cluster, which are the ones
# to show to a colleague, and those between two, which are the ones to ask about. And they keep
# what is needed to get the same result again: parameters, versions, seed, and what was done to
# each view.
#
# From the shell ``omcal cluster digits.npz --clusters 10 --report report.html`` makes the same
# page. Up to 100 000 samples are on the map; of more a random choice is drawn, and the page says
# so.

plt.show()
