"""Anchors of several runs in one span of few directions."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist

from large_fits import overlapping
from omcal import OMCAL, Consensus
from omcal.method import new_samples
from omcal.method import span as span_module
from omcal.method.anchors import SAMPLE_PER_ANCHOR, Sample, draw_rows, side_by_side
from omcal.method.graph import anchor_graphs, graphs_in_span
from omcal.method.kmeans import PART_PER_ANCHOR, drawn, looked_at_in_order
from omcal.method.new_samples import GraphModel, graphs_of_runs, learned_in_span
from omcal.method.scaling import Scaling
from omcal.method.settings import GraphSettings
from omcal.method.span import (
    SHARED_SAMPLES,
    Span,
    _main_directions,
    _means,
    _orthonormal,
    _rows_at_a_time,
    anchors_in_span,
    anchors_of_means,
    frequent_features,
    own_rows,
    shared_rows,
    span_pays,
    stored_columns,
)
from omcal.views.view import View, Views

quick = settings(max_examples=80, deadline=None)


def dense(graphs):
    return graphs.side_by_side().toarray()


def random_views(rng, n, V, dtype, kind, scale):
    """Views of three groups, each with a constant feature, and their scalings."""
    views, y = [], rng.integers(3, size=n)
    for v in range(V):
        d = int(rng.integers(2, 12))
        X = 3 * rng.normal(size=(3, d))[y] + rng.normal(size=(n, d)) + 10 * rng.normal()
        X[:, 0] = 4.0
        present = None
        if kind == "sparse" and v == 0:
            X = sparse.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0))
        elif kind == "gaps":
            present = rng.random(n) < 0.8
            present[v::V] = True  # nobody is absent from all
        views.append(View(f"v{v}", X.astype(dtype), present=present))
    made = Views(views)
    return made, [Scaling.fit(view, scale) for view in made]


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.long)])
@quick
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 3),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(["dense", "sparse", "gaps"]),
    st.sampled_from([None, "standard", "feature", "unit", "view"]),
)
def test_graphs_by_products_with_directions_are_those_by_products_with_anchors(
    compiled, seed, V, dtype, kind, scale
):
    if compiled:
        pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(20, 150)), int(rng.choice([3, 6, 8]))
    views, scalings = random_views(rng, n, V, dtype, kind, scale)
    r = int(rng.integers(1, 2 * m))
    span = Span(
        [rng.normal(size=d) for d in views.widths], [rng.normal(size=(r, d)) for d in views.widths]
    )
    coordinates = [[rng.normal(size=(m, r)) for _ in views] for _ in range(3)]
    k = min(int(rng.choice([1, 2, 5])), m - 1)  # each is compiled
    rows = slice(int(rng.integers(0, n // 2)), n)
    found = graphs_in_span(views, scalings, span, coordinates, k, rows, compiled=compiled)
    # Weights are quotients of differences of squared distances: near a tie they amplify rounding.
    limit = 1e-2 if dtype == np.float32 else 1e-8
    for Z, graphs in zip(coordinates, found, strict=True):
        direct = anchor_graphs(views, scalings, span.points(Z), k, rows, compiled=compiled)
        assert graphs.weights.dtype == direct.weights.dtype
        assert graphs.indices.dtype == direct.indices.dtype
        off = np.abs(dense(graphs) - dense(direct)).max(axis=1)
        assert np.mean(off <= limit) >= 0.9
        assert np.median(off) <= limit / 10


def wide_views(kind="dense", dtype=np.float64, n=1100, offset=0.0):
    """Two views of four groups, and of noise in all directions."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=n)
    X = 3 * rng.normal(size=(4, 40))[y] + rng.normal(size=(n, 40)) + offset
    Y = 3 * rng.normal(size=(4, 3))[y] + rng.normal(size=(n, 3))
    first = sparse.csr_array(X.astype(dtype)) if kind == "sparse" else X.astype(dtype)
    return Views([View("a", first), View("b", Y.astype(dtype))]), y


