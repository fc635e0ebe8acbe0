"""SC: the width, the affinity, the embedding."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits, make_circles

from omcal.baselines import plain as sc
from omcal.baselines.plain import SC
from omcal.metrics import ari, evaluate


def test_no_sample_is_its_own_neighbour():
    X = np.array([[1000.0], [0.0], [0.1], [50.0], [50.1]])
    lengths = np.linalg.norm(SC(2, sigma=0.5, random_state=0).fit(X).embedding_, axis=1)
    np.testing.assert_allclose(lengths, [0, 1, 1, 1, 1], atol=1e-12)


def test_median_width():
    X = np.random.RandomState(0).rand(30, 3)
    assert SC(2, random_state=0).fit(X).sigma_ == pytest.approx(np.median(pdist(X)))


def test_median_of_a_sample_is_close(monkeypatch):
    X = np.random.RandomState(0).rand(300, 3)
    full = SC(2, random_state=0).fit(X).sigma_
    monkeypatch.setattr(sc, "_MEDIAN_SAMPLES", 100)
    sampled = SC(2, random_state=0).fit(X).sigma_
    assert sampled != full
    assert sampled == pytest.approx(full, rel=0.1)


def test_width_of_mostly_equal_samples_comes_from_the_others():
    X = np.zeros((20, 2))
    X[:3] = [[3, 4], [6, 8], [0, 0]]
    assert 3 < SC(2, random_state=0).fit(X).sigma_ < 10


def test_embedding_follows_the_definition():
    X = np.random.RandomState(0).rand(40, 3)
    model = SC(3, sigma=0.3, random_state=0).fit(X)
    A = np.exp(-np.square(X[:, None] - X).sum(axis=2) / (2 * 0.3**2))
    np.fill_diagonal(A, 0)
    root = np.sqrt(A.sum(axis=1))
    _, vectors = np.linalg.eigh(A / np.outer(root, root))
    U = vectors[:, -3:] / np.linalg.norm(vectors[:, -3:], axis=1, keepdims=True)
    # Free of the signs and the rotation of the eigenvectors.
    np.testing.assert_allclose(model.embedding_ @ model.embedding_.T, U @ U.T, atol=1e-10)


def test_clusters_need_not_be_convex():
    X, y = make_circles(200, factor=0.3, noise=0.03, random_state=0)
    assert ari(y, SC(2, sigma=0.1, random_state=0).fit_predict(X)) == 1


def test_width_scales_with_the_data():
    X = np.random.RandomState(0).randn(100, 4)
    first, second = SC(4, random_state=0).fit(X), SC(4, random_state=0).fit(1000 * X)
    assert second.sigma_ == pytest.approx(1000 * first.sigma_)
    assert ari(first.labels_, second.labels_) == 1


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "accuracy", "nmi"), [(None, 0.789, 0.728), (0.5, 0.775, 0.796), (1.0, 0.701, 0.713)]
)
def test_digits_agree_with_the_reference(sigma, accuracy, nmi):
    X, y = load_digits(return_X_y=True)
    scores = evaluate(y, SC(10, sigma=sigma, random_state=0).fit_predict(X / 16))
    assert scores["accuracy"] == pytest.approx(accuracy, abs=0.01)
    assert scores["nmi"] == pytest.approx(nmi, abs=0.01)


def test_far_too_small_width_still_gives_labels():
    X = np.random.RandomState(0).rand(30, 3)
    model = SC(3, sigma=1e-6, random_state=0).fit(X)
    assert np.isfinite(model.embedding_).all()
