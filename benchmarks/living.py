"""Clusters that live on: streams, numbers kept in refits, calibrated probabilities, strangers.

    OMP_NUM_THREADS=1 python benchmarks/living.py ../shared/data [--seeds 2] [--parts stream,...]

Parts: `stream`, one pass in batches of 100 samples over the 17 labelled sets, in random order and
sorted by class, against a fit to all samples in the same order; `speed`, samples per CPU second of
`partial_fit` against MiniBatchKMeans on made streams of 1430 features, medians of seven; `kept`,
the share of the samples of both fits that keep their number where half of the samples are new;
`reliability`, of samples with a probability in a bin the share in the majority class of their
cluster, for the two halves of the sets, each with the exponent that is best for the other half;
`strangers`, the AUC of three scores for samples with shuffled features; `outliers`, the share of
held-out samples that `predict(X, outliers=-1)` calls outliers with contamination=.05; `alarms`,
calls of `drift` that raise a false alarm; `long`, 200 batches of one stream: size of the model,
ARI; `growth`, streams in which a new cluster appears, or noise. Results go to
benchmarks/results/living.md.
"""

from __future__ import annotations

import argparse
import pickle
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from labelled_sets import YARDSTICK, load
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import roc_auc_score

from omcal import OMCAL, Consensus
from omcal.datasets import load_digits_views, make_multiview
from omcal.metrics import ari
from omcal.model.certainty import probabilities, typicality

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


def speed():
    """Throughput with batches of two sizes."""
    return [*throughput(1000), "", *throughput(4000)]


