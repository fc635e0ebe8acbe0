"""
Documents in two languages
==========================

The same reports exist in English and in German. Word counts of the two share no word, so that they
cannot be added up, and no dictionary is at hand. As two views of one document they need none.

The documents are synthetic: each topic has its own words, so that the truth is known. The page
also shows the errors of methods that are not made for counts.
"""

# %%
# Synthetic documents
# -------------------
# Five topics. A document is mostly about one of them, with a share of words that any document may
# contain: "the", "also", "year". The German vocabulary is twice as large, as German makes one word
# of two. Documents are of very different lengths, as they are in life.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from omcal import OMCAL, Consensus, plots
from omcal.baselines import ConcatKMeans
from omcal.metrics import evaluate

rng = np.random.default_rng(0)
topics = ["energy", "health", "law", "sport", "trade"]
n_documents = 600
topic = rng.integers(len(topics), size=n_documents)


def write(n_words, blurred):
    """Word counts of all documents in a language; topics in `blurred` have the same words there."""
    common = rng.dirichlet(np.full(n_words, 0.05))
    special = rng.dirichlet(np.full(n_words, 0.02), size=len(topics))
    special[blurred[1]] = special[blurred[0]]
    lengths = rng.lognormal(np.log(120), 0.8, size=n_documents).astype(int) + 10
    chances = 0.75 * common + 0.25 * special[topic]
    counts = [rng.multinomial(n, p) for n, p in zip(lengths, chances, strict=True)]
    return sparse.csr_array(np.stack(counts))


views = {
    "English": write(1200, blurred=(1, 2)),  # health and law are written in the same words
    "German": write(2400, blurred=(3, 4)),  # and here sport and trade
}
for name, counts in views.items():
    zeros = 1 - counts.nnz / np.prod(counts.shape)
    print(f"{name}: {counts.shape}, {zeros:.0%} zeros")

# %%
# English cannot tell health from law, German not sport from trade. Only both together know five
# topics.
#
# Counts are recognised
# ---------------------
# Views that are mostly zeros and never negative are taken for counts of terms: damped, weighted by
# how rare a word is, and each document made of length 1 so that long ones do not lie far out.

model = OMCAL(n_clusters=5, random_state=0).fit(views)
for name, (kind, why) in zip(model.view_names_, model.view_scales_, strict=True):
    print(f"{name}: {kind!r} ({why})")
print(dict(zip(model.view_names_, model.view_weights_.round(2).tolist(), strict=True)))

# %%
# The same solver without this scaling, and k-means, show its effect. ``scale="feature"``
# divides each word by its spread, so that the rarest words, which are in two documents, count most.
# ``fit`` warns that these clusters are not to be trusted; the warning is printed here.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    standardised = OMCAL(5, scale="feature", random_state=0).fit(views)
print(*(str(one.message) for one in caught), sep="\n")

answers = {
    "k-means, words standardised": ConcatKMeans(5, random_state=0).fit(views).labels_,
    "omcal, words standardised": standardised.labels_,
    "omcal, English only": OMCAL(5, random_state=0).fit(views["English"]).labels_,
    "omcal, German only": OMCAL(5, random_state=0).fit(views["German"]).labels_,
    "omcal, both": model.labels_,
    "omcal, both, ten runs": Consensus(OMCAL(5), random_state=0).fit(views).labels_,
}
scores = {name: evaluate(topic, found)["accuracy"] for name, found in answers.items()}

figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.barh(list(scores), list(scores.values()), color=["0.7"] * 4 + ["C0"] * 2)
ax.bar_label(ax.containers[0], fmt="%.2f", padding=3)
ax.set(xlim=(0, 1.1), xlabel="accuracy")
ax.invert_yaxis()
ax.spines[["top", "right"]].set_visible(False)

# %%
# Where the words are
# -------------------
# ``describe_clusters`` names the words of each cluster in both languages: a dictionary of topics,
# if you like. In synthetic documents the words are numbers.

described = model.describe_clusters(views, top=3)
figure, axes = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
for ax, cluster in zip(axes, (0, 1), strict=True):
    plots.cluster_features(described, cluster, ax=ax)

# %%
# A missing translation
# ---------------------
# Translations come late. A document that lacks one takes part with the other: ``present`` says
# which documents are in which view. Sparse views have no row of NaN, so this is the way for them.

present = {"German": rng.random(n_documents) > 0.4}
late = OMCAL(n_clusters=5, random_state=0).fit(views, present=present)
there = present["German"]
for name, chosen in (("both languages", there), ("English only", ~there)):
    score = evaluate(topic[chosen], late.labels_[chosen])["accuracy"]
    print(f"{name}: {chosen.sum()} documents, accuracy {score:.2f}")

# %%
# English-only documents about health and about law cannot be told apart, because their English
# words do not differ.
#
# Limits
# ------
# Real documents are harder than synthetic ones. On seven sets of documents and links in the
# benchmarks (``benchmarks/results/defaults.md``) the accuracy is .28 to .94 with the defaults.
# Runs differ most on such data: combine them with ``Consensus``.

plt.show()
