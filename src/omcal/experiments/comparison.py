"""Comparison of methods on one data set: runs under limits, their records and a table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from omcal.baselines import Method
from omcal.datasets import MultiViewData
from omcal.experiments.contents import RANKS_NOTE, measured_entries
from omcal.experiments.methods import find_method, methods
from omcal.experiments.outputs import conditions, failures, table_page
from omcal.experiments.plan import Cell, Measured, load_paper
from omcal.experiments.records import Record, Summary, is_current, read_records
from omcal.experiments.runner import Observer, run_cells
from omcal.experiments.tables import Entry, Table, ranked
from omcal.experiments.worker import GivenData, Limits
from omcal.machine.files import write_whole
from omcal.machine.memory import parse_bytes
from omcal.machine.threads import thread_count
from omcal.metrics import ari
from omcal.model.estimators import OMCAL
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.reading import read_views

DEFAULT_METHODS = ("omcal", "consensus", "fsmsc", "mvschfd", "concat-kmeans", "best-view")
_NOTES = {
    "labelled": "Rank: mean over the six scores of the place among the methods, 1 being the best. "
    "NMI: mutual information over the larger entropy.",
    "unlabelled": "Stability: adjusted Rand index between the clusters of any two seeds. "
    "Agreement: share of the ten nearest neighbours of a sample in a view that are in its cluster, "
    "less chance (0: as by chance, 1: all), and its mean over the views.",
}


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison; `print` it, or `write` it to a file.

    Attributes
    ----------
    table : omcal.experiments.tables.Table
        One row per method: `title`, `header`, `rows` and `notes`.
    records : list of dict
        Every run: method, seed, scores, seconds, memory, warnings, versions, machine.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> from omcal.experiments import compare
    >>> data = make_multiview(90, n_clusters=3, random_state=0)
    >>> found = compare(data, methods=["omcal"], seeds=1)
    >>> len(found.records), found.markdown().splitlines()[2].split(" | ")[0]
    (1, '| method')
    """

    table: Table
    records: list[Record]

    def __str__(self) -> str:
        return self.markdown()

    def markdown(self) -> str:
        """Return the table with its title and notes.

        Returns
        -------
        str
            As Markdown.
        """
        return self.table.document()

    def html(self) -> str:
        """Return the table as a page that needs no network.

        Returns
        -------
        str
            As HTML.
        """
        return table_page(self.table)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a file; its ending sets the format: .md, .tex, .csv or .html.

        Parameters
        ----------
        path : str or path-like
            The file; it is replaced where it exists.
        """
        path = Path(path)
        if table_format(path) == ".html":
            write_whole(path, self.html())
        else:
            self.table.write(path)


def table_format(path: Path) -> str:
    """Return the ending of a file name for a table; refuse other endings."""
    ending = path.suffix.lower()
    if ending not in (".md", ".tex", ".csv", ".html"):
        raise ValueError(f"{path} must end in .md, .tex, .csv or .html.")
    return ending


def compare(
    X: ViewsLike | MultiViewData,
    n_clusters: int | None = None,
    methods: str | Sequence[str] = DEFAULT_METHODS,
    *,
    y: ArrayLike | None = None,
    present: PresentLike | None = None,
    seeds: int = 5,
    records: str | os.PathLike[str] | None = None,
    time_limit: float = 600.0,
    memory_limit: str | float = "8GB",
    jobs: int = 1,
    n_runs: int = 10,
    observer: Observer | None = None,
) -> Comparison:
    """Fit several methods with several seeds to one data set, and compare their clusters.

    With classes the table has the six scores of the paper, mean(standard deviation) over the
    seeds, and the mean rank. Without classes it has the stability of the clusters over the seeds,
    their agreement with the views, and the time.

    Parameters
    ----------
    X : MultiViewData, or as in `OMCAL.fit`
        The views.
    n_clusters : int, optional
        By default the number of classes, where there are any.
    methods : str or list of str
        Names of methods, as `omcal.experiments.methods` lists them, or "all". Methods that do not
        support X are left out: the notes of the table name them and the reason.
    y : array-like of shape (n,), optional
        Classes; those of a MultiViewData by default.
    present : as in `OMCAL.fit`, optional
        Which samples are in which view.
    seeds : int, default=5
        Runs of each method, with random_state 0, 1, …
    records : path, optional
        File to which every finished run is saved at once. A comparison that finds the file
        continues it; runs that ended with an error are repeated.
    time_limit : float, default=600
        Seconds of one run. A method that exceeds a limit with one seed is not run with others.
    memory_limit : int or str, default="8GB"
        Memory of one run beyond the libraries and the data.
    jobs : int, default=1
        Number of runs at a time; with more than one, each takes longer.
    n_runs : int, default=10
        Number of runs that the method "consensus" combines, with each seed.
    observer : optional
        Receives the progress; see `omcal.experiments.runner.Observer`.

    Returns
    -------
    Comparison
        The table, and the records of all runs.

    Notes
    -----
    Each run is a process of its own. Like every script that starts processes, a script that calls
    this needs ``if __name__ == "__main__":`` around the call.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> from omcal.experiments import compare
    >>> data = make_multiview(150, n_clusters=3, random_state=0)
    >>> found = compare(data, 3, ["omcal", "concat-kmeans"], seeds=2)
    >>> list(found.table.header)[:3]
    ['method', 'ACC', 'NMI']
    """
    if seeds < 1:
        raise ValueError(f"seeds={seeds} must be at least 1.")
    if n_runs < 2:
        raise ValueError(f"n_runs={n_runs} must be at least 2; one run is the method omcal.")
    data = _as_data(X, y, present)
    n_clusters = n_clusters or data.n_classes
    if n_clusters is None:
        raise ValueError("there are no classes to count; give n_clusters.")
    chosen, left_out = supported_methods(methods, data)
    chosen = [replace(m, title=m.title.replace("10 runs", f"{n_runs} runs")) for m in chosen]
    cells = [
        Cell(data.name, method.name, seed, _parameters(method, data, n_clusters, n_runs))
        for seed in range(seeds)  # seed by seed, so that an early stop leaves no gaps
        for method in chosen
    ]
    source = GivenData(data)
    limits = Limits(time_limit, parse_bytes(memory_limit) / 1e9, max(1, thread_count() // jobs))
    with tempfile.TemporaryDirectory(prefix="omcal-") as folder:
        path = Path(folder) / "records.jsonl" if records is None else Path(records)
        run_cells(cells, source, limits, path, jobs, observer=observer)
        keys = {cell.key for cell in cells}
        (content,) = source.checksums().values()
        kept = [r for r in read_records(path) if r["file_print"] == content and is_current(r)]
    kept = [r for r in kept if Cell.of(r).key in keys]
    rows = dict(zip([method.title for method in chosen], cells, strict=False))
    table = _table(data, n_clusters, rows, Summary(kept))
    notes = [f"Left out: {name} {reason}." for name, reason in left_out.items()]
    return Comparison(replace(table, notes=[*table.notes, *notes]), kept)


def _parameters(
    method: Method, data: MultiViewData, n_clusters: int, n_runs: int
) -> dict[str, Any]:
    """Return the parameters of a method that differ from its defaults."""
    parameters: dict[str, Any] = {"n_clusters": n_clusters}
    if method.name == "consensus" and n_runs != 10:
        parameters["n_runs"] = n_runs
    if method.name in ("omcal", "consensus") and data.scales:
        parameters["scale"] = data.scales
    return parameters


def supported_methods(
    names: str | Sequence[str], data: MultiViewData
) -> tuple[list[Method], dict[str, str]]:
    """Return the named methods that support the data, and by name the reason why others do not."""
    if isinstance(names, str):
        names = names.split(",")
    if [name.strip().lower() for name in names] == ["all"]:
        found = list(methods().values())
    else:
        found = list(dict.fromkeys(find_method(name.strip()) for name in names if name.strip()))
    obstacles = {method.name: _obstacle(method, data) for method in found}
    left_out = {name: reason for name, reason in obstacles.items() if reason}
    chosen = [method for method in found if method.name not in left_out]
    if not chosen:
        listed = "; ".join(f"{name} {reason}" for name, reason in left_out.items())
        raise ValueError(f"methods is empty{listed and f' ({listed})'}; give at least one name.")
    return chosen, left_out


def _obstacle(method: Method, data: MultiViewData) -> str:
    """Return why a method does not support the data; an empty text if it does."""
    if not method.multi_view and len(data.views) > 1:
        return f"takes one view, and there are {len(data.views)}"
    absent = any(not here.all() for here in (data.present or {}).values())
    if absent and not method.takes_absent:
        return "does not support samples missing from a view"
    return ""


def _as_data(
    X: ViewsLike | MultiViewData, y: ArrayLike | None, present: PresentLike | None
) -> MultiViewData:
    if isinstance(X, MultiViewData):
        data = X
    else:
        views = read_views(OMCAL(), X, min_samples=2, present=present, home="memory")
        masks = {view.name: view.present for view in views if view.present is not None}
        data = MultiViewData({view.name: view.array for view in views}, present=masks or None)
    if y is not None:
        data = replace(data, labels=np.asarray(y))
    return data if data.name else replace(data, name="data")


def _table(
    data: MultiViewData, n_clusters: int, rows_of: dict[str, Cell], summary: Summary
) -> Table:
    labelled = data.labels is not None and bool(data.is_labelled.any())
    cells = list(rows_of.values())
    in_views = [f"in {view}" for view in data.views] if len(data.views) > 1 else []
    metrics = load_paper().metrics if labelled else ["agreement", *in_views]
    scores = {metric: [summary.measure(cell, metric) for cell in cells] for metric in metrics}
    if not labelled:
        scores = {"stability": [_stability(summary, cell) for cell in cells], **scores}
    columns = {metric: measured_entries(found) for metric, found in scores.items()}
    if labelled:
        columns["rank"] = _ranks(list(scores.values()))
    seconds = [summary.measure(cell, "seconds") for cell in cells]
    columns["seconds"] = measured_entries(seconds, "seconds")
    columns["runs"] = [Entry(str(measured.runs)) for measured in seconds]
    rows = list(zip(rows_of, *columns.values(), strict=True))
    classes = f", {data.n_classes} classes" if labelled else ""
    title = (
        f"{data.name}: {data.n_samples} samples, {len(data.views)} views, {n_clusters} clusters"
        f"{classes}"
    )
    notes = [
        f"Mean(standard deviation) over the seeds. {RANKS_NOTE}",
        _NOTES["labelled" if labelled else "unlabelled"],
        *([failures(summary)] if summary.errors() else []),
        *conditions(summary),
    ]
    return Table("comparison", title, ["method", *columns], rows, notes)


def _ranks(scores: list[list[Measured]]) -> list[Entry]:
    """Return the mean rank of each method; methods without a result come last."""
    values = np.array(
        [[-np.inf if m.mean is None else round(m.mean, 3) for m in found] for found in scores]
    )
    means = rankdata(-values, axis=1).mean(axis=0)
    return ranked([f"{mean:.2f}" for mean in means], [float(m) for m in means], largest=False)


def _stability(summary: Summary, cell: Cell) -> Measured:
    clusterings = [run["labels"] for run in summary.finished(cell)]
    pairs = [ari(a, b) for a, b in combinations(clusterings, 2)]
    return Measured.of(pairs) if pairs else replace(summary.measure(cell, "agreement"), mean=None)
