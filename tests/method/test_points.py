"""What k-means asks of its points, against plain sums over all of them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist

from omcal.method import inner_products
from omcal.method import vectors as module
from omcal.method.inner_products import InnerProducts, inner_products_pay
from omcal.method.vectors import IncompleteVectors, Vectors

N, D, WIDTHS = 40, 9, (2, 4, 3)
KINDS = {
    "dense": Vectors,
    "sparse": lambda X: Vectors(sparse.csr_array(X)),
    "products": InnerProducts,
    "products of sparse rows": lambda X: InnerProducts(sparse.csr_array(X)),
    "incomplete, with nothing absent": lambda X: IncompleteVectors(
        X, np.ones((N, len(WIDTHS)), dtype=bool), WIDTHS
    ),
}


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return np.where(rng.random((N, D)) < 0.3, 0.0, rng.normal(size=(N, D)) + 0.5)


@pytest.fixture(params=list(KINDS))
def make(request):
    return KINDS[request.param]


def in_space(points, centres):
    """The centres as rows of the space of the points."""
    return points.rows(centres) if isinstance(points, InnerProducts) else centres


# Points


@pytest.mark.parametrize("many", [0, 1 << 21])
def test_distances_to_some_of_the_points(make, X, many, monkeypatch):
    """By threads, a block of rows each, and by one."""
    monkeypatch.setattr(module, "_MANY_NUMBERS", many)
    monkeypatch.setattr(module, "_ROW_ENTRIES", 7 * D)
    monkeypatch.setattr(module, "_SPARSE_ENTRIES", 21)
    points = make(X)
    chosen = np.array([3, 17, 3])
    found = points.distances_to(chosen)
    assert_allclose(found, cdist(X[chosen], X, "sqeuclidean"), atol=1e-12)
    assert (found[[0, 1, 2], chosen] == 0).all()
    assert points.n == N


def test_a_point_is_at_distance_zero_from_itself_whatever_the_rounding(make):
    # Of numbers far from zero, x·x − 2 x·x + x·x is not 0, and may be below.
    X = np.full((N, D), 1e8 / 3) + np.random.default_rng(1).normal(size=(N, D))
    points = make(X)
    found = points.distances_to(np.arange(N))
    assert (found.diagonal() == 0).all() and (found >= 0).all()
    assert (points.nearest(points.at(list(range(N))))[1] >= 0).all()


def test_centres_at_points(make, X):
    points = make(X)
    assert_allclose(in_space(points, points.at([5, 0, 31])), X[[5, 0, 31]])


def test_the_nearest_centre(make, X, monkeypatch):
    points = make(X)
    centres = points.at([5, 0, 31, 8])
    d = cdist(X, X[[5, 0, 31, 8]], "sqeuclidean")
    for entries in (1 << 16, 12):
        monkeypatch.setattr(module, "_BLOCK_ENTRIES", entries)
        monkeypatch.setattr(module, "_SPARSE_ENTRIES", entries)
        labels, distances = points.nearest(centres)
        assert_array_equal(labels, d.argmin(axis=1))
        assert_allclose(distances, d.min(axis=1), atol=1e-12)


def test_means_and_how_far_the_centres_move(make, X, monkeypatch):
    points = make(X)
    start = points.at([5, 0, 31, 8])
    labels = np.arange(N, dtype=np.int32) % 3  # nothing is left for the last one
    expected = np.array([X[labels == j].mean(axis=0) for j in range(3)] + [X[8]])
    moved = np.sum((expected - X[[5, 0, 31, 8]]) ** 2)
    # Memberships as a dense matrix, as a sparse one, and that shared out.
    for few, many in ((1 << 15, 1 << 22), (0, 1 << 22), (0, 0)):
        monkeypatch.setattr(module, "_FEW_MEMBERS", few)
        monkeypatch.setattr(module, "_MANY_NUMBERS", many)
        found = points.means(labels, start)
        change = points.moved(start, found)
        assert_allclose(in_space(points, found), expected, atol=1e-12)
        assert change == pytest.approx(moved)


def test_the_spread_is_the_mean_variance_of_a_feature(make, X):
    assert make(X).spread == pytest.approx(X.var(axis=0).mean())
    assert make(np.full_like(X, 0.1)).spread == pytest.approx(0, abs=1e-15)
    assert make(np.full_like(X, 0.1)).spread >= 0


def test_some_of_the_points(make, X):
    some = np.array([7, 2, 30, 12])
    part = make(X)[some]
    assert part.n == 4
    assert_allclose(part.distances_to([1]), cdist(X[[2]], X[some], "sqeuclidean"), atol=1e-12)
    assert_allclose(in_space(part, part.at([2])), X[[30]])
    assert part.spread == pytest.approx(X[some].var(axis=0).mean())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_keep_their_type(make, X, dtype):
    points = make(X.astype(dtype))
    centres = points.at([0, 1])
    labels, distances = points.nearest(centres)
    means = points.means(labels, centres)
    assert distances.dtype == dtype == means.dtype
    assert points.distances_to([4]).dtype == dtype


def test_when_inner_products_pay():
    assert inner_products_pay(4096, 8192) and inner_products_pay(1, 2)
    assert not inner_products_pay(4096, 8191) and not inner_products_pay(4097, 10**6)


def test_products_of_sparse_rows_with_full_and_rare_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(130, 90)) * (
        rng.random((130, 90)) < np.where(np.arange(90) < 7, 0.5, 0.02)
    )
    assert_allclose(inner_products._products(sparse.csr_array(X)), X @ X.T, atol=1e-12)


@pytest.mark.parametrize(("form", "most"), [(np.asarray, 20), (sparse.csr_array, 2)])
def test_products_among_the_points_take_no_more_than_twice_their_rows(form, most, monkeypatch):
    X = np.random.default_rng(0).random((most, 10))
    few = Vectors(form(np.vstack([X, X])))  # few rows always have them
    assert isinstance(few.among_themselves, InnerProducts)
    monkeypatch.setattr(module, "FEW_ROWS", 0)
    assert isinstance(Vectors(form(X)).among_themselves, InnerProducts)
    more = Vectors(form(np.vstack([X, X[:1]])))
    assert more.among_themselves is more
    monkeypatch.setattr(inner_products, "MOST_ROWS", most - 1)
    assert not isinstance(Vectors(form(X)).among_themselves, InnerProducts)


# Views that some rows are absent from


@pytest.fixture
def gaps(X):
    """Rows that lack views, zero there; and which features are there."""
    present = np.random.default_rng(3).random((N, len(WIDTHS))) < 0.6
    present[~present.any(axis=1), 0] = True
    there = np.repeat(present, WIDTHS, axis=1)
    return X * there, present, there


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_distances_and_means_are_over_what_is_there(gaps, form):
    X, present, there = gaps
    points = IncompleteVectors(form(X), present, WIDTHS)
    centres = np.random.default_rng(4).normal(size=(4, D))
    d = (there[:, None] * (X[:, None] - centres) ** 2).sum(axis=2)
    labels, distances = points.nearest(centres)
    assert_array_equal(labels, d.argmin(axis=1))
    assert_allclose(distances, d.min(axis=1), atol=1e-12)

    labels = np.arange(N) % 3
    means = points.means(labels, centres)
    for j in range(3):
        mine = labels == j
        assert_allclose(means[j], X[mine].sum(axis=0) / there[mine].sum(axis=0), atol=1e-12)
    assert_allclose(means[3], centres[3])
    some = np.flatnonzero(labels == 1)
    part = points[some].means(np.zeros(len(some), dtype=int), centres[:1])
    assert_allclose(part[0], means[1], atol=1e-12)


def test_a_centre_takes_what_it_lacks_from_the_nearest_row_that_has_it(gaps):
    X, present, _ = gaps
    present = present.copy()
    present[:, 2] = False  # nobody has it
    X = X * np.repeat(present, WIDTHS, axis=1)
    points = IncompleteVectors(X, present, WIDTHS)
    d = cdist(X, X, "sqeuclidean")
    chosen = [int(np.flatnonzero(~present[:, 0])[0]), int(np.flatnonzero(~present[:, 1])[0])]
    centres = points.at(chosen)
    for centre, row in zip(centres, chosen, strict=True):
        for v, part in enumerate((slice(0, 2), slice(2, 6))):
            have = np.flatnonzero(present[:, v])
            donor = row if present[row, v] else have[d[row, have].argmin()]
            assert_array_equal(centre[part], X[donor, part])
        assert_array_equal(centre[6:], 0)


def test_of_centres_equally_far_the_first_is_taken():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, D)) + 1e3
    present = np.ones((N, 3), dtype=bool)
    present[:, 1:] = False
    X[:, 2:] = 0
    centres = rng.normal(size=(3, D))
    centres[:, :2] = X[0, :2]  # they differ where no row is
    centres[1, 0] *= 1 + 1e-16
    labels, _ = IncompleteVectors(X, present, WIDTHS).nearest(centres)
    assert_array_equal(labels, 0)


def test_what_is_equally_far_is_told_by_each_row_for_itself():
    X = np.zeros((2, D))
    X[:, 0] = 1e15, 1.0
    centres = np.zeros((2, D))
    centres[:, 0] = 0.0, 0.9
    points = IncompleteVectors(X, np.ones((2, 3), dtype=bool), WIDTHS)
    assert_array_equal(points.nearest(centres)[0], [1, 1])


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_the_nearest_centre_does_not_depend_on_the_unit(gaps, size):
    X, present, _ = gaps
    centres = np.random.default_rng(4).normal(size=(4, D))
    plain = IncompleteVectors(X, present, WIDTHS).nearest(centres)[0]
    scaled = IncompleteVectors(size * X, present, WIDTHS).nearest(size * centres)[0]
    assert_array_equal(scaled, plain)


# Compiled loops


@pytest.mark.slow  # to compile
@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3000),
    st.one_of(st.integers(1, 12), st.just(250)),  # few features, or many for each centre
    st.integers(1, 40),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2**31),
)
@example(n=3000, d=3, m=12, real=np.float32, seed=0)
@example(n=2998, d=250, m=12, real=np.float32, seed=1)
@example(n=1, d=250, m=36, real=np.float32, seed=2)  # the nearest centre is the point itself
@example(n=76, d=250, m=36, real=np.float32, seed=253)  # rounding chooses among equal centres
def test_points_find_centres_and_means_by_loops_as_without(n, d, m, real, seed):
    """Means to the last bit; distances, whose products are summed in another order, but for that.

    They are compared with exact ones, and not those of each with the other's: which of two equal
    centres is the nearest may differ.
    """
    pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(real)
    X[::3] = X[0]  # distances that are equal
    plain, loops = Vectors(X), Vectors(X, compiled=True)
    centres = rng.normal(size=(m, d)).astype(real)
    centres[m // 2 :] = centres[0]
    search, found = plain.search(m), loops.search(m)
    for _ in range(3):
        exact, rounding = exact_distances(X, centres)
        labels = search(centres)
        for chosen in (labels, found(centres)):
            assert (exact[np.arange(n), chosen] <= exact.min(axis=1) + rounding).all()
        means = plain.means(labels, centres)
        assert_array_equal(loops.means(labels, centres), means)
        assert means.dtype == real
        centres = means
    some = np.flatnonzero(rng.random(n) < 0.5)
    exact, rounding = exact_distances(X[some], centres)
    for points in (plain, loops):
        chosen, first, second = points._two_nearest(centres, some)
        each = np.arange(some.size)
        assert (np.abs(first - exact[each, chosen]) <= rounding).all()
        assert (np.abs(first - exact.min(axis=1)) <= rounding).all()
        if m > 1:
            assert (np.abs(second - np.partition(exact, 1, axis=1)[:, 1]) <= rounding).all()
        assert first.dtype == second.dtype == real


def exact_distances(X, centres):
    """Squared, in float64, and what rounding may change of them for each row."""
    rows, points = X.astype(np.float64), centres.astype(np.float64)
    lengths = np.square(rows).sum(axis=1) + np.square(points).sum(axis=1).max()
    rounding = 4 * np.sqrt(X.shape[1]) * np.finfo(X.dtype).eps * lengths
    return cdist(rows, points, "sqeuclidean"), rounding


def test_distances_that_are_asked_for_again_and_again_are_kept():
    X = np.random.default_rng(3).normal(size=(9, 20))
    points, other = InnerProducts(X), InnerProducts(X)
    first = [points.distances_to([j]) for j in range(9)]
    again = [points.distances_to([j, j]) for j in range(9)]  # now from the table of all pairs
    assert_array_equal(np.concatenate(first), [pair[0] for pair in again])
    assert_array_equal(points.distances_to([3, 7]), other.distances_to([3, 7]))


def test_sparse_points_have_no_loops():
    rng = np.random.default_rng(0)
    X, centres = rng.normal(size=(300, 8)) * (rng.random((300, 8)) < 0.5), rng.normal(size=(9, 8))
    loops = Vectors(sparse.csr_array(X), compiled=True)
    assert not loops._compiled and Vectors(X, compiled=True)._compiled
    labels, distances = loops.nearest(centres)
    expected = Vectors(X).nearest(centres)
    assert_array_equal(labels, expected[0])
    assert_allclose(distances, expected[1], atol=1e-12)
    assert_allclose(loops.means(labels, centres), Vectors(X).means(labels, centres))
    assert_array_equal(loops.search(9)(centres), labels)


def test_all_distances_are_kept_once_most_rows_were_asked_for():
    points = InnerProducts(np.random.default_rng(0).normal(size=(30, 4)))
    few = points.distances_to(np.arange(20))
    assert "_distances" not in vars(points)
    again = points.distances_to(np.arange(20))
    assert "_distances" in vars(points)
    assert_allclose(again, few)
