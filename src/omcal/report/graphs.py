"""The graphs of a fitted model: of each view, of their consensus, and the indicator they give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.graph import anchor_graphs
from omcal.updates import mix, settle
from omcal.views import Views, validate_views


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
    return before_and_after(model, checked_views(model, X))


def checked_views(model: Any, X: Any, present: Any = None) -> Views:
    """X as the views that the model was fitted on."""
    columns = getattr(model, "views", None)
    return validate_views(model, X, views=columns, reset=False, gaps=True, present=present)


def some_rows(views: Views, rows: NDArray | slice) -> Views:
    """The same views with these rows only."""
    return Views([view.part(view.array[rows], rows) for view in views])


def before_and_after(model: Any, views: Views) -> tuple[NDArray, NDArray]:
    """`consensus_graphs` of checked views."""
    S = view_graphs(model, views)
    Z = model._consensus
    A = mix(Z.alpha, S)
    return S.mean(axis=0), Z.s * (A + Z.gamma * _indicator(Z, A) @ Z.G.T) @ Z.T


def indicator(model: Any, views: Views) -> NDArray:
    """F, as for new samples: how strongly each sample belongs to each cluster."""
    return _indicator(model._consensus, weighted_graph(model, views))


def weighted_graph(model: Any, views: Views) -> NDArray:
    """A(α): the graphs of all views, weighted, before anything is learned from them."""
    return mix(model._consensus.alpha, view_graphs(model, views))


def view_graphs(model: Any, views: Views) -> NDArray:
    """The anchor graphs of all views, dense: (n_views, n, n_anchors)."""
    graphs = anchor_graphs(views, model._scalings, model.anchors_, model.n_neighbors)
    return graphs.side_by_side().toarray().reshape(views.n, len(views), -1).swapaxes(0, 1)


def _indicator(Z: Any, A: NDArray) -> NDArray:
    P, R = Z.f_step()
    return np.maximum(settle(A @ P, R), 0)
