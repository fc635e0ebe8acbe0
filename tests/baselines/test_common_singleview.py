"""What every single-view baseline promises: scikit-learn's conventions, seeds, degenerate input."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from omcal.baselines.bkm import BKM
from omcal.baselines.cgfkm import CGFKM
from omcal.baselines.ecpcs import ECPCS
from omcal.baselines.fnmtf import FNMTF
from omcal.baselines.kmm import KMM
from omcal.baselines.nmf import NMFClustering
from omcal.baselines.sc import SC
from omcal.metrics import ari

# Degenerate data does not converge, or not to the number of clusters asked for, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

METHODS = {
    "NMF": NMFClustering(3),
    "SC": SC(3),
    "FNMTF": FNMTF(3),
    "BKM": BKM(3),
    "ECPCS-MC": ECPCS(3),
    "ECPCS-HC": ECPCS(3, consensus="hc"),
    "KMM": KMM(3),
    "CGFKM": CGFKM(3),
}
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
each_distance_method = pytest.mark.parametrize(
    "name", ["SC", "ECPCS-MC", "ECPCS-HC", "KMM", "CGFKM"]
)


def expected_failures(estimator):
    if estimator.__sklearn_tags__().input_tags.positive_only:
        return {"check_clustering": "its data is negative, whatever the tag positive_only says"}
    return {}


@parametrize_with_checks(
    [*METHODS.values(), BKM(3, weighted=True)], expected_failed_checks=expected_failures
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blocks():
    """Non-negative data of three clusters, each with features of its own, and some noise."""
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), [30, 20, 25])
    X = 2.0 * (y[:, None] == np.repeat(np.arange(3), [5, 6, 4])) + rng.rand(75, 15)
    return X, y


def seeded(method, **parameters):
    return clone(method).set_params(random_state=0, **parameters)


@each_method
def test_finds_clear_clusters(method, blocks):
    X, y = blocks
    model = seeded(method).fit(X)
    assert ari(y, model.labels_) == 1
    assert set(model.labels_) == {0, 1, 2}


@each_method
def test_same_seed_same_labels(method, blocks):
    X, _ = blocks
    X = X + 3 * np.random.RandomState(1).rand(*X.shape)  # unclear enough for seeds to matter
    np.testing.assert_array_equal(seeded(method).fit_predict(X), seeded(method).fit_predict(X))


@each_method
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.coo_array])
def test_sparse_input_gives_the_labels_of_dense(method, container, blocks):
    X, _ = blocks
    X = np.where(X > 0.6, X, 0)
    assert ari(seeded(method).fit_predict(X), seeded(method).fit_predict(container(X))) == 1


@each_method
def test_sparse_wide_data_stays_sparse(method):
    rng = np.random.RandomState(0)
    n, d = 60, 200_000
    y = np.repeat(np.arange(3), n // 3)
    rows = np.repeat(np.arange(n), 60)
    columns = np.r_[
        rng.randint(40, size=n * 30) + 40 * np.repeat(y, 30), rng.randint(d, size=n * 30)
    ]
    X = sparse.csr_array((np.ones(n * 60), (np.r_[rows[::2], rows[1::2]], columns)), (n, d))
    tracemalloc.start()
    try:
        labels = seeded(method).fit_predict(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ari(y, labels) == 1
    assert peak < 0.5 * n * d * 8


@each_method
def test_order_of_samples_does_not_matter_for_clear_clusters(method, blocks):
    X, y = blocks
    order = np.random.RandomState(2).permutation(len(X))
    assert ari(y[order], seeded(method).fit_predict(X[order])) == 1


@each_distance_method
def test_rotation_and_translation_change_nothing(name):
    X, _ = make_blobs(200, n_features=6, centers=5, cluster_std=3.0, random_state=0)
    rotation = ortho_group.rvs(6, random_state=0)
    moved = X @ rotation + 10
    method = METHODS[name]
    assert ari(seeded(method).fit_predict(X), seeded(method).fit_predict(moved)) == 1


DEGENERATE = {
    "equal samples": np.full((20, 4), 3.3),
    "equal samples, wide": np.full((10, 40), 1.7),
    "three different samples": np.repeat(np.random.RandomState(0).rand(3, 4), 10, axis=0),
    "two different samples": np.repeat(np.random.RandomState(0).rand(2, 4), 10, axis=0),
    "zero rows": np.vstack([np.zeros((10, 4)), np.random.RandomState(0).rand(20, 4)]),
    "constant features": np.hstack([np.random.RandomState(0).rand(30, 2), np.full((30, 3), 7.0)]),
    "one feature": np.random.RandomState(0).rand(30, 1),
    "an outlier": np.vstack([np.random.RandomState(0).rand(30, 4), np.full((1, 4), 1e8)]),
    "huge": 1e100 * np.random.RandomState(0).rand(30, 4),
    "tiny": 1e-100 * np.random.RandomState(0).rand(30, 4),
    "integers": np.random.RandomState(0).randint(3, size=(30, 3)),
    "float32": np.random.RandomState(0).rand(30, 3).astype(np.float32),
    "seven samples": np.random.RandomState(0).rand(7, 2),
}


@each_method
@pytest.mark.parametrize("X", DEGENERATE.values(), ids=DEGENERATE.keys())
@pytest.mark.parametrize("n_clusters", [1, 3])
def test_degenerate_data_gives_labels(method, X, n_clusters):
    model = seeded(method, n_clusters=n_clusters).fit(X)
    assert model.labels_.shape == (len(X),)
    assert model.labels_.dtype.kind == "i"
    assert model.labels_.min() >= 0
    # KMM alone may end with more components than asked for.
    assert model.labels_.max() < (len(X) if isinstance(method, KMM) else n_clusters)
    for value in vars(model).values():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all()


@each_method
def test_all_zero_data(method):
    X = sparse.csr_array((20, 50))
    if isinstance(method, NMFClustering):
        with pytest.raises(ValueError, match="nothing to factorise"):
            seeded(method).fit(X)
    else:
        assert len(seeded(method).fit_predict(X)) == 20


@each_method
def test_as_many_clusters_as_samples(method):
    X = np.random.RandomState(0).rand(8, 3)
    labels = seeded(method, n_clusters=8).fit_predict(X)
    assert len(labels) == 8 and labels.max() < 8


@each_method
def test_values_that_overflow_are_refused(method):
    with pytest.raises(ValueError, match="scale X first"):
        seeded(method).fit(1e200 * np.random.RandomState(0).rand(30, 4))


@each_method
def test_several_views_are_refused(method):
    X = np.ones((10, 2))
    with pytest.raises(ValueError, match="takes one view and X holds 2"):
        seeded(method).fit([X, X])


@pytest.mark.parametrize("name", ["SC", "ECPCS-HC", "CGFKM"])
def test_too_large_for_memory_is_refused_in_time(name):
    X = sparse.csr_array((3_000_000, 2_500_000))
    with pytest.raises(MemoryError, match="3000000 samples"):
        seeded(METHODS[name]).fit(X)
