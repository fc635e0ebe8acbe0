"""`omcal cluster`: cluster the samples of a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

from omcal import OMCAL, __version__
from omcal.baselines import METHODS
from omcal.cli import options, places
from omcal.cli.console import collected_warnings, fit_progress, print_json, print_table, stdout
from omcal.cli.expected import estimate_record, expected_fit
from omcal.cli.files import absences, require_complete, require_writable, write_labels
from omcal.cli.options import DEFAULTS
from omcal.cli.scores import NMI_AVERAGE, PAPER_SCORES, TITLES, agreement
from omcal.datasets import MultiViewData, describe, load_views
from omcal.select.number import ClusterNumber
from omcal.select.number import n_clusters as suggest_n_clusters

Out = Annotated[
    Path | None, typer.Option("--out", metavar="CSV", help="Write sample,cluster to this file.")
]

MethodName = Annotated[
    str,
    typer.Option(
        "--method", metavar="NAME", help=f"omcal, or another method: {', '.join(METHODS)}."
    ),
]
ReportFile = Annotated[
    Path | None, typer.Option("--report", metavar="HTML", help="Describe the result in this file.")
]
ModelOut = Annotated[
    Path | None,
    typer.Option("--save-model", metavar="FILE", help="Write the model, for `omcal predict`."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and do nothing.")]

_LISTED_CLUSTERS = 30


def cluster(
    file: options.DataFile,
    clusters: options.ClustersOrAuto,
    out: Out = None,
    report: ReportFile = None,
    save_model: ModelOut = None,
    dry_run: DryRun = False,
    method: MethodName = "omcal",
    views: options.ViewNames = None,
    labels: options.LabelName = None,
    anchors: options.Anchors = DEFAULTS["n_anchors"],
    anchors_by: options.AnchorsByOption = DEFAULTS["anchors"],
    neighbors: options.Neighbors = DEFAULTS["n_neighbors"],
    beta: options.Beta = DEFAULTS["beta"],
    gamma: options.Gamma = DEFAULTS["gamma"],
    scale: options.ScaleOption = DEFAULTS["scale"],
    weighting: options.WeightingOption = DEFAULTS["weighting"],
    init: options.InitOption = DEFAULTS["init"],
    n_init: options.Starts = DEFAULTS["n_init"],
    max_iter: options.Iterations = DEFAULTS["max_iter"],
    tol: options.Tolerance = DEFAULTS["tol"],
    accelerate: options.Accelerate = DEFAULTS["accelerate"],
    device: options.Device = DEFAULTS["device"],
    seed: options.Seed = 0,
    memory_limit: places.MemoryLimit = None,
    scratch_dir: places.ScratchDir = None,
    checkpoint: places.CheckpointFile = None,
    dask: places.Dask = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Cluster the samples of FILE; where it holds classes, compare the clusters with them."""
    parameters: dict[str, Any] = {
        "n_anchors": anchors,
        "anchors": anchors_by.value,
        "n_neighbors": neighbors,
        "beta": beta,
        "gamma": gamma,
        "scale": scale.parameter,
        "weighting": weighting.value,
        "init": init.value,
        "n_init": n_init,
        "max_iter": max_iter,
        "tol": tol,
        "accelerate": accelerate,
        "device": device,
        "memory_limit": memory_limit,
        "scratch_dir": None if scratch_dir is None else str(scratch_dir),
        "checkpoint": None if checkpoint is None else str(checkpoint),
    }
    n_clusters = options.cluster_count(clusters)
    model: Any = OMCAL(random_state=seed, **parameters)
    if method != "omcal":
        ours: dict[str, Any] = {"--report": report, "--save-model": save_model, "--dask": dask}
        ours["--dry-run"] = dry_run or None
        _require_plain(method, parameters, ours)
        model = METHODS[method].cls(random_state=seed)
    for path, option in ((out, "--out"), (report, "--report"), (save_model, "--save-model")):
        if path is not None:
            require_writable(path, unlike=file, option=option)
    data = load_views(file, views=options.names(views), labels=labels)
    if method != "omcal":
        require_complete(data, f"--method {method}")
    if n_clusters is None and dry_run:
        raise ValueError("--clusters auto takes work; give a number with --dry-run.")
    suggestion = None
    if n_clusters is None:
        suggestion = _suggest(data, scale.parameter, seed)
        n_clusters = suggestion.suggestion
    model.set_params(n_clusters=n_clusters)
    if dry_run:
        _show_expected(model, data, file, as_json)
        return
    with collected_warnings() as notes, fit_progress(n_init, max_iter, shown=not quiet):
        began = perf_counter()
        interrupted = _fit(model, data, dask)
        seconds = perf_counter() - began
    if out is not None:
        write_labels(out, model.labels_)
    if save_model is not None:
        model.save(save_model)
    if report is not None:
        command = _command(file, n_clusters, parameters, seed, {"views": views, "labels": labels})
        _write_report(model, report, file, data, seconds, command)
    result = {
        "file": str(file),
        "method": method,
        "out": None if out is None else str(out),
        "report": None if report is None else str(report),
        "model": None if save_model is None else str(save_model),
        **_summary(model, data),
        "suggestion": None if suggestion is None else suggestion.to_dict(),
        "interrupted": interrupted,
        "seconds": seconds,
        "notes": [*data.notes, *absences(data)],
        "warnings": notes,
        "version": __version__,
    }
    if as_json:
        print_json(result)
    elif not quiet:
        if suggestion is not None:
            stdout().print(f"{suggestion.sentence()}\n", soft_wrap=True)
        _show(result)
    if interrupted:
        raise KeyboardInterrupt