def find(views, rows=None, m=4, n_runs=3):
    states = [np.random.RandomState(s) for s in range(n_runs)]
    return anchors_in_span(views, [Scaling()] * len(views), m, states, rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_anchors_of_clear_groups_are_their_means(kind, dtype):
    """Whatever the directions are: each run has the mean of its own rows of each group."""
    views, y = wide_views(kind, dtype, offset=100.0 * (kind == "dense"))
    rows = np.arange(0, 1100, 2)
    X = np.concatenate(
        [v.array.toarray() if v.sparse else v.array for v in views], axis=1, dtype=np.float64
    )
    means = np.array([X[rows][y[rows] == j].mean(axis=0) for j in range(4)])
    for _, one in find(views, rows):
        assert [E.shape for E in one.span.directions] == [(4, 40), (3, 3)]
        anchors = np.concatenate(one.span.points(one.coordinates), axis=1)
        nearest = ((anchors[:, None] - means) ** 2).sum(axis=2).argmin(axis=0)
        assert sorted(nearest) == [0, 1, 2, 3]
        # All runs see all of these rows, which are fewer than a run would look at.
        assert_allclose(anchors[nearest], means, atol=2e-2 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("n", [SAMPLE_PER_ANCHOR * 4, SAMPLE_PER_ANCHOR * 4 + 1])
@pytest.mark.parametrize("some", [False, True])
def test_anchors_of_one_run_are_the_means_of_its_rows(n, kind, some):
    """With scaled rows that are kept, and with more rows, which are scaled again by blocks."""
    views, y = wide_views(kind, n=2 * n, offset=100.0 * (kind == "dense"))
    if not some:
        views, y = Views([View(view.name, view.array[:n]) for view in views]), y[:n]
    rows = np.sort(np.random.default_rng(1).permutation(2 * n)[:n]) if some else None
    ((anchors, shared),) = find(views, rows, n_runs=1)
    assert shared is None
    X = side_by_side(views, [Scaling()] * 2, rows)
    X, y = (X.toarray() if sparse.issparse(X) else X), (y if rows is None else y[rows])
    own = own_rows(n, 4, after_directions(n))
    means = np.array([X[own][y[own] == j].mean(axis=0) for j in range(4)])
    found = np.concatenate(anchors, axis=1)
    assert [one.shape for one in anchors] == [(4, 40), (4, 3)]
    assert_allclose(found[cdist(means, found).argmin(axis=1)], means, atol=1e-9)


def after_directions(n):
    """The random state of the first run once it has drawn its directions."""
    state = np.random.RandomState(0)
    draw_rows(n, min(PART_PER_ANCHOR * 4, n), state)
    span_module.random_directions(43, 4, state)
    return state


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from(["dense", "sparse"]),
    st.booleans(),
)
def test_one_run_on_few_distinct_rows_has_them_as_anchors(seed, m, dtype, kind, some):
    """All of them, in the order of the samples, repeated up to the number of anchors."""
    rng = np.random.default_rng(seed)
    distinct = rng.normal(size=(int(rng.integers(1, m + 1)), 9)).astype(dtype)
    which = rng.integers(len(distinct), size=int(rng.integers(m, 60)))
    X = distinct[which]
    first = sparse.csr_array(X[:, :7]) if kind == "sparse" else X[:, :7]
    views = Views([View("a", first), View("b", X[:, 7:])])
    rows = np.sort(rng.permutation(len(X))[: max(len(X) // 2, 1)]) if some else None
    ((anchors, shared),) = find(views, rows, m, n_runs=1)
    assert shared is None
    assert all(one.dtype == np.float64 for one in anchors)
    seen = which if rows is None else which[rows]
    order = seen[np.sort(np.unique(seen, return_index=True)[1])]
    assert_array_equal(np.concatenate(anchors, axis=1), distinct[np.resize(order, m)])


def test_runs_draw_rows_of_their_own():
    views, _ = wide_views(n=SHARED_SAMPLES * SAMPLE_PER_ANCHOR * 4)
    (first, one), (second, other), _ = find(views)
    assert one.span is other.span
    a, b = first[0], second[0]
    order = ((b[:, None] - a) ** 2).sum(axis=2).argmin(axis=0)
    assert 1e-3 < np.abs(b[order] - a).max() < 0.5


@pytest.mark.parametrize("size", [50, 2])  # all rows of a part at a time, and two
def test_means_of_clusters_and_empty_ones(size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6)).astype(np.float32)
    labels = np.append(rng.integers(2, size=24), 2)  # the last is of one row
    runs = [(np.arange(0, 50, 2), labels), (np.arange(30), np.zeros(30, int))]
    starts = rng.normal(size=(6, 6)).astype(np.float32)
    expected = [X[::2][labels == j].mean(axis=0) for j in range(3)] + [X[:30].mean(axis=0)]
    for rows in (X, sparse.csr_array(X)):
        found = _means(lambda block, rows=rows: rows[block], runs, starts, 50, size)
        assert_allclose(found, [*expected, *starts[4:]], rtol=1e-4, atol=1e-6)


@quick
@given(st.integers(0, 2**32 - 1))
def test_the_span_holds_what_the_anchors_of_all_runs_have_in_common(seed):
    """Anchors next to a span of as many directions as a run has: what is lost is beside it."""
    rng = np.random.default_rng(seed)
    B, m, d = rng.integers(1, 5), rng.integers(1, 6), rng.integers(1, 12)
    beside = 1e-4 * rng.normal(size=(B * m, d))
    anchors = rng.normal(size=(B * m, m)) @ rng.normal(size=(m, d)) + 3 + beside
    found = anchors_of_means(anchors, [d], B, np.random.RandomState(0))
    points = np.concatenate([anchors[0] for anchors, _ in found])
    assert found[0][1].span.directions[0].shape == (min(m, d), d)
    assert np.square(anchors - points).sum() <= 2 * np.square(beside).sum() + 1e-20


def test_main_directions_are_those_in_which_the_rows_vary_about_their_mean():
    rng = np.random.default_rng(0)
    varying = np.linalg.qr(rng.normal(size=(40, 5)))[0].T
    X = 1e3 + 10 * rng.normal(size=(90, 5)) @ varying + 1e-3 * rng.normal(size=(90, 40))
    views = Views([View("a", X)])
    mean, E = _main_directions(X.copy(), views, 5, np.random.RandomState(0))
    assert_allclose(mean, X.mean(axis=0))
    assert E.shape == (40, 5)
    assert_array_equal(E, E.astype(np.float32))  # single precision is enough, and takes less time
    assert_allclose(varying @ E @ E.T, varying, atol=1e-3)
    mean, _ = _main_directions(X[::2].copy(), views, 5, np.random.RandomState(0))
    assert_allclose(mean, X[::2].mean(axis=0))
    there = sparse.csr_array(X)
    mean, _ = _main_directions(there, Views([View("a", there)]), 5, np.random.RandomState(0))
    assert mean is None


@quick
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 60),
    st.integers(1, 12),
    st.integers(0, 12),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([1e-150, 1e-20, 1.0, 1e20, 1e200]),
)
def test_orthonormal_columns_span_those_given_and_are_zero_beyond_their_rank(
    seed, d, m, rank, dtype, size
):
    rng, rank = np.random.default_rng(seed), min(rank, d, m)
    size = np.clip(size, 1e-20, 1e20) if dtype is np.float32 else size
    left, right = (np.linalg.qr(rng.normal(size=(k, rank)))[0] for k in (d, m))
    B = (left * rng.uniform(0.1, 1, rank)) @ right.T
    E = _orthonormal((size * B).astype(dtype))
    assert E.dtype == dtype and E.shape == (d, m)
    tolerance = 1e-4 if dtype is np.float32 else 1e-9
    assert_allclose(E @ (E.T @ B), B, atol=tolerance)
    lengths = np.linalg.norm(E, axis=0)
    there = lengths > 0
    if dtype is np.float64:  # rounding to float32 may add to the rank
        assert there.sum() == rank
        assert_allclose(E.T @ E, np.diag(there.astype(float)), atol=tolerance)


def test_main_directions_of_sparse_rows_do_not_depend_on_empty_columns():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 30)) < 0.3, rng.normal(size=(300, 30)), 0)
    X[:, 1::3] = 0
    rows = sparse.csr_array(X)
    assert_array_equal(stored_columns(rows), np.flatnonzero(X.any(axis=0)))
    assert_array_equal(stored_columns(rows.tocsc()), stored_columns(rows))
    _, E = _main_directions(rows, Views([View("a", rows)]), 6, np.random.RandomState(0))
    assert not E[1::3].any()
    large = 1e100 * rows
    _, same = _main_directions(large, Views([View("a", large)]), 6, np.random.RandomState(0))
    assert_allclose(same @ same.T, E @ E.T, atol=1e-12)
    single = rows.astype(np.float32)
    _, narrow = _main_directions(single, Views([View("a", single)]), 6, np.random.RandomState(0))
    assert narrow.dtype == np.float32
    assert_allclose(E.T @ E, np.eye(6), atol=1e-12)
    X -= X.mean(axis=0)
    start = span_module.random_directions(300, 6, np.random.RandomState(0))
    half, quarter = X[::2], X[::4]
    whole = np.linalg.qr(X.T @ X @ half.T @ half @ quarter.T @ start)[0]
    assert_allclose(E @ E.T, whole @ whole.T, atol=1e-8)
    empty = sparse.csr_array((50, 30))
    assert_array_equal(stored_columns(empty), [0])
    assert not _main_directions(empty, Views([View("a", empty)]), 6, np.random.RandomState(0))[
        1
    ].any()


