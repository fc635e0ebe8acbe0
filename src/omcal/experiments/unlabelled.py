"""Scores of a clustering without classes: stability, and agreement with the views."""

from __future__ import annotations

import base64
import itertools
import zlib
from collections.abc import Sequence

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from omcal.datasets import MultiViewData
from omcal.machine.arrays import Array
from omcal.metrics import ari

_SAMPLES = 4000  # of more, a random choice is asked for its neighbours
_NEIGHBORS = 10


def stability(clusterings: Sequence[Array]) -> list[float]:
    """Return the adjusted Rand index of every pair of clusterings of the same samples.

    Examples
    --------
    >>> stability([np.array([0, 0, 1]), np.array([1, 1, 0])])
    [1.0]
    """
    return [ari(a, b) for a, b in itertools.combinations(clusterings, 2)]


def view_agreement(data: MultiViewData, labels: Array) -> dict[str, float]:
    """Return for each view the share of nearest neighbours in the same cluster, less chance.

    The share of the ten nearest neighbours, in the standardised features of the view, that are in
    the cluster of their sample, less what chance gives: 1 where all are, 0 as by chance.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(200, n_clusters=3, noise=0.1, n_noise_views=1, random_state=0)
    >>> found = view_agreement(data, data.labels)
    >>> found["view1"] > 0.95, abs(found["noise1"]) < 0.1
    (True, True)
    """
    some = np.sort(np.random.RandomState(0).permutation(data.n_samples)[:_SAMPLES])
    found = {}
    for name, view in data.views.items():
        here = some if data.present is None else some[data.present[name][some]]
        found[name] = _agreement(view[here], labels[here])
    return found


def _agreement(rows: Array, labels: Array) -> float:
    k = min(_NEIGHBORS, len(labels) - 1)
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    chance = float(np.sum(shares**2))
    if k < 1 or chance == 1.0:  # one cluster agrees with everything and says nothing
        return 0.0
    scaled = StandardScaler(with_mean=not sparse.issparse(rows)).fit_transform(rows)
    neighbors = NearestNeighbors(n_neighbors=k).fit(scaled).kneighbors(return_distance=False)
    same = float(np.mean(labels[neighbors] == labels[:, None]))
    return (same - chance) / (1 - chance)


def pack_labels(labels: Array) -> str:
    """Return labels from 0 on as a short text, for a record."""
    small = labels.astype(np.min_scalar_type(int(labels.max())))
    return f"{small.dtype.str[1:]} {base64.b64encode(zlib.compress(small.tobytes())).decode()}"


def unpack_labels(text: str) -> Array:
    """Return the labels of `pack_labels`.

    Examples
    --------
    >>> unpack_labels(pack_labels(np.array([0, 2, 300]))).tolist()
    [0, 2, 300]
    """
    kind, content = text.split(" ")
    return np.frombuffer(zlib.decompress(base64.b64decode(content)), dtype=kind).astype(np.intp)
