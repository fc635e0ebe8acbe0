"""`omcal demo`: the built-in digits, clustered by OMCAL and by k-means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal
from omcal.cli.console import collected_warnings, deliver, print_table, stdout
from omcal.cli.options import Json, Seed
from omcal.cli.outputs import require_writable
from omcal.cli.scores import NMI_AVERAGE, PAPER_SCORES, TITLES
from omcal.machine.optional import require

if TYPE_CHECKING:
    from omcal import OMCAL

_KMEANS_STARTS = 10
_DRAWN_SAMPLES = 300

Folder = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the figure demo.png.")
]


def demo(out: Folder = Path("omcal-demo"), seed: Seed = 0, as_json: Json = False) -> None:
    """Cluster handwritten digits with OMCAL and with k-means.

    OMCAL runs with its default parameters and one start, k-means with ten starts.
    """
    out.mkdir(parents=True, exist_ok=True)
    figure = out / "demo.png"
    require_writable(figure)
    require("matplotlib.figure", "figures")  # fail before the work, not after it
    data = omcal.datasets.load_digits_views()
    fitted = list(_fits(data, seed))
    models = {name: model for name, model, _ in fitted if isinstance(model, omcal.OMCAL)}
    _draw(models["OMCAL, adaptive"], data, seed, figure)
    result = {
        "data": {
            "name": data.name,
            "n_samples": data.n_samples,
            "n_features": dict(zip(data.views, data.widths, strict=True)),
        },
        "methods": [{"method": name, **record} for name, _, record in fitted],
        "view_weights": {
            name: dict(zip(model.view_names_, model.view_weights_.tolist(), strict=True))
            for name, model in models.items()
        },
        "nmi_average": NMI_AVERAGE,
        "seed": seed,
        "figure": str(figure),
    }
    deliver(result, _show, as_json=as_json)


def _fits(data: Any, seed: int) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield the name and fitted model of each method, with its scores, seconds and warnings."""
    for name, model, X in _methods(data, seed):
        with collected_warnings(name) as notes:
            began = perf_counter()
            labels = model.fit_predict(X)
            seconds = perf_counter() - began
        scores = omcal.metrics.evaluate(data.labels, labels, average=NMI_AVERAGE)
        yield name, model, {**scores, "seconds": seconds, "warnings": notes}


def _methods(data: Any, seed: int) -> Iterator[tuple[str, Any, Any]]:
    how: dict[str, Any] = {"n_init": _KMEANS_STARTS, "random_state": seed}
    for name, X in {**data.views, "all views": data.views}.items():
        yield f"k-means, {name}", omcal.baselines.ConcatKMeans(data.n_classes, **how), X
    for weighting in ("adaptive", "distinct"):
        model = omcal.OMCAL(data.n_classes, weighting=weighting, random_state=seed)
        yield f"OMCAL, {weighting}", model, data.views


def _draw(model: OMCAL, data: Any, seed: int, path: Path) -> None:
    import numpy as np

    from omcal.machine.files import replacing
    from omcal.model.subset_fits import consensus_graphs

    plots = omcal.plots
    some = np.random.RandomState(seed).permutation(data.n_samples)[:_DRAWN_SAMPLES]
    # Classes side by side and, within a class, the samples of a cluster side by side.
    some = some[np.lexsort((model.labels_[some], data.labels[some]))]
    boundaries = np.flatnonzero(np.diff(data.labels[some])) + 1
    graphs = consensus_graphs(model, {name: view[some] for name, view in data.views.items()})
    before, after = (plots.sample_similarity(graph) for graph in graphs)
    figure = plots.overview(
        model.objective_, model.view_weights_, model.view_names_, before, after, boundaries
    )
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


def _show(result: dict[str, Any]) -> None:
    data = result["data"]
    title = f"{data['name']}: {data['n_samples']} samples in {len(data['n_features'])} views"
    rows = [
        [m["method"], *(f"{m[name]:.3f}" for name in PAPER_SCORES), f"{m['seconds']:.2f}"]
        for m in result["methods"]
    ]
    titles = {**TITLES, "nmi": "NMI"}  # so that the table fits 80 columns
    print_table(title, ("method", *(titles[name] for name in PAPER_SCORES), "seconds"), rows)
    weights = result["view_weights"]
    rows = [
        [name, str(width), *(f"{w[name]:.3f}" for w in weights.values())]
        for name, width in data["n_features"].items()
    ]
    print_table("View weights", ("view", "features", *weights), rows)
    console = stdout()
    console.print(
        f"Default parameters, seed {result['seed']}; OMCAL from one start, k-means the best of "
        f"{_KMEANS_STARTS} on z-scored features."
    )
    console.print(f"NMI: mutual information over the {NMI_AVERAGE} of the two entropies.")
    console.print(f"Figure: {result['figure']}")
