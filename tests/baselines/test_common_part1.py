"""What AMGL, MLAN, MCGC and the plain baselines promise together."""

import time
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from omcal.baselines.amgl import AMGL
from omcal.baselines.mcgc import MCGC
from omcal.baselines.mlan import MLAN
from omcal.baselines.plain import BestSingleView, ConcatKMeans, ConcatSpectral
from omcal.metrics import ari

# Degenerate data does not give the number of clusters asked for, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

METHODS = [AMGL(3), MLAN(3), MCGC(3), ConcatKMeans(3), BestSingleView(3), ConcatSpectral(3)]
VARIANTS = [
    MLAN(3, weights="compound", normalize="sample"),
    MCGC(3, consensus="mean", local=False),
]
WITH_WEIGHTS = [AMGL(3), MLAN(3), VARIANTS[0]]
OF_DISTANCES = [AMGL(3), MLAN(3), MCGC(3)]


def name(method):
    return str(method).replace("n_clusters=3", "")


def each(methods):
    return pytest.mark.parametrize("method", methods, ids=name)


def seeded(method, **parameters):
    return clone(method).set_params(random_state=0, **parameters)


@parametrize_with_checks(METHODS)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def clear():
    """Three clusters that both views show."""
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), [30, 20, 25])
    first = rng.randn(75, 4) + 8 * y[:, None]
    second = rng.randn(75, 3) - 10 * y[:, None]
    return [first, second], y


@pytest.fixture(scope="module")
def unclear():
    rng = np.random.RandomState(1)
    y = np.repeat(np.arange(3), 25)
    return [rng.randn(75, 4) + 2 * y[:, None], rng.randn(75, 3) - 1.5 * y[:, None]]


@each(METHODS + VARIANTS[1:])
def test_finds_clear_clusters(method, clear):
    X, y = clear
    model = seeded(method).fit(X)
    assert ari(y, model.labels_) == 1
    assert set(model.labels_) == {0, 1, 2}


@each(METHODS + VARIANTS)
def test_same_seed_same_result(method, unclear):
    first, second = seeded(method).fit(unclear), seeded(method).fit(unclear)
    np.testing.assert_array_equal(first.labels_, second.labels_)
    if hasattr(first, "objective_"):
        np.testing.assert_array_equal(first.objective_, second.objective_)


@each([MLAN(3), MCGC(3), *VARIANTS])
def test_order_of_samples_only_reorders_the_labels(method, unclear):
    order = np.random.RandomState(2).permutation(75)
    labels = seeded(method).fit_predict(unclear)
    assert ari(labels[order], seeded(method).fit_predict([x[order] for x in unclear])) == 1


@each([AMGL(3), *METHODS[3:]])
def test_order_of_samples_does_not_matter_for_clear_clusters(method, clear):
    X, y = clear
    order = np.random.RandomState(2).permutation(75)
    assert ari(y[order], seeded(method).fit_predict([x[order] for x in X])) == 1


@each([*WITH_WEIGHTS, MCGC(3)])
def test_order_of_views_only_reorders_their_weights(method, unclear):
    model, swapped = seeded(method).fit(unclear), seeded(method).fit(unclear[::-1])
    assert ari(model.labels_, swapped.labels_) == 1
    np.testing.assert_allclose(model.objective_, swapped.objective_, rtol=1e-9)
    if hasattr(model, "view_weights_"):
        np.testing.assert_allclose(model.view_weights_, swapped.view_weights_[::-1], rtol=1e-9)


@each(OF_DISTANCES)
def test_offset_of_a_feature_changes_nothing(method, unclear):
    moved = [x + 1000.0 * np.arange(x.shape[1]) for x in unclear]
    model, other = seeded(method).fit(unclear), seeded(method).fit(moved)
    assert ari(model.labels_, other.labels_) == 1
    np.testing.assert_allclose(model.objective_, other.objective_, rtol=1e-6)


@each(METHODS)
def test_offset_of_clear_features_changes_nothing(method, clear):
    X, y = clear
    assert ari(y, seeded(method).fit_predict([x + 1000.0 for x in X])) == 1


def test_informative_view_weighs_more(clear):
    X, _ = clear
    noise = np.random.RandomState(3).rand(75, 3)
    weights = AMGL(3, random_state=0).fit([10 * noise, X[0]]).view_weights_
    assert weights[1] > 2 * weights[0]


