"""
The clustering step of a topic model
====================================

A topic model such as BERTopic embeds documents, clusters the embeddings, and describes each cluster
by its words. The step in the middle is exchangeable, and it is where a second view of the documents
can come in: titles, tags, pictures, who cites whom. This page does all three steps on real text and
then shows the three lines that put omcal into BERTopic.

The documents come with SciPy, so nothing is downloaded: the docstrings of its functions. What each
function is about is known, too, by the module it is in: signals, statistics, sparse matrices, and
so on. We keep that aside to judge the result.
"""

# %%
# Documents with two views
# ------------------------
# The first view is the text of the docstring, the second the names of the parameters.

import importlib
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from omcal import OMCAL, Consensus, plots
from omcal.metrics import evaluate

modules = ["fft", "linalg", "ndimage", "optimize", "signal", "spatial.distance", "stats"]


def parameters(function):
    """The names of its parameters as one text; of some compiled functions they are not known."""
    try:
        return " ".join(inspect.signature(function).parameters)
    except ValueError:
        return ""


documents, names, module_of = [], [], []
for module in modules:
    package = importlib.import_module(f"scipy.{module}")
    for name in package.__all__:
        function = getattr(package, name)
        text = inspect.getdoc(function) or ""
        if inspect.isroutine(function) and len(text) > 300 and parameters(function):
            # Examples and references say less about the topic than about the format.
            documents.append(re.split(r"\n(?:Examples|References)\n-+", text)[0])
            names.append(parameters(function))
            module_of.append(module)
module_of = np.array(module_of)
print(len(documents), "documents;", documents[0].split("\n")[0])

# %%
# Step one: embeddings
# --------------------
# Latent semantic analysis stands in for a sentence model; it needs no download and takes a second.

stop = "english"
embed = make_pipeline(
    TfidfVectorizer(sublinear_tf=True, min_df=3, max_df=0.3, stop_words=stop),
    TruncatedSVD(50, random_state=0),
    Normalizer(),
)
text_view = embed.fit_transform(documents)
name_view = CountVectorizer(min_df=2, token_pattern=r"\w+").fit_transform(names)
print("text", text_view.shape, "parameters", name_view.shape)

# %%
# Step two: clusters
# ------------------
# The embedding and the counts are scaled each in its way, by themselves.

views = {"text": text_view, "parameters": name_view}
model = Consensus(OMCAL(n_clusters=len(modules)), random_state=0).fit(views)
for name, weight, (kind, why) in zip(
    model.view_names_, model.view_weights_, model.view_scales_, strict=True
):
    print(f"{name}: weight {weight:.2f}, scale {kind!r} ({why})")
print(f"stability {model.stability_:.2f}")

# %%
# Step three: words
# -----------------
# The words of a topic are those that are frequent in it and rare elsewhere: counts of a whole
# cluster, weighted as BERTopic does it (class-based TF-IDF).

counter = CountVectorizer(stop_words=stop, min_df=3, max_df=0.3, token_pattern=r"[a-z]{3,}")
counts = counter.fit_transform(documents)
vocabulary = counter.get_feature_names_out()
clusters = range(model.n_clusters)
of_cluster = np.stack([counts[model.labels_ == c].sum(axis=0).A1 for c in clusters])
mean_total = of_cluster.sum() / len(of_cluster)
importance = of_cluster / of_cluster.sum(axis=1, keepdims=True)
importance = importance * np.log1p(mean_total / of_cluster.sum(axis=0))
topics = [vocabulary[row.argsort()[::-1][:5]] for row in importance]
for cluster, found in enumerate(topics):
    print(f"{cluster} ({(model.labels_ == cluster).sum():3d} documents): {', '.join(found)}")

# %%
# Topics and modules are not the same thing, and they need not be: a function of ``scipy.signal``
# that solves a matrix equation may well lie with linear algebra. The table shows where they agree.

ax = plots.confusion(module_of, model.labels_)
ax.set_title("modules (columns) and topics (rows)")
answers = {"both views": model.labels_}
for name, view in views.items():
    answers[f"{name} alone"] = Consensus(OMCAL(len(modules)), random_state=0).fit(view).labels_
for name, labels in answers.items():
    print(f"{name:16s} accuracy {evaluate(module_of, labels)['accuracy']:.2f}")

# %%
# Mind the second line. With SciPy 1.17 and five seeds both views gave .81 to .83, the text alone
# .78 to .84: the same in the mean, only steadier. The names of the parameters know little that the
# text does not say. A second view helps where it knows something else, as in the tutorial on
# :doc:`pictures and captions </auto_tutorials/embeddings>`.

# %%
# Within BERTopic
# ---------------
# BERTopic takes as ``hdbscan_model`` any object with ``fit``, ``predict`` and ``labels_``. OMCAL
# and Consensus are such objects as they are. One view goes in like this, after whatever reduction
# of dimensions BERTopic does::
#
#     from bertopic import BERTopic
#     from omcal import OCAL
#
#     BERTopic(hdbscan_model=OCAL(n_clusters=30)).fit_transform(documents)
#
# BERTopic passes one table of embeddings on. So two views travel side by side in it, and ``views=``
# says where the one ends and the other begins; the reduction is left out, since it would mix them::
#
#     from bertopic.dimensionality import BaseDimensionalityReduction
#
#     both = np.hstack([text_embeddings, image_embeddings])
#     cut = text_embeddings.shape[1]
#     clusters = OMCAL(n_clusters=30, views={"text": slice(0, cut), "image": slice(cut, None)})
#     model = BERTopic(umap_model=BaseDimensionalityReduction(), hdbscan_model=clusters)
#     topics, _ = model.fit_transform(documents, embeddings=both)
#
# What BERTopic asks of the object is small enough to be tried here without it: it fits one table,
# reads the labels, and asks for those of new documents.

cut = text_view.shape[1]
both = np.hstack([text_view, name_view.toarray()])
step = OMCAL(
    n_clusters=len(modules),
    views={"text": slice(0, cut), "parameters": slice(cut, None)},
    random_state=0,
)
step.fit(both, y=None)
assert len(step.labels_) == len(documents)
assert len(step.predict(both[:5])) == 5
print(dict(zip(step.view_names_, step.view_weights_.round(2).tolist(), strict=True)))

# %%
# What is different from HDBSCAN
# ------------------------------
# HDBSCAN finds the number of clusters by itself and leaves outliers out, as topic −1. With omcal
# you give the number, or ``"auto"``, and ``fit`` assigns a topic to every document. If many of
# yours belong to none, use ``predict`` with ``outliers=-1``, or drop those with a low
# ``certainty_`` of Consensus. A topic that is unsure as a whole is not one: most runs
# divide its documents among the others.

certainty = [model.certainty_[model.labels_ == cluster].mean() for cluster in clusters]
named = [f"{cluster}: {', '.join(found[:3])}" for cluster, found in enumerate(topics)]
figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.barh(named, certainty)
ax.set(xlim=(0, 1), xlabel="mean share of the runs that agree")
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)
unsure = model.certainty_ < 0.6
print(f"{unsure.mean():.0%} of the documents have no topic that six of ten runs agree on")

plt.show()
