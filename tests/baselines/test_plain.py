"""The plain baselines: concatenation, and the best single view."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans

from omcal.baselines.plain import BestSingleView, ConcatKMeans, ConcatSpectral
from omcal.metrics import ari


@pytest.fixture
def views():
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), 30)
    clear = rng.randn(90, 3) + 6 * y[:, None]
    noise = 1000 * rng.rand(90, 4)
    return {"noise": noise, "clear": clear}, y


def test_concatenation_is_of_z_scores(views):
    X, _ = views
    joined = np.hstack([(x - x.mean(axis=0)) / x.std(axis=0, ddof=1) for x in X.values()])
    expected = KMeans(3, n_init=10, random_state=0).fit_predict(joined)
    labels = ConcatKMeans(3, random_state=0).fit_predict(X)
    assert ari(expected, labels) == 1


def test_without_scaling_the_large_features_rule(views):
    X, y = views
    scaled, raw = (ConcatKMeans(3, scale=scale, random_state=0) for scale in ("feature", None))
    assert ari(y, scaled.fit_predict(X)) > 0.8
    assert ari(y, raw.fit_predict(X)) < 0.2


def test_best_view_is_found_without_labels(views):
    X, y = views
    model = BestSingleView(3, random_state=0).fit(X)
    assert model.best_view_ == "clear"
    assert set(model.scores_) == {"noise", "clear"}
    assert model.scores_["clear"] > model.scores_["noise"] > -1
    assert ari(y, model.labels_) == 1


def test_silhouettes_of_a_sample(views, monkeypatch):
    X, _ = views
    whole = BestSingleView(3, random_state=0).fit(X)
    monkeypatch.setattr("omcal.baselines.plain._SILHOUETTE_SAMPLES", 60)
    part = BestSingleView(3, random_state=0).fit(X)
    assert part.scores_ != whole.scores_
    assert part.scores_["clear"] == pytest.approx(whole.scores_["clear"], abs=0.1)


def test_one_cluster_has_no_silhouette(views):
    X, _ = views
    model = BestSingleView(1, random_state=0).fit(X)
    assert model.scores_ == {"noise": 0.0, "clear": 0.0}
    assert model.best_view_ == "noise"


def test_spectral_finds_what_k_means_cannot():
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1], 150)
    angle = 2 * np.pi * rng.rand(300)
    ring = np.c_[np.cos(angle), np.sin(angle)] * (1 + 4 * y)[:, None] + 0.1 * rng.randn(300, 2)
    X = [ring, ring[:, ::-1]]
    assert ari(y, ConcatSpectral(2, random_state=0).fit_predict(X)) == 1
    assert ari(y, ConcatKMeans(2, random_state=0).fit_predict(X)) < 0.5


@pytest.mark.sampled
@pytest.mark.parametrize("method", [ConcatKMeans, BestSingleView, ConcatSpectral])
@pytest.mark.parametrize("scale", ["feature", "sample", "view", None])
def test_every_scaling_of_dense_sparse_and_mixed_views(method, scale, views):
    X, _ = views
    X = {name: np.abs(x) * (np.abs(x) > 1) for name, x in X.items()}
    mixed = {"noise": X["noise"], "clear": sparse.csr_array(X["clear"])}
    all_sparse = {name: sparse.csr_array(x) for name, x in X.items()}
    for given in (X, mixed, all_sparse):
        labels = method(3, scale=scale, random_state=0).fit_predict(given)
        assert set(labels) == {0, 1, 2}
