"""Fits to noise say that there is no structure; fits to clusters do not."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits, load_wine

from large_fits import mapped
from omcal import OCAL, OMCAL, Consensus, load
from omcal.datasets import make_multiview
from omcal.model.structure import Structure, find_structure, max_separation, ties

KINDS = {
    "gaussian": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: rng.uniform(size=shape),
    "heavy": lambda rng, shape: rng.standard_t(3, size=shape),
    "counts": lambda rng, shape: rng.poisson(3.0, size=shape).astype(float),
    "correlated": lambda rng, shape: (
        rng.normal(size=(shape[0], 4)) @ rng.normal(size=(4, shape[1])) + rng.normal(size=shape)
    ),
}


def noise(kind, n=300, widths=(10, 20), seed=0):
    rng = np.random.RandomState(seed)
    return [KINDS[kind](rng, (n, width)) for width in widths]


def said(model):
    return any("structure" in doubt.what for doubt in model.doubts_)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_clusters", [2, 5])
def test_noise_is_said(kind, n_clusters):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model = OMCAL(n_clusters, random_state=0).fit(noise(kind))
    assert any("no cluster structure found" in str(one.message) for one in warned)
    assert said(model)
    assert not model.structure_.found


@pytest.mark.parametrize("kind", ["binary", "rare counts"])
def test_noise_with_equal_rows_is_said(kind):
    """Equal rows of a narrow view are neighbours of one another, and not a sign of clusters."""
    rng = np.random.RandomState(0)
    shares = [rng.uniform(0.1, 0.9, size=width) for width in (12, 8)]
    views = [
        (rng.uniform(size=(300, len(p))) < p).astype(float)
        if kind == "binary"
        else rng.poisson(0.3, size=(300, len(p))).astype(float)
        for p in shares
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert said(OMCAL(4, random_state=0).fit(views))


def test_consensus_and_one_view_say_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert said(Consensus(OMCAL(3), n_runs=3, random_state=0).fit(noise("gaussian")))
        assert said(OCAL(3, random_state=0).fit(noise("uniform")[0]))


@pytest.mark.process
def test_noise_is_said_on_a_cluster(client):
    import dask.array as da

    lazy = [da.from_array(X, chunks=(100, X.shape[1])) for X in noise("gaussian")]
    with pytest.warns(UserWarning, match="no cluster structure found"):
        model = OMCAL(3, random_state=0, client=client).fit(lazy)
    assert said(model) and not model.structure_.found


@pytest.mark.parametrize("n_clusters", [2, 4, 8])
def test_clusters_are_not_doubted(n_clusters):
    data = make_multiview(300, n_clusters=n_clusters, noise=1.0, random_state=0)
    model = OMCAL(n_clusters, random_state=0).fit(data.views)
    assert model.structure_.found
    assert not said(model)


@pytest.mark.parametrize(("load_set", "c"), [(load_digits, 10), (load_wine, 3)])
def test_labelled_sets_are_not_doubted(load_set, c):
    assert not said(OMCAL(c, random_state=0).fit(load_set().data))


def test_rows_on_disk(tmp_path):
    with pytest.warns(UserWarning, match="structure"):
        model = OMCAL(3, random_state=0).fit(mapped(tmp_path, noise("gaussian")))
    assert said(model)


def test_samples_absent_from_a_view_are_left_out():
    first, second = noise("gaussian", n=200)
    second[:150] = np.nan
    with pytest.warns(UserWarning, match="structure"):
        model = OMCAL(3, random_state=0).fit([first, second])
    assert model.structure_.n_samples == 50


@pytest.mark.parametrize("n", [10, 49])
def test_few_samples_are_not_tested(n):
    model = OMCAL(2, n_anchors=5, n_neighbors=2, random_state=0).fit(noise("gaussian", n=n))
    assert model.structure_ is None
    assert not said(model)


@pytest.mark.parametrize("X", [np.zeros((80, 3)), np.repeat(np.eye(4), 20, axis=0)])
def test_constant_and_repeated_samples_are_not_tested(X):
    assert find_structure([X], np.arange(80) % 4) is None


@pytest.mark.parametrize("factor", [1e-200, 1e-30, 1e30, 1e200])
def test_extreme_scales(factor):
    data = make_multiview(100, n_clusters=3, random_state=0)
    views = [view * factor for view in data.views.values()]
    assert find_structure(views, data.labels).found


def test_sparse_views_as_dense_ones():
    rng = np.random.default_rng(0)
    X = sparse.random_array((120, 300), density=0.05, rng=rng, format="csr")
    labels = np.arange(120) % 3
    dense, sparsely = (find_structure([Y], labels) for Y in (X.toarray(), X))
    assert np.allclose(dense[:2], sparsely[:2], atol=1e-3)


@given(seed=st.integers(0, 1000), c=st.integers(2, 6), n=st.integers(60, 120))
@settings(max_examples=20, deadline=None)
def test_the_numbers_of_the_clusters_do_not_matter(seed, c, n):
    rng = np.random.RandomState(seed)
    X, labels = rng.normal(size=(n, 4)), np.r_[np.arange(c), rng.randint(c, size=n - c)]
    renamed = rng.permutation(c)[labels] * 7
    assert np.allclose(find_structure([X], labels)[:2], find_structure([X], renamed)[:2], atol=1e-5)


@given(seed=st.integers(0, 1000), k=st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_separation_is_one_for_groups_without_ties(seed, k):
    """Far groups have all of their neighbours within; other labels have fewer."""
    rng = np.random.RandomState(seed)
    labels = np.repeat(np.arange(k), 30)
    X = (rng.normal(size=(30 * k, 3)) + 1000 * labels[:, None]).astype(np.float32)
    X -= X.mean(axis=0)
    tied = ties((X @ X.T)[None])
    assert max_separation(tied, labels[None]) == pytest.approx(1.0)
    assert max_separation(tied, rng.permutation(labels)[None]) < 0.5


def test_it_survives_a_file_in_words(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OMCAL(3, random_state=0).fit(noise("gaussian"))
    model.save(tmp_path / "model.omcal")
    assert said(load(tmp_path / "model.omcal"))


def test_found_needs_a_margin():
    assert not Structure(0.32, 0.3, 100).found
    assert Structure(0.4, 0.3, 100).found
