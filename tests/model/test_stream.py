"""Fits to streams: sums that are carried on, numbers that stay, memory that does not grow."""

import pickle
from copy import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from omcal import OCAL, OMCAL, Consensus, load
from omcal.datasets import make_multiview
from omcal.method.new_samples import indicate
from omcal.metrics import ari
from omcal.model.drift import Reference, compare_views
from omcal.model.stream import Reservoir, Strangers, StreamSums
from omcal.views.view import View, Views

DATA = make_multiview(1500, n_clusters=4, noise=0.6, random_state=0)


def rows(start, stop, kind=np.asarray):
    return {name: kind(view[start:stop]) for name, view in DATA.views.items()}


def streamed(model, batches):
    for batch in batches:
        model.partial_fit(batch)
    return model


@pytest.mark.slow
def test_a_stream_finds_the_clusters_of_a_fit_and_keeps_their_numbers():
    model, before = OMCAL(4, random_state=0), None
    for start in range(0, 1500, 100):
        model.partial_fit(rows(start, start + 100))
        assert model.labels_.shape == (100,)
        labels = model.predict(DATA.views)
        if start >= 300:
            assert (labels == before).mean() > 0.97
        before = labels
    of_all = OMCAL(4, random_state=0).fit(DATA.views).labels_
    assert ari(DATA.labels, labels) > ari(DATA.labels, of_all) - 0.03


@pytest.mark.slow
def test_clusters_that_come_one_after_another_are_all_found():
    order = np.argsort(DATA.labels, kind="stable")
    views = {name: view[order] for name, view in DATA.views.items()}
    batches = [{k: v[s : s + 100] for k, v in views.items()} for s in range(0, 1500, 100)]
    model = streamed(OMCAL(4, random_state=0), batches)
    assert ari(DATA.labels, model.predict(DATA.views)) > 0.9


def test_memory_does_not_grow_with_the_stream():
    model = OMCAL(4, random_state=0, half_life=300).partial_fit(rows(0, 400))
    sizes = []
    for _ in range(4):
        model.partial_fit(rows(400, 1500))
        kept = model._reservoir
        assert len(kept._keys) == kept.views.n <= kept.size
        sizes.append(kept.views.n)
        assert model._sums.n <= 300 / np.log(2) + 1100  # the geometric sum of the half-life
    assert len(set(sizes)) == 1


@pytest.mark.parametrize("half_life", [None, 250.0])
def test_sums_with_fixed_anchors_are_those_of_all_samples(half_life):
    model = OMCAL(4, random_state=0, half_life=half_life).fit(rows(0, 500))
    Z, sums = model._rule.consensus, model._sums
    model.partial_fit(rows(500, 800))
    assert_array_equal(model._rule.learned.anchors[0], model.anchors_[0])
    views = Views([View(n, v) for n, v in rows(500, 800).items()])
    graphs = model._rule.graphs(views)
    F = np.maximum(indicate(Z, graphs)[0], 0)
    kept = 1.0 if half_life is None else 0.5 ** (300 / half_life)
    expected = sums * kept + StreamSums.of(Z, graphs, F)
    assert expected.n == pytest.approx(500 * kept + 300)
    for part, other in zip(model._sums.parts, expected.parts, strict=True):
        assert_allclose(part, other)
    S = graphs.side_by_side().toarray().reshape(300, len(views), -1)
    A = np.einsum("v,ivj->ij", Z.alpha, S)
    assert_allclose(StreamSums.of(Z, graphs, F).AtA, A.T @ A, atol=1e-9)
    assert_allclose(StreamSums.of(Z, graphs, F).AtF, A.T @ F, atol=1e-9)


@pytest.mark.parametrize("joined", [False, True])
def test_sums_of_a_fit_are_those_of_all_its_samples(joined):
    many = {name: np.tile(view, (5, 1)) for name, view in DATA.views.items()}
    model = OMCAL(4, random_state=0, tol=1e-12, max_iter=200)
    model = (Consensus(model, n_runs=2, random_state=0) if joined else model).fit(many)
    views = Views([View(name, view) for name, view in many.items()])
    Z, graphs = model._rule.consensus, model._rule.graphs(views)
    expected = StreamSums.of(Z, graphs, np.maximum(indicate(Z, graphs)[0], 0))
    assert model._sums.n == 7500
    for part, other in zip(model._sums.parts, expected.parts, strict=True):
        assert_allclose(part, other, atol=2e-3 * np.abs(other).max())