def _suggest(data: MultiViewData, scale: str | None, seed: int) -> ClusterNumber:
    """The number of clusters that the data suggest."""
    most = min(30, int(data.n_samples**0.5), data.n_samples // 2 - 1)
    numbers = range(2, max(3, most + 1))
    return suggest_n_clusters(
        data.views, numbers, present=data.present, scale=scale, random_state=seed
    )


def _fit(model: Any, data: MultiViewData, dask: str | None) -> bool:
    """Fit the model; returns whether Ctrl-C ended the fit with a result."""
    try:
        if isinstance(model, OMCAL):
            places.fit_there(model, data.views, dask, data.present)
        else:
            model.fit(data.views)
    except KeyboardInterrupt:
        # Before the iterations there is nothing, and the labels on a Dask cluster are gone with it.
        if not isinstance(getattr(model, "labels_", None), np.ndarray):
            raise
        return True
    return False


def _show_expected(model: OMCAL, data: MultiViewData, file: Path, as_json: bool) -> None:
    mapped = any(isinstance(view, np.memmap) for view in data.views.values())
    expected = expected_fit(model, describe(data)["views"], mapped=mapped)
    if as_json:
        print_json({"file": str(file), "dry_run": True, **estimate_record(expected)})
    else:
        stdout().print(str(expected), soft_wrap=True)


def _require_plain(method: str, parameters: dict[str, Any], ours: dict[str, Any]) -> None:
    """Refuse options that speak of OMCAL together with another method."""
    if method not in METHODS:
        raise ValueError(f"--method {method!r} is unknown; use omcal or {', '.join(METHODS)}.")
    for option, value in ours.items():
        if value is not None:
            raise ValueError(f"{option} is for OMCAL; leave it out with --method {method}.")
    changed = [name for name, value in parameters.items() if value != DEFAULTS[name]]
    if changed:
        given = ", ".join(map(_option, changed))
        raise ValueError(f"{given} belongs to OMCAL; leave it out with --method {method}.")


def _write_report(
    model: OMCAL, path: Path, file: Path, data: MultiViewData, seconds: float, command: str
) -> None:
    title = f"{file.name}: {data.n_samples:,} samples in {model.n_clusters} clusters"
    model.report(
        path,
        data.views,
        data.labels,
        title=title,
        source=str(file),
        seconds=seconds,
        command=command,
        present=data.present,
    )


def _command(
    file: Path,
    clusters: int,
    parameters: dict[str, Any],
    seed: int,
    reading: dict[str, str | None],
) -> str:
    """The command line that gives the same clusters."""
    words = ["omcal", "cluster", str(file), "--clusters", str(clusters), "--seed", str(seed)]
    for name, value in {**reading, **parameters}.items():
        if value is True:
            words.append(_option(name))
        elif value != DEFAULTS.get(name):
            words += [_option(name), "none" if value is None else str(value)]
    return shlex.join(words)


def _option(parameter: str) -> str:
    """How a parameter is spelled on the command line."""
    spelled = {"n_anchors": "anchors", "anchors": "anchors-by", "n_neighbors": "neighbors"}
    return "--" + spelled.get(parameter, parameter).replace("_", "-")


def _summary(model: Any, data: MultiViewData) -> dict[str, Any]:
    """What a fit found, in plain Python numbers; None where a method has no such thing."""
    weights = getattr(model, "view_weights_", None)
    shown = [None] * len(model.view_names_) if weights is None else np.ravel(weights).tolist()
    if len(shown) != len(model.view_names_):  # a method may weight more than the views it is given
        shown = [None] * len(model.view_names_)
    views = zip(model.view_names_, model.n_features_per_view_, shown, strict=True)
    parameters = model.get_params()
    if hasattr(model, "basis_"):
        parameters["n_anchors"] = len(model.basis_)
    objective = np.ravel(getattr(model, "objective_", []))
    return {
        "n_samples": len(model.labels_),
        "views": [{"name": n, "n_features": d, "weight": weight} for n, d, weight in views],
        "parameters": parameters,
        "cluster_sizes": np.bincount(model.labels_, minlength=model.n_clusters).tolist(),
        "converged": getattr(model, "converged_", None),
        "n_iter": getattr(model, "n_iter_", None),
        "objective": float(objective[-1]) if objective.size else None,
        "scores": agreement(data, model.labels_),
        "nmi_average": NMI_AVERAGE,
    }


def _show(result: dict[str, Any]) -> None:
    console = stdout()
    n, sizes = result["n_samples"], result["cluster_sizes"]
    for note in result["notes"]:
        console.print(f"Note: {note}")
    print_table(
        "Views",
        ("view", "features", "weight"),
        [(v["name"], str(v["n_features"]), _decimals(v["weight"])) for v in result["views"]],
    )
    by_size = sorted(enumerate(sizes), key=lambda item: -item[1])
    rows = [(str(c), str(size), f"{size / n:.1%}") for c, size in by_size[:_LISTED_CLUSTERS]]
    title = "Clusters" if len(rows) == len(sizes) else f"The {len(rows)} largest clusters"
    print_table(title, ("cluster", "samples", "share"), rows)
    if result["scores"] is not None:
        scores = [(TITLES[name], f"{result['scores'][name]:.3f}") for name in PAPER_SCORES]
        print_table("Agreement with the classes", ("score", "value"), scores)
    console.print(_ending(result))
    if result["out"] is None:
        console.print("The labels were not saved; add --out labels.csv.")
    else:
        console.print(f"Labels: {result['out']}")
    for title in ("report", "model"):
        if result[title] is not None:
            console.print(f"{title.capitalize()}: {result[title]}")


def _ending(result: dict[str, Any]) -> str:
    """How the fit ended, in one sentence."""
    n, seconds = result["n_samples"], result["seconds"]
    if result["converged"] is None:
        return f"{METHODS[result['method']].title}: {n} samples in {seconds:.2f} s."
    end = "Converged" if result["converged"] else "Not converged"
    if result["interrupted"]:
        end = "Interrupted"
    return (
        f"{end} after {result['n_iter']} iterations and {seconds:.2f} s: {n} samples, "
        f"{result['parameters']['n_anchors']} anchors, objective {result['objective']:.6g}."
    )


def _decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
