"""
Every figure of a clustering
============================

Each function of `omcal.plots` takes arrays, draws into the Axes that it is given (``ax=``), or into
a new figure, and returns them; nothing is shown or saved unless you ask for it. The report of a
model, ``model.report("report.html", views)``, has the same figures, made to be clicked on.
"""

# %%
# Four views of 1797 handwritten digits, in ten clusters:

from omcal import OMCAL, plots
from omcal.datasets import load_digits_views
from omcal.report import model_layout

data = load_digits_views()
model = OMCAL(n_clusters=10, random_state=0).fit(data.views)

# %%
# The map of the samples
# ----------------------
# Samples with similar anchor graphs lie together; the clusters have no influence on the positions.
# Each cluster has its own colour and shape: ten colours, also for colour-blind readers, times six
# shapes.

plots.sample_map(model_layout(model), model.labels_)

# %%
# The sizes of the clusters
# -------------------------

plots.cluster_sizes(model.labels_)

# %%
# The features of a cluster
# -------------------------

described = model.describe_clusters(data.views, top=4)
plots.cluster_features(described, cluster=0)

# %%
# Clusters and known classes
# --------------------------

plots.confusion(data.labels, model.labels_)

# %%
# Certainty
# ---------

plots.certainty(model.transform(data.views), model.labels_)

# %%
# The fit
# -------
# How the objective fell, and the weight that each view was given.

plots.convergence(model.objective_)

# %%

plots.view_weights(model.view_weights_, model.view_names_)

# %%
# What the result would be without a view, and with it alone:

plots.view_effects(model.explain_views(n_resamples=2))