def test_the_samples_of_the_fit_change_nothing():
    """At a fixed point of the iteration more of the same leaves labels and basis."""
    model = OMCAL(4, random_state=0, tol=1e-9, max_iter=500).fit(rows(0, 500))
    G, labels = model.basis_, model.labels_
    model.partial_fit(rows(0, 500))
    assert_array_equal(model.labels_, labels)
    assert np.abs(model.basis_ - G).max() < 0.05


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(0, 99), st.booleans())
def test_a_reservoir_holds_rows_of_the_stream_in_line(sizes, seed, is_sparse):
    kept, start = Reservoir(1, None, seed), 0
    kept.size = 150
    for size in sizes:
        numbers = np.arange(start, start + size, dtype=np.float64)[:, None]
        one = sparse.csr_array(numbers) if is_sparse else numbers
        present = None if seed % 2 else numbers[:, 0] % 3 > 0
        kept = kept.added(
            Views([View("a", one, present=present), View("b", numbers.astype(np.float32))])
        )
        start += size
    a, b = (np.asarray(sparse.csr_array(view.array).todense()).ravel() for view in kept.views)
    assert_array_equal(a, b)
    assert len(set(a)) == len(a) == len(kept._keys) == min(start, 150)
    if kept.views[0].present is not None:
        assert_array_equal(kept.views[0].present, a % 3 > 0)


@given(st.lists(st.sampled_from([1, 2, 60, 499, 700]), min_size=1, max_size=9), st.booleans())
def test_the_last_strangers_are_kept(sizes, is_sparse):
    kept, start = Strangers(), 0
    for size in sizes:
        numbers = np.arange(start, start + size, dtype=np.float64)[:, None]
        before, n_before = kept, len(kept)
        kept = kept.added(Views([View("a", sparse.csr_array(numbers) if is_sparse else numbers)]))
        start += size
        assert len(before) == n_before and before.n_seen == start - size
        assert kept.n_seen == start and len(kept) == min(start, 500)
        if size > 1:
            found = np.asarray(sparse.csr_array(kept.views[0].array).todense()).ravel()
            assert_array_equal(found, np.arange(max(start - 500, 0), start))
            assert len(kept.arrays["keys"]) == len(found)


def test_a_stream_takes_steps_as_it_grows():
    """Between two comparisons with the last fit only the sums change."""
    model = streamed(OMCAL(4, random_state=0, half_life=400), [rows(0, 500), rows(500, 1000)])
    Z, due = model._rule.consensus, model._next_look
    for start in range(1000, 1150, 30):
        n = model._sums.n
        model.partial_fit(rows(start, start + 30))
        assert (model._rule.consensus is Z) == (model._reservoir.n_seen < due)
        assert model._sums.n == pytest.approx(30 + n * 0.5 ** (30 / 400))
        Z, due = model._rule.consensus, model._next_look


def test_a_stream_is_compared_by_sums_without_clusters():
    model = OMCAL(4, random_state=0).fit(DATA.views)
    graphs = model._rule.graphs(Views([View(n, v) for n, v in rows(0, 400).items()]))
    labels = model.labels_[:400]
    plain, by_cluster = (Reference.of(graphs, one, model.basis_) for one in (None, labels))
    both = (compare_views(model._reference, one) for one in (plain, by_cluster))
    for own, other in zip(*both, strict=True):
        assert_allclose(own, other)


@pytest.mark.slow
def test_a_reservoir_is_uniform_or_forgets():
    def ages(half_life):
        found = []
        for seed in range(40):
            kept = Reservoir(1, half_life, seed)
            kept.size = 100
            for start in range(0, 2000, 100):
                batch = np.arange(start, start + 100, dtype=np.float64)[:, None]
                kept = kept.added(Views([View("a", batch)]))
            found.append(kept.views[0].array.ravel())
        return 2000 - np.concatenate(found)

    assert abs(ages(None).mean() - 1000) < 40
    # Exponential weights would give 400 / log(2) = 577; a sample of a tenth is a little older.
    assert 400 < ages(400).mean() < 700


