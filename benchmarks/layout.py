"""Ways to lay samples out for the map of a report: trustworthiness, noise, time; Markdown.

    python benchmarks/layout.py FOLDER [--samples 500] [--before layout.py]

With `--before`, a file of an earlier version, maps are timed in turns with its `model_layout`.

Trustworthiness (scikit-learn's, 10 neighbours) is taken against the scaled views side by side. On
noise, which is fitted with four clusters, the silhouette of the labels on the map should be about
0, and HDBSCAN (clusters of at least n / 20 samples, else scikit-learn's defaults) should find no
island. How often it finds islands in points of the plane that have none is measured as well.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from labelled_sets import load
from scipy import sparse
from sklearn.cluster import HDBSCAN
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE, trustworthiness
from sklearn.metrics import silhouette_score

from omcal import OMCAL
from omcal.datasets import make_multiview
from omcal.model.subset_fits import fitted_views
from omcal.report.layout import model_layout

SETS = (
    *("digits", "Coil", "Handwritten", "100leaves", "MSRCv1", "MNIST4", "Wiki", "BBC4view"),
    *("Dermatology", "Prokaryotic", "Movies"),
)
NOISE = {
    "Gaussian": lambda rng, n, d: rng.normal(size=(n, d)),
    "uniform": lambda rng, n, d: rng.uniform(size=(n, d)),
    "counts": lambda rng, n, d: rng.poisson(3.0, size=(n, d)).astype(float),
    "heavy tails": lambda rng, n, d: rng.standard_t(3, size=(n, d)),
    "correlated": lambda rng, n, d: (
        rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.3 * rng.normal(size=(n, d))
    ),
}


def scaled(model, X):
    """Return the scaled views side by side."""
    views, scalings = fitted_views(model, X), model._rule.learned.scalings
    both = zip(views, scalings, strict=True)
    blocks = [s.apply(v.rows(np.arange(v.array.shape[0]))) for v, s in both]
    return np.hstack([b.toarray() if sparse.issparse(b) else b for b in blocks])


def tsne(model, X):
    """Return t-SNE of the 50 leading directions of the scaled views."""
    Z = scaled(model, X)
    Z = PCA(50, random_state=0).fit_transform(Z) if min(Z.shape) > 50 else Z
    perplexity = min(30, (len(Z) - 1) / 4)
    return TSNE(init="pca", perplexity=perplexity, random_state=0).fit_transform(Z)


LAYOUTS = {
    "principal plane": lambda model, X: PCA(2, random_state=0).fit_transform(scaled(model, X)),
    "t-SNE": tsne,
    "forces between neighbours in the anchor graphs": lambda model, X: model_layout(model),
    "forces between neighbours in the views (taken)": lambda model, X: model_layout(model, X),
}


def labelled(folder: Path, name: str, most: int):
    if name == "digits":
        digits = load_digits()
        views, y, most = [digits.data], digits.target, len(digits.data)
    else:
        views, y = load(str(folder), name)
    rows = np.sort(np.random.RandomState(0).permutation(len(y))[:most])
    return [view[rows] for view in views], len(np.unique(y))


def noise_sets():
    for seed, kind in enumerate((*NOISE, *NOISE)):
        rng = np.random.RandomState(seed)
        yield [NOISE[kind](rng, 500, d) for d in ((10, 20) if seed % 2 else (5, 50))]


def on_noise(layout) -> tuple[float, int]:
    """Return the mean silhouette of labels on maps of noise, and the number of islands."""
    found, islands = [], 0
    for X in noise_sets():
        model = OMCAL(4, random_state=0).fit(X)
        xy = layout(model, X)
        found.append(silhouette_score(xy, model.labels_))
        islands += islands_in(xy)
    return float(np.mean(found)), islands


def islands_in(xy) -> int:
    """Return the number of islands beside the largest; HDBSCAN never finds a single one."""
    return max(HDBSCAN(min_cluster_size=len(xy) // 20, copy=True).fit_predict(xy).max(), 0)


def false_islands(power: float, draws: int = 40) -> str:
    """Return the share of discs without structure, of this radial profile, that have islands."""
    angles, radii = np.random.RandomState(0).uniform(size=(2, draws, 500))
    discs = radii**power * np.exp(2j * np.pi * angles)
    found = [islands_in(np.column_stack([z.real, z.imag])) > 0 for z in discs]
    return f"{np.mean(found):.0%}"


def seconds_of(n: int, before) -> str:
    """Return the time of a map, and its ratio to the one before: medians of three in turns."""
    data = make_multiview(n, n_clusters=12, random_state=0)
    model = OMCAL(12, random_state=0).fit(data.views)
    layouts = [model_layout, *([before.model_layout] if before else [])]
    times = np.zeros((3, len(layouts)))
    for turn in times:
        for k, layout in enumerate(layouts):
            began = time.process_time()
            layout(model, data.views)
            turn[k] = time.process_time() - began
    ratio = f" ({np.median(times[:, 0] / times[:, 1]):.2f} of the one before)" if before else ""
    return f"{np.median(times[:, 0]):.1f} s{ratio}"


def loaded(path: Path | None):
    """Return a file as a module; None for none."""
    if path is None:
        return None
    spec = importlib.util.spec_from_file_location("before", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["before"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=500, help="of each set")
    parser.add_argument("--before", type=Path, help="layout.py of an earlier version")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "layout.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    trust = {name: [] for name in LAYOUTS}
    for name in SETS:
        X, c = labelled(options.folder, name, options.samples)
        model = OMCAL(c, random_state=0).fit(X)
        for layout, place in LAYOUTS.items():
            found = trustworthiness(scaled(model, X), place(model, X), n_neighbors=10)
            trust[layout].append(found)
        print(name, {layout: round(values[-1], 3) for layout, values in trust.items()}, flush=True)
    lines = [
        f"Trustworthiness: mean over {', '.join(SETS)} (all of digits, at most {options.samples} "
        "samples of the others).",
        "Noise: ten sets, fitted with four clusters.",
        "",
        "| layout | trustworthiness | of digits | silhouette on noise | islands |",
        "|---|---|---|---|---|",
    ]
    for layout, values in trust.items():
        silhouette, islands = on_noise(LAYOUTS[layout])
        figures = f"{np.mean(values):.3f} | {values[0]:.3f} | {silhouette:.2f} | {islands}"
        lines.append(f"| {layout} | {figures} |")
    lines += [
        "",
        f"HDBSCAN finds islands in {false_islands(0.5)} of random discs of even density and in "
        f"{false_islands(0.8)} of discs whose density falls outwards (radius: power 0.8 of a "
        "uniform number; 500 points).",
    ]
    before = loaded(options.before)
    times = " and ".join(seconds_of(n, before) for n in (10_000, 100_000))
    lines += ["", f"Processor time of maps of 10⁴ and 10⁵ samples: {times}."]
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
