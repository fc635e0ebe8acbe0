"""A report of a clustering in one self-contained HTML file."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from omcal.machine.arrays import Array
from omcal.machine.files import write_whole
from omcal.model.subset_fits import fitted_views, graphs_of
from omcal.plots.palette import LIGHT, SHAPES
from omcal.report.findings import Findings, nearest_samples, to_shades
from omcal.report.html import Packed, page
from omcal.report.layout import model_layout
from omcal.report.making import drift_section, lead
from omcal.report.sections import all_sections
from omcal.report.tree import tree_payload, tree_section
from omcal.views.like import PresentLike, ViewsLike

if TYPE_CHECKING:
    from omcal.model.drift import Drift
    from omcal.select import ClusterTree

__all__ = ["model_layout", "write_report"]

_MOST_NEAR = 5
# Bytes of a file: at most 1 MB for 10⁴ samples and 6 MB for 10⁵, less a margin.
_FIXED, _PER_SAMPLE = 400_000, 54


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

    The file opens in any recent browser and needs no network. It shows reasons to trust and to
    doubt the result, an interactive map of the samples, the features of each cluster, and the
    views. The map shows at most 100,000 samples, drawn at random, and states it.

    Parameters
    ----------
    model : OMCAL, OCAL or Consensus
        Fitted.
    path : str or path-like
        The file to write; it is replaced where it exists.
    X : as in `fit`, optional
        The data that the model was fitted to. It is not needed if the model has kept its graphs, as
        after a fit on the CPU to data in memory, except for the features of the clusters.
    y : array-like of shape (n,), optional
        Known classes, to compare the clusters with.
    names : sequence of length n, optional
        Names of the samples; by default their numbers.
    feature_names : mapping, optional
        View -> the names of its features; those of data frames are known.
    columns : mapping, optional
        Name -> one value for each sample, numbers or categories, to colour the map by.
    positions : array-like of shape (n, 2), optional
        Positions for the map, such as those of UMAP. By default the samples are laid out by their
        neighbours in the scaled views, or without X in the anchor graphs.
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
        Seed of the random choices of the report; it has no effect on the model.

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
    model = model._described
    path = Path(path)
    described = None
    if X is not None:  # which it compares with the fit
        described = model.describe_clusters(X, feature_names=feature_names, present=present)
    elif feature_names is not None:
        raise ValueError("feature_names are for X; pass X as well.")
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


def payload(f: Findings, spent: int) -> dict[str, Any]:
    """Return the data of a page that already has `spent` bytes."""
    rows, evidence = f.map_rows, f.evidence
    packed = Packed()
    packed.add("xy", np.round(f.map.positions * 65535).astype("u2"))
    packed.add("cluster", _small_codes(f.labels[rows]))
    packed.add("second", _small_codes(evidence.second[rows]))
    packed.add("certainty", to_shades(evidence.certainty[rows], 0, 1))
    packed.add("decision", to_shades(evidence.decision[rows].T, -1, 1))
    packed.add("agreement", to_shades(evidence.agreement[rows].T, -1, 1))
    if len(rows) < len(f.labels):
        packed.add("sample", rows.astype("u4"))
    if f.names is not None:
        packed.add_texts("names", [f.names[i] for i in rows])
    class_names = None
    if f.classes is not None:
        listed, codes = np.unique(np.array(f.classes)[rows], return_inverse=True)
        class_names = listed.tolist()
        packed.add("class", _small_codes(codes))
    for entry, values in f.columns:
        packed.add(entry["array"], values[rows])
    near = _nearest(f, packed, spent)
    packed.add("near", (near & 0xFFFF).astype("u2"))
    if len(rows) >= 0xFFFF:
        # In a separate array, because it is nearly constant and compresses well.
        packed.add("near_high", (near >> 16).astype("u1"))
    return {
        "map": {
            "n": len(rows),
            "n_all": len(f.labels),
            "n_clusters": len(f.sizes),
            "n_near": near.shape[2],
            "sizes": f.sizes.tolist(),
            "views": f.view_names,
            "weights": [round(weight, 4) for weight in f.weights],
            "colours": _colours(f, class_names),
            "layout": packed.layout,
            "packed": packed.text(),
        },
        "marks": {"colours": len(LIGHT), "shapes": list(SHAPES.values())},
    }


def _small_codes(codes: Array) -> Array:
    return codes.astype("u1" if codes.max(initial=0) < 256 else "u2")


def _colours(f: Findings, class_names: list[str] | None) -> list[dict[str, Any]]:
    """Return the choices for the colours of the map."""
    clusters = [f.cluster_title(c) for c in range(len(f.sizes))]
    found: list[dict[str, Any]] = [{"title": "cluster", "array": "cluster", "names": clusters}]
    if class_names is not None:
        found.append({"title": "known class", "array": "class", "names": class_names})
    found.append({"title": "certainty", "array": "certainty", "low": 0, "high": 1})
    for v, name in enumerate(f.view_names if len(f.view_names) > 1 else []):
        title = f"agreement of {name}"
        found.append({"title": title, "array": "agreement", "part": v, "low": -1, "high": 1})
    return found + [entry for entry, _ in f.columns]


def _nearest(f: Findings, packed: Packed, spent: int) -> NDArray[np.uint32]:
    """Return as many nearest samples per view as fit into the size limit of the file."""
    n = len(f.map_rows)
    left = _FIXED + _PER_SAMPLE * n - spent - len(packed.text())
    each = n * len(f.view_names) * (2 if n < 0xFFFF else 2.2) * 4 / 3
    count = min(int(np.clip(left / each, 0, _MOST_NEAR)), max(n - 1, 0))
    return nearest_samples(f, count)