def test_constant_views_and_equal_rows():
    views = Views([View("a", np.full((1100, 40), 3.0)), View("b", np.zeros((1100, 4)))])
    for anchors, _ in find(views):
        assert_allclose(anchors[0], 3.0)
        assert_allclose(anchors[1], 0.0)


def test_means_that_no_span_is_near_are_the_anchors():
    means = np.random.default_rng(0).normal(size=(4 * 5, 60))  # in as many directions as there are
    found = anchors_of_means(means, [40, 15, 5], 4, np.random.RandomState(0))
    assert [shared_span for _, shared_span in found] == [None] * 4
    for b, (anchors, _) in enumerate(found):
        assert [one.shape for one in anchors] == [(5, 40), (5, 15), (5, 5)]
        assert_array_equal(np.concatenate(anchors, axis=1), means[5 * b : 5 * b + 5])


def test_values_beyond_their_type_are_refused():
    X = np.random.default_rng(0).normal(size=(1100, 40)).astype(np.float32) * np.float32(1e25)
    views = Views([View("a", X), View("b", np.zeros((1100, 4), np.float32))])
    with pytest.raises(ValueError, match="view 'a' holds values too large to be squared"):
        find(views)
    span = Span([np.zeros(40), np.zeros(4)], [np.ones((2, 40)) * 1e14, np.ones((2, 4))])
    with pytest.raises(ValueError, match="view 'a' holds values too large for products"):
        graphs_in_span(views, [Scaling()] * 2, span, [[np.eye(5, 2)] * 2] * 2, 2)


