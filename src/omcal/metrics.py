"""Scores of the agreement of a clustering with known classes, from one contingency table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.stats import entropy

__all__ = [
    "evaluate",
    "clustering_accuracy",
    "nmi",
    "ari",
    "purity",
    "f_score",
    "precision",
    "recall",
    "match_labels",
]

Average = Literal["max", "arithmetic", "geometric", "min"]
Counts: TypeAlias = sparse.csr_array  # the samples by class and cluster


def _contingency(y_true: ArrayLike, y_pred: ArrayLike) -> Counts:
    """Return the number of samples in each class and cluster, the input of all scores."""
    classes = _codes(y_true, "y_true")
    clusters = _codes(y_pred, "y_pred")
    if len(classes) != len(clusters):
        raise ValueError(
            f"y_true has {len(classes)} labels and y_pred has {len(clusters)}; "
            "give one label per sample in both."
        )
    ones = np.ones(len(classes), dtype=np.int64)
    # Sparse, so that as many clusters as samples cost no n×n table.
    return sparse.coo_array((ones, (classes, clusters))).tocsr()


def _codes(labels: ArrayLike, name: str) -> NDArray[np.intp]:
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; give a 1-D array of labels.")
    if array.size == 0:
        raise ValueError(f"{name} is empty; give at least one label.")
    # NumPy converts a NaN in a list of words to the word "nan".
    made_words = array.dtype.kind in "US" and array is not labels
    missing = _missing(np.asarray(labels, dtype=object) if made_words else array)
    missing += int(np.sum(labels.mask)) if isinstance(labels, np.ma.MaskedArray) else 0
    if missing:
        raise ValueError(
            f"{name} contains {missing} NaN or missing labels; remove these samples from both "
            "arrays."
        )
    return np.unique(array, return_inverse=True)[1].reshape(-1)


def _missing(labels: NDArray[Any]) -> int:
    if labels.dtype.kind in "fmM":
        return int((labels != labels).sum())
    if labels.dtype == object:
        # NaN differs from itself; comparing pandas' NA gives NA.
        return sum(x is None or (x == x) is not True for x in labels.tolist())
    return 0


def _pairs(table: Counts | NDArray[np.int64]) -> tuple[int, int, int]:
    """Count the pairs of samples together in both, in the classes, in the clusters."""
    cells: Any = table.data if sparse.issparse(table) else table
    sums = (cells, table.sum(axis=1), table.sum(axis=0))
    both, in_classes, in_clusters = (int(np.sum(sizes * (sizes - 1) // 2)) for sizes in sums)
    return both, in_classes, in_clusters


class _Score(Protocol):
    def __call__(self, y_true: ArrayLike, y_pred: ArrayLike) -> float: ...


_OF_TABLE: dict[str, Callable[[Counts], float]] = {}
_AVERAGE = """\
average : {"max", "arithmetic", "geometric", "min"}, default="max"
    How the two entropies are joined in the denominator: "max" as in the paper's tables,
    "arithmetic" as scikit-learn does by default.
"""
_DOCSTRING = """\
{summary}

Parameters
----------
y_true : array-like of shape (n,)
    Known classes; labels of any kind that can be sorted.
y_pred : array-like of shape (n,)
    Clusters, likewise; their names may differ from the classes.
{more}
Returns
-------
float
    {returned}

