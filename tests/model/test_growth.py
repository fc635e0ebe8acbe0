"""A new cluster appears in a stream: it is told, and added if asked for; noise is no cluster."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from omcal import OMCAL, Consensus, load
from omcal.datasets import make_multiview
from omcal.metrics import ari

DATA = make_multiview(2000, n_clusters=5, noise=0.6, random_state=0)
OLD, NEW = np.flatnonzero(DATA.labels < 4), np.flatnonzero(DATA.labels == 4)


def rows(some, kind=np.asarray):
    return {name: kind(view[some]) for name, view in DATA.views.items()}


def fitted(stream=False, **more):
    # A stream grows once its sample is full: here that is small.
    model = OMCAL(4, random_state=0, half_life=400 if stream else None, **more)
    if not stream:
        return model.fit(rows(OLD[:600]))
    for start in (0, 200, 400):
        model.partial_fit(rows(OLD[start : start + 200]))
    return model


def weeks(noise=None):
    """Batches of 250 known samples and 60 of a new cluster, or of noise."""
    rng = np.random.default_rng(0)
    for week in range(3):
        known = OLD[600 + 250 * week : 850 + 250 * week]
        if noise is None:
            yield rows(np.concatenate([known, NEW[60 * week : 60 * week + 60]]))
            continue
        batch = rows(known)
        yield {name: np.vstack([view, noise(rng, view)]) for name, view in batch.items()}


@pytest.mark.parametrize("stream", [False, True])
def test_a_new_cluster_is_added_and_the_others_keep_their_numbers(stream, tmp_path):
    model = fitted(stream, grow=True)
    model.partial_fit(rows(OLD[600:700]))
    before = model.predict(rows(OLD))
    for week in weeks():
        model.partial_fit(week)
    assert model.n_clusters_ == 5 and model.n_clusters == 4
    assert (model.predict(rows(OLD)) == before).mean() > 0.98
    assert (model.predict(rows(NEW)) == 4).mean() > 0.98
    assert ari(DATA.labels, model.predict(DATA.views)) > 0.97
    assert list(model.cluster_names_) == ["0", "1", "2", "3", "4"]
    assert_array_equal(np.bincount(model.labels_, minlength=5) > 30, True)
    assert not model.drift(rows(np.concatenate([OLD[:200], NEW[:50]]))).refit
    model.save(tmp_path / "grown.omcal")
    again = load(tmp_path / "grown.omcal")
    assert again.n_clusters_ == 5
    assert_array_equal(again.predict(DATA.views), model.predict(DATA.views))
    again.partial_fit(rows(np.concatenate([OLD[:100], NEW[:20]])))
    assert set(again.labels_) == {0, 1, 2, 3, 4}
    assert model.fit(rows(OLD[:600])).n_clusters_ == 4


def test_a_stable_group_is_told_and_nothing_is_done_unless_asked():
    model = fitted()
    with pytest.warns(UserWarning, match="form a stable group; .* cluster 4 with grow=True"):
        model.partial_fit(next(weeks()))
    assert model.n_clusters_ == 4 == model.basis_.shape[1]


@pytest.mark.slow
def test_sparse_views_grow_as_dense_ones_do():
    kinds = (np.asarray, sparse.csr_array)
    made = [OMCAL(4, scale="unit", grow=True, random_state=0) for _ in kinds]
    for model, kind in zip(made, kinds, strict=True):
        model.fit(rows(OLD[:600], kind))
        for week in weeks():
            model.partial_fit({name: kind(view) for name, view in week.items()})
    assert [model.n_clusters_ for model in made] == [5, 5]


NOISE = {
    "none": lambda rng, view: view[:0],
    "uniform": lambda rng, view: rng.uniform(view.min(0), view.max(0), (60, view.shape[1])),
    "shuffled": lambda rng, view: rng.permuted(view[:60], axis=0),
    "wide": lambda rng, view: view.mean(0) + 3 * view.std(0) * rng.normal(size=(60, view.shape[1])),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("stream", [False, True])
def test_noise_is_no_cluster(kind, stream):
    for grow in (False, True):
        model = fitted(stream, grow=grow)
        for week in weeks(NOISE[kind]):
            model.partial_fit(week)
        assert model.n_clusters_ == 4


def test_names_stay_and_a_new_one_is_free():
    model = fitted(grow=True)
    model.cluster_names_ = ["a", "b", "4", "d"]
    for week in weeks():
        model.partial_fit(week)
    assert list(model.cluster_names_) == ["a", "b", "4", "d", "new 4"]


def test_joined_runs_do_not_grow():
    with pytest.raises(ValueError, match="grow=True is for OMCAL and OCAL alone"):
        Consensus(OMCAL(4, grow=True)).fit(DATA.views)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_model_that_is_saved_between_updates_grows_as_one_that_is_not(kind, tmp_path):
    """Strangers of several updates, each of them too few for a group, are in the file."""
    models = [OMCAL(4, scale="unit", grow=True, random_state=0) for _ in range(2)]
    for model in models:
        model.fit(rows(OLD[:600], kind))
    for week in range(6):
        some = np.concatenate([OLD[600 + 50 * week :][:50], NEW[12 * week : 12 * week + 12]])
        for i, model in enumerate(models):
            model.partial_fit(rows(some, kind))
            if i:
                model.save(tmp_path / "model.omcal")
                models[i] = load(tmp_path / "model.omcal")
    assert [model.n_clusters_ for model in models] == [5, 5]
    assert_array_equal(*(model.predict(DATA.views) for model in models))