@pytest.mark.sampled
@pytest.mark.parametrize(
    "kind", [sparse.csr_array, np.float32, np.asfortranarray], ids=["sparse", "float32", "fortran"]
)
def test_other_kinds_of_arrays_are_streamed(kind):
    model = streamed(
        OMCAL(4, random_state=0), [rows(s, s + 300, kind) for s in range(0, 1500, 300)]
    )
    assert ari(DATA.labels, model.predict(rows(0, 1500, kind))) > 0.8


def test_dense_and_sparse_batches_make_one_sample():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 30)) * (rng.random((900, 30)) < 0.1)
    X[np.arange(900), rng.integers(3, size=900)] += 5
    kinds = [np.asarray, sparse.csr_array, np.float32]
    model, plain = OMCAL(3, random_state=0), OMCAL(3, random_state=0)
    for part, kind in zip(np.split(X, 3), kinds, strict=True):
        model.partial_fit(kind(part))
        plain.partial_fit(part)
    (kept,), (wanted,) = model._reservoir.views, plain._reservoir.views
    assert_allclose(kept.array.toarray(), wanted.array, rtol=1e-6)
    assert ari(model.predict(X), plain.predict(X)) > 0.99


def test_a_copy_goes_on_without_the_model_that_it_is_of():
    model = streamed(OMCAL(4, random_state=0, half_life=100), [rows(0, 300), rows(300, 600)])
    before = [view.array.copy() for view in model._reservoir.views]
    copy(model).partial_fit(rows(600, 900))
    for view, wanted in zip(model._reservoir.views, before, strict=True):
        assert_array_equal(view.array, wanted)


def test_joined_runs_take_a_half_life_set_later():
    model = Consensus(OMCAL(4), n_runs=2, random_state=0).fit(rows(0, 400))
    model.set_params(estimator__half_life=100).partial_fit(rows(400, 500))
    assert model._sums.n == pytest.approx(400 / 2 + 100)


def test_one_view_and_single_samples():
    X = DATA.views["view1"]
    model = OCAL(3, random_state=0).partial_fit(X[:200])
    for i in range(200, 204):
        assert model.partial_fit(X[i : i + 1]).labels_.shape == (1,)
    X.setflags(write=False)
    assert model.partial_fit(X[300:600]).labels_.shape == (300,)
    X.setflags(write=True)


def test_files_are_streamed_in_blocks(tmp_path):
    stored = {}
    for name, view in DATA.views.items():
        np.save(tmp_path / f"{name}.npy", view)
        stored[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    model = OMCAL(4, random_state=0).partial_fit(stored)
    assert model.labels_.shape == (1500,)
    assert ari(DATA.labels, model.labels_) > 0.9


def test_missing_cells_and_absent_samples():
    views = rows(0, 600, np.array)
    views["view1"][::7, 0] = np.nan
    views["view2"][::11] = np.nan
    with pytest.warns(UserWarning, match="view 'view1' lacks 43 of its values .* filled"):
        model = OMCAL(4, random_state=0).partial_fit({k: v[:300] for k, v in views.items()})
    model.partial_fit({k: v[300:] for k, v in views.items()})
    assert model._reservoir.views[1].present.mean() == pytest.approx(10 / 11, abs=0.01)
    assert np.isfinite(model._reservoir.views[0].array).all()


@pytest.mark.slow
def test_a_loaded_model_goes_on_without_data(tmp_path):
    for given_model in (OMCAL(4, random_state=0), Consensus(OMCAL(4), n_runs=3, random_state=0)):
        model = clone(given_model).fit(rows(0, 500))
        model.cluster_names_ = ["a", "b", "c", "d"]
        model.save(tmp_path / "model.omcal")
        again = load(tmp_path / "model.omcal").partial_fit(rows(500, 900))
        model.partial_fit(rows(500, 900))
        assert_array_equal(again.labels_, model.labels_)
        assert list(again.cluster_names_) == ["a", "b", "c", "d"]
        again.save(tmp_path / "model.omcal")
        last = load(tmp_path / "model.omcal")
        assert_array_equal(last.predict(DATA.views), model.predict(DATA.views))
        assert last._sums.n == model._sums.n == 900
        of_all = clone(given_model).fit(rows(0, 900), like=model).labels_
        assert (of_all[500:] == model.labels_).mean() > 0.97


def test_the_first_batch_of_joined_runs_is_a_fit():
    begun = Consensus(OMCAL(4), n_runs=2, random_state=0).partial_fit(rows(0, 300))
    fitted = Consensus(OMCAL(4), n_runs=2, random_state=0).fit(rows(0, 300))
    assert_array_equal(begun.labels_, fitted.labels_)
    assert_array_equal(
        begun.partial_fit(rows(300, 600)).labels_, fitted.partial_fit(rows(300, 600)).labels_
    )


def test_what_cannot_be_streamed_is_refused():
    with pytest.raises(ValueError, match="does not support checkpoint='state'; leave that out"):
        OMCAL(4, checkpoint="state").partial_fit(rows(0, 300))
    with pytest.raises((ImportError, RuntimeError, ValueError), match=r"PyTorch|cuda:99"):
        OMCAL(4, device="cuda:99").partial_fit(rows(0, 300))
    with pytest.raises(ValueError, match="n_clusters=4 must be at most"):
        OMCAL(4).partial_fit(rows(0, 3))
    model = OMCAL(4, random_state=0).fit(rows(0, 300))
    model._sums = None
    with pytest.raises(ValueError, match="sums of a fit"):
        model.partial_fit(rows(0, 300))
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="X is in Dask"):
        OMCAL(4).partial_fit({k: da.from_array(v) for k, v in rows(0, 300).items()})