Examples
--------
>>> from omcal.metrics import {name}
>>> round({name}([0, 0, 1, 1], [1, 1, 0, 2]), 4)
{example}
"""


def _document(score: Any, returned: str, example: float, more: str = "") -> None:
    """Complete the docstring of a score of two arrays of labels."""
    how = {"summary": score.__doc__, "more": more, "returned": returned, "example": example}
    score.__doc__ = _DOCSTRING.format(name=score.__name__, **how)


def _of_labels(returned: str, example: float) -> Callable[[Callable[[Counts], float]], _Score]:
    """Turn a score of a contingency table into one of two arrays of labels, and document it."""

    def decorate(score: Callable[[Counts], float]) -> _Score:
        def measured(y_true: ArrayLike, y_pred: ArrayLike) -> float:
            return score(_contingency(y_true, y_pred))

        measured.__name__ = measured.__qualname__ = score.__name__
        measured.__doc__ = score.__doc__
        _document(measured, returned, example)
        _OF_TABLE[score.__name__] = score
        return measured

    return decorate


@_of_labels("Above 0, at most 1; 1 if both are equal except for the names.", 0.75)
def clustering_accuracy(table: Counts) -> float:
    """Return the share of samples whose cluster maps to their class, best one-to-one map (ACC)."""
    counts = table if table.shape[0] <= table.shape[1] else table.T.tocsr()
    n_rows = counts.shape[0]
    # One extra column per row allows every row to be matched. Every weight is raised by one,
    # because a stored weight of 0 would not be an edge.
    more = sparse.csr_array((counts.data + 1, counts.indices, counts.indptr), shape=counts.shape)
    own = sparse.eye_array(n_rows, dtype=more.dtype)
    row, col = min_weight_full_bipartite_matching(
        sparse.hstack([more, own], format="csr"), maximize=True
    )
    named = col < counts.shape[1]
    return float(counts[row[named], col[named]].sum() / counts.sum())


_AVERAGES: dict[str, Callable[[float, float], float]] = {
    "max": max,
    "min": min,
    "arithmetic": lambda a, b: (a + b) / 2,
    "geometric": lambda a, b: math.sqrt(a * b),
}


def _nmi(table: Counts, average: Average) -> float:
    if average not in _AVERAGES:
        raise ValueError(
            f"average={average!r} is unknown; use 'max', 'arithmetic', 'geometric' or 'min'."
        )
    one_class, one_cluster = (size == 1 for size in table.shape)
    if one_class or one_cluster:
        return 1.0 if one_class and one_cluster else 0.0
    own = float(entropy(table.sum(axis=1))), float(entropy(table.sum(axis=0)))
    shared = sum(own) - float(entropy(table.data))
    return min(max(shared / _AVERAGES[average](*own), 0.0), 1.0)


def nmi(y_true: ArrayLike, y_pred: ArrayLike, *, average: Average = "max") -> float:
    """Return the normalised mutual information (NMI)."""
    return _nmi(_contingency(y_true, y_pred), average)


_document(nmi, "0 to 1; 1 if both are equal except for the names.", 0.6667, _AVERAGE)


@_of_labels(
    "Above 0, at most 1; it rises with the number of clusters, to 1 for one per sample.", 1.0
)
def purity(table: Counts) -> float:
    """Return the fraction of samples in the majority class of their cluster."""
    return float(table.max(axis=0).sum() / table.sum())


@_of_labels(
    "At most 1, for equal clusterings; about 0 by chance, negative for less agreement.", 0.5714
)
def ari(table: Counts) -> float:
    """Return the adjusted Rand index of Hubert and Arabie (ARI)."""
    return ari_of_table(table)


def ari_of_table(table: Counts | NDArray[np.int64]) -> float:
    """Return `ari` from a contingency table of classes by clusters, sparse or not.

    Examples
    --------
    >>> round(ari_of_table(np.array([[0, 2, 0], [1, 0, 1]])), 4)
    0.5714
    """
    both, in_classes, in_clusters = _pairs(table)
    if both == in_classes == in_clusters:
        return 1.0
    n = int(table.sum())
    chance = in_classes * in_clusters / (n * (n - 1) / 2)
    return (both - chance) / ((in_classes + in_clusters) / 2 - chance)


@_of_labels("0 to 1.", 0.6667)
def f_score(table: Counts) -> float:
    """Return the harmonic mean of pairwise precision and recall."""
    both, in_classes, in_clusters = _pairs(table)
    return 2 * both / (in_classes + in_clusters) if in_classes + in_clusters else 1.0


@_of_labels("0 to 1.", 1.0)
def precision(table: Counts) -> float:
    """Return the fraction of pairs in one cluster that are in one class; 1 without such pairs."""
    both, _, in_clusters = _pairs(table)
    return both / in_clusters if in_clusters else 1.0


@_of_labels("0 to 1.", 0.5)
def recall(table: Counts) -> float:
    """Return the fraction of pairs in one class that are in one cluster; 1 without such pairs."""
    both, in_classes, _ = _pairs(table)
    return both / in_classes if in_classes else 1.0


def evaluate(y_true: ArrayLike, y_pred: ArrayLike, *, average: Average = "max") -> dict[str, float]:
    """Return all scores at once, from one contingency table.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        Labels of any kind that can be sorted. Purity, precision and recall depend on the order.
    average : {"max", "arithmetic", "geometric", "min"}, default="max"
        The form of the normalised mutual information.

    Returns
    -------
    dict
        accuracy, nmi, purity, ari, f_score, precision, recall.

    Examples
    --------
    >>> evaluate([0, 0, 1, 1], [1, 1, 0, 0])["accuracy"]
    1.0
    """
    table = _contingency(y_true, y_pred)
    scores = {name: score(table) for name, score in _OF_TABLE.items()}
    return {"accuracy": scores.pop("clustering_accuracy"), "nmi": _nmi(table, average), **scores}


def match_labels(old: ArrayLike, new: ArrayLike) -> NDArray[np.int64]:
    """Renumber a clustering so that its clusters keep the numbers of an earlier one.

    Clusters are paired so that as many samples as possible keep their number. A cluster continues
    an earlier one if they share more than half of the samples in either; the other clusters are
    new, and get numbers above all earlier ones, largest first.

    Parameters
    ----------
    old, new : array-like of int of shape (n,)
        Earlier and new cluster of each sample; negative: not known, and left out of the matching.

    Returns
    -------
    labels : array of int64 of shape (n,)
        The new clustering; negative labels stay as they are.

    Examples
    --------
    >>> match_labels([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 2]).tolist()
    [0, 0, 0, 1, 1, 2]
    """
    before, after = (np.asarray(labels) for labels in (old, new))
    for name, labels, given in (("old", before, old), ("new", after, new)):
        whole = labels.ndim == 1 and labels.dtype.kind in "iu" and not np.ma.is_masked(given)
        if not whole or labels.max(initial=0) >= 2**62:  # new numbers are larger than all
            raise ValueError(
                f"{name} has shape {labels.shape} and type {labels.dtype}, and must be a 1-D array "
                "of whole numbers below 2**62, none masked; "
                f"numpy.unique({name}, return_inverse=True)[1] numbers others."
            )
    before, after = before.astype(np.int64), after.astype(np.int64)
    if len(before) != len(after):
        raise ValueError(
            f"old has {len(before)} labels and new has {len(after)}; give one per sample in both."
        )
    values, codes = np.unique(after[after >= 0], return_inverse=True)
    earlier = before[after >= 0]
    known = np.unique(earlier[earlier >= 0])
    places = np.where(earlier >= 0, np.searchsorted(known, earlier), -1)
    found, _ = matched_clusters(overlaps(places, codes, len(values), len(known)))
    numbers = np.append(known, -1)[found]
    free = np.flatnonzero(numbers < 0)
    sizes = np.bincount(codes, minlength=len(values))
    highest = int(before.max(initial=-1))
    numbers[free[np.argsort(-sizes[free], kind="stable")]] = highest + 1 + np.arange(len(free))
    matched = after.copy()
    matched[after >= 0] = numbers[codes]
    return matched


def overlaps(old: NDArray[Any], labels: NDArray[Any], n_clusters: int, n_old: int) -> NDArray[Any]:
    """Return the number of samples by earlier and new cluster; tables of parts can be added."""
    known = old >= 0
    cells = old[known] * n_clusters + labels[known]
    return np.bincount(cells, minlength=n_old * n_clusters).reshape(n_old, n_clusters)


def matched_clusters(table: NDArray[Any]) -> tuple[NDArray[np.int64], list[float]]:
    """Return the old cluster that each new one continues (-1: none), and their Jaccard index.

    `table` has the number of samples by old and new cluster.
    """
    numbers = np.full(table.shape[1], -1, dtype=np.int64)
    shares = [0.0] * table.shape[1]
    in_old, in_new = table.sum(axis=1), table.sum(axis=0)
    for before, after in zip(*linear_sum_assignment(table, maximize=True), strict=True):
        both = int(table[before, after])
        if 2 * both > min(in_old[before], in_new[after]):
            numbers[after] = before
            shares[after] = both / float(in_old[before] + in_new[after] - both)
    return numbers, shares
