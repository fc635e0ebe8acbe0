"""A report of a clustering: one HTML file that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from omcal.machine.files import write_whole
from omcal.model.subset_fits import fitted_views, graphs_of
from omcal.report.findings import Findings
from omcal.report.html import page
from omcal.report.layout import model_layout
from omcal.report.making import drift_section
from omcal.report.payload import payload
from omcal.report.sections import all_sections
from omcal.report.summary import lead
from omcal.report.tree import tree_payload, tree_section
from omcal.views.like import PresentLike, ViewsLike

if TYPE_CHECKING:
    from omcal.model.drift import Drift
    from omcal.select import ClusterTree

__all__ = ["model_layout", "write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    X: ViewsLike | None = None,
    y: ArrayLike | None = None,
    *,
    names: Collection[object] | None = None,
    feature_names: Mapping[str, Collection[object]] | None = None,
    columns: Mapping[str, ArrayLike] | None = None,
    positions: ArrayLike | None = None,
    title: str | None = None,
    source: str = "",
    seconds: float | None = None,
    command: str | None = None,
    present: PresentLike | None = None,
    tree: ClusterTree | None = None,
    drift: Drift | None = None,
    random_state: int = 0,
) -> Path:
    """Describe a fitted model and its data in one HTML file.

    The file opens from disk in any browser of the last years and needs no network: what to trust
    and what to doubt, a map of the samples to work with, the features of each cluster, the views.
    Its map shows up to 100,000 samples; of more a random choice is drawn, and the file says so.

    Parameters
    ----------
    model : OMCAL, OCAL or Consensus
        Fitted.
    path : str or path-like
        The file to write; it is replaced where it exists.
    X : as in `fit`, optional
        The data that the model was fitted to; not needed where the model has kept its graphs, as
        after a fit on the CPU to data in memory. The features of the clusters are shown only with
        it.
    y : array-like of shape (n,), optional
        Known classes, to compare the clusters with.
    names : sequence of length n, optional
        Names of the samples; by default their numbers.
    feature_names : mapping, optional
        View -> the names of its features; those of data frames are known.
    columns : mapping, optional
        Name -> one value for each sample, numbers or categories, to colour the map by.
    positions : array-like of shape (n, 2), optional
        Own positions for the map, such as those of UMAP. By default the samples are laid out by
        their neighbours in the scaled views, or in the anchor graphs where X is not given.
    title : str, optional
        Title of the page.
    source : str
        Origin of the data.
    seconds : float, optional
        Duration of the fit.
    command : str, optional
        The command line that made the model.
    present : as in `fit`
        For X.
    tree : omcal.select.ClusterTree, optional
        A tree of the same samples, shown in a section of its own.
    drift : omcal.model.drift.Drift, optional
        A comparison of the samples with those of an earlier fit, shown in a section of its own.
    random_state : int, default=0
        Seed of the random choices of the report; it has no influence on the model.

    Returns
    -------
    pathlib.Path
        The file.

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
    model = model._described
    path = Path(path)
    described = None
    if X is not None:  # which it compares with the fit
        described = model.describe_clusters(X, feature_names=feature_names, present=present)
    elif feature_names is not None:
        raise ValueError("feature_names are those of X; pass X as well.")
    found = Findings(
        model,
        graphs_of(model, X, present),
        y,
        data=None if X is None else fitted_views(model, X, present),
        description=described,
        names=names,
        columns=columns,
        positions=positions,
        title=title,
        source=source,
        seconds=seconds,
        command=command,
        random_state=random_state,
    )
    of_tree = {} if tree is None else tree_payload(tree, names, len(found.labels))
    filled = partial(
        page,
        title=found.title,
        kind="Clustering report",
        lead=lead(found),
        sections=[
            *all_sections(found),
            *([] if tree is None else [tree_section(tree)]),
            *([] if drift is None else [drift_section(drift)]),
        ],
    )
    text = filled(data=payload(found, spent=len(filled(data=of_tree))) | of_tree)
    write_whole(path, text)
    return path
