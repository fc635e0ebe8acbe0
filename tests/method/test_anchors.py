"""Anchors: joint over the views, seeded, as good as k-means on all rows."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.metrics import pairwise_distances_argmin_min

from omcal.method import anchors as module
from omcal.method import inner_products, kmeans, vectors
from omcal.method.anchors import check_anchors, choose_for_runs, draw_rows, side_by_side
from omcal.method.scaling import SCALES, Scaling
from omcal.views.view import View, Views

METHODS = ["kmeans", "kmeans-full", "random"]


def choose(arrays, m, method="kmeans", seed=0, scale=None, view=View):
    views = Views([view(f"v{i}", X) for i, X in enumerate(arrays)])
    scalings = [Scaling.fit(v, scale) for v in views]
    return choose_for_runs(views, scalings, m, method, [np.random.RandomState(seed)])[0]


def inertia(X, centres):
    X = np.asarray(X, dtype=np.float64)
    return np.sum(pairwise_distances_argmin_min(X, centres)[1] ** 2)


def blobs(n=600, n_blobs=5, widths=(4, 7), spread=8.0, seed=0):
    """Views of unequal widths that share their blobs, and the blob of each row."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_blobs, n)
    return [spread * rng.normal(size=(n_blobs, d))[y] + rng.normal(size=(n, d)) for d in widths], y


@pytest.mark.sampled
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", SCALES)
def test_shapes_types_and_seed(method, scale):
    views, _ = blobs()
    first = choose(views, 9, method, 3, scale)
    assert [a.shape for a in first] == [(9, 4), (9, 7)]
    assert all(a.dtype == np.float64 for a in first)
    for again, other, a in zip(
        choose(views, 9, method, 3, scale), choose(views, 9, method, 4, scale), first, strict=True
    ):
        np.testing.assert_array_equal(a, again)
        assert not np.array_equal(a, other)


@pytest.mark.parametrize("method", ["kmeans", "kmeans-full"])
def test_row_j_is_one_point_of_all_views(method):
    views, y = blobs(widths=(4, 7, 2))
    means = [np.array([X[y == c].mean(axis=0) for c in range(5)]) for X in views]
    found = choose(views, 5, method)
    blob_of = [pairwise_distances_argmin_min(a, c)[0] for a, c in zip(found, means, strict=True)]
    np.testing.assert_array_equal(blob_of[0], blob_of[1])
    np.testing.assert_array_equal(blob_of[0], blob_of[2])
    assert set(blob_of[0]) == set(range(5))


