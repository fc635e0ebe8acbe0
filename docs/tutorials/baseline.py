"""
Adding a baseline
=================

You have a method of your own, or one from a paper, and want it beside the others: in the same
tables, on the same data, under the same limits. A baseline is one class in one file. This page
writes one, tries it, and lists the steps to make it a part of the package.

The method is the simplest one that treats views as equals: k-means on each view alone, and then a
vote.
"""

# %%
# The class
# ---------
# ``Baseline`` does everything that is not the method: it reads lists, mappings, data frames and
# sparse views, checks parameters and shapes, refuses what would not fit into memory, and warns
# where there are fewer clusters than asked for. ``MultiViewBaseline`` is the same for methods that
# take several views. A subclass defines:
#
# * the parameters, a line each with type and default, as in a dataclass; the constructor and the
#   checks of their values are made from these lines;
# * ``_cluster``, which gets checked views and a random state and returns the labels;
# * ``_memory_needed``, the bytes that ``_cluster`` needs, so that a method that is quadratic in the
#   samples refuses at once instead of failing after an hour.
#
# The vote: a sample is described by the clusters it has in each view, as columns of zeros and
# ones, and k-means on these columns puts those together that most views put together. Names in
# braces in the docstring stand for the entries that all baselines share.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted

from omcal.baselines import METHODS
from omcal.baselines._base import MultiViewBaseline, copy_bytes
from omcal.datasets import load_digits_views, make_multiview
from omcal.method.scaling import Scaling
from omcal.metrics import clustering_accuracy


class KMeansVote(MultiViewBaseline):
    """k-means on each view alone, then on the clusters that the views found.

    Parameters
    ----------
    {n_clusters}
    n_init : int, default=5
        k-means runs on each view.
    {random_state}
    {views}

    Attributes
    ----------
    {labels_}
    votes_ : array of shape (n, n_views)
        The cluster of each sample in each view alone.
    """

    n_init: int = 5

    def _cluster(self, views, random_state):
        k_means = KMeans(self.n_clusters, n_init=self.n_init, random_state=random_state)
        votes = []
        for view in views:
            scaled = Scaling.fit(view, "feature").apply(view.rows(slice(None)))
            votes.append(k_means.fit_predict(scaled))
        self.votes_ = np.stack(votes, axis=1)
        return k_means.fit_predict(OneHotEncoder().fit_transform(self.votes_))

    def _memory_needed(self, views):
        columns = self.n_clusters * len(views)
        return copy_bytes(views) + 16.0 * views.n * columns


# %%
# Check the interface
# -------------------
# It takes all kinds of input and has the same errors as the others.

data = make_multiview(300, n_clusters=4, n_views=3, noise=0.8, random_state=0)
first = KMeansVote(4, random_state=0).fit(data.views)
again = KMeansVote(4, random_state=0).fit(list(data.views.values()))
print("same labels from a mapping and a list:", (first.labels_ == again.labels_).all())
try:
    KMeansVote(0).fit(data.views)
except ValueError as error:
    print(error)
try:
    check_is_fitted(KMeansVote())
except NotFittedError:
    print("not fitted yet, as it should be")

# %%
# Compare it with the other methods
# ---------------------------------
# The table compares it with methods of the package, on the digits, three seeds each. ``METHODS`` is
# the registry: every baseline with its title, its paper and its cost.

digits = load_digits_views()
some = {name: view[::2] for name, view in digits.views.items()}
rivals = {
    METHODS[name].title: METHODS[name].cls for name in ("concat-kmeans", "best-view", "fsmsc")
}
scores = {
    name: [
        clustering_accuracy(digits.labels[::2], method(10, random_state=seed).fit(some).labels_)
        for seed in range(3)
    ]
    for name, method in {"k-means, vote": KMeansVote, **rivals}.items()
}
figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
for row, (name, found) in enumerate(scores.items()):
    ax.plot(found, [row] * len(found), "o", alpha=0.6)
    print(f"{name:20s} {np.mean(found):.3f}")
ax.set_yticks(range(len(scores)), list(scores))
ax.set(xlabel="accuracy of each run", xlim=(0.4, 1), ylim=(-0.5, len(scores) - 0.5))
ax.invert_yaxis()
ax.grid(axis="x", linewidth=0.5, alpha=0.4)
ax.spines[["top", "right"]].set_visible(False)

# %%
# Into the package
# ----------------
# 1. The class goes to a file of its own, ``src/omcal/baselines/vote.py``. Its docstring names the
# paper and every departure from it: where a formula was ambiguous, what was chosen, and why. 2. An
# entry in ``METHODS`` of ``omcal/baselines/__init__.py``, and the name in ``__all__``::
#
#        "vote": Method("k-means, vote", KMeansVote, "", "t n c d", False, True),
#
# From then on ``omcal compare --methods vote``, ``omcal cluster --method vote`` and
# ``omcal.experiments.compare`` know it, each run in a process of its own. 3. Tests of what the
# method promises. For an optimisation: each step is optimal, the objective never rises, a case
# that can be solved by hand comes out. A test that only runs it shows nothing.
#
# A method that finds more than labels, such as weights of views, sets them in ``_cluster``, with a
# trailing underscore as here ``votes_``. One that iterates hands its step to ``self._iterate``,
# which stops it, warns where it did not converge, and sets ``objective_`` and ``n_iter_``.

plt.show()