@each(METHODS + VARIANTS)
def test_sparse_views_give_the_labels_of_dense_ones(method, clear):
    X, _ = clear
    X = [np.where(np.abs(x) > 1, x, 0) for x in X]
    dense = seeded(method).fit_predict(X)
    for container in (sparse.csr_array, sparse.csr_matrix, sparse.coo_array):
        assert ari(dense, seeded(method).fit_predict([X[0], container(X[1])])) == 1
    assert ari(dense, seeded(method).fit_predict([sparse.csr_array(x) for x in X])) == 1


@each(METHODS)
def test_wide_sparse_views_stay_sparse(method):
    rng = np.random.RandomState(0)
    n, d = 60, 200_000
    y = np.repeat(np.arange(3), n // 3)
    rows = np.repeat(np.arange(n), 30)
    own = rng.randint(40, size=n * 30) + 40 * np.repeat(y, 30)
    anywhere = rng.randint(d, size=n * 30)
    columns = np.r_[own, anywhere]
    X = sparse.csr_array((np.ones(n * 60), (np.r_[rows, rows], columns)), shape=(n, d))
    # Most terms occur in one sample alone: scaled to unit variance they would drown the others.
    parameters = {"scale": None} if "scale" in method.get_params() else {}
    tracemalloc.start()
    try:
        labels = seeded(method, **parameters).fit_predict([X, X])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ari(y, labels) == 1
    assert peak < 0.5 * n * d * 8


def degenerate():
    rng = np.random.RandomState(0)
    noise = rng.rand(30, 3)
    groups = np.repeat(rng.rand(3, 4), 10, axis=0)
    return {
        "equal samples": [np.full((30, 4), 3.3), np.full((30, 2), 1.7)],
        "zeros": [np.zeros((30, 4)), sparse.csr_array((30, 3))],
        "one constant view": [noise, np.full((30, 2), 5.0)],
        "three different samples": [groups, groups[:, :2]],
        "more groups than clusters": [np.repeat(rng.rand(10, 4), 3, axis=0)],
        "many isolated pairs": [np.repeat(1e3 * rng.rand(15, 4), 2, axis=0), noise],
        "zero rows": [np.vstack([np.zeros((10, 3)), noise[10:]])] * 2,
        "constant features": [np.hstack([noise, np.full((30, 3), 7.0)])] * 2,
        "one feature": [noise[:, :1], noise[:, 1:2]],
        "an outlier": [np.vstack([noise[1:], np.full((1, 3), 1e8)]), noise],
        "huge": [1e100 * noise, noise],
        "tiny": [1e-100 * noise, noise],
        "integers": [rng.randint(3, size=(30, 3)), rng.randint(2, size=(30, 2))],
        "float32": [noise.astype(np.float32), noise.astype(np.float32)],
        "equal views": [noise, noise],
        "seven samples": [noise[:7], noise[7:14]],
        "three samples": [noise[:3], noise[3:6]],
    }


@each(METHODS + VARIANTS)
@pytest.mark.parametrize("X", degenerate().values(), ids=degenerate().keys())
@pytest.mark.parametrize("n_clusters", [1, 3])
def test_degenerate_data_gives_labels(method, X, n_clusters):
    model = seeded(method, n_clusters=n_clusters).fit(X)
    assert model.labels_.shape == (X[0].shape[0],)
    assert model.labels_.dtype.kind == "i"
    np.testing.assert_array_equal(
        np.unique(model.labels_), np.arange(len(np.unique(model.labels_)))
    )
    for value in vars(model).values():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all()


@each(METHODS + VARIANTS)
def test_as_many_clusters_as_samples(method):
    X = np.random.RandomState(0).rand(8, 3)
    labels = seeded(method, n_clusters=8).fit_predict([X, X**2])
    assert len(labels) == 8 and labels.max() < 8


@each([AMGL(2), MLAN(2), MCGC(2), ConcatSpectral(2)])
def test_two_samples_have_no_graph(method):
    with pytest.raises(ValueError, match="at least 3 samples"):
        method.fit([np.eye(2), np.eye(2)])


@each(OF_DISTANCES)
def test_values_that_overflow_are_refused(method):
    with pytest.raises(ValueError, match="scale"):
        method.fit([1e200 * np.random.RandomState(0).rand(30, 4)])


def test_too_large_for_memory_is_refused_in_time():
    X = sparse.csr_array((3_000_000, 5))
    start = time.perf_counter()
    with pytest.raises(MemoryError, match="MCGC on 3000000 samples"):
        MCGC(3).fit([X, X])
    assert time.perf_counter() - start < 5
