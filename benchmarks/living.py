"""Clusters that live on: streams, numbers kept in refits, calibrated probabilities, strangers.

    python benchmarks/living.py ../shared/data [--seeds 2] [--parts stream,kept,...]

Parts: `stream`, one pass in batches of 100 samples over the 17 labelled sets, in random order and
sorted by class, against a fit to all samples in the same order; `speed`, samples per CPU second of
`partial_fit` against MiniBatchKMeans on made data of 1430 features; `kept`, the share of the
samples of both fits that keep their number where half of the samples are new; `reliability`, of
samples with a probability in a bin the share in the majority class of their cluster, for the two
halves of the sets, each with the exponent that is best for the other half; `strangers`, the AUC
of `score_samples` for shuffled digits; `alarms`, calls of `drift` that raise a false
alarm. Results go to benchmarks/results/living.md.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from labelled_sets import YARDSTICK, load
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import roc_auc_score

from omcal import OMCAL, Consensus
from omcal.datasets import load_digits_views
from omcal.metrics import ari

RESULTS = Path(__file__).parent / "results" / "living.md"
EXPONENTS = np.arange(0.8, 3.01, 0.1)
BATCH = 100


def part_of(views, rows):
    return [view[rows] for view in views]


def passed(views, y, order, seed, model=None):
    """Return the ARI of all samples after one pass in this order."""
    c = int(y.max()) + 1
    model = OMCAL(c, random_state=seed) if model is None else model
    size = max(BATCH, 2 * c)
    for start in range(0, len(y), size):
        model.partial_fit(part_of(views, order[start : start + size]))
    return ari(y, model.predict(views))


def stream(folder, seeds):
    lines = ["| set | samples | fit | random order | sorted |", "|---|---:|---:|---:|---:|"]
    found = []
    for name in YARDSTICK:
        views, y = load(folder, name)
        rows = []
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            by_class = order[np.argsort(y[order], kind="stable")]
            fit = OMCAL(int(y.max()) + 1, random_state=seed).fit(part_of(views, order))
            passes = [passed(views, y, one, seed) for one in (order, by_class)]
            rows.append([ari(y[order], fit.labels_), *passes])
        found.append(np.mean(rows, axis=0))
        cells = " | ".join(f"{value:.3f}" for value in found[-1])
        lines.append(f"| {name} | {len(y)} | {cells} |")
        print(lines[-1], flush=True)
    mean = np.mean(found, axis=0)
    cells = " | ".join(f"{value:.3f}" for value in mean)
    return [*lines, f"| mean of {len(found)} | | {cells} |"]


def speed(n=60_000, width=1430, batch=1000):
    """Samples per CPU second in a stream of float64, both methods in turn on the same batches."""
    rng = np.random.default_rng(0)
    centres, spent = rng.normal(size=(10, width)), np.zeros(3)
    cuts = (0, 784, 1184, width)
    models = [OMCAL(10, random_state=0)]
    models += [MiniBatchKMeans(k, random_state=0) for k in (50, 10)]
    for _ in range(n // batch):
        X = rng.normal(size=(batch, width), scale=3) + centres[rng.integers(0, 10, batch)]
        views = [np.ascontiguousarray(X[:, a:b]) for a, b in pairwise(cuts)]
        for i, model in enumerate(models):
            began = time.process_time()
            model.partial_fit(X if i else views)
            spent[i] += time.process_time() - began
    rates, names = n / spent, ["OMCAL, 50 anchors", "MiniBatchKMeans, 50", "MiniBatchKMeans, 10"]
    lines = [f"{n} × {width} in batches of {batch}, 10 clusters:", ""]
    lines += [
        f"* {name}: {rate:,.0f} samples per second" for name, rate in zip(names, rates, strict=True)
    ]
    return [*lines, f"* ratio: {rates[0] / rates[1]:.2f} and {rates[0] / rates[2]:.2f}"]


def kept(folder, seeds):
    lines = ["| set | ARI of the two fits | numbers kept |", "|---|---:|---:|"]
    agreeing = []
    for name in YARDSTICK:
        views, y = load(folder, name)
        n, found = len(y), []
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(n)
            first, second = order[: 2 * n // 3], order[n // 3 :]
            make = {"n_clusters": int(y.max()) + 1}
            old = OMCAL(**make, random_state=seed).fit(part_of(views, first))
            new = OMCAL(**make, random_state=seed + 1).fit(part_of(views, second), like=old)
            both = old.labels_[n // 3 :], new.labels_[: len(first) - n // 3]
            found.append((ari(*both), (both[0] == both[1]).mean()))
        agreement, share = np.mean(found, axis=0)
        lines.append(f"| {name} | {agreement:.3f} | {share:.1%} |")
        agreeing += [share] if agreement > 0.9 else []
        print(lines[-1], flush=True)
    return [*lines, f"| mean of {len(agreeing)} with ARI > .9 | | {np.mean(agreeing):.1%} |"]


def scored(F, labels, y, exponent):
    """Return the largest probability of each sample, and whether its class is the majority."""
    P = F**exponent
    P = P / np.maximum(P.sum(axis=1, keepdims=True), 1e-300)
    table = np.zeros((F.shape[1], int(y.max()) + 1))
    np.add.at(table, (labels, y), 1)
    return P.max(axis=1), table.argmax(axis=1)[labels] == y


def curve(sets, exponent):
    """Return (mean probability, share in the majority class, weight) by bin; sets weigh alike."""
    parts = [scored(*one, exponent) for one in sets]
    p, hit = (np.concatenate(part) for part in zip(*parts, strict=True))
    weight = np.concatenate([np.full(len(part), 1 / len(part)) for part, _ in parts])
    bins = np.minimum((10 * p).astype(int), 9)
    rows = []
    for one in np.unique(bins):
        here = bins == one
        means = (np.average(values[here], weights=weight[here]) for values in (p, hit))
        rows.append((*means, weight[here].sum() / weight.sum()))
    return np.array(rows)


def error_of(rows):
    return float((np.abs(rows[:, 0] - rows[:, 1]) * rows[:, 2]).sum())


def reliability(folder, consensus=False):
    sets = []
    for name in YARDSTICK:
        views, y = load(folder, name)
        model = OMCAL(int(y.max()) + 1, random_state=0)
        model = Consensus(model, random_state=0) if consensus else model
        model.fit(views)
        sets.append((model.transform(views), model.predict(views), y))
    halves, lines, judged = (sets[::2], sets[1::2]), [], []
    for own, other in (halves, halves[::-1]):
        best = EXPONENTS[np.argmin([error_of(curve(other, e)) for e in EXPONENTS])]
        judged.append(error_of(curve(own, best)))
        lines.append(
            f"* {len(own)} sets with the exponent {best:.1f} of the others: {judged[-1]:.3f}"
        )
    overall = EXPONENTS[np.argmin([error_of(curve(sets, e)) for e in EXPONENTS])]
    lines += [f"* mean error {np.mean(judged):.3f}; best exponent of all sets {overall:.1f}", ""]
    lines += ["| probability | majority class | samples |", "|---:|---:|---:|"]
    default = 1.5
    lines += [f"| {p:.2f} | {hit:.2f} | {share:.0%} |" for p, hit, share in curve(sets, default)]
    return [*lines, "", f"Error with {default}, all sets: {error_of(curve(sets, default)):.3f}"]


def alarms(calls=100):
    """Count the calls of `drift` that raise an alarm for samples of the same kind."""
    views = list(load_digits_views().views.values())
    n_alarms = 0
    for seed in range(calls):
        order = np.random.default_rng(seed).permutation(len(views[0]))
        old, new = (order[:900], order[900:]) if seed % 2 else (order[:300], order[300:600])
        model = OMCAL(10, random_state=0).fit(part_of(views, old))
        n_alarms += bool(model.drift(part_of(views, new)).moved)
    return [f"Alarms of `drift` in {calls} calls with new digits of the same kind: {n_alarms}"]


def strangers(seeds=3):
    views, found = list(load_digits_views().views.values()), []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(views[0]))
        model = OMCAL(10, random_state=0).fit(part_of(views, order[:1200]))
        seen = part_of(views, order[1200:])
        shuffled = [rng.permuted(view, axis=0) for view in seen]
        scores = [model.score_samples(some) for some in (seen, shuffled)]
        truth = np.repeat([1, 0], [len(one) for one in scores])
        found.append(roc_auc_score(truth, np.concatenate(scores)))
    return [f"AUC of `score_samples` for shuffled digits: {np.mean(found):.3f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--parts", default="stream,speed,kept,reliability,consensus,strangers,alarms"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    parts = {
        "stream": ("One pass over a stream: ARI", lambda: stream(args.folder, args.seeds)),
        "speed": ("Throughput", speed),
        "kept": (
            "Numbers kept in a refit on half new samples",
            lambda: kept(args.folder, args.seeds),
        ),
        "reliability": ("Reliability of predict_proba", lambda: reliability(args.folder)),
        "consensus": (
            "Reliability of predict_proba, Consensus of 10 runs",
            lambda: reliability(args.folder, consensus=True),
        ),
        "strangers": ("Strangers", strangers),
        "alarms": ("False alarms of drift", alarms),
    }
    text = RESULTS.read_text().split("\n## ") if RESULTS.exists() else ["# Living clusters\n"]
    sections = {one.partition("\n")[0]: one.partition("\n")[2].strip() for one in text[1:]}
    for name in args.parts.split(","):
        title, work = parts[name]
        sections[title] = "\n".join(work())
        print(f"## {title}\n{sections[title]}\n", flush=True)
        body = [f"## {title}\n\n{content}\n" for title, content in sections.items()]
        RESULTS.write_text("\n".join(["# Living clusters\n", *body]))


if __name__ == "__main__":
    main()
