"""Drift: false alarms are as rare as stated, and moved views, features and clusters are named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from omcal import OMCAL, Consensus, load
from omcal.datasets import make_multiview
from omcal.model.drift import ALARM_RATE, Drift, Moved, chance


def halves(seed, n=600, kind=np.asarray, noise=0.8):
    data = make_multiview(2 * n, n_clusters=3, noise=noise, random_state=seed)
    views = {name: kind(view) for name, view in data.views.items()}
    first = {name: view[:n] for name, view in views.items()}
    return first, {name: view[n:] for name, view in views.items()}, data.labels[n:]


@pytest.fixture(scope="module")
def fitted():
    fit, new, y = halves(0)
    return OMCAL(3, random_state=0).fit(fit), new, y


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.002, 0.5), st.integers(20, 400), st.integers(20, 400))
def test_the_bound_of_chance_holds(seed, p, n, n_new):
    """Differences of means of rare events are below the bound as often as it says."""
    rng = np.random.default_rng(seed)
    one, two = rng.binomial(n, p, 4000) / n, rng.binomial(n_new, p, 4000) / n_new
    found = chance(two - one, np.full(4000, p * (1 - p)), n, n_new)
    for rate in (0.2, 0.05, 0.01):
        assert (found <= rate).mean() <= rate + 4 * np.sqrt(rate / 4000)


@pytest.mark.slow
def test_samples_of_the_same_kind_raise_no_alarm():
    n_alarms = 0
    for seed in range(12):
        fit, new, _ = halves(seed, n=200)
        n_alarms += bool(OMCAL(3, random_state=0).fit(fit).drift(new).moved)
    assert n_alarms <= 1  # of 12 at 1 %


def test_a_moved_view_is_named_with_its_features(fitted):
    model, new, _ = fitted
    moved = dict(new, view2=new["view2"] + np.eye(1, new["view2"].shape[1], 3) * 2)
    found = model.drift(moved)
    assert {one.name for one in found.moved if one.kind == "feature"} == {"view2: 3"}
    assert {one.name for one in found.moved if one.kind == "view"} == {"view2"}
    assert "view2: 3" in str(found)
    (feature,) = (one for one in found.moved if one.kind == "feature")
    assert feature.now - feature.before == pytest.approx(2, abs=0.3)


@pytest.mark.parametrize(("change", "words"), [(0.001, "features only"), (0.02, "2% of its wei")])
def test_a_view_moves_by_its_features_alone_or_to_other_anchors(change, words):
    assert words in str(Drift([Moved("view", "v", None, None, change, 1e-9)], 9))


def test_a_cluster_that_shrinks_or_moves_is_named(fitted):
    model, new, _ = fitted
    model.cluster_names_ = ["big", "middle", "small"]
    labels = model.predict(new)
    few = {name: view[labels != 1] for name, view in new.items()}
    sizes = {one.name: one.change for one in model.drift(few).moved if one.kind == "cluster size"}
    assert sizes["middle"] < -0.2
    assert not model.drift(few).refit  # the clusters lie where they were
    shift = {name: view + (labels == 2)[:, None] * 1.5 for name, view in new.items()}
    places = [one for one in model.drift(shift).moved if one.kind == "cluster place"]
    assert places and model.drift(shift).refit


def test_outliers_advise_a_refit(fitted):
    model, new, _ = fitted
    rng = np.random.default_rng(0)
    strange = {name: rng.permuted(view, axis=0) for name, view in new.items()}
    found = model.drift(strange)
    assert found.refit and "Fit again" in str(found)


def test_it_is_a_table_and_survives_a_file(fitted, tmp_path):
    pytest.importorskip("pandas")
    model, new, _ = fitted
    frame = model.drift(new).to_frame()
    assert list(frame) == ["kind", "name", "before", "now", "change", "p", "view", "moved"]
    assert not frame["moved"].any() and (frame["p"] > ALARM_RATE).all()
    model.save(tmp_path / "model.omcal")
    assert load(tmp_path / "model.omcal").drift(new).comparisons == model.drift(new).comparisons


@pytest.mark.sampled
@pytest.mark.parametrize("scale", ["auto", "unit", "view", "log", "tfidf", "sample", None])
def test_every_scale_and_sparse_views(scale):
    fit, new, _ = halves(1, n=200, kind=lambda view: sparse.csr_array(np.abs(view).round()))
    found = OMCAL(3, random_state=0, scale=scale).fit(fit).drift(new)
    assert not found.moved
    assert bool(found.notes) == (scale in ("sample", None))


def test_one_new_sample_and_the_labels_of_a_consensus():
    fit, new, _ = halves(2, n=200)
    model = Consensus(OMCAL(3), n_runs=3, random_state=0).fit(fit)
    assert not model.drift(new).moved
    assert not model.drift({name: view[:1] for name, view in new.items()}).moved
    sizes = [one.now for one in model.drift(new).comparisons if one.kind == "cluster size"]
    labels = model.predict(new)
    assert sizes == pytest.approx((np.bincount(labels, minlength=3) / len(labels)).tolist())


def test_without_sums_it_is_refused(fitted):
    model, new, _ = fitted
    reference, model._reference = model._reference, None
    with pytest.raises(ValueError, match="drift needs sums of the fit"):
        model.drift(new)
    model._reference = reference
