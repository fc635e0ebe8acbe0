"""Clusters that live on: numbers kept in refits, calibration of probabilities, strangers.

    python benchmarks/living.py ../shared/data/*.mat

For each labelled set: the share of the samples of both fits that keep their number where half of
the samples are new (`fit(X, like=old)`), and the reliability of `predict_proba`: of samples with a
largest probability in a bin, the share that is in the majority class of its cluster. Then the AUC
of `score_samples` for shuffled digits.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from omcal import OMCAL, Consensus
from omcal.datasets import load_digits_views, load_views
from omcal.metrics import ari


def rows_of(views, rows):
    return {name: view[rows] for name, view in views.items()}


def kept(make, views, n, seed):
    """Return the ARI and the share of kept numbers of samples in both of two halves and a half."""
    order = np.random.default_rng(seed).permutation(n)
    first, second = order[: 2 * n // 3], order[n // 3 :]
    old = clone(make).fit(rows_of(views, first))
    new = clone(make).set_params(random_state=seed + 1).fit(rows_of(views, second), like=old)
    both = old.labels_[n // 3 :], new.labels_[: len(first) - n // 3]
    return ari(*both), float((both[0] == both[1]).mean())


def reliability(model, views, y):
    """Return the largest probability of each sample, and whether its class is the majority."""
    P, labels = model.predict_proba(views), model.predict(views)
    table = np.zeros((P.shape[1], y.max() + 1))
    np.add.at(table, (labels, y), 1)
    return P.max(axis=1), table.argmax(axis=1)[labels] == y


def strangers(seed):
    views = list(load_digits_views().views.values())
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(views[0]))
    model = OMCAL(10, random_state=0).fit([view[order[:1200]] for view in views])
    seen = [view[order[1200:]] for view in views]
    shuffled = [rng.permuted(view, axis=0) for view in seen]
    scores = [model.score_samples(some) for some in (seen, shuffled)]
    return roc_auc_score(np.repeat([1, 0], [len(one) for one in scores]), np.concatenate(scores))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--consensus", action="store_true", help="ten joined runs, not one")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    sure, right, weight = [], [], []
    for path in args.files:
        data = load_views(path)
        if data.labels is None or data.present is not None:
            continue
        y = np.unique(data.labels, return_inverse=True)[1]
        make = OMCAL(int(y.max()) + 1, random_state=0)
        make = Consensus(make, random_state=0) if args.consensus else make
        agreement, share = kept(make, data.views, len(y), seed=0)
        print(f"{path.stem:24} ARI of refit {agreement:.3f}, numbers kept {share:.3f}", flush=True)
        p, hit = reliability(make.fit(data.views), data.views, y)
        sure, right = [*sure, p], [*right, hit]
        weight.append(np.full(len(y), 1 / len(y)))
    p, hit, weight = map(np.concatenate, (sure, right, weight))
    bins = np.minimum((10 * p).astype(int), 9)
    error = 0.0
    for one in np.unique(bins):
        here = bins == one
        mean, share = (np.average(values[here], weights=weight[here]) for values in (p, hit))
        part = weight[here].sum() / weight.sum()
        error += part * abs(mean - share)
        print(f"probability {mean:.2f}: majority class {share:.2f} ({part:.0%} of the samples)")
    print(f"mean calibration error {error:.3f}")
    found = [strangers(seed) for seed in range(3)]
    print(f"AUC of shuffled digits {np.mean(found):.3f}")


if __name__ == "__main__":
    main()
