"""Parameters and values at the ends of their ranges: the right result, or a refusal."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from omcal import OMCAL
from omcal.metrics import ari

pytestmark = pytest.mark.filterwarnings("error")


def groups(n=400, n_groups=3, widths=(6, 4), seed=0):
    """Two views of groups that are a few standard deviations apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_groups
    return [3.0 * rng.normal(size=(n_groups, d))[y] + rng.normal(size=(n, d)) for d in widths], y


VIEWS, CLASSES = groups()


def model(**settings):
    return OMCAL(**{"n_clusters": 3, "tol": 1e-4, "random_state": 0, **settings})


# Parameters


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [np.uint8, np.int8, np.int16, np.uint16])
@pytest.mark.parametrize("anchors", ["kmeans", "kmeans-full"])
def test_narrow_integers_of_numpy_are_integers(narrow, anchors, tmp_path):
    numbers = {"n_clusters": 3, "n_anchors": 100, "n_neighbors": 7, "n_init": 2, "max_iter": 127}
    found, expected = (
        model(anchors=anchors, **{name: number(value) for name, value in numbers.items()})
        for number in (narrow, int)
    )
    assert found.estimate(10**6, [5, 6]).bytes == expected.estimate(10**6, [5, 6]).bytes
    found.fit(VIEWS), expected.fit(VIEWS)
    assert_array_equal(found.labels_, expected.labels_)
    assert_array_equal(found.predict(VIEWS), expected.predict(VIEWS))
    assert type(found.n_clusters) is narrow  # what was passed is not changed
    found.save(tmp_path / "model")


def test_the_number_of_classes_from_small_labels():
    labels = CLASSES.astype(np.uint8)
    assert ari(CLASSES, model(n_clusters=labels.max() + 1).fit(VIEWS).labels_) > 0.9


@pytest.mark.parametrize("gamma", [1e6, 1e8])
def test_a_large_gamma_gives_an_objective(gamma):
    fitted = model(gamma=gamma).fit(VIEWS)
    assert (fitted.objective_ > 0).all()
    assert np.ptp(fitted.objective_) < fitted.objective_[0]


@pytest.mark.parametrize("gamma", [1e9, 1e100, 1e308])
def test_a_gamma_that_leaves_no_digits_is_refused(gamma):
    with pytest.raises(ValueError, match=r"'gamma' parameter.*in the range.*1e\+08|100000000"):
        model(gamma=gamma).fit(VIEWS)


# Sparse matrices with indices that point elsewhere


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("index", [-1, 6, 10**6])
@pytest.mark.parametrize("as_table", [False, True])
def test_a_sparse_matrix_with_indices_outside_of_it_is_refused(form, index, as_table):
    bad = sparse.coo_array(VIEWS[0]).asformat(form)
    indices = bad.indices if form != "coo" else bad.coords[1]
    indices[3] = index if form != "csc" or index < 0 else index + len(VIEWS[0])
    X = bad if as_table else {"good": VIEWS[1], "X": bad}
    with pytest.raises(
        ValueError, match=r"view 'X' is a damaged sparse matrix \(.*; build it anew"
    ):
        model().fit(X)


def test_a_sparse_matrix_whose_rows_overlap_is_refused():
    bad = sparse.csr_array(VIEWS[0])
    bad.indptr[5] = bad.indptr[-1]
    with pytest.raises(ValueError, match=r"view 'X' is a damaged sparse matrix"):
        model().fit(bad)


# Values far from zero, huge and tiny


@pytest.mark.sampled
@pytest.mark.parametrize("scale", ["auto", "feature", "view", "sample", None])
@pytest.mark.parametrize("offset", [3e6, -1e5])
def test_float32_far_from_zero_gives_the_clusters_that_float64_gives(scale, offset):
    narrow = [(X + offset).astype(np.float32) for X in VIEWS]
    wide = [X.astype(np.float64) for X in narrow]
    one, other = (model(scale=scale).fit(X) for X in (narrow, wide))
    assert ari(one.labels_, other.labels_) > 0.97
    assert ari(one.predict(narrow), one.labels_) > 0.97
    if scale != "sample":  # which loses the classes at this offset in any type
        assert ari(one.labels_, CLASSES) > 0.9


@pytest.mark.sampled
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("factor", [1e155, 1e200, 1e300])
def test_huge_values_are_refused_or_do_no_harm(make, factor):
    X = {"usual": VIEWS[0], "huge": make(factor * VIEWS[1])}
    for scale in ("auto", "feature", "view", None):
        with pytest.raises(ValueError, match=r"view 'huge' holds values too large to be squared"):
            model(scale=scale).fit(X)
    usual = {"usual": VIEWS[0], "huge": make(VIEWS[1])}
    for scale in ("sample", "unit"):
        one, other = (model(scale={"huge": scale}).fit(views) for views in (X, usual))
        assert ari(one.labels_, other.labels_) > 0.99


def test_huge_values_of_a_sample_beside_ordinary_ones():
    X = VIEWS[0].copy()
    X[::2] *= 1e160
    for make in (np.asarray, sparse.csr_array):
        one, other = (model(scale="sample").fit([make(views)]) for views in (X, VIEWS[0]))
        assert ari(one.labels_, other.labels_) > 0.99


@pytest.mark.parametrize(("factor", "what"), [(1e30, "large"), (1e-30, "small")])
def test_values_whose_squares_leave_float32_are_refused_unscaled(factor, what):
    X = {"odd": (factor * VIEWS[0]).astype(np.float32)}
    message = rf"view 'odd' holds values too {what} to be squared in float32.*or pass float64"
    with pytest.raises(ValueError, match=message):
        model(scale=None).fit(X)
    assert ari(model().fit(X).labels_, CLASSES) > 0.9


def test_huge_values_of_new_samples_are_refused():
    fitted = model(scale=None).fit(VIEWS)
    with pytest.raises(ValueError, match=r"view 'view1' holds values too large for products"):
        fitted.predict([1e308 * np.sign(VIEWS[0]), VIEWS[1]])


# Checkpoints


@pytest.mark.slow
def test_a_checkpoint_of_other_anchors_is_refused(tmp_path):
    state = tmp_path / "state"
    anchors = [X[:20].copy() for X in VIEWS]
    others = [X[20:40].copy() for X in VIEWS]

    def stop(*_, **__):
        raise KeyboardInterrupt

    first = model(anchors=anchors, checkpoint=state, scale=None, tol=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omcal.places.memory.MemoryRows.assign", stop)
        with pytest.raises(KeyboardInterrupt):
            first.fit(VIEWS)
    assert state.exists()
    for other in (others, [anchors[0], others[1]], "kmeans", "random"):
        again = model(anchors=other, n_anchors=20, checkpoint=state, scale=None, tol=0)
        with pytest.raises(ValueError, match=r"belongs to another fit \(anchors: "):
            again.fit(VIEWS)
