"""
Weekly data
===========

A clustering is used for months while samples come and go. Clusters should keep their numbers and
their names, so that "cluster 2" means the same group next week.
"""

# %%
# The first week: 500 samples in three views. Clusters are numbered by size, the largest first, and
# may be given names.

import tempfile
from pathlib import Path

import omcal
from omcal import OMCAL
from omcal.datasets import make_multiview

data = make_multiview(700, n_clusters=4, noise=0.6, random_state=0)
first_week = {name: view[:500] for name, view in data.views.items()}
model = OMCAL(4, random_state=0).fit(first_week)
model.cluster_names_ = ["north", "south", "east", "west"]
file = Path(tempfile.mkdtemp()) / "week1.omcal"
model.save(file)

# %%
# The next week 200 samples are gone and 200 are new. ``like`` matches the new clusters to those of
# the saved model, by its predictions for the samples that are there now. On the command line it is
# ``omcal cluster week2.csv -c 4 --like week1.omcal``.

next_week = {name: view[200:] for name, view in data.views.items()}
later = OMCAL(4, random_state=1).fit(next_week, like=omcal.load(file))
kept = (later.labels_[:300] == model.labels_[200:]).mean()
print(f"{kept:.0%} of the samples of both weeks keep their number")
for match, name in zip(later.matched_, later.cluster_names_, strict=True):
    print(name, match)
assert kept > 0.95

# %%
# Labels that are known serve as well: an array with −1 for samples without one, or, for data
# frames, a mapping from ids. :func:`omcal.metrics.match_labels` does the same for any two
# clusterings, and gives clusters that are new a new number.

print(omcal.metrics.match_labels([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 2]))

# %%
# ``warm_start=True`` continues from the anchors and the basis of the last fit. That keeps the
# numbers and takes fewer iterations, but finds new groups less easily.

warm = OMCAL(4, random_state=0, warm_start=True).fit(first_week)
before = warm.labels_
warm.fit(next_week)
print(f"{(warm.labels_[:300] == before[200:]).mean():.0%} keep their number")

# %%
# How certain is the cluster of a sample, and does the sample belong to any? ``predict_proba`` gives
# calibrated probabilities, ``score_samples`` measures how typical a sample is, and ``predict`` with
# ``outliers`` labels those less typical than a share ``contamination`` of the samples of the fit.

new = {name: view[:5] for name, view in data.views.items()}
print(model.predict_proba(new).round(2))
strange = {name: view + 8 for name, view in new.items()}
print(model.predict(new, outliers=-1), model.predict(strange, outliers=-1))

# %%
# If the earlier samples are not available, or need not be fitted again, ``partial_fit`` adds new
# ones to a saved model. Its file holds sums of the solver, and of the samples at most 500
# strangers. Before that, ``drift`` compares the new samples with those of the fit. If nothing has
# moved, it raises an alarm in at most 1 of 100 calls. On the command line both are
# ``omcal update week1.omcal week2.csv``.

saved = omcal.load(file)
third_week = {name: view[500:] for name, view in data.views.items()}
print(saved.drift(third_week))
saved.partial_fit(third_week)
print(saved.labels_[:10])

# %%
# A new group appears. ``partial_fit`` warns of samples that belong to no cluster and form a stable
# group; with ``grow=True`` they become a cluster, and the others keep their numbers. On the command
# line that is ``omcal update --grow``.

more = make_multiview(1200, n_clusters=5, noise=0.6, random_state=0)
known, unknown = more.labels < 4, more.labels == 4
growing = OMCAL(4, random_state=0, grow=True)
growing.fit({name: view[known][:500] for name, view in more.views.items()})
before = growing.predict({name: view[known] for name, view in more.views.items()})
growing.partial_fit({name: view[600:] for name, view in more.views.items()})
after = growing.predict({name: view[known] for name, view in more.views.items()})
print(growing.n_clusters_, f"{(before == after).mean():.0%} keep their number")
assert growing.n_clusters_ == 5 and (before == after).mean() > 0.95

# %%
# A sensor that reads too high is named, with its view:

broken = {**third_week, "view1": third_week["view1"].copy()}
broken["view1"][:, 2] += 2
drift = saved.drift(broken)
print(drift)
assert {one.name for one in drift.moved if one.kind == "feature"} == {"view1: 2"}

# %%
# A stream needs no first fit. ``partial_fit`` keeps a random sample of bounded size, fits to it
# again where samples have moved, and keeps the numbers. With ``half_life`` it forgets.

stream = OMCAL(4, random_state=0, half_life=300)
for start in range(0, 700, 100):
    stream.partial_fit({name: view[start : start + 100] for name, view in data.views.items()})
print(f"{omcal.metrics.ari(data.labels, stream.predict(data.views)):.2f}")
