"""The digits in several views, and artificial clusters."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from omcal.datasets import load_digits_views, make_multiview
from omcal.metrics import clustering_accuracy


def kmeans_accuracy(X, labels):
    found = KMeans(len(np.unique(labels)), n_init=2, random_state=0).fit_predict(X)
    return clustering_accuracy(labels, found)


@pytest.mark.slow
def test_digits_have_four_informative_views():
    data = load_digits_views()
    assert data.n_samples == 1797 and data.n_classes == 10
    assert data.widths == (64, 34, 32, 48)
    for name, view in data.views.items():
        assert np.isfinite(view).all()
        scaled = (view - view.mean(0)) / np.where(view.std(0) > 0, view.std(0), 1)
        assert kmeans_accuracy(scaled, data.labels) > 0.4, name


def test_digits_views_say_what_they_claim():
    from sklearn.datasets import load_digits

    image = load_digits().images[0]
    data = load_digits_views()
    spectrum = np.abs(np.fft.fft2(image))
    # Every magnitude of the full transform is there, and those that repeat are there once.
    assert set(np.round(spectrum.ravel(), 6)) == set(np.round(data.views["fourier"][0], 6))
    profiles = data.views["profiles"][0]
    assert np.array_equal(profiles[:8], image.sum(axis=1))
    assert np.array_equal(profiles[8:16], image.sum(axis=0))
    left = [next((j for j, x in enumerate(row) if x > 4), 8) for row in image]
    right = [next((j for j, x in enumerate(row[::-1]) if x > 4), 8) for row in image]
    top = [next((i for i, x in enumerate(column) if x > 4), 8) for column in image.T]
    bottom = [next((i for i, x in enumerate(column[::-1]) if x > 4), 8) for column in image.T]
    assert profiles[16:].tolist() == left + right + top + bottom
    total = np.hypot(*np.gradient(image)).sum()
    assert data.views["gradients"][0].sum() == pytest.approx(total)


def test_sizes_balance_and_seed():
    data = make_multiview(101, n_clusters=4, n_features=(3, 4, 5), random_state=3)
    again = make_multiview(101, n_clusters=4, n_features=(3, 4, 5), random_state=3)
    other = make_multiview(101, n_clusters=4, n_features=(3, 4, 5), random_state=4)
    assert data.widths == (3, 4, 5) and data.present is None
    assert np.ptp(np.bincount(data.labels)) <= 1
    assert not (np.diff(data.labels) >= 0).all()
    for name, view in data.views.items():
        assert np.array_equal(view, again.views[name])
        assert not np.array_equal(view, other.views[name])


def test_every_view_tells_all_clusters_apart_by_default():
    data = make_multiview(400, n_clusters=4, noise=0.5, random_state=0)
    for view in data.views.values():
        assert kmeans_accuracy(view, data.labels) > 0.95


@pytest.mark.slow
def test_without_redundancy_only_all_views_together_do():
    data = make_multiview(600, n_clusters=6, redundancy=0, noise=0.3, random_state=0)
    for v, view in enumerate(data.views.values()):
        centres = np.array([view[data.labels == c].mean(axis=0) for c in range(6)])
        distances = np.linalg.norm(centres[:, None] - centres, axis=2)
        unseen = [c for c in range(6) if c % 3 != v]
        seen = [c for c in range(6) if c % 3 == v]
        assert distances[np.ix_(unseen, unseen)].max() < 0.5
        assert distances[np.ix_(seen, unseen)].min() > 1.5
        assert kmeans_accuracy(view, data.labels) < 0.8
    assert kmeans_accuracy(np.hstack(list(data.views.values())), data.labels) > 0.95


def test_redundancy_counts_the_views_that_see_a_cluster():
    data = make_multiview(2000, n_clusters=5, n_views=5, redundancy=0.5, noise=0.1, random_state=0)
    n_seeing = np.zeros(5, dtype=int)
    for view in data.views.values():
        centres = np.array([view[data.labels == c].mean(axis=0) for c in range(5)])
        distances = np.linalg.norm(centres[:, None] - centres, axis=2) + 9 * np.eye(5)
        n_seeing += distances.min(axis=1) > 0.5
    assert n_seeing.tolist() == [3] * 5


def test_noise_views_say_nothing_and_have_the_same_scale():
    data = make_multiview(
        3000, n_views=2, n_noise_views=1, n_features=40, noise=(1, 1, 2), random_state=0
    )
    assert list(data.views) == ["view1", "view2", "noise1"]
    noise = data.views["noise1"]
    assert noise.std() == pytest.approx(np.sqrt(5), rel=0.02)
    means = [noise[data.labels == c].mean(axis=0) for c in range(4)]
    assert np.abs(means).max() < 0.5


def test_noise_is_the_deviation_around_the_centres():
    data = make_multiview(4000, n_views=2, noise=(0.5, 2.0), random_state=0)
    for view, expected in zip(data.views.values(), (0.5, 2.0), strict=True):
        inside = [view[data.labels == c] - view[data.labels == c].mean(0) for c in range(4)]
        assert np.concatenate(inside).std() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("missing", [0.1, 0.5, 0.75])
def test_missing_pairs(missing):
    data = make_multiview(200, n_views=3, n_noise_views=1, missing=missing, random_state=0)
    present = np.column_stack(list(data.present.values()))
    assert (~present).sum() == round(missing * 800)
    assert present[:, :3].any(axis=1).all()
    for name, view in data.views.items():
        absent = ~data.present[name]
        assert np.isnan(view[absent]).all() and np.isfinite(view[~absent]).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_samples": 0},
        {"n_clusters": 600},
        {"n_clusters": 2.5},
        {"n_views": 0},
        {"n_features": (3, 4)},
        {"n_features": (3, 4, 0)},
        {"noise": -1.0},
        {"noise": (1.0, 1.0)},
        {"n_noise_views": -1},
        {"redundancy": 1.1},
        {"missing": -0.1},
        {"missing": 0.7},
        {"missing": float("nan")},
    ],
)
def test_wrong_parameters_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        make_multiview(**wrong)