def test_a_failed_batch_leaves_the_model_as_it_was():
    model = OMCAL(4, random_state=0).partial_fit(rows(0, 300))
    before = dict(vars(model))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit({k: v[:, :2] for k, v in rows(300, 400).items()})
    assert vars(model) == before


def test_a_fit_after_a_stream_begins_anew():
    model = streamed(OMCAL(4, random_state=0), [rows(0, 300), rows(300, 600)]).fit(rows(0, 500))
    alone = OMCAL(4, random_state=0).fit(rows(0, 500))
    assert_array_equal(model.labels_, alone.labels_)
    assert model._sums.n == 500 and not hasattr(model, "_reservoir")


def test_batches_of_other_types_and_copies_give_the_same_model():
    """The anchors are folded into a product once per type of the views; copies do without."""
    model = OMCAL(4, random_state=0).fit(rows(0, 500))
    kinds = [np.float64, np.float32, np.float64, sparse.csr_array, np.float64]
    for start, kind in zip(range(500, 1500, 200), kinds, strict=True):
        twin = pickle.loads(pickle.dumps(model))
        assert twin._folded is None
        batch = rows(start, start + 200, lambda part, kind=kind: kind(part))
        assert_array_equal(twin.partial_fit(batch).labels_, model.partial_fit(batch).labels_)
        assert_array_equal(twin.basis_, model.basis_)


def test_a_failing_update_leaves_the_samples_of_the_stream_as_they_were(monkeypatch):
    """Rows that an update has put into the reservoir are taken out again."""
    model = OMCAL(3, random_state=0, half_life=50)
    twin = OMCAL(3, random_state=0, half_life=50)
    rng = np.random.default_rng(0)
    batches = [rng.normal(size=(80, 4)) + 6 * rng.integers(3, size=(80, 1)) for _ in range(4)]
    for batch in batches[:2]:
        model.partial_fit(batch)
        twin.partial_fit(batch)
    before = model._reservoir.views[0].array.copy()

    def fail(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(OMCAL, "_refit", fail)
    monkeypatch.setattr(OMCAL, "_moved", lambda *_: True)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(batches[2])
    monkeypatch.undo()
    assert_array_equal(model._reservoir.views[0].array, before)
    for batch in batches[2:]:
        assert_array_equal(model.partial_fit(batch).labels_, twin.partial_fit(batch).labels_)
    assert_array_equal(model._reservoir.views[0].array, twin._reservoir.views[0].array)
    assert model._reservoir.n_seen == twin._reservoir.n_seen
