"""
From a customer table to segments
=================================

A shop keeps one table of its customers: how much and how often they buy, where they live, how they
pay, since when they are customers, and notes of the staff. Some cells are empty. Nothing has to be
prepared: the table is read from its file, each column is taken by its kind, and the segments are
described in the words of the table.
"""

# %%
# A synthetic table
# -----------------
# There are four groups of customers. Numbers separate two of them from the others, the city and the
# way of payment separate the rest; every twentieth cell is empty.

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import omcal
from omcal.metrics import clustering_accuracy

rng = np.random.default_rng(0)
n = 1200
group = rng.integers(4, size=n)


def mostly(levels, share=0.8):
    """Return the level of each customer's group, or by chance another."""
    usual = np.asarray(levels)[group]
    return np.where(rng.random(n) < share, usual, rng.choice(levels, size=n))


days = np.array([1500, 1400, 300, 400])[group] + rng.normal(0, 150, n)
customers = pd.DataFrame(
    {
        "customer_id": [f"K{i:05d}" for i in rng.permutation(n)],
        "spent": rng.lognormal(np.array([3.5, 3.5, 5.0, 5.0])[group], 0.4).round(2),
        "visits": rng.poisson(np.array([4, 4, 12, 12])[group]),
        "city": mostly(["Bergen", "Oslo", "Bergen", "Oslo"]),
        "payment": mostly(["card", "invoice", "app", "card"]),
        "newsletter": rng.random(n) < np.array([0.1, 0.8, 0.2, 0.7])[group],
        "since": pd.Timestamp("2025-01-01") - pd.to_timedelta(days.round(), unit="D"),
        "note": [f"called on day {i}" for i in rng.integers(10**6, size=n)],
    }
)
features = list(customers.columns[1:])
customers[features] = customers[features].mask(rng.random((n, len(features))) < 0.05)
folder = Path(tempfile.mkdtemp())
file = folder / "customers.csv"
customers.to_csv(file, index=False)

# %%
# Contents of the file
# --------------------
# `omcal inspect customers.csv` prints this table. The id names the customers and the note is free
# text: both are left out.

found = omcal.datasets.describe(file)
for column in found["columns"]:
    print(f"{column['name']:12s} {column['kind']:30s} {column['n_missing']} missing")

# %%
# Segments
# --------
# One command does it: `omcal cluster customers.csv --clusters 4 --report segments.html`. In Python
# `fit` takes what `load_views` read, or the data frame itself.

data = omcal.datasets.load_views(file)
model = omcal.OMCAL(n_clusters=4, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # missing cells: 5 %, made above
    model.fit(data.views)
print(model.view_scales_[0])
print(f"accuracy {clustering_accuracy(group, model.labels_):.2f}")

# %%
# Description of the segments
# ---------------------------
# The share of customers with a level, in the segment and elsewhere.

described = model.describe_clusters(data.views)
for segment in range(4):
    effects = sorted(described.of(segment), key=lambda effect: -abs(effect.effect))
    print(f"segment {segment}, {described.cluster_sizes[segment]} customers")
    for effect in effects[:4]:
        print(f"  {effect.feature:22s} {effect.share:.0%}, elsewhere {effect.share_elsewhere:.0%}")

# %%
# The report is one file to open in a browser: the map of the customers, the segments, doubts.

page = folder / "segments.html"
model.report(page, data.views, names=data.ids, title="Customers in four segments")

fig, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
table = pd.DataFrame({"segment": model.labels_, "payment": customers["payment"].fillna("(empty)")})
pd.crosstab(table["segment"], table["payment"]).plot.bar(stacked=True, ax=axes[0], rot=0)
for segment in range(4):
    axes[1].hist(np.log10(customers["spent"][model.labels_ == segment].dropna()), 30, alpha=0.6)
axes[0].set(title="Payment by segment", ylabel="customers")
axes[1].set(title="Amount spent by segment", xlabel="logarithm of the amount", ylabel="customers")

# %%
# New customers
# -------------
# They may come from another format, with the columns in any order. A city that was not in the fit
# counts as missing, and a warning says so.

new = customers.head(50).assign(city=np.where(np.arange(50) < 3, "Paris", customers["city"][:50]))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    segments = model.predict(new[features[::-1]])
print(next(str(one.message) for one in said if "Paris" in str(one.message)))
print(f"same segment as before: {np.mean(segments == model.labels_[:50]):.0%}")
plt.show()
