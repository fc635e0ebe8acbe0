"""Degenerate data: every baseline gives labels, or says what it cannot do."""

import numpy as np
import pytest
from common_cases import ALL, METHODS, VARIANTS, anchors_within, each, given, name, of, seeded
from scipy import sparse

from omcal.baselines import (
    AMGL,
    BKM,
    CGFKM,
    KMM,
    MCGC,
    MLAN,
    SLMVGC,
    SMC,
    SMCAGC,
    SMCOCL,
    ConcatSpectral,
    NMFClustering,
    UOMvSC,
)

# Degenerate data does not converge, or not to the number of clusters asked for, and says so.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def degenerate():
    rng = np.random.RandomState(0)
    noise = rng.rand(30, 3)
    groups = np.repeat(rng.rand(3, 4), 10, axis=0)
    return {
        "equal samples": [np.full((30, 4), 3.3), np.full((30, 2), 1.7)],
        "equal samples, wide": [np.full((10, 40), 1.7)],
        "zeros": [np.zeros((30, 4)), sparse.csr_array((30, 3))],
        "zeros, wide": [sparse.csr_array((20, 50))],
        "one constant view": [noise, np.full((30, 2), 5.0)],
        "two different samples": [groups[:20], groups[:20, :3]],
        "three different samples": [groups, groups[:, :3]],
        "three different samples, narrow": [groups, groups[:, :2]],
        "more groups than clusters": [np.repeat(rng.rand(10, 4), 3, axis=0)],
        "many isolated pairs": [np.repeat(1e3 * rng.rand(15, 4), 2, axis=0), noise],
        "zero rows": [np.vstack([np.zeros((10, 3)), noise[10:]])] * 2,
        "constant features": [np.hstack([noise, np.full((30, 3), 7.0)])] * 2,
        "one feature": [noise[:, :1]],
        "one feature a view": [noise[:, :1], noise[:, 1:2]],
        "an outlier": [np.vstack([noise[1:], np.full((1, 3), 1e8)]), noise],
        "huge": [1e100 * noise],
        "a huge view": [1e100 * noise, noise],
        "tiny": [1e-100 * noise],
        "a tiny view": [1e-100 * noise, noise],
        "integers": [rng.randint(3, size=(30, 3)), rng.randint(2, size=(30, 2))],
        "float32": [noise.astype(np.float32), noise.astype(np.float32)],
        "equal views": [noise, noise],
        "seven samples": [noise[:7], noise[7:14]],
        "three samples": [noise[:3], noise[3:6]],
    }


ZEROS = {"zeros", "zeros, wide"}
WITHOUT_CODES = {"equal samples", "equal samples, wide", "one constant view"} | ZEROS
REFUSED = [
    (NMFClustering, ZEROS, "nothing to factorise"),
    (SMCOCL, WITHOUT_CODES, "has only codes of zeros"),
    (KMM, {"three samples"}, "n_neighbors=5 must be less than the number of samples, 3"),
]


def refusal(method, data):
    messages = (text for cls, sets, text in REFUSED if isinstance(method, cls) and data in sets)
    return next(messages, None)


def cases(*, refused):
    """Every method on all of the data; a variant of one on a quarter of them, each on another.

    Each method has one number of clusters on every second of the data; the other cases are long.
    """
    params = [
        pytest.param(
            method,
            X,
            refusal(method, data),
            n_clusters,
            id=f"{data}-{name(method)}-{n_clusters}",
            marks=[] if m < len(METHODS) and (d + m) % 4 == turn else [pytest.mark.long],
        )
        for d, (data, X) in enumerate(degenerate().items())
        for m, method in enumerate([*METHODS, *VARIANTS[d % 4 :: 4]])
        if bool(refusal(method, data)) == refused
        for turn, n_clusters in enumerate([1, 3])
    ]
    return pytest.mark.parametrize(("method", "X", "message", "n_clusters"), params)


@pytest.mark.long
@cases(refused=False)
def test_degenerate_data_gives_labels(method, X, message, n_clusters):
    n = X[0].shape[0]
    model = seeded(anchors_within(method, n), n_clusters=n_clusters).fit(given(method, X))
    assert model.labels_.shape == (n,)
    assert model.labels_.dtype.kind == "i"
    found = np.unique(model.labels_)
    if isinstance(method, BKM | NMFClustering):
        # A label is also the number of a block or a component; not each need have samples.
        assert found.min() >= 0 and found.max() < n_clusters
    else:
        np.testing.assert_array_equal(found, np.arange(len(found)))
    if not isinstance(method, MLAN | KMM):  # theirs are components, whatever the number
        assert len(found) <= n_clusters
    for value in vars(model).values():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all()


@cases(refused=True)
def test_degenerate_data_is_refused(method, X, message, n_clusters):
    with pytest.raises(ValueError, match=message):
        seeded(method, n_clusters=n_clusters).fit(given(method, X))


@each(ALL)
def test_as_many_clusters_as_samples(method):
    X = np.random.RandomState(0).rand(8, 3)
    model = seeded(anchors_within(method, 8, least=8), n_clusters=8)
    labels = model.fit_predict(given(method, [X, X**2]))
    assert len(labels) == 8 and labels.max() < 8


GRAPH_METHODS = (AMGL, MLAN, MCGC, SMC, SMCAGC, SMCOCL, SLMVGC, UOMvSC, ConcatSpectral, CGFKM)


@each(of(*GRAPH_METHODS, among=METHODS))
def test_two_samples_have_no_graph(method):
    with pytest.raises(ValueError, match="at least 3 samples"):
        seeded(method, n_clusters=2).fit(given(method, [np.eye(2), np.eye(2)]))


# UOMvSC scales every feature to [0, 1] first.
@each([method for method in ALL if not isinstance(method, UOMvSC)])
def test_values_that_overflow_are_refused(method):
    with pytest.raises(ValueError, match="scale X first"):
        seeded(method).fit(1e200 * np.random.RandomState(0).rand(30, 4))