def throughput(batch, n=60_000, width=1430, repeats=7):
    """Samples per CPU second in streams of float64, all methods in turn on the same batches."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, width))
    cuts = (0, 784, 1184, width)
    spent = np.zeros((repeats, 3, n // batch))
    for r, b in np.ndindex(repeats, n // batch):
        if b == 0:
            models = [OMCAL(10, random_state=0)]
            models += [MiniBatchKMeans(k, random_state=0) for k in (50, 10)]
        X = rng.normal(size=(batch, width), scale=3) + centres[rng.integers(0, 10, batch)]
        views = [np.ascontiguousarray(X[:, i:j]) for i, j in pairwise(cuts)]
        for i, model in enumerate(models):
            began = time.process_time()
            model.partial_fit(X if i else views)
            spent[r, i, b] = time.process_time() - began
    names = ["OMCAL, 50 anchors", "MiniBatchKMeans, 50", "MiniBatchKMeans, 10"]
    lines = [f"{n} × {width} in batches of {batch}, 10 clusters, one thread, CPU time:", ""]
    lines += ["| method | samples per second | from the third batch on |", "|---|---:|---:|"]
    rates = n / spent.sum(axis=2), batch / np.median(spent[:, :, 2:], axis=2)
    for i, name in enumerate(names):
        lines.append(
            f"| {name} | " + " | ".join(f"{np.median(x[:, i]):,.0f}" for x in rates) + " |"
        )
    for i, k in ((1, 50), (2, 10)):
        cells = " | ".join(spread(x[:, 0] / x[:, i]) for x in rates)
        lines.append(f"| ratio to {k} centres | {cells} |")
    return lines


def spread(values):
    """Return the median and, in brackets, the smallest and the largest value."""
    return f"{np.median(values):.2f} ({values.min():.2f} to {values.max():.2f})"


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
    default = model._sharpness
    lines += [f"| {p:.2f} | {hit:.2f} | {share:.0%} |" for p, hit, share in curve(sets, default)]
    return [*lines, "", f"Error with {default}, all sets: {error_of(curve(sets, default)):.3f}"]


def outliers(folder, share=0.05, seeds=2):
    """Fit to a random half of each set; count the outliers of the other half."""
    lines = ["| set | outliers of the held-out half |", "|---|---:|"]
    found = []
    for name in YARDSTICK:
        views, y = load(folder, name)
        rates = []
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            first, second = order[: len(y) // 2], order[len(y) // 2 :]
            model = OMCAL(int(y.max()) + 1, contamination=share, random_state=seed)
            model.fit(part_of(views, first))
            rates.append((model.predict(part_of(views, second), outliers=-1) < 0).mean())
        found.append(np.mean(rates))
        lines.append(f"| {name} | {found[-1]:.1%} |")
        print(lines[-1], flush=True)
    return [*lines, f"| mean of {len(found)} | {np.mean(found):.1%} |"]


def long(folder, n_batches=200):
    """One pass over NoisyMNIST: the pickled size of the model, and the ARI."""
    views, y = load(folder, "NoisyMNIST")
    c, n = int(y.max()) + 1, len(y)
    lines = [f"{n} samples in {n_batches} batches; a fit to all has the ARI "]
    order = np.random.default_rng(0).permutation(n)
    lines[0] += f"{ari(y, OMCAL(c, random_state=0).fit_predict(views)):.3f}."
    lines += ["", "| order | MiB after 50, 100, 150, 200 batches | ARI |", "|---|---|---:|"]
    by_class = order[np.argsort(y[order], kind="stable")]
    for name, rows in (("random", order), ("sorted by class", by_class)):
        model, sizes = OMCAL(c, random_state=0), []
        for b, some in enumerate(np.array_split(rows, n_batches), start=1):
            model.partial_fit(part_of(views, some))
            if b % 50 == 0:
                sizes.append(f"{len(pickle.dumps(model)) / 2**20:.1f}")
        lines.append(f"| {name} | {', '.join(sizes)} | {ari(y, model.predict(views)):.3f} |")
    return lines


def growth(seeds=5):
    """Updates of 300 known samples and 60 others: of a new cluster, or of noise."""
    others = {
        "new cluster": None,
        "none": lambda rng, X: X[:0],
        "uniform": lambda rng, X: rng.uniform(X.min(0), X.max(0), (60, X.shape[1])),
        "shuffled": lambda rng, X: rng.permuted(X[:60], axis=0),
        "Gaussian, 3 deviations": lambda rng, X: (
            X.mean(0) + 3 * X.std(0) * rng.normal(size=(60, X.shape[1]))
        ),
    }
    lines = ["| noise | others | streams | clusters added | numbers kept |"]
    lines += ["|---:|---|---:|---:|---:|"]
    for noise in (0.3, 0.6, 1.0):
        for kind, made in others.items():
            added, same = [], []
            for seed in range(seeds):
                data = make_multiview(3000, n_clusters=5, noise=noise, random_state=seed)
                rng, views = np.random.default_rng(seed), list(data.views.values())
                old, new = (np.flatnonzero(data.labels < 4), np.flatnonzero(data.labels == 4))
                model = OMCAL(4, random_state=0, grow=True).fit(part_of(views, old[:750]))
                before = model.predict(part_of(views, old))
                for week in range(4):
                    batch = part_of(views, old[750 + 300 * week : 1050 + 300 * week])
                    more = part_of(views, new[60 * week : 60 * week + 60])
                    if made is not None:
                        more = [made(rng, view) for view in views]
                    model.partial_fit([np.vstack(pair) for pair in zip(batch, more, strict=True)])
                added.append(model.n_clusters_ - 4)
                same.append((model.predict(part_of(views, old)) == before).mean())
            cells = f"| {noise} | {kind} | {seeds} | {sum(added)} | {np.mean(same):.1%} |"
            lines.append(cells)
            print(cells, flush=True)
    return lines


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


def strangers(folder, seeds=3):
    """Compare scores that tell new samples from the same with each feature shuffled."""
    sets = {"digits": (list(load_digits_views().views.values()), 10)}
    for name in ("Handwritten", "MNIST4", "Coil", "HW2sources", "MSRCv1", "Dermatology", "Wiki"):
        views, y = load(folder, name)
        sets[name] = [np.asarray(view) for view in views], int(y.max()) + 1
    forms = {
        "largest entry of F": lambda F: F.max(axis=1),
        "times its probability": lambda F: (F * probabilities(F)).max(axis=1),
        "times its squared share: score_samples": typicality,
    }
    lines = [f"| set | {' | '.join(forms)} |", "|---" + "|---:" * len(forms) + "|"]
    for name, (views, c) in sets.items():
        found = {form: [] for form in forms}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            old, new = np.split(rng.permutation(len(views[0])), [2 * len(views[0]) // 3])
            model = OMCAL(c, random_state=seed).fit(part_of(views, old))
            seen = part_of(views, new)
            shuffled = [rng.permuted(view, axis=0) for view in seen]
            F = np.maximum(np.vstack([model.transform(some) for some in (seen, shuffled)]), 0)
            truth = np.repeat([1, 0], len(new))
            for form, score in forms.items():
                found[form].append(roc_auc_score(truth, score(F)))
        lines.append(f"| {name} | {' | '.join(f'{np.mean(v):.3f}' for v in found.values())} |")
        print(lines[-1], flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--parts",
        default="stream,speed,kept,reliability,consensus,strangers,outliers,alarms,long,growth",
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
        "strangers": ("Strangers: AUC", lambda: strangers(args.folder)),
        "outliers": ("False alarms of outliers", lambda: outliers(args.folder)),
        "alarms": ("False alarms of drift", alarms),
        "long": ("A long stream", lambda: long(args.folder)),
        "growth": ("Growth", growth),
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
