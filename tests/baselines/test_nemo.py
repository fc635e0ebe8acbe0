"""NEMO against its formulas, written as loops, with samples absent from views."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omcal.baselines import NEMO
from omcal.datasets import MultiViewData
from omcal.experiments.comparison import supported_methods
from omcal.metrics import ari


def reference(views, masks, k):
    """The mean relative similarity of each two samples over the views that they share."""
    n = len(views[0])
    total, shared = np.zeros((n, n)), np.zeros((n, n))
    for X, mask in zip(views, masks, strict=True):
        here = [i for i in range(n) if mask[i]]
        Z = (X - X[here].mean(axis=0)) / X[here].std(axis=0, ddof=1)
        square = {(i, j): float(((Z[i] - Z[j]) ** 2).sum()) for i in here for j in here}
        near = {
            i: sorted((j for j in here if j != i), key=lambda j: square[i, j])[:k]  # noqa: B023
            for i in here
        }
        mean = {i: sum(square[i, j] for j in near[i]) / k for i in here}

        def s(i, j, mean=mean, square=square):
            variance = (mean[i] + mean[j] + square[i, j]) / 3
            return math.exp(-square[i, j] / (2 * variance)) / math.sqrt(2 * math.pi * variance)

        for i in here:
            for j in here:
                shared[i, j] += 1
                if j in near[i]:
                    total[i, j] += s(i, j) / sum(s(i, m) for m in near[i])
                if i in near[j]:
                    total[i, j] += s(i, j) / sum(s(m, j) for m in near[j])
    return np.where(shared > 0, total / np.maximum(shared, 1), 0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999), st.integers(10, 16), st.integers(1, 3), st.integers(1, 4))
def test_similarity_follows_the_formulas(seed, n, n_views, k):
    rng = np.random.default_rng(seed)
    views = [rng.normal(size=(n, 3)) for _ in range(n_views)]
    masks = [rng.random(n) < 0.8 for _ in range(n_views)]
    masks[0] |= ~np.logical_or.reduce(masks)
    for mask in masks:
        mask[:6] = True
    model = NEMO(2, n_neighbors=k, random_state=0).fit(views, present=masks)
    np.testing.assert_allclose(model.similarity_, reference(views, masks, k), rtol=1e-8)


def test_default_number_of_neighbours():
    X = np.random.default_rng(0).normal(size=(30, 2))
    found = NEMO(3, random_state=0).fit([X]).similarity_
    np.testing.assert_array_equal(
        found, NEMO(3, n_neighbors=10, random_state=0).fit([X]).similarity_
    )


def test_rows_of_nan_are_absent_samples():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 20)
    views = [rng.normal(size=(60, 3)) + 6.0 * np.eye(3)[y] for _ in range(2)]
    masks = [np.arange(60) % 3 != 0, np.arange(60) % 3 != 1]
    given_masks = NEMO(3, random_state=0).fit(views, present=masks)
    for view, mask in zip(views, masks, strict=True):
        view[~mask] = np.nan
    by_nan = NEMO(3, random_state=0).fit(views)
    np.testing.assert_array_equal(by_nan.similarity_, given_masks.similarity_)
    assert ari(y, by_nan.labels_) == 1


@pytest.mark.parametrize("n_here", [1, 2])
def test_a_view_of_one_or_two_samples(n_here):
    X = np.random.default_rng(0).normal(size=(12, 2))
    mask = np.arange(12) < n_here
    labels = NEMO(2, random_state=0).fit([X, X], present=[None, mask]).labels_
    assert len(labels) == 12


def test_missing_cells_are_filled_with_a_warning():
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(60, 1)) * [1.0, 2.0, -1.0] + 1e-3 * rng.normal(size=(60, 3))
    X = whole.copy()
    X[0, 1] = np.nan
    with pytest.warns(UserWarning, match="missing"):
        found = NEMO(2, random_state=0).fit([X]).similarity_
    expected = NEMO(2, random_state=0).fit([whole]).similarity_
    np.testing.assert_allclose(found, expected, atol=0.02 * expected.max())
    middle = np.where(np.isnan(X), np.nanmean(X[:, 1]), X)
    by_means = NEMO(2, random_state=0).fit([middle]).similarity_
    assert np.abs(by_means - expected).max() > 0.1 * expected.max()


def test_equal_samples():
    X = np.repeat([[0.0, 0], [5, 5]], 6, axis=0)
    assert ari(np.repeat([0, 1], 6), NEMO(2, random_state=0).fit_predict([X])) == 1


def test_compare_takes_it_with_absent_samples():
    rng = np.random.default_rng(0)
    views = {name: rng.normal(size=(40, 3)) for name in "ab"}
    data = MultiViewData(views, present={"a": np.arange(40) % 5 != 0})
    chosen, left_out = supported_methods(["nemo", "snf"], data)
    assert [method.name for method in chosen] == ["nemo"]
    assert left_out == {"snf": "does not support samples missing from a view"}
    assert outcome_shape(chosen[0].make(2, random_state=0), data) == (40,)


def outcome_shape(model, data):
    return model.fit(data.views, present=data.present).labels_.shape


def test_scaled_views_can_be_left_as_they_are():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(24, 5)) * [1, 2, 5, 9, 20], rng.normal(size=(24, 3))]
    standard = [(x - x.mean(axis=0)) / x.std(axis=0, ddof=1) for x in X]
    default, kept, raw = (
        NEMO(3, scale=scale, random_state=0).fit(views).similarity_
        for views, scale in ((X, "feature"), (standard, None), (X, None))
    )
    np.testing.assert_allclose(default, kept, rtol=1e-9)
    assert np.abs(default - raw).max() > 1e-3
    with pytest.raises(ValueError, match="'scale' parameter of NEMO"):
        NEMO(3, scale="tfidf").fit(X)