def test_rows_of_a_block_are_as_many_as_their_entries_allow(monkeypatch):
    monkeypatch.setattr(span_module, "_BLOCK_ENTRIES", 1000)
    X = sparse.csr_array(sparse.random(50, 400, density=0.01, random_state=0))
    narrow, wide, few = View("a", np.ones((50, 5))), View("b", np.ones((50, 2000))), View("c", X)
    assert X.nnz == 200
    assert [_rows_at_a_time(Views([view])) for view in (narrow, wide, few)] == [200, 1, 250]
    assert _rows_at_a_time(Views([narrow, few])) == 111
    empty = View("d", sparse.csr_array((50, 400)))
    assert _rows_at_a_time(Views([empty])) == 1000


@pytest.mark.memory
def test_a_wide_sparse_view_takes_no_square_of_its_width():
    """Of 6000 features it would be 288 MB."""
    X = sparse.csr_array(sparse.random(3000, 6000, density=0.002, random_state=0))
    views = Views([View("words", X)])
    scalings = [Scaling.fit(view, "auto") for view in views]
    tracemalloc.start()
    try:
        anchors_in_span(views, scalings, 5, [np.random.RandomState(seed) for seed in (0, 1)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30e6


def test_when_a_span_pays():
    def pays(n, widths, n_runs, anchors="kmeans", **more):
        return span_pays(n, widths, GraphSettings(2, 10, 2, None, anchors, **more), n_runs)

    n, widths = SAMPLE_PER_ANCHOR * 10 + 1, [25, 15]
    assert pays(n, widths, 2)
    assert pays(160, widths, 2)  # each run looks at all rows
    assert not pays(159, widths, 2)  # too few for a start
    assert not pays(200, [400], 2)  # few and wide: by inner products
    assert pays(201, [400], 2)
    assert not pays(n, [25, 14], 2)
    assert pays(n, widths, 1)
    assert pays(1025, widths, 1)
    assert pays(n, [(1 << 14) + 1], 1)
    assert not pays(1024, widths, 1)
    assert not pays(n, widths, 1, accelerate=False)  # the paper's k-means has all features
    assert pays(n, widths, 2, accelerate=False)
    assert not pays(n, widths, 2, "kmeans-full")
    assert not pays(n, widths, 2, [np.zeros((10, 2))])


def drawn_counts(seed, n=1300, width=220):
    """Counts of six groups, most of them zero, some features rare; the groups."""
    rng = np.random.default_rng(seed)
    y = rng.integers(6, size=n)
    X = rng.poisson(0.25 * np.exp(0.9 * rng.normal(size=(6, width)))[y]).astype(float)
    X[:, 1::3] *= rng.random((n, len(range(1, width, 3)))) < 0.02
    return X, y


def test_frequent_features_have_most_entries_and_keep_the_lengths_of_rows():
    X, _ = drawn_counts(0)
    X[5] = 0
    X[7, :80], X[7, 1] = 0, 3.0  # nothing but a rare feature in the first view
    for form in (X, sparse.csr_array(X), X.astype(np.float32), 1e-3 * X):
        few, columns = frequent_features(form, (80, 140))
        few = few.toarray() if sparse.issparse(few) else few
        assert few.dtype == form.dtype
        for start, stop in ((0, 80), (80, 220)):
            counts = np.count_nonzero(X[:, start:stop], axis=0)
            here = (columns >= start) & (columns < stop)
            kept = columns[here] - start
            assert counts[kept].min() > np.delete(counts, kept).max()
            # With one more group of equally rare features, more than an eighth would be left out.
            left_out = counts.sum() - counts[kept].sum()
            rarest = counts[kept][counts[kept] == counts[kept].min()].sum()
            assert left_out <= counts.sum() / 8 < left_out + rarest
            lengths = np.linalg.norm(X[:, start:stop], axis=1) * form.max() / X.max()
            there = few[:, here].any(axis=1)
            assert there.sum() >= len(X) - 2 and not there[5] and there[7] == (start > 0)
            assert_allclose(np.linalg.norm(few[there][:, here], axis=1), lengths[there], rtol=1e-5)
    all_of_one, columns = frequent_features(sparse.csr_array((3, 4)), (4,))
    assert all_of_one.shape == (3, len(columns))


def test_wide_texts_have_means_of_clusters_by_their_frequent_features(monkeypatch):
    X, y = drawn_counts(1)
    views, scalings = Views([View("a", X)]), [Scaling.fit(View("a", X), "tfidf")]
    rows = scalings[0].apply(X)
    monkeypatch.setattr(span_module, "_WIDEST_OF_ONE_RUN", 219)
    monkeypatch.setattr(span_module, "_main_directions", None)  # they are not needed
    ((anchors, inside),) = anchors_in_span(views, scalings, 12, [np.random.RandomState(0)])
    assert inside is None and anchors[0].dtype == np.float64
    # Anchors are means of rows, with all features, near one group each.
    assert anchors[0][:, 1::3].any()
    few, _ = frequent_features(rows, (220,))
    own, labels, _ = span_module._clusters(
        few, 12, np.random.RandomState(0), compiled=False, most=(5, 0)
    )
    for j in range(12):
        assert_allclose(anchors[0][j], rows[own[labels == j]].mean(axis=0), atol=1e-12)
        assert np.bincount(y[own[labels == j]]).max() > 0.8 * np.count_nonzero(labels == j)


@pytest.mark.parametrize(("kind", "widest"), [("standard", 219), ("tfidf", 220)])
def test_other_rows_and_narrower_texts_have_anchors_in_a_span(monkeypatch, kind, widest):
    X, _ = drawn_counts(1)
    views, scalings = Views([View("a", X)]), [Scaling.fit(View("a", X), kind)]
    monkeypatch.setattr(span_module, "_WIDEST_OF_ONE_RUN", widest)
    monkeypatch.setattr(span_module, "_means_of_texts", None)
    ((anchors, _),) = anchors_in_span(views, scalings, 12, [np.random.RandomState(0)])
    assert np.isfinite(anchors[0]).all()


def test_an_empty_cluster_of_wide_texts_keeps_its_centre(monkeypatch):
    X, _ = drawn_counts(2)
    views, centres = Views([View("a", X)]), np.full((3, 0), 0.0)

    def one_cluster(few, *_, **__):
        nonlocal centres
        centres = few[:3] + 1.0
        return np.arange(len(few))[::-1], np.zeros(len(few), np.int32), centres

    monkeypatch.setattr(span_module, "_clusters", one_cluster)
    means = span_module._means_of_texts(X, views, 3, np.random.RandomState(0))
    _, columns = frequent_features(X, (220,))
    assert_allclose(means[0], X.mean(axis=0))
    assert_array_equal(means[1:, columns], centres[1:])
    assert not np.delete(means[1:], columns, axis=1).any()


def test_rows_that_are_shared_and_drawn():
    state = np.random.RandomState(0)
    most = SHARED_SAMPLES * SAMPLE_PER_ANCHOR * 2
    assert shared_rows(most, 2, [state] * 2) is None
    rows = shared_rows(most + 1, 2, [np.random.RandomState(3)] * 2)
    assert_array_equal(shared_rows(most + 1, 2, [np.random.RandomState(3)] * 2), rows)
    assert len(np.unique(rows)) == len(rows) == most
    assert len(shared_rows(most, 2, [state])) == SAMPLE_PER_ANCHOR * 2  # a run has its own alone
    own = own_rows(most, 2, state)
    assert len(np.unique(own)) == len(own) == SAMPLE_PER_ANCHOR * 2
    assert_array_equal(np.sort(own_rows(100, 2, state)), np.arange(100))


def test_directions_to_start_from_lie_about_the_origin():
    found = span_module.random_directions(300, 4, np.random.RandomState(0))
    assert found.shape == (75, 4)  # the first power takes a quarter of the rows
    assert np.abs(found).max() <= 0.5 and np.abs(found.mean()) < 0.05


class Asked(np.random.RandomState):
    """A random state that notes below which number it draws."""

    asked: tuple = ()

    def randint(self, *given, **options):
        self.asked += given
        return super().randint(*given, **options)


@pytest.mark.parametrize("draw", [drawn, span_module.random_directions])
def test_seeds_are_drawn_from_all_that_32_bits_hold(draw):
    """More are an error where the integers of NumPy have 32 bits."""
    state, again = Asked(3), Asked(3)
    assert_array_equal(draw(50, 4, state), draw(50, 4, again))
    assert not np.array_equal(draw(50, 4, state), draw(50, 4, Asked(4)))
    assert state.asked == (2**31 - 1,) * 2


def learn(views, rows, n_runs=2):
    states = [np.random.RandomState(s) for s in range(n_runs)]
    asked = GraphSettings(2, 4, 2, None, "kmeans")
    return learned_in_span(views, [Scaling()] * 2, asked, states, rows)


def with_a_gap():
    """Views of four groups, their groups, and the views without one sample of the first two."""
    views, y = wide_views()
    present = np.ones(1100, bool)
    present[np.flatnonzero(y < 2)[0]] = False
    return views, y, Views([View("a", views[0].array, present=present), views[1]])


def test_gaps_in_the_shared_rows_leave_each_run_to_itself():
    views, _, gaps = with_a_gap()
    assert all(one.shared_span is None for one in learn(gaps, None))
    assert all(one.shared_span is not None for one in learn(gaps, np.flatnonzero(gaps[0].present)))
    assert all(one.shared_span is not None for one in learn(views, None))


def test_anchors_are_of_the_shared_rows():
    views, y, gaps = with_a_gap()
    means = np.array([views[0].array[y == j].mean(axis=0) for j in range(4)])
    some = np.flatnonzero(y < 2)
    for one in learn(views, some):
        assert set(cdist(one.anchors[0], means).argmin(axis=1)) == {0, 1}
    for rows in (some, np.arange(1100)):
        for s, one in enumerate(learn(gaps, None if len(rows) == 1100 else rows)):
            state = np.random.RandomState(s)
            own = rows[own_rows(len(rows), 4, state)]
            own = own[looked_at_in_order(len(own), 4, state)]
            alone = Sample(gaps, [Scaling()] * 2, own, sampled=True)
            assert_array_equal(one.anchors[0], alone.anchors(4, False, state)[0])
    few = Views([view.part(view.array[:600], slice(0, 600)) for view in gaps])
    (one,) = learn(few, None, n_runs=1)  # takes them as they are
    alone, state = Sample(few, [Scaling()] * 2, None, sampled=False), np.random.RandomState(0)
    assert few.present is not None and not few.present.all()
    assert_array_equal(one.anchors[0], alone.anchors(4, False, state)[0])


def test_runs_with_anchors_of_their_own_are_built_by_themselves(monkeypatch):
    """A run that goes on with stored anchors is not in the span of the others."""
    (views, _), scalings = wide_views(), [Scaling()] * 2
    learned = [GraphModel(scalings, anchors, 2, one) for anchors, one in find(views)]
    calls = []

    def counting(*given, **options):
        calls.append(len(given[3]))
        return graphs_in_span(*given, **options)

    monkeypatch.setattr(new_samples, "graphs_in_span", counting)
    together = list(graphs_of_runs(views, learned))
    assert calls == [3]
    apart = list(graphs_of_runs(views, [one.alone for one in learned]))
    mixed = list(graphs_of_runs(views, [learned[0].alone, *learned[1:]]))
    assert calls == [3]
    for ours, theirs, alone in zip(together, mixed, apart, strict=True):
        assert_allclose(dense(ours), dense(alone), atol=1e-9)
        assert_array_equal(dense(theirs), dense(alone))


@pytest.mark.slow
@pytest.mark.parametrize("n", [SAMPLE_PER_ANCHOR * 20 + 1, 6000])
def test_joined_runs_in_a_span(n, monkeypatch):
    """Just above the limit and beyond it: as good as runs that work with all features."""
    views = overlapping(n, widths=(60, 40), dtype=np.float64)
    found = Consensus(OMCAL(4), n_runs=4, random_state=0).fit(views)
    assert_array_equal(found.predict(views), found.labels_)
    assert all(rule.learned.shared_span is None for rule in found._rule.runs)
    monkeypatch.setattr("omcal.places.memory.span_pays", lambda *given: False)
    expected = Consensus(OMCAL(4), n_runs=4, random_state=0).fit(views)
    assert (found.labels_ == expected.labels_).mean() > 0.99 or found.stability_ > 0.9
