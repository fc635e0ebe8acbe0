"""What makes a result doubtful, each with the one thing to try."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from omcal.machine.arrays import Array
from omcal.method.graph import AnchorGraphs
from omcal.model.small_fits import explained_shares

_NEARLY_ALL = 0.9  # of the samples, or of the weight
_SAMPLES = 5000  # that are looked at
_LITTLE, _MUCH = 0.05, 0.25  # of the variance of a graph that lies between the clusters


class Doubt(NamedTuple):
    """What was seen, and what to try."""

    what: str
    advice: str
    warning: type[Warning] = UserWarning

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}."


_WARNINGS: dict[str, type[Warning]] = {
    kind.__name__: kind for kind in (UserWarning, ConvergenceWarning)
}


def written(found: list[Doubt]) -> list[list[str]]:
    """Doubts as plain text, for a file."""
    return [[doubt.what, doubt.advice, doubt.warning.__name__] for doubt in found]


def read(rows: Any) -> list[Doubt]:
    """What `written` made; a ValueError or KeyError where it did not."""
    found = [Doubt(what, advice, _WARNINGS[kind]) for what, advice, kind in rows]
    if not all(isinstance(text, str) for doubt in found for text in doubt[:2]):
        raise ValueError("a doubt is no text")
    return found


def doubts(
    model: Any, graphs: AnchorGraphs | None = None, sizes: Array | None = None
) -> list[Doubt]:
    """What a user should know of a fitted model before trusting it; with its graphs, more.

    `sizes` of the clusters are given where the labels are not those of all samples.
    """
    sizes = cluster_sizes(model.labels_, model.n_clusters) if sizes is None else sizes
    found = [*_about_views(model), *_about_sizes(model, sizes)]
    if graphs is not None and len(model.view_names_) > 1 and np.count_nonzero(sizes) > 1:
        found += _about_agreement(model, graphs)
    return found


def warn(model: Any) -> None:
    """Raise a warning for each doubt."""
    for doubt in model.doubts_:
        warnings.warn(str(doubt), doubt.warning, stacklevel=3)


def unconverged(max_iter: int, tol: float) -> Doubt:
    """The iterations ended before the objective had settled."""
    return Doubt(
        f"the objective still changes by more than tol={tol:g} after max_iter={max_iter} "
        "iterations",
        "raise max_iter or tol",
        ConvergenceWarning,
    )


def _about_views(model: Any) -> Iterator[Doubt]:
    names, weights = model.view_names_, model.view_weights_
    silent = model._silent
    if silent.all():
        yield Doubt("all samples are the same in every view after scaling", "look at the data")
        return
    for name in np.array(names, dtype=object)[silent]:
        yield Doubt(
            f"view {name!r} is the same for all samples after scaling, and says nothing about "
            "clusters: its weight is 0",
            "leave it out",
        )
    largest = int(np.argmax(weights))
    heard = len(names) - int(silent.sum())
    if heard > 1 and weights[largest] > _NEARLY_ALL and not model._weights_given:
        yield Doubt(
            f"view {names[largest]!r} took {weights[largest]:.0%} of the weight, and the other "
            "views hardly count",
            "compare with weighting='uniform', or leave that view out",
        )


def _about_sizes(model: Any, sizes: Array) -> Iterator[Doubt]:
    c, n = model.n_clusters, int(sizes.sum())
    empty = int((sizes == 0).sum())
    if empty:
        yield Doubt(
            f"only {c - empty} of n_clusters={c} clusters hold samples",
            "lower n_clusters, raise n_init, or change beta or n_anchors",
            ConvergenceWarning,
        )
    largest = int(np.argmax(sizes))
    if c - empty > 1 and sizes[largest] > _NEARLY_ALL * n:
        yield Doubt(
            f"cluster {largest} holds {sizes[largest] / n:.0%} of the samples",
            "look at view_scales_ and try another scale= for the views, or n_anchors=",
        )


def _about_agreement(model: Any, graphs: AnchorGraphs) -> Iterator[Doubt]:
    """Views of which the clusters show next to nothing, where they show much of another."""
    labels = _on_host(model.labels_)
    some = np.unique(np.linspace(0, graphs.n - 1, min(graphs.n, _SAMPLES)).astype(int))
    shares = explained_shares(graphs[some], labels[some])
    shares[model._silent] = np.nan
    if np.nanmax(shares) < _MUCH:
        return
    for name, share in zip(model.view_names_, shares, strict=True):
        if share < _LITTLE:
            yield Doubt(
                f"view {name!r} shows other groups than the result, or none: the clusters explain "
                f"{share:.0%} of its graph",
                "ask explain_views() what it contributes, and compare with a fit without it",
            )


def cluster_sizes(labels: Any, n_clusters: int) -> Array:
    """Samples in each cluster; counted where the labels are, on a device or a cluster."""
    if hasattr(labels, "cpu"):
        return np.asarray(labels.bincount(minlength=n_clusters).cpu().numpy())
    return np.asarray(np.bincount(labels, minlength=n_clusters))


def _on_host(labels: Any) -> Array:
    if hasattr(labels, "cpu"):
        return np.asarray(labels.cpu().numpy())
    return np.asarray(labels)