@pytest.mark.parametrize("method", METHODS)
def test_permuted_views_give_permuted_anchors(method):
    views, _ = blobs(widths=(4, 7, 2))
    found = choose(views, 8, method)
    permuted = choose([views[i] for i in (2, 0, 1)], 8, method)
    for a, b in zip((found[2], found[0], found[1]), permuted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_anchors_are_the_means_of_their_rows():
    views, _ = blobs()
    found = np.hstack(choose(views, 12, "kmeans-full"))
    joint = np.hstack(views)
    nearest = pairwise_distances_argmin_min(joint, found)[0]
    means = np.array([joint[nearest == j].mean(axis=0) for j in range(12)])
    assert inertia(joint, found) <= 1.001 * inertia(joint, means)


@pytest.mark.parametrize("scale", SCALES)
def test_random_anchors_are_different_rows_of_the_scaled_views(scale):
    views, _ = blobs(n=100)
    found = choose(views, 30, "random", scale=scale)
    rows = []
    for X, a in zip(views, found, strict=True):
        scaled = Scaling.fit(View("x", X), scale).apply(X)
        index, distance = pairwise_distances_argmin_min(a, scaled)
        np.testing.assert_allclose(distance, 0, atol=1e-6)
        rows.append(index)
    np.testing.assert_array_equal(rows[0], rows[1])
    assert len(set(rows[0])) == 30


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("m", [1, 20])
def test_one_anchor_and_as_many_as_rows(method, m):
    views, _ = blobs(n=20)
    found = np.hstack(choose(views, m, method))
    joint = np.hstack(views)
    if m == 20:
        # Every row is its own anchor, each once.
        index, distance = pairwise_distances_argmin_min(found, joint)
        np.testing.assert_allclose(distance, 0, atol=1e-6)
        assert len(set(index)) == 20
    elif method != "random":
        np.testing.assert_allclose(found[0], joint.mean(axis=0))


def scattered(kind, seed):
    # Few rows of many features go by their inner products.
    X = sparse.random_array(
        (150, 400) if kind == "few rows" else (300, 20), density=0.3, random_state=seed
    )
    return X.toarray() if kind == "dense" else sparse.csr_array(X)


@pytest.mark.parametrize("kind", ["dense", "sparse", "few rows"])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_centres_of_scikit_learn(kind, seed):
    X = scattered(kind, seed)
    expected = KMeans(12, n_init=1, random_state=seed).fit(X).cluster_centers_
    np.testing.assert_allclose(choose([X], 12, seed=seed)[0], expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse", "few rows"])
def test_the_thorough_start_is_that_of_scikit_learn_with_as_many_trials(kind):
    X = scattered(kind, 0)
    start, _ = kmeans_plusplus(X, 12, random_state=0, n_local_trials=12)
    expected = KMeans(12, init=start, n_init=1).fit(X).cluster_centers_
    np.testing.assert_allclose(choose([X], 12, "kmeans-full")[0], expected, atol=1e-12)


def test_how_many_points_are_tried():
    assert kmeans.trials(10_000, 40, thorough=False) == 5
    assert kmeans.trials(10_000, 40, thorough=True) == 40
    # Their distances to all points are in memory at the same time.
    assert kmeans.trials(1_000_000, 40, thorough=True) == 16
    assert kmeans.trials(100_000_000, 40, thorough=True) == 5
    assert kmeans.trials(5, 1, thorough=True) == 2


# Sampling


class SpyView(View):
    """A view that notes how many rows are asked for."""

    asked: list

    def rows(self, index):
        part = super().rows(index)
        type(self).asked.append(part.shape[0])
        return part


@pytest.mark.parametrize(
    ("method", "n_read"), [("kmeans", 80), ("kmeans-full", 500), ("random", 4)]
)
def test_how_many_rows_are_read(monkeypatch, method, n_read):
    monkeypatch.setattr(module, "SAMPLE_PER_ANCHOR", 20)
    SpyView.asked = []
    choose([np.random.default_rng(0).normal(size=(500, 3))], 4, method, view=SpyView)
    assert SpyView.asked == [n_read]


def test_what_k_means_is_told(monkeypatch):
    told = []

    def lloyd(points, **settings):
        told.append((points.n, settings["sampled"], settings["n_trials"], settings["n_clusters"]))
        return points.at([0, 1, 2, 3])

    monkeypatch.setattr(module, "lloyd", lloyd)
    monkeypatch.setattr(module, "SAMPLE_PER_ANCHOR", 20)
    X = np.random.default_rng(0).normal(size=(81, 3))
    choose([X], 4)
    choose([X[:80]], 4)  # a sample would be all of them
    choose([X], 4, "kmeans-full")
    assert told == [(80, True, 3, 4), (80, False, 3, 4), (81, False, 4, 4)]
    monkeypatch.setattr(kmeans, "_TRIED_DISTANCES", 81 * 3 + 1)  # fewer for more rows, not columns
    choose([X], 4, "kmeans-full")
    assert told[-1] == (81, False, 3, 4)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_compiled_or_not_the_scaled_rows_are_the_same(monkeypatch, dtype, order):
    pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
    rng = np.random.default_rng(0)
    X = np.asarray(3e4 + 50 * rng.normal(size=(90, 5)), dtype=dtype, order=order)
    X.flags.writeable = False
    views = Views([View("a", X), View("b", X[:, ::2])])
    scalings = [Scaling.fit(view, "feature") for view in views]
    lengths = [Scaling.fit(view, "unit") for view in views]  # of which no loop is compiled
    rows = np.sort(rng.permutation(90)[:40])
    asked = [(scalings, rows), (scalings, None), (lengths, rows)]
    plain = [side_by_side(views, *one) for one in asked]
    monkeypatch.setattr(module, "compiled_pays", lambda n: True)
    for one, expected in zip(asked, plain, strict=True):
        assert_array_equal(side_by_side(views, *one), expected)
    assert plain[0].dtype == views.dtype and np.abs(plain[0]).max() < 10


@pytest.mark.sampled
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("width", [3, 400])  # vectors, and inner products
@pytest.mark.parametrize("method", ["kmeans", "kmeans-full", "random"])
def test_runs_share_the_rows_and_get_the_anchors_they_would_get_alone(
    monkeypatch, method, width, make
):
    prepared, init = [], module.Sample.__init__

    def counted(sample, *given, **settings):
        prepared.append(sample)
        init(sample, *given, **settings)

    monkeypatch.setattr(module.Sample, "__init__", counted)
    X = np.random.default_rng(0).normal(size=(90, width))
    views = Views([View("a", make(X)), View("b", X[:, :2])])
    given = views, [Scaling(), Scaling()], 5, method
    together = module.choose_for_runs(*given, list(map(np.random.RandomState, range(3))))
    assert len(prepared) == (0 if method == "random" else 1)
    monkeypatch.setattr(module, "SAMPLE_PER_ANCHOR", 10)  # each run has a sample of its own
    sampled = module.choose_for_runs(*given, list(map(np.random.RandomState, range(3))))
    assert len(prepared) == {"kmeans": 4, "kmeans-full": 2, "random": 0}[method]
    assert len(together) == len(sampled) == 3
    for size, found in ((256, together), (10, sampled)):
        monkeypatch.setattr(module, "SAMPLE_PER_ANCHOR", size)
        for seed, anchors in enumerate(found):
            alone = choose_for_runs(*given, [np.random.RandomState(seed)])[0]
            for one, other in zip(anchors, alone, strict=True):
                assert_array_equal(one, other)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("width", "m"), [(10, 40), (160, 12)])  # few features, and a span of many
def test_a_sample_gives_anchors_as_good_as_all_rows(width, m, make):
    # 40 overlapping groups, 20 000 rows; the sample has 256·m of them.
    (X,), _ = blobs(n=20_000, n_blobs=40, widths=(width,), spread=2.0)
    sampled = np.mean([inertia(X, choose([make(X)], m, seed=s)[0]) for s in range(3)])
    everything = np.mean([KMeans(m, n_init=1, random_state=s).fit(X).inertia_ for s in range(3)])
    assert sampled <= 1.03 * everything


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_sample_of_rows_that_hold_nothing(make):
    (found,) = choose([make(np.zeros((6000, 40)))], 8)
    assert_array_equal(found, np.zeros((8, 40)))


@pytest.mark.parametrize("distinct", [1, 3])
def test_fewer_distinct_rows_than_anchors_in_a_sample(distinct):
    rows = np.random.default_rng(0).normal(size=(distinct, 40))
    X = np.tile(rows, (6000 // distinct, 1))
    (found,) = choose([X], 8)
    assert found.shape == (8, 40)
    gap = np.linalg.norm(rows[:, None] - found, axis=2)
    assert gap.min(axis=0).max() < 1e-9  # each anchor is one of the rows
    assert gap.min(axis=1).max() < 1e-9  # and none is left out


@pytest.mark.long
@pytest.mark.parametrize("scale", [None, "view"])
@pytest.mark.parametrize(
    ("dtype", "offset"), [(np.float32, 0), (np.float32, 1e4), (np.float32, 1e5), (np.float64, 1e7)]
)
def test_quality_does_not_depend_on_a_common_offset(scale, dtype, offset):
    (X,), _ = blobs(n=2000, n_blobs=20, widths=(8,), spread=4.0)
    X = (X + offset).astype(dtype)
    factor = Scaling.fit(View("x", X), scale).factor if scale else np.ones(8)
    found = np.mean(
        [inertia(X, choose([X], 20, seed=s, scale=scale)[0] / factor) for s in range(3)]
    )
    expected = np.mean(
        [KMeans(20, n_init=1, random_state=s).fit(X.astype(np.float64)).inertia_ for s in range(3)]
    )
    assert found <= 1.25 * expected


# Anchors that are given


def test_given_anchors_are_those_of_every_run():
    arrays, _ = blobs()
    given = [X[:5] for X in arrays]
    views = Views([View(str(i), X) for i, X in enumerate(arrays)])
    states = [np.random.RandomState(s) for s in range(3)]
    found = module.choose_for_runs(views, [Scaling(), Scaling()], 5, given, states)
    assert len(found) == 3
    for anchors in found:
        for one, other in zip(anchors, given, strict=True):
            assert_array_equal(one, other)


@pytest.mark.parametrize(
    "column",
    [[3e38] * 4, [3.3e38, -3e38, -3e38], [np.inf, -np.inf], [np.inf, np.inf]],
    ids=["sum", "difference", "no sum", "no difference"],
)
def test_means_beyond_the_type_of_the_rows_are_left_to_what_asks_for_squares(column):
    """Without a warning: that there is no distance is told with the name of the view."""
    X = np.array(column, np.float32)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.taken_off(X)
    with pytest.raises(ValueError, match="view 'a' holds values too large"):
        module.require_squares(X, Views([View("a", np.zeros((4, 1)))]))


@pytest.mark.parametrize("n", [100, 3000])
def test_rows_are_moved_to_their_mean_unless_the_scaling_has_done_it(monkeypatch, n):
    (X, Y), _ = blobs(n)
    moved = []
    taken_off = module.taken_off
    monkeypatch.setattr(module, "taken_off", lambda X: moved.append(1) or taken_off(X))
    for scale, times in (("standard", 0), ("feature", 0), ("view", 1), (None, 1)):
        moved.clear()
        choose([X, Y], 5, scale=scale)
        assert len(moved) == times, scale
    present = np.arange(n) % 3 > 0
    views = Views([View("a", X, present=present), View("b", Y)])
    moved.clear()
    scalings = [Scaling.fit(view, "standard") for view in views]
    choose_for_runs(views, scalings, 5, "kmeans", [np.random.RandomState(0)])[0]
    assert len(moved) == 1  # absent rows are not where the present ones have their mean


def test_given_anchors_are_copied_in_float64():
    A, B = np.ones((3, 2), dtype=np.float32), [[1, 2, 3]] * 3
    found = check_anchors([A, B], 3, (2, 3))
    assert [a.dtype for a in found] == [np.float64] * 2
    assert not np.shares_memory(check_anchors([A.astype(float)], 3, (2,))[0], A)
    A[0, 0] = 9
    np.testing.assert_array_equal(found[0], 1)
    np.testing.assert_array_equal(found[1], B)
    given = np.arange(6.0).reshape(3, 2)
    (alone,) = check_anchors(given, 3, (2,))  # of one view, without a list
    np.testing.assert_array_equal(alone, given)
    assert not np.shares_memory(alone, given)
    for kind in (bool, np.int8, np.uint16, np.float16):
        check_anchors([A.astype(kind)], 3, (2,))


@pytest.mark.parametrize(
    ("anchors", "text"),
    [
        (np.zeros((3, 2)), "anchors has 1 arrays for 2 views; give one array a view."),
        (
            [np.zeros((3, 2)), np.full((3, 1), "x")],
            "anchors must be numbers; they are ['float64', '<U1'].",
        ),
        (
            [np.zeros((3, 2)), np.zeros((2, 1))],
            "anchors have shapes [(3, 2), (2, 1)] but [(3, 2), (3, 1)] are needed: one "
            "(n_anchors, n_features) array a view, in the scaled space; "
            "set n_anchors to their number.",
        ),
        (
            [np.zeros((3, 2)), np.full((3, 1), np.inf)],
            "anchors contain NaN or infinity; give finite points.",
        ),
    ],
)
def test_given_anchors_that_do_not_fit(anchors, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        check_anchors(anchors, 3, (2, 1))


# Awkward data


@pytest.mark.parametrize(
    ("dtype", "size", "what"),
    [
        (np.float32, 1e30, "large"),
        (np.float64, 1e200, "large"),
        (np.float32, 1e-30, "small"),
        (np.float64, 1e-200, "small"),
    ],
)
@pytest.mark.parametrize("v", [0, 1, 2])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_values_whose_squares_leave_their_type_are_told_by_view(dtype, size, what, v, form):
    views, _ = blobs(n=40, widths=(1, 3, 2))
    views = [X * (size if what == "small" else 1) for X in views]
    views[v] = views[v] * (size if what == "large" else 10)
    remedy = "rescale it" if dtype == np.float64 else "rescale it, or pass float64"
    text = f"view 'v{v}' holds values too {what} to be squared in {np.dtype(dtype)}; {remedy}."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        choose([form(X.astype(dtype)) for X in views], 5)


@pytest.mark.parametrize("method", ["kmeans", "kmeans-full"])
@pytest.mark.parametrize("lone", [False, True])
def test_fewer_distinct_rows_than_anchors(method, lone):
    distinct = np.array([[5.0, 5.0], [9.0, 9.0], [1.0, 2.0]])
    X = np.repeat(distinct, [1 if lone else 10, 10, 10], axis=0)
    for seed in range(5):
        (found,) = choose([X], 8, method, seed)
        index, distance = pairwise_distances_argmin_min(found, distinct)
        np.testing.assert_allclose(distance, 0, atol=1e-9, err_msg="an anchor away from all rows")
        assert set(index) == {0, 1, 2}


@pytest.mark.parametrize("method", METHODS)
def test_all_rows_equal(method):
    for a in choose([np.full((30, 3), 0.1), np.zeros((30, 2))], 6, method):
        np.testing.assert_allclose(a, np.broadcast_to(a[0], a.shape))
        assert a[0] == pytest.approx(0.1 if a.shape[1] == 3 else 0)


@pytest.mark.sampled
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", ["feature", "view", None])
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_and_dense_views_together(method, scale, form):
    rng = np.random.default_rng(1)
    X = sparse.random(300, 8, density=0.4, random_state=0, format="csr")
    Y = rng.normal(size=(300, 3))
    mixed = choose([form(X), Y], 10, method, scale=scale)
    assert all(isinstance(a, np.ndarray) for a in mixed)
    dense = choose([X.toarray(), Y], 10, method, scale=scale)
    # A sparse view is not centred: the same points in a space that is moved.
    shift = X.mean(axis=0) / X.toarray().std(axis=0, ddof=1) if scale == "feature" else 0
    np.testing.assert_allclose(mixed[0], dense[0] + shift, atol=1e-9)
    np.testing.assert_allclose(mixed[1], dense[1], atol=1e-9)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_sparse_index_types(index_type):
    X = sparse.random(100, 8, density=0.4, random_state=0, format="csr")
    X.indices, X.indptr = X.indices.astype(index_type), X.indptr.astype(index_type)
    assert choose([X], 6)[0].shape == (6, 8)


@pytest.mark.parametrize("kind", ["F", "read-only", "float32", "uint8"])
def test_storage(kind):
    X = np.random.default_rng(2).integers(0, 50, size=(200, 6)) * 1.0
    expected = choose([X], 7)[0]
    if kind == "F":
        X = np.asfortranarray(X)
    elif kind == "read-only":
        X.setflags(write=False)
    else:
        X = X.astype(kind)
    np.testing.assert_allclose(choose([X], 7)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_blocks_do_not_show(make, monkeypatch):
    views = [make(view) for view in blobs()[0]]
    whole = choose(views, 9)
    for name in ("_BLOCK_ENTRIES", "_SPARSE_ENTRIES"):
        monkeypatch.setattr(vectors, name, 100)
    for name in ("_MANY_NUMBERS", "_FEW_MEMBERS"):
        monkeypatch.setattr(vectors, name, 0)
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", 100)
    for a, b in zip(whole, choose(views, 9), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize(("n", "size"), [(300, 2), (50_000, 450), (10**7, 3000), (60, 30), (9, 9)])
def test_rows_of_a_sample_are_different_ones_in_their_order(n, size):
    state, other = (np.random.RandomState(3) for _ in range(2))
    rows = draw_rows(n, size, state)
    assert len(rows) == size
    assert rows[0] >= 0
    assert rows[-1] < n
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(draw_rows(n, size, other), rows)
    assert state.randint(10**6) == other.randint(10**6)
    assert size == n or not np.array_equal(draw_rows(n, size, state), rows)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "size"), [(40, 10), (600, 9)])  # by either of NumPy's ways
def test_each_row_is_as_likely_as_any_other(n, size):
    state, times = np.random.RandomState(0), 4000
    counts = sum(np.bincount(draw_rows(n, size, state), minlength=n) for _ in range(times))
    expected = times * size / n
    chi_squared = ((counts - expected) ** 2).sum() / (expected * (1 - size / n))
    assert abs(chi_squared - (n - 1)) < 5 * (2 * (n - 1)) ** 0.5


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_few_rows_of_many_features_by_their_inner_products(monkeypatch, dtype, make):
    rng = np.random.default_rng(0)
    X = make((rng.random((60, 300)) * (rng.random((60, 300)) < 0.2) * 100).astype(dtype))
    assert inner_products.inner_products_pay(*X.shape)
    by_products = choose([X], 7)[0]
    monkeypatch.setattr(inner_products, "MOST_ROWS", 0)
    np.testing.assert_allclose(by_products, choose([X], 7)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_the_views_are_not_changed_and_may_lie_in_any_order(method):
    views, _ = blobs()
    before = [X.copy() for X in views]
    found = choose(views, 9, method)
    turned = choose([np.asfortranarray(X) for X in views], 9, method)
    for X, unchanged, a, b in zip(views, before, found, turned, strict=True):
        np.testing.assert_array_equal(X, unchanged)
        np.testing.assert_array_equal(a, b)


def test_rows_that_a_view_lacks_altogether_are_zero():
    X = np.random.default_rng(0).normal(size=(6, 3))
    views = Views([View("a", X, present=np.arange(6) < 4)])
    for rows, expected in (([4, 5], np.zeros((2, 3))), ([0, 3], X[[0, 3]])):
        found = side_by_side(views, [Scaling()], np.array(rows))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("rows", [None, np.array([1, 4, 7, 8, 20])])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_that_a_view_lacks_count_as_its_mean(rows, form):
    views, _ = blobs(n=30)
    there = np.arange(30) % 3 != 1
    X = views[0].astype(np.float32)
    X[~there] = 0
    other = View("other", form(views[1].astype(np.float32)))
    joint = side_by_side(Views([View("x", X, present=there), other]), [Scaling(), Scaling()], rows)
    assert joint.dtype == np.float32
    joint = joint.toarray() if sparse.issparse(joint) else joint
    some = np.arange(30) if rows is None else rows
    mean = X[some][there[some]].mean(axis=0, dtype=np.float64)
    expected = np.where(there[some, None], X[some], mean)
    np.testing.assert_allclose(joint[:, :4], expected, rtol=1e-6)
    np.testing.assert_allclose(joint[:, 4:], views[1][some], rtol=1e-6)


@pytest.mark.parametrize("sample", [10, 256])
def test_anchors_are_means_of_the_rows_that_are_there(monkeypatch, sample):
    monkeypatch.setattr(module, "SAMPLE_PER_ANCHOR", sample)
    views, y = blobs(n=400, n_blobs=3, spread=30.0)
    there = np.arange(400) % 4 > 0  # three in four have the second view
    full = Views(
        [View("a", views[0]), View("b", np.where(there[:, None], views[1], 0), present=there)]
    )
    found = choose_for_runs(full, [Scaling(), Scaling()], 3, "kmeans", [np.random.RandomState(0)])[
        0
    ]
    means = np.array([views[1][there & (y == c)].mean(axis=0) for c in range(3)])
    gap = np.linalg.norm(found[1][:, None] - means, axis=2)
    assert sorted(gap.argmin(axis=1)) == [0, 1, 2]
    assert gap.min(axis=1).max() < 2  # the mean of all would be some 30 away


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", ["view", None])
def test_the_blocks_of_rows_that_are_scaled_do_not_show(monkeypatch, form, scale):
    views = [form(X) for X in blobs()[0]]
    whole = choose(views, 9, scale=scale)
    monkeypatch.setattr(module, "_BLOCK_ENTRIES", 1500)
    for a, b in zip(whole, choose(views, 9, scale=scale), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(1, 8),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([np.asarray, sparse.csr_array]),
)
def test_distinct_points_do_not_depend_on_the_order_of_the_rows(seed, kinds, number, dtype, form):
    rng = np.random.default_rng(seed)
    values = rng.integers(-2, 3, size=(kinds, 3)).astype(dtype)
    # Kinds that come late, beyond the rows that are looked at first, count as well.
    which = np.sort(rng.integers(kinds, size=int(rng.integers(1, 80))))
    X = values[which]
    X[1::2] = np.where(X[1::2] == 0, dtype(-0.0), X[1::2])  # equal to 0.0
    _, first = np.unique(X + dtype(0), axis=0, return_index=True)
    found = module.distinct_points(form(X), number, None)
    order = rng.permutation(len(X))
    again = module.distinct_points(form(X[order]), number, order)
    positions = module.distinct_rows(form(X), number, None)
    if len(first) > number:
        assert found is None and again is None and positions is None
        return
    assert_array_equal(positions, np.sort(first))
    assert_array_equal(found, X[np.resize(np.sort(first), number)])
    # Which of equal rows stands for them is not told: they are equal.
    assert len(again) == number
    assert_array_equal(np.unique(again + dtype(0), axis=0), np.unique(found + dtype(0), axis=0))
    there = order[module.distinct_rows(form(X[order]), number, order)]
    assert (np.diff(there) > 0).all()
    assert_array_equal(again, X[np.resize(there, number)])


def test_all_rows_as_a_sample_are_worked_on_in_random_order():
    (X, Y), _ = blobs(n=700, n_blobs=30, spread=0.5)
    views = Views([View("a", X), View("b", Y)])
    given = views, [Scaling(), Scaling()], 4, "kmeans"

    def found(rows, sampled):
        states = [np.random.RandomState(seed) for seed in (0, 1)]
        return module.anchors_of_runs(*given, states, [rows, rows], sampled=sampled)

    whole = found(None, True)
    for one, same, other in zip(
        whole, found(np.arange(700), True), found(None, False), strict=True
    ):
        assert_array_equal(np.hstack(one), np.hstack(same))
        assert not np.allclose(np.hstack(one), np.hstack(other))
    assert not np.allclose(whole[0][0], whole[1][0])


@pytest.mark.parametrize(
    ("n", "method", "expected"),
    [(1025, "kmeans", 1024), (1024, "kmeans", None), (1025, "kmeans-full", None)],
)
def test_which_rows_the_start_is_drawn_from(monkeypatch, n, method, expected):
    told = []

    def lloyd(points, **settings):
        told.append(settings["start_rows"])
        return points.at([0, 1, 2, 3, 4])

    monkeypatch.setattr(module, "lloyd", lloyd)
    choose([np.random.default_rng(0).normal(size=(n, 3))], 5, method)
    assert told == [expected]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_the_mean_is_taken_off_rows_by_blocks(monkeypatch, form, offset):
    X = np.random.default_rng(0).normal(size=(37, 5)) + offset
    for entries in (1 << 18, 20, 1):
        monkeypatch.setattr(module, "_BLOCK_ENTRIES", entries)
        moved = X.copy()
        np.testing.assert_allclose(module.taken_off(moved), X.mean(axis=0))
        np.testing.assert_allclose(moved, X - X.mean(axis=0), atol=1e-12)
        squares = module.require_squares(form(X), Views([View("a", form(X))]))
        np.testing.assert_allclose(squares, np.square(X).sum(axis=1))


def test_rows_that_differ_by_little_are_distinct():
    X = np.array([[1e-30, 0.0], [2e-30, 0.0], [0.0, 0.0], [-0.0, 0.0]])
    assert_array_equal(module.distinct_rows(X, 3, None), [0, 1, 2])
    assert_array_equal(module.distinct_rows(sparse.csr_array(X), 3, None), [0, 1, 2])


def test_few_distinct_rows_are_the_anchors_in_their_order_unless_samples_are_absent():
    distinct = np.array([[5.0, 5.0], [9.0, 9.0], [1.0, 2.0]])
    X, other = np.tile(distinct, (8, 1)), np.arange(24.0)[:, None]
    (found,) = choose([X], 5)
    assert_array_equal(found, np.resize(distinct, (5, 2)))
    present = np.arange(24) % 2 == 0

    def view(name, rows):
        return View(name, rows, present=present if rows is X else None)

    X[~present] = np.nan
    of_some, _ = choose([X, 0 * other], 5, view=view)
    assert distinct.min() <= of_some.min() and (of_some > 0).all()  # absent rows are no points
