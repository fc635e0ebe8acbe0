"""`omcal cluster`: cluster the samples of a file."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal
from omcal.cli import options, places
from omcal.cli.console import collected_warnings, fit_progress, print_table, stdout
from omcal.cli.options import (
    PARAMETERS,
    Runs,
    chosen_runs,
    combined,
    estimate_record,
    expected_fit,
    parse_scale,
    runs_of_consensus,
    takes,
    with_scales,
    words_of,
)
from omcal.cli.outputs import Outputs, require_ending, require_label_format, samples_of
from omcal.cli.reading import Reading, reads, remarks, suggested
from omcal.cli.scores import NMI_AVERAGE, agreement, print_clusters

if TYPE_CHECKING:
    from omcal import OMCAL
    from omcal.datasets import MultiViewData
    from omcal.experiments import Method

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="Write sample (or id) and cluster to this file: .csv .tsv .xlsx .parquet .npy; -: CSV "
        "to standard output.",
    ),
]

MethodName = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help="omcal, or a method it is compared with, such as fsmsc; docs/baselines.md lists them.",
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option("--report", metavar="HTML", help="Write a report of the result to this file."),
]
ModelOut = Annotated[
    Path | None,
    typer.Option("--save-model", metavar="FILE", help="Write the model, for `omcal predict`."),
]
Like = Annotated[
    Path | None,
    typer.Option(
        "--like", metavar="MODEL", help="Keep the numbers of the clusters of this saved model."
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the estimated time and memory, and do nothing.")
]


@takes(*PARAMETERS)
@reads()
def cluster(
    reading: Reading,
    parameters: dict[str, Any],
    clusters: options.Clusters = "auto",
    out: Out = None,
    report: ReportFile = None,
    save_model: ModelOut = None,
    like: Like = None,
    certainty: options.Certainty = None,
    dry_run: DryRun = False,
    method: MethodName = "omcal",
    runs: Runs = None,
    seed: options.Seed = 0,
    dask: places.Dask = None,
    collective: places.Collective = False,
) -> None:
    """Cluster the samples of FILE.

    Several files are joined by their ids. If there are classes, the clusters are compared with
    them.
    """
    n_clusters = options.cluster_number(clusters)
    for_omcal: dict[str, Any] = {"--report": report, "--save-model": save_model, "--dask": dask}
    for_omcal |= {"--collective": collective or None, "--like": like}
    for_omcal |= {"--certainty": certainty or None, "--dry-run": dry_run or None}
    chosen, runs = _method(method, runs, parameters, for_omcal)
    parse_scale(parameters.get("scale", "auto"))  # refused before the files are read
    state = parameters.get("checkpoint")
    files = {"--out": out, "--save-model": save_model, "--report": report}
    outputs = Outputs(reading, files | {"--checkpoint": None if state is None else Path(state)})
    elsewhere = dask is not None or collective
    if dask is not None and collective:
        raise ValueError("--dask cannot be combined with --collective; leave one of them out.")
    if like is not None and elsewhere:
        raise ValueError("--like cannot be combined with --dask or --collective; leave one out.")
    if certainty and elsewhere:
        raise ValueError("--certainty needs a fit without --dask, --collective; use omcal predict.")
    if chosen.name != "omcal" or elsewhere:
        certainty = False
    old = None if like is None else omcal.load(like)
    require_label_format(out)
    require_ending(report, "--report", (".html", ".htm"))
    data = reading.load()
    if n_clusters is None and dry_run:
        raise ValueError("--dry-run does not look for the number of clusters; give --clusters N.")
    omcal_parameters = with_scales(parameters, data) if chosen.name == "omcal" else {}
    n_clusters, suggestion = suggested(n_clusters, data, omcal_parameters, seed)
    model: Any = chosen.make(n_clusters, random_state=seed, **omcal_parameters)
    run_notes: list[str] = []
    if chosen.name == "omcal":
        runs, run_notes = chosen_runs(model, runs, data, elsewhere=elsewhere)
        if dry_run:
            _show_expected(model, data, runs, run_notes, reading)
            return
        model = combined(model, runs)
    # Of several ranks only the first one prints and writes.
    first = not collective or os.environ.get("RANK", "0") == "0"
    shown = first and not reading.quiet
    with collected_warnings() as notes, fit_progress(model, shown=shown):
        began = perf_counter()
        interrupted = _fit(model, data, dask, collective, old)
        seconds = perf_counter() - began
    if not first:
        return
    words = ["--clusters", str(n_clusters), "--seed", str(seed), *words_of(parameters)]
    words += [] if like is None else ["--like", str(like)]
    words += ["--runs", str(getattr(model, "n_runs", 1))] if chosen.name == "omcal" else []
    command = shlex.join(["omcal", "cluster", *reading.words(), *words])

    def report_to(path: Path) -> None:
        clusters = f"in {len(model.cluster_names_)} clusters"
        write_report(
            model, path, data.views, data, reading, clusters, seconds=seconds, command=command
        )

    result = {
        "method": chosen.name,
        "title": chosen.title,
        "out": outputs.write_labels(model, model.labels_, data, data.views, certainty),
        "model": outputs.write("--save-model", lambda path: model.save(path)),
        "report": outputs.write("--report", report_to),
        **_summary(model, data),
        "samples": samples_of(data, model.labels_),
        "suggestion": suggestion,
        "interrupted": interrupted,
        "seconds": seconds,
        "notes": [*remarks(data), *run_notes],
        "warnings": notes,
    }
    outputs.print(result, _show)
    if interrupted:
        raise KeyboardInterrupt


def _method(
    name: str, runs: int | None, parameters: dict[str, Any], for_omcal: dict[str, Any]
) -> tuple[Method, int | None]:
    """Return the method and the number of runs; refuse options of OMCAL for other methods."""
    chosen = omcal.experiments.find_method(name)
    if chosen.name == "consensus":
        return omcal.experiments.find_method("omcal"), runs_of_consensus(runs)
    options_given = {str(PARAMETERS[n].option): value for n, value in parameters.items()}
    given = {**for_omcal, "--runs": runs, **options_given}
    listed = ", ".join(option for option, value in given.items() if value is not None)
    if listed and chosen.name != "omcal":
        raise ValueError(f"{listed} is for OMCAL; leave it out with --method {chosen.name}.")
    return chosen, runs


def _fit(
    model: Any, data: MultiViewData, dask: str | None, collective: bool, old: Any = None
) -> bool:
    """Fit the model; return whether Ctrl-C ended the fit with a result."""
    import numpy as np

    if collective:
        places.fit_together(model, data.views)
        return False
    try:
        if dask is not None:
            places.fit_on_dask(model, data.views, dask)
        elif isinstance(model, omcal.OMCAL | omcal.Consensus):
            model.fit(data.views, like=old)
        else:
            model.fit(data.views)
    except KeyboardInterrupt:
        # There is no result before the iterations, and labels on a Dask cluster are lost with it.
        if not isinstance(getattr(model, "labels_", None), np.ndarray):
            raise
        return True
    return False


def _show_expected(
    model: OMCAL, data: MultiViewData, n_runs: int, notes: list[str], reading: Reading
) -> None:
    import numpy as np

    views = omcal.datasets.describe(data)["views"]
    mapped = any(isinstance(view, np.memmap) for view in data.views.values())
    expected = expected_fit(model, views, mapped=mapped, n_runs=n_runs)
    result = {"dry_run": True, "notes": notes, **estimate_record(expected)}
    reading.print(result, lambda _: stdout().print(str(expected), soft_wrap=True))


def write_report(
    model: Any, path: Path, X: Any, data: MultiViewData, reading: Reading, title: str, **more: Any
) -> None:
    """Write a report of the samples X of a model; `more` goes to `report`."""
    title = f"{reading.title}: {data.n_samples:,} samples {title}"
    model.report(path, X, data.labels, title=title, source=reading.source, names=data.ids, **more)


def _summary(model: Any, data: MultiViewData) -> dict[str, Any]:
    """Return the results of a fit as plain Python numbers; None for absent ones."""
    import numpy as np

    unknown = [None] * len(model.view_names_)
    weights = np.ravel(getattr(model, "view_weights_", [])).tolist()
    # A method may have more weights than views, such as one for their concatenation.
    view_weights = weights if len(weights) == len(unknown) else unknown
    kinds = getattr(model, "view_scales_", unknown)
    scales = [None if kind is None else str(kind) for kind in kinds]
    views = zip(model.view_names_, model.n_features_per_view_, view_weights, scales, strict=True)
    single_run = getattr(model, "estimator_", model)  # of several runs the best match
    parameters = {**single_run.get_params(), "random_state": model.random_state}
    if hasattr(single_run, "basis_"):
        parameters["n_anchors"] = len(single_run.basis_)
    objective = np.ravel(getattr(model, "objective_", []))
    n_clusters = getattr(model, "n_clusters_", model.n_clusters)
    return {
        "n_samples": len(model.labels_),
        "views": [
            {"name": n, "n_features": d, "weight": weight, "scale": scale}
            for n, d, weight, scale in views
        ],
        "n_runs": len(getattr(model, "runs_", [model])),
        "stability": getattr(model, "stability_", None),
        "doubts": [str(doubt) for doubt in getattr(model, "doubts_", [])],
        "parameters": parameters,
        "cluster_sizes": np.bincount(model.labels_, minlength=n_clusters).tolist(),
        "converged": getattr(model, "converged_", None),
        "n_iter": getattr(model, "n_iter_", None),
        "objective": float(objective[-1]) if objective.size else None,
        "scores": agreement(data, model.labels_),
        "nmi_average": NMI_AVERAGE,
    }


def _show(result: dict[str, Any]) -> None:
    print_table(
        "Views",
        ("view", "features", "weight", "scaled as"),
        [
            (v["name"], str(v["n_features"]), weight, v["scale"] or "")
            for v in result["views"]
            for weight in ["" if v["weight"] is None else f"{v['weight']:.3f}"]
        ],
    )
    print_clusters(result["cluster_sizes"], result["scores"])
    stdout().print(_ending(result))
    print_files(result, "report", "model")


def print_files(result: dict[str, Any], *others: str) -> None:
    """Print the names of the files that a command wrote: labels and others."""
    console = stdout()
    if result["out"] is None:
        console.print("The labels were not saved; add --out labels.csv.")
    else:
        console.print(f"Labels: {result['out']}")
    for title in others:
        if result[title] is not None:
            console.print(f"{title.capitalize()}: {result[title]}")


def _ending(result: dict[str, Any]) -> str:
    """Return one sentence on the end of the fit."""
    n, seconds = result["n_samples"], result["seconds"]
    if result["converged"] is None:
        return f"{result['title']}: {n} samples in {seconds:.2f} s."
    end = "Converged" if result["converged"] else "Not converged"
    if result["interrupted"]:
        end = "Interrupted"
    if result["stability"] is not None:
        done = "Interrupted after " if result["interrupted"] else ""
        return (
            f"{done}{result['n_runs']} runs, which agree with the result by an ARI of "
            f"{result['stability']:.2f}, in {seconds:.2f} s: {n} samples, "
            f"{result['parameters']['n_anchors']} anchors per run."
        )
    return (
        f"{end} after {result['n_iter']} iterations and {seconds:.2f} s: {n} samples, "
        f"{result['parameters']['n_anchors']} anchors, objective {result['objective']:.6g}."
    )
