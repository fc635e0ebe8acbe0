"""Anchor graphs, Eq. 2, against a plain loop and stored references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.io import loadmat

from omcal.method import graph
from omcal.method.graph import (
    AnchorGraphs,
    RelativeDistances,
    anchor_graphs,
    anchor_weights,
    nearest_columns,
)
from omcal.method.scaling import SCALES, Scaling
from omcal.views.view import View, Views

quick = settings(max_examples=100, deadline=None)


@pytest.fixture(scope="module", params=["numpy", pytest.param("compiled", marks=pytest.mark.slow)])
def build(request):
    """(views, anchors, k, scale) -> graphs, by either implementation of the inner loop."""
    compiled = request.param == "compiled"
    if compiled:
        pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")

    def graphs(arrays_, anchors, k, scale=None, rows=slice(None)):
        views = Views([View(f"v{i}", X) for i, X in enumerate(arrays_)])
        scalings = [Scaling.fit(view, scale) for view in views]
        return anchor_graphs(views, scalings, anchors, k, rows, compiled=compiled)

    return graphs


def full(graphs, v=0):
    """View v of the graphs as a dense n × m matrix."""
    S = np.zeros((graphs.n, graphs.n_anchors))
    np.put_along_axis(S, graphs.indices[:, v].astype(np.intp), graphs.weights[:, v], axis=1)
    return S


def eq_2(X, anchors, k):
    """One sample after another, as the equation is written; equal distances share evenly."""
    S = np.zeros((len(X), len(anchors)))
    for i, x in enumerate(X):
        d = np.array([np.sum((x - b) ** 2) for b in anchors])
        order = np.argsort(d, kind="stable")
        total = k * d[order[k]] - d[order[:k]].sum()
        for j in order[:k]:
            S[i, j] = (d[order[k]] - d[j]) / total if total > 1e-12 * d[order[k]] else 1 / k
    return S


def explicitly_scaled(X, scale):
    X = X.astype(np.float64)
    if scale == "feature":
        return (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    if scale == "sample":
        return (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, ddof=1, keepdims=True)
    if scale == "view":
        return X / np.sqrt(X.var(axis=0, ddof=1).sum())
    if scale in ("auto", "standard"):  # normal numbers are of that kind
        return explicitly_scaled(X, "feature") / np.sqrt(X.shape[1])
    if scale == "unit":
        return explicitly_scaled(X / np.linalg.norm(X, axis=1, keepdims=True), "view")
    return X


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# The weights


@pytest.mark.parametrize(("m", "k"), [(2, 1), (8, 1), (8, 3), (8, 7), (30, 5)])
def test_equals_a_plain_loop(build, rng, m, k):
    X, anchors = rng.normal(size=(60, 4)), rng.normal(size=(m, 4))
    graphs = build([X], [anchors], k)
    assert graphs.indices.shape == graphs.weights.shape == (60, 1, k)
    np.testing.assert_allclose(full(graphs), eq_2(X, anchors, k), atol=1e-12)


def test_views_are_built_independently(build, rng):
    X, Y = rng.normal(size=(40, 4)), rng.normal(size=(40, 9))
    A, B = rng.normal(size=(12, 4)), rng.normal(size=(12, 9))
    graphs = build([X, Y], [A, B], 3)
    np.testing.assert_allclose(full(graphs, 0), eq_2(X, A, 3), atol=1e-12)
    np.testing.assert_allclose(full(graphs, 1), eq_2(Y, B, 3), atol=1e-12)
    S = graphs.side_by_side()
    np.testing.assert_array_equal(S.toarray(), np.hstack([full(graphs, 0), full(graphs, 1)]))
    np.testing.assert_array_equal(graphs[7:11].side_by_side().toarray(), S.toarray()[7:11])
    # Half of the memory, and the weights themselves.
    assert S.indices.dtype == S.indptr.dtype == np.int32
    assert np.shares_memory(S.data, graphs.weights)


def test_reference_graphs(build, shared):
    stored = np.load(shared / "reference" / "pkn_MSRCv1.npz")
    views = loadmat(shared / "data" / "MSRCv1.mat")["X"].ravel()
    for v, X in enumerate(views):
        X = np.ascontiguousarray(X, dtype=np.float64)
        parts = (stored[f"anchor5_v{v}_{part}"] for part in ("data", "indices", "indptr"))
        expected = sparse.csr_array(tuple(parts), shape=stored[f"anchor5_v{v}_shape"])
        found = full(build([X], [X[:30]], 5))
        np.testing.assert_allclose(found, expected.toarray(), rtol=0, atol=1e-9)


@pytest.mark.long
@quick
@given(
    X=arrays(np.float64, (6, 3), elements=st.integers(-3, 3)),
    anchors=arrays(np.float64, (7, 3), elements=st.integers(-3, 3)),
    k=st.integers(1, 6),
)
def test_rows_are_weights_whatever_the_ties(build, X, anchors, k):
    graphs = build([X], [anchors], k)
    assert (graphs.weights >= 0).all()
    np.testing.assert_allclose(graphs.weights.sum(axis=-1), 1, atol=1e-12)
    for row in graphs.indices[:, 0]:
        assert len(set(row.tolist())) == k
    # Small integers: every distance is exact in the loop, nearly so in the product form.
    np.testing.assert_allclose(np.sort(full(graphs)), np.sort(eq_2(X, anchors, k)), atol=1e-9)


def test_weights_depend_on_differences_only(rng):
    d = np.sort(rng.random((20, 6)), axis=1)
    expected = (d[:, -1:] - d[:, :-1]) / (5 * d[:, -1:] - d[:, :-1].sum(axis=1, keepdims=True))
    np.testing.assert_allclose(anchor_weights(d.copy()), expected, rtol=1e-12)
    np.testing.assert_allclose(anchor_weights(d - 7), expected, rtol=1e-12)
    np.testing.assert_allclose(anchor_weights(1e-9 * d), expected, rtol=1e-9)


def test_the_nearest_anchor_weighs_most_and_the_next_after_k_nothing(build):
    X, anchors = np.array([[0.0]]), np.array([[3.0], [1.0], [2.0], [10.0]])
    graphs = build([X], [anchors], 2)
    assert graphs.indices[0, 0].tolist() == [1, 2]
    np.testing.assert_allclose(graphs.weights[0, 0], [8 / 13, 5 / 13])


def test_samples_as_their_own_anchors_stay_an_anchor_graph(build, rng):
    X = rng.normal(size=(20, 3))
    graphs = build([X], [X], 4)
    np.testing.assert_array_equal(graphs.indices[:, 0, 0], np.arange(20))
    np.testing.assert_allclose(full(graphs), eq_2(X, X, 4), atol=1e-12)


# Ties, duplicates, zeros


def test_equal_distances_share_evenly_and_take_the_first_columns(build):
    corners = np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1], [5, 5]])
    graphs = build([np.zeros((2, 2))], [corners], 3)
    assert graphs.indices[:, 0].tolist() == [[0, 1, 2]] * 2
    np.testing.assert_allclose(graphs.weights[:, 0], 1 / 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 / 3])
def test_duplicate_anchors_share_evenly(build, rng, dtype, value):
    X = (rng.normal(size=(30, 5)) + value).astype(dtype)
    graphs = build([X], [np.full((8, 5), value)], 3)
    np.testing.assert_allclose(graphs.weights, 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("radius", [1e-6, 0.1, 1e6 / 3])
def test_anchors_on_a_circle_are_equally_far_from_its_centre(build, dtype, radius):
    angle = np.arange(7) * 2 * np.pi / 7 + 0.1
    anchors = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    graphs = build([np.zeros((3, 2), dtype=dtype)], [anchors], 3)
    np.testing.assert_allclose(graphs.weights, 1 / 3, rtol=1e-6)


def test_what_is_equally_far_is_told_by_each_row_for_itself(build, rng):
    X, anchors = rng.normal(size=(20, 3)), rng.normal(size=(8, 3))
    X[4] = 1e14  # beside which the distances of the others are rounding
    found, expected = full(build([X], [anchors], 3)), eq_2(X, anchors, 3)
    others = np.arange(20) != 4
    np.testing.assert_allclose(found[others], expected[others], atol=1e-9)


def test_some_duplicate_anchors(build, rng):
    X, anchors = rng.normal(size=(30, 3)), np.repeat(rng.normal(size=(5, 3)), 2, axis=0)
    found = full(build([X], [anchors], 3))
    # The twin of the second nearest may or may not be the fourth: its weight is 0 either way.
    np.testing.assert_allclose(found, eq_2(X, anchors, 3), atol=1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_all_zero_rows(build, rng, scale, make):
    X = rng.normal(size=(30, 4))
    X[[0, 7]] = 0
    graphs = build([make(X)], [rng.normal(size=(9, 4))], 3, scale)
    assert np.isfinite(graphs.weights).all()
    np.testing.assert_allclose(graphs.weights.sum(axis=-1), 1)
    np.testing.assert_array_equal(graphs.weights[0], graphs.weights[7])
    np.testing.assert_array_equal(graphs.indices[0], graphs.indices[7])


@quick
@given(
    # Few columns are sorted whole, many in two steps.
    arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(1, 9) | st.integers(31, 40)),
        elements=st.integers(0, 4) | st.integers(0, 99),
    ),
    st.data(),
)
def test_nearest_columns_is_a_stable_partial_sort(d, data):
    count = data.draw(st.integers(1, d.shape[1]))
    columns, values = nearest_columns(d.copy(), count)
    expected = np.argsort(d, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(columns, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(d, expected, axis=1))


@pytest.mark.sampled
@pytest.mark.parametrize("m", [31, 32, 33, 60])
@pytest.mark.parametrize("count", [1, 5, 10, 25, None])
@pytest.mark.parametrize("distinct", [1, 4, 10**6])
@pytest.mark.parametrize("infinite", [0, 1, 27])
def test_nearest_of_many_columns(rng, m, count, distinct, infinite):
    count = count or m
    d = rng.integers(distinct, size=(20, m)).astype(float)
    d[0] = np.arange(m)[::-1]
    d[:10, :infinite] = d[10:, m - infinite :] = np.inf
    given = d.copy()
    columns, values = nearest_columns(given, count)
    np.testing.assert_array_equal(given, d)
    assert nearest_columns(d.astype(np.float32), count)[1].dtype == np.float32
    expected = np.argsort(d, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(columns, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(d, expected, axis=1))


# Scaling, types, storage


@pytest.mark.parametrize("scale", ["feature", "view", None])
@pytest.mark.parametrize("offset", [1e3, 1e5, -1e5])
def test_features_far_from_zero(build, rng, scale, offset):
    X = (rng.normal(size=(80, 6)) + offset).astype(np.float32)
    Y = explicitly_scaled(X, scale)
    anchors = Y[:12]
    found = full(build([X], [anchors], 4, scale))
    np.testing.assert_allclose(found, eq_2(Y, anchors, 4), atol=2e-3)


def test_distances_less_their_common_part(rng):
    X, anchors = rng.normal(size=(9, 4)), rng.normal(size=(5, 4))
    distances = RelativeDistances(View("x", X), Scaling(), anchors)
    found = distances.products(X) + distances.bias
    d = np.square(X[:, None] - anchors).sum(axis=2)
    common = np.square(X - anchors.mean(axis=0)).sum(axis=1)
    np.testing.assert_allclose(found, d - common[:, None], atol=1e-12)
    more = distances.products(X, any_order=True)
    np.testing.assert_allclose(more[:, :5], distances.products(X))
    assert not more[:, 5:].any()


@pytest.mark.parametrize(("offset", "moved"), [(0.0, False), (1e5, True)])
def test_distances_to_points_between_the_anchors(rng, offset, moved):
    X, anchors = (rng.normal(size=(n, 4)).astype(np.float32) + np.float32(offset) for n in (9, 5))
    distances = RelativeDistances(View("x", X), Scaling(), anchors)
    assert (distances.origin is not None) == moved
    mean, Z = anchors.mean(axis=0, dtype=np.float64), rng.normal(size=(3, 5))
    points = mean + Z @ (anchors - mean)
    product, bias = distances.to_points(Z, points)
    found = product(distances.products(X), any_order=False) + bias
    common = np.square(X - mean).sum(axis=1, keepdims=True)
    expected = np.square(X[:, None] - points).sum(axis=2) - common
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-2 if moved else 1e-5)


@pytest.mark.sampled
@pytest.mark.parametrize("scale", ["auto", "standard", "unit", "feature", "sample", "view", None])
@pytest.mark.parametrize("mean", [0.0, 1e3])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-3)])
def test_scaling_folded_into_the_product_equals_scaled_data(
    build, rng, scale, mean, dtype, tolerance
):
    X = (rng.normal(size=(200, 8)) * [1, 2, 3, 4, 5, 6, 7, 8] + mean).astype(dtype)
    Y = explicitly_scaled(X, scale)
    anchors = Y[:20] + 0.1 * Y.std(axis=0) * rng.normal(size=(20, 8))
    found = full(build([X], [anchors], 5, scale))
    # float32 holds the data themselves to 6e-8 times the mean.
    np.testing.assert_allclose(
        found, eq_2(Y, anchors, 5), atol=tolerance if mean else tolerance / 100
    )


@pytest.mark.parametrize("scale", ["feature", "view", None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_and_sparse_give_the_same(build, scale, dtype):
    X = sparse.random(80, 10, density=0.3, random_state=0, dtype=dtype, format="csr")
    anchors = np.random.default_rng(1).random((12, 10))
    # Sparse input is not centred: its scaled space is the dense one, moved.
    centre = X.toarray().mean(axis=0) / X.toarray().std(axis=0, ddof=1) if scale == "feature" else 0
    dense = full(build([X.toarray()], [anchors], 4, scale))
    for make in (sparse.csr_array, sparse.csr_matrix):
        found = full(build([make(X)], [anchors + centre], 4, scale))
        np.testing.assert_allclose(found, dense, atol=1e-4 if dtype == np.float32 else 1e-10)


def test_sparse_rows_are_divided_by_their_deviation(build):
    X = sparse.random(40, 10, density=0.5, random_state=0, format="csr")
    anchors = np.random.default_rng(1).random((12, 10))
    divided = X.toarray() / X.toarray().std(axis=1, ddof=1, keepdims=True)
    found = full(build([X], [anchors], 4, "sample"))
    np.testing.assert_allclose(found, eq_2(divided, anchors, 4), atol=1e-10)


@pytest.mark.sampled
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", ["F", "read-only", "strided", "int64", "uint8", "bool", "float16"])
def test_storage_does_not_matter(build, rng, scale, kind):
    X = rng.integers(0, 2 if kind == "bool" else 100, size=(60, 9)).astype(np.float64)
    anchors = rng.normal(size=(10, 9))
    expected = full(build([X], [anchors], 4, scale))
    if kind == "F":
        X = np.asfortranarray(X)
    elif kind == "read-only":
        X.setflags(write=False)
    elif kind == "strided":
        X = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    else:
        X = X.astype(kind)
    found = build([X], [anchors], 4, scale)
    exact = kind in ("F", "read-only", "strided", "int64")
    assert found.weights.dtype == (np.float64 if exact else np.float32)
    np.testing.assert_allclose(full(found), expected, atol=1e-10 if exact else 1e-3)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_no_rows_and_rows_of_one_thread_or_several(build, rng, n_threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", str(n_threads))
    views, anchors = [rng.normal(size=(30, d)) for d in (3, 4)], [np.eye(3), np.eye(3, 4)]
    whole = build(views, anchors, 2)
    for few in (0, 1 << 17):
        monkeypatch.setattr("omcal.method.graph._FEW_ENTRIES", few)
        for rows in (slice(7, 7), slice(7, 8), slice(30)):
            some = build(views, anchors, 2, rows=rows)
            np.testing.assert_array_equal(some.indices, whole.indices[rows])
            np.testing.assert_allclose(some.weights, whole.weights[rows], atol=1e-12)


def test_float32_keeps_its_type_and_a_mixture_takes_the_wider(build, rng):
    X = rng.normal(size=(30, 4))
    anchors = rng.normal(size=(8, 4))
    narrow = build([X.astype(np.float32)], [anchors], 3)
    assert narrow.weights.dtype == np.float32
    np.testing.assert_allclose(full(narrow), full(build([X], [anchors], 3)), atol=1e-5)
    assert build([X.astype(np.float32), X], [anchors] * 2, 3).weights.dtype == np.float64


@pytest.mark.parametrize(("m", "dtype"), [(6, "u1"), (256, "u1"), (257, "u2"), (65537, "u4")])
def test_indices_are_stored_compactly(build, rng, m, dtype):
    anchors = np.arange(m, dtype=np.float64)[:, None]
    graphs = build([np.array([[0.0], [m - 1.0]])], [anchors], 2)
    assert graphs.indices.dtype == np.dtype(dtype)
    assert graphs.indices[:, 0].tolist() == [[0, 1], [m - 1, m - 2]]


@pytest.mark.sampled
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_blocks_do_not_show(build, monkeypatch, rng, scale, make):
    X, anchors = make(rng.normal(size=(50, 4))), rng.normal(size=(10, 4))
    whole = build([X], [anchors], 3, scale)
    monkeypatch.setattr(graph, "_BLOCK_ENTRIES", 70)
    parts = build([X], [anchors], 3, scale)
    np.testing.assert_array_equal(parts.indices, whole.indices)
    np.testing.assert_allclose(parts.weights, whole.weights, atol=1e-12)


def test_a_slice_of_the_rows(build, rng):
    X, anchors = rng.normal(size=(50, 4)), rng.normal(size=(10, 4))
    whole = build([X], [anchors], 3, "feature")
    part = build([X], [anchors], 3, "feature", slice(13, 29))
    np.testing.assert_array_equal(part.indices, whole.indices[13:29])
    np.testing.assert_allclose(part.weights, whole.weights[13:29], atol=1e-12)


TOO_LARGE = (
    r"^view 'v0' holds values too large for products in float32; rescale it, or pass float64\.$"
)


def test_products_too_large_are_refused_without_a_warning(build, rng):
    X = (1e37 * rng.normal(size=(20, 4))).astype(np.float32)
    with pytest.raises(ValueError, match=TOO_LARGE):
        build([X], [1e3 * rng.normal(size=(9, 4))], 5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("size", "anchor_size"), [(1e30, 1e30), (1.0, 1e25)])
def test_values_too_large_to_square_are_refused(build, rng, size, anchor_size):
    # Let through, they would leave columns that do not exist in the compiled loops.
    X = (size * rng.normal(size=(20, 4))).astype(np.float32)
    with pytest.raises(ValueError, match=TOO_LARGE):
        build([X], [anchor_size * rng.normal(size=(9, 4))], 5)


def test_wide_sparse_views_are_never_densified(build, rng):
    columns = np.sort(rng.permutation(10**6)[:10_000].reshape(1000, 10), axis=1)
    starts = np.arange(0, 10_001, 10)
    X = sparse.csr_array((rng.random(10_000), columns.reshape(-1), starts), shape=(1000, 10**6))
    graphs = build([X], [X[:4].toarray()], 2, "feature")  # the data would take 8 GB
    np.testing.assert_array_equal(graphs.indices[:4, 0, 0], np.arange(4))


@pytest.mark.parametrize(("V", "k"), [(1, 1), (1, 3), (3, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_side_by_side_is_a_sound_matrix_that_shares_the_weights(rng, V, k, dtype):
    m, n = 5, 9
    indices = np.array([[rng.permutation(m)[:k] for _ in range(V)] for _ in range(n)], np.uint8)
    weights = rng.random((n, V, k)).astype(dtype)
    part = AnchorGraphs(indices, weights, m)[6:8]
    S = part.side_by_side()
    assert np.shares_memory(S.data, weights)
    assert S.shape == (2, V * m) and S.dtype == dtype
    assert S.data.shape == S.indices.shape == (2 * V * k,) and S.indptr.shape == (3,)
    S.check_format(full_check=True)
    expected = np.zeros((2, V, m))
    np.put_along_axis(expected, indices[6:8].astype(int), weights[6:8], axis=2)
    np.testing.assert_array_equal(S.toarray(), expected.reshape(2, -1))


@pytest.mark.parametrize("known", [(), (0,), (1,), (0, 1)])
def test_parts_are_joined_with_who_is_absent(known):
    rng = np.random.RandomState(0)
    indices, weights = rng.randint(9, size=(7, 2, 3)), rng.rand(7, 2, 3)
    masks = [rng.rand(4, 2) < 0.5, rng.rand(3, 2) < 0.5]
    parts = [
        AnchorGraphs(indices[rows], weights[rows], 9, masks[i] if i in known else None)
        for i, rows in enumerate((slice(0, 4), slice(4, 7)))
    ]
    whole = AnchorGraphs.joined(parts)
    np.testing.assert_array_equal(whole.indices, indices)
    np.testing.assert_array_equal(whole.weights, weights)
    assert whole.n_anchors == 9
    assert AnchorGraphs.joined(parts[:1]).n_anchors == 9
    expected = [mask if i in known else np.ones_like(mask) for i, mask in enumerate(masks)]
    if not known:
        assert whole.present is None
    else:
        np.testing.assert_array_equal(whole.present, np.concatenate(expected))
        view = whole[np.array([5, 0])].of_views([1])
        np.testing.assert_array_equal(view.present, whole.present[[5, 0]][:, [1]])
        np.testing.assert_array_equal(view.weights, weights[[5, 0]][:, [1]])
