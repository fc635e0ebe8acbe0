"""What each view contributes: the clustering without it, and the clustering from it alone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from omcal.metrics import ari, clustering_accuracy
from omcal.report.graphs import some_rows
from omcal.views import Views

STUDY_SAMPLES = 4000
ALL_VIEWS = "all views, fitted anew"


@dataclass(frozen=True)
class StudyRow:
    """A fit with some of the views: how near it is to the result, and to the classes if known."""

    name: str  # of the view, or ALL_VIEWS
    without: float | None  # adjusted Rand index with the result; None where it cannot be fitted
    alone: float | None
    accuracy_without: float | None = None
    accuracy_alone: float | None = None


def study_views(
    model: Any,
    views: Views,
    labels: NDArray,
    classes: NDArray | None,
    random_state: np.random.RandomState,
) -> tuple[list[StudyRow], int]:
    """Fits to at most 4000 samples that no view lacks, compared with the result on the same ones.

    The first row, all views fitted anew from another start, says how much of a difference is
    chance. Nothing is studied where there is one view.
    """
    if len(views) == 1:
        return [], 0
    m = len(model.basis_)
    complete = np.arange(views.n)
    if views.present is not None:
        complete = complete[views.present.all(axis=1)]
    count = min(len(complete), max(STUDY_SAMPLES, 4 * m))
    rows = np.sort(random_state.permutation(complete)[:count])
    sample = some_rows(views, rows)
    truth = None if classes is None else classes[rows]
    seed = int(random_state.randint(2**31))

    def compare(kept: list[int]) -> tuple[float | None, float | None]:
        found = _labels_from(model, sample, kept, seed)
        if found is None:
            return None, None
        accuracy = None if truth is None else clustering_accuracy(truth, found)
        return ari(labels[rows], found), accuracy

    everything = list(range(len(views)))
    again = compare(everything)
    study = [StudyRow(ALL_VIEWS, again[0], None, again[1], None)]
    for v, view in enumerate(views):
        without = compare([u for u in everything if u != v])
        alone = compare([v])
        study.append(StudyRow(view.name, without[0], alone[0], without[1], alone[1]))
    return study, count


def _labels_from(model: Any, views: Views, kept: list[int], seed: int) -> NDArray | None:
    """Labels of a fit like the model's to some of its views; None where there can be none."""
    other = clone(model)
    changes: dict[str, Any] = {"n_anchors": len(model.basis_), "random_state": seed, "verbose": 0}
    changes |= {"views": None, "init": "random"}
    if not isinstance(model.anchors, str):
        changes["anchors"] = [np.asarray(model.anchors[v]) for v in kept]
    if not isinstance(model.weighting, str):
        changes["weighting"] = _kept_weights(model.weighting, kept)
    other.set_params(**changes)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return other.fit({views[v].name: views[v].array for v in kept}).labels_
    except ValueError:  # for instance: beta removes the whole graph of one view
        return None


def _kept_weights(weights: Any, kept: list[int]) -> Any:
    chosen = np.asarray(weights, dtype=float)[kept]
    return chosen if chosen.sum() > 0 else "uniform"
