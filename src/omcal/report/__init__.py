"""A report of a clustering: one HTML file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from omcal.machine.files import write_whole
from omcal.model.small_fits import graphs_of
from omcal.report.findings import find
from omcal.report.html import page
from omcal.report.sections import all_sections, lead, payload

__all__ = ["write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    names: Sequence[Any] | None = None,
    title: str | None = None,
    source: str = "",
    seconds: float | None = None,
    command: str | None = None,
    present: Any = None,
    random_state: int = 0,
) -> Path:
    """Describe a fitted model and its data in one HTML file.

    The file opens from disk in any browser and needs no network. Of large data a random choice
    is drawn, and the file says so.

    Parameters
    ----------
    model : fitted OMCAL or OCAL
    path : str or path-like
        The file to write; it is replaced where it exists.
    X : as in `fit`, optional
        The data that the model was fitted to; not needed where the model has kept its graphs, as
        after a fit on the CPU to data in memory.
    y : array-like of shape (n,), optional
        Known classes, to compare the clusters with.
    names : sequence of length n, optional
        What the samples are called; by default their numbers.
    title : str, optional
    source : str
        Where the data come from.
    seconds : float, optional
        How long the fit took.
    command : str, optional
        The command line that made the model.
    present : as in `fit`
        For X.
    random_state : int, default=0
        Seed of what is drawn; it has no influence on the model.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> from omcal.report import write_report
    >>> data = make_multiview(60, n_clusters=3, random_state=0)
    >>> model = OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    >>> folder = tempfile.mkdtemp()
    >>> write_report(model, f"{folder}/report.html", y=data.labels).name
    'report.html'
    """
    check_is_fitted(model)
    path = Path(path)
    found = find(
        model,
        graphs_of(model, X, present),
        y,
        names=names,
        title=title,
        source=source,
        seconds=seconds,
        command=command,
        random_state=random_state,
    )
    text = page(
        title=found.title,
        kind="Clustering report",
        lead=lead(found),
        sections=all_sections(found),
        footer=f"Made with omcal {found.versions['omcal']}; this file needs no network.",
        data=payload(found),
    )
    write_whole(path, text)
    return path
