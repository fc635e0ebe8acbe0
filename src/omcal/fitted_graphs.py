"""The anchor graphs of a fitted model, kept or of given data, and the consensus they lead to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.graph import AnchorGraphs, anchor_graphs
from omcal.indicator import indicate
from omcal.kernels import compiled_pays
from omcal.memory import format_bytes
from omcal.placement import LARGEST_KEPT
from omcal.updates import Consensus
from omcal.view_input import validate_views
from omcal.views import Views


def graphs_of(model: Any, X: Any = None, present: Any = None) -> AnchorGraphs:
    """The graphs of the samples of X; without X, those that the model has kept of its fit."""
    if X is None:
        return kept_graphs(model, present)
    views = fitted_views(model, X, present)
    if views.distributed:
        raise ValueError("X is in Dask, and its graphs are needed in memory; pass computed arrays.")
    compiled = compiled_pays(views.n)
    return AnchorGraphs.joined(
        [
            anchor_graphs(
                block, model._scalings, model.anchors_, model.n_neighbors, compiled=compiled
            )
            for block in _in_memory(views)
        ]
    )


def kept_graphs(model: Any, present: Any = None) -> AnchorGraphs:
    """The graphs that the model has kept of its fit."""
    if present is not None:
        raise ValueError("present says which samples of X are absent; pass X as well.")
    if model._graphs is None:
        raise ValueError(
            "the model has kept no anchor graphs; pass X, the data that it was fitted to. Graphs "
            f"of up to {format_bytes(LARGEST_KEPT)} are kept of a fit on the CPU to data in "
            "memory, and they are not part of copies and files of a model."
        )
    return model._graphs


def fitted_views(model: Any, X: Any, present: Any = None) -> Views:
    """X as the views that the model was fitted on; what lies in files stays there."""
    columns = getattr(model, "views", None)
    return validate_views(
        model, X, views=columns, reset=False, lazy=True, gaps=True, present=present
    )


def _in_memory(views: Views) -> Any:
    """The views block by block where they must be read, else as they are."""
    if not views.stored:
        return [views]
    from omcal.out_of_core import loaded

    return loaded(views)


def consensus_graphs(model: Any, X: Any) -> tuple[NDArray, NDArray]:
    """The mean of the anchor graphs of the samples of X, and their learned consensus graph Z.

    Parameters
    ----------
    model : fitted OMCAL or OCAL
    X : as in `fit`
        All of the samples, or a few that are to be drawn.

    Returns
    -------
    before, after : arrays of shape (n, n_anchors)

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(60, n_clusters=3, random_state=0)
    >>> model = OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    >>> [graph.shape for graph in consensus_graphs(model, data.views)]
    [(60, 12), (60, 12)]
    """
    return before_and_after(model._consensus, graphs_of(model, X))


def before_and_after(Z: Consensus, graphs: AnchorGraphs) -> tuple[NDArray, NDArray]:
    """The mean of the graphs, and what is learned from them."""
    F = np.maximum(indicate(Z, graphs)[0], 0)
    learned = Z.s * (mixed(graphs, Z.alpha) + Z.gamma * F @ Z.G.T) @ Z.T
    return mixed(graphs, np.full_like(Z.alpha, 1.0 / len(Z.alpha))), learned


def mixed(graphs: AnchorGraphs, alpha: NDArray) -> NDArray:
    """A(alpha), dense: the graphs of all views, weighted."""
    S = graphs.side_by_side().toarray().reshape(graphs.n, graphs.n_views, -1)
    return np.einsum("v,ivj->ij", alpha, S)
