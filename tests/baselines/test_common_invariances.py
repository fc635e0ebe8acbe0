"""What must not matter to a baseline: the order of samples and views, offsets, units, rotations."""

import numpy as np
import pytest
from common_cases import (
    ALL,
    clear_data,
    each,
    fits_values,
    given,
    of,
    scales_samples,
    seeded,
    unclear_data,
)
from scipy.stats import ortho_group
from sklearn.datasets import make_blobs

from omcal.baselines import (
    AMGL,
    CGFKM,
    ECPCS,
    FNMTF,
    KMM,
    MCGC,
    MLAN,
    MVSCHFD,
    SC,
    SLMVGC,
    BestSingleView,
    ConcatKMeans,
    ConcatSpectral,
    NMFClustering,
    UOMvSC,
)
from omcal.metrics import ari

# SLMVGC seldom settles in the number of rounds of its authors, and says so.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

BY_SAMPLE = [method for method in ALL if scales_samples(method)]
BY_DIFFERENCES = [method for method in ALL if not (scales_samples(method) or fits_values(method))]
BY_DISTANCES = of(AMGL, MLAN, MCGC, SLMVGC, SC, ECPCS, KMM, CGFKM, among=BY_DIFFERENCES)


def same_fits(method, X, other, rtol):
    """The models of both, after a look at labels and objectives."""
    model, again = (seeded(method).fit(given(method, views)) for views in (X, other))
    assert ari(model.labels_, again.labels_) == 1
    if hasattr(model, "objective_"):
        np.testing.assert_allclose(model.objective_, again.objective_, rtol=rtol)
    return model, again


@pytest.mark.long
@clear_data(ALL)
def test_order_of_samples_does_not_matter_for_clear_clusters(method, X, y):
    order = np.random.RandomState(2).permutation(75)
    assert ari(y[order], seeded(method).fit_predict(given(method, [x[order] for x in X]))) == 1


# In these alone the order of the samples enters no random choice, but for SLMVGC's k-means.
@unclear_data(of(MLAN, MCGC, SLMVGC))
def test_order_of_samples_only_reorders_the_labels(method, X):
    order = np.random.RandomState(2).permutation(75)
    labels = seeded(method).fit_predict(X)
    assert ari(labels[order], seeded(method).fit_predict([x[order] for x in X])) == 1


# NMF and FNMTF start from something random a feature.
@pytest.mark.long
@unclear_data([method for method in ALL if not isinstance(method, NMFClustering | FNMTF)])
def test_order_of_views_only_reorders_their_weights(method, X):
    model, swapped = same_fits(method, X, X[::-1], rtol=1e-9)
    for attribute in ("view_weights_", "embedding_weights_"):
        if hasattr(model, attribute):
            expected = getattr(model, attribute).copy()
            expected[:2] = expected[1::-1]  # UOMvSC has one more, of all views together
            np.testing.assert_allclose(getattr(swapped, attribute), expected, rtol=1e-9)
    if hasattr(model, "sample_weights_"):
        reordered = swapped.sample_weights_[:, ::-1]
        np.testing.assert_allclose(model.sample_weights_, reordered, rtol=1e-6)


@pytest.mark.long
@unclear_data(BY_DIFFERENCES)
def test_offset_of_a_feature_changes_nothing(method, X):
    same_fits(method, X, [x + 1000.0 * np.arange(x.shape[1]) for x in X], rtol=1e-6)


@pytest.mark.long
@clear_data([method for method in ALL if not fits_values(method)])
def test_offset_of_clear_features_changes_nothing(method, X, y):
    assert ari(y, seeded(method).fit_predict(given(method, [x + 1000.0 for x in X]))) == 1


@unclear_data(of(MVSCHFD, UOMvSC, ConcatKMeans, BestSingleView, ConcatSpectral))
def test_unit_of_a_feature_changes_nothing(method, X):
    same_fits(method, X, [x * 10.0 ** np.arange(x.shape[1]) for x in X], rtol=1e-9)


@unclear_data(BY_SAMPLE)
def test_scale_and_offset_of_a_sample_change_nothing(method, X):
    rng = np.random.RandomState(3)
    factor, offset = rng.uniform(0.5, 2, (75, 1)), rng.randn(75, 1)
    X = np.hstack(X)
    same_fits(method, [X], [X * factor + offset], rtol=1e-9)


@pytest.mark.long
@each(BY_DISTANCES)
def test_rotation_and_translation_change_nothing(method):
    X, _ = make_blobs(200, n_features=6, centers=5, cluster_std=3.0, random_state=0)
    same_fits(method, [X], [X @ ortho_group.rvs(6, random_state=0) + 10], rtol=1e-6)
