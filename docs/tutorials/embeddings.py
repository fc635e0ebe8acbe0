"""
Pictures and their captions
===========================

Two models have looked at the same things: one at the pictures, one at the words below them. Each
gives a vector, an *embedding*, for every thing. Put side by side in one table, the longer vector
wins; clustered apart, there are two answers. Here they are two views, and there is one answer.

The pictures are the 1797 handwritten digits of scikit-learn. The captions are made here, by people
who do not say the name of the digit but describe it, and not all of them carefully.
"""

# %%
# Two embeddings
# --------------
# A caption is a few words drawn from those that fit the digit. The words are ambiguous on purpose:
# captions of 6 and 0 use the same words, as do those of 4 and 1, and those of 2 and 5. So captions
# alone can tell seven groups apart, not ten. Every fifth caption has no information at all: its
# words are random.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from omcal import OMCAL, Consensus, plots
from omcal.metrics import evaluate
from omcal.report import model_layout

words = {
    (0, 6): "round closed loop oval ring ball egg",
    (1, 4): "straight stroke upright line stick pole",
    (2, 5): "swan hook curl bend wave snake",
    (3,): "two bumps open left half moons",
    (7,): "roof slanted leg flag corner cliff",
    (8,): "crossing knot hourglass double loops",
    (9,): "balloon string head tail lollipop",
}
anything = " ".join(words.values()).split()
of_digit = {digit: text.split() for digits, text in words.items() for digit in digits}

rng = np.random.default_rng(0)
digits = load_digits()
careless = rng.random(len(digits.target)) < 0.2
captions = [
    " ".join(rng.choice(anything if lost else of_digit[digit], size=5))
    for digit, lost in zip(digits.target, careless, strict=True)
]
print(captions[:4])

# %%
# The two models are small ones that come with scikit-learn: principal components for the pictures,
# latent semantic analysis for the captions. With a real model only these two lines change, for
# instance ``SentenceTransformer("all-MiniLM-L6-v2").encode(captions)``. Both end with vectors of
# length 1, as such models do.

image = normalize(PCA(40, random_state=0).fit_transform(digits.data))
text = normalize(
    TruncatedSVD(12, random_state=0).fit_transform(TfidfVectorizer().fit_transform(captions))
)
views = {"image": image, "text": text}
print({name: view.shape for name, view in views.items()})

# %%
# One answer
# ----------
# Only the number of clusters is needed. ``view_scales_`` has the scaling of each view:
# rows of length 1 are taken for embeddings and left as they are, but for one factor that lets 12
# numbers count as much as 40. One of the ten runs takes more than the usual limit of 100
# iterations; ``fit`` would warn of that.

model = Consensus(OMCAL(n_clusters=10, max_iter=200), random_state=0).fit(views)
for name, weight, (kind, why) in zip(
    model.view_names_, model.view_weights_, model.view_scales_, strict=True
):
    print(f"{name}: weight {weight:.2f}, scale {kind!r} ({why})")

# %%
# The known digits give the accuracy. For comparison, k-means gets the same views side by side, each
# with the same total variance.

together = np.hstack([view / np.sqrt(view.var(axis=0).sum()) for view in views.values()])
answers = {
    "image alone": Consensus(OMCAL(10), random_state=0).fit(image).labels_,
    "text alone": Consensus(OMCAL(10), random_state=0).fit(text).labels_,
    "k-means, both": KMeans(10, n_init=10, random_state=0).fit_predict(together),
    "omcal, both": model.labels_,
}
scores = {name: evaluate(digits.target, found)["accuracy"] for name, found in answers.items()}
for name, score in scores.items():
    print(f"{name:14s} {score:.3f}")

# %%
# What to look at
# ---------------
# Samples with similar anchor graphs lie together on the map. ``certainty_`` is the share of the ten
# runs that agree with the cluster of a sample. Samples with a useless caption are a little
# less certain than the others, although the model does not know which they are.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
plots.sample_map(model_layout(model.estimator_), model.labels_, left)
left.set_title("things, by cluster")
bins = np.arange(-0.05, 1.1, 0.1)  # one for each number of runs
for kind, chosen in (("useful caption", ~careless), ("useless caption", careless)):
    shares = np.full(chosen.sum(), 1 / chosen.sum())
    right.hist(model.certainty_[chosen], bins, weights=shares, alpha=0.6, label=kind)
right.set(xlabel="share of runs that agree", ylabel="share of the things", title="certainty")
right.legend(frameon=False)

print(f"useful captions: {model.certainty_[~careless].mean():.2f}")
print(f"useless ones:    {model.certainty_[careless].mean():.2f}")

# %%
# The digits in each cluster. A column is a digit, a row a cluster.

plots.confusion(digits.target, model.labels_)

# %%
# Limits
# ------
# A view has one weight, not one for each sample: a useless caption is not
# ignored, it is outvoted. Embeddings of the same model, for instance of the title and the body of a
# text, are nearly the same view twice. Leave one out, or look at ``model.explain_views()``, which
# names copies. What else to try: :doc:`how to choose </choosing>`.

plt.show()
