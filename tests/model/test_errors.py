"""Bad input is refused with the parameter, the value and a remedy; odd input works."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from omcal import OCAL, OMCAL
from omcal.metrics import ari


def groups(n=60, n_groups=3, widths=(4, 3), spread=6.0, seed=0):
    """Two views of clear groups, and the group of each sample."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_groups
    return [spread * rng.normal(size=(n_groups, d))[y] + rng.normal(size=(n, d)) for d in widths], y


@pytest.fixture
def views():
    return groups()[0]


def model(**settings):
    return OMCAL(**{"n_clusters": 3, "tol": 1e-4, "random_state": 0, **settings})


@contextmanager
def noted_warnings():
    """A list of the warnings given, none of which is an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


# The data


def test_views_of_different_lengths(views):
    A, B = views
    with pytest.raises(
        ValueError, match=r"'image': 60 × 4, 'text': 50 × 3\); row i must be the same"
    ):
        model().fit({"image": A, "text": B[:50]})
    with pytest.raises(ValueError, match=r"'view1': 60 × 4, 'view2': 0 × 3"):
        model().fit([A, B[:0]])


@pytest.mark.parametrize("X", [[], (), {}])
def test_no_view(X):
    with pytest.raises(ValueError, match=r"X holds no view; give at least one 2-D array"):
        model().fit(X)


def test_empty_views(views):
    A, B = views
    with pytest.raises(ValueError, match=r"view 'view2'.*0 feature\(s\)"):
        model().fit([A, B[:, :0]])
    with pytest.raises(ValueError, match=r"view 'b'.*0 feature\(s\)"):
        model().fit({"a": A, "b": sparse.csr_array((60, 0))})
    with pytest.raises(ValueError, match=r"0 sample\(s\).*minimum of 2"):
        model().fit([A[:0], B[:0]])
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        model().fit(A[:, :0])


def test_one_sample(views):
    with pytest.raises(ValueError, match=r"1 sample"):
        model(n_clusters=1).fit([X[:1] for X in views])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, np.asfortranarray])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_and_infinity_are_counted_in_their_view(views, make, dtype):
    A, B = (X.astype(dtype) for X in views)
    B[1, 2], B[5, 0], B[7, 1] = np.nan, np.inf, -np.inf
    message = r"view 'text' contains 1 NaN and 2 inf.*; remove or impute"
    with pytest.raises(ValueError, match=message):
        model().fit({"image": make(A), "text": make(B)})
    fitted = model().fit({"image": A, "text": np.nan_to_num(B, posinf=1, neginf=1)})
    with pytest.raises(ValueError, match=message):
        fitted.predict({"text": make(B), "image": make(A)})


def test_nan_in_one_table_names_its_view(views):
    table = np.hstack(views)
    table[3, 5] = np.nan
    with pytest.warns(UserWarning, match=r"view 'b' lacks 1 of its values"):
        model(views={"a": slice(0, 4), "b": slice(4, 7)}).fit(table)


def test_nan_in_a_column_that_no_view_uses(views):
    table = np.hstack([*views, np.full((60, 1), np.nan)])
    split = {"a": slice(0, 4), "b": slice(4, 7)}
    expected = model(views=split).fit(table[:, :7]).labels_
    np.testing.assert_array_equal(model(views=split).fit(table).labels_, expected)


@pytest.mark.parametrize(
    "bad", [np.array([["x", "y"]] * 60), np.array([["x", 1.0]] * 60, dtype=object)]
)
def test_text_is_not_numeric(views, bad):
    with pytest.raises(ValueError, match=r"view 'words'.*(numeric|string)"):
        model().fit({"image": views[0], "words": bad})


def test_complex_numbers(views):
    with pytest.raises(ValueError, match=r"view 'view2'.*[Cc]omplex"):
        model().fit([views[0], views[1] + 1j])


@pytest.mark.parametrize(
    ("bad", "what"),
    [(None, "None"), (np.zeros(60), r"\(60,\)"), (np.zeros((2, 3, 4)), r"\(2, 3, 4\)")],
)
def test_a_view_that_is_not_a_matrix(views, bad, what):
    with pytest.raises(ValueError, match=rf"view 'view2' is .*{what}; each view must be 2-D"):
        model().fit([views[0], bad])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_too_large_to_square(views):
    with pytest.raises(ValueError, match="large"):
        model(scale=None).fit([(1e30 * X).astype(np.float32) for X in views])


# The sizes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_clusters": 61}, r"n_clusters=61 .*n_samples=60"),
        ({"n_clusters": 8, "n_anchors": 7}, r"n_anchors=7 .*n_clusters=8; raise n_anchors"),
        ({"n_anchors": 61}, r"n_anchors=61 .*n_samples=60; lower n_anchors"),
        ({"n_anchors": 5}, r"n_neighbors=5 .*anchors, 5.*n_neighbors<=4 or n_anchors>=6"),
        ({"n_neighbors": 70}, r"n_neighbors=70 .*smaller than the number of anchors"),
    ],
)
def test_sizes_against_each_other(views, settings, message):
    with pytest.raises(ValueError, match=message):
        model(**settings).fit(views)


@pytest.mark.parametrize("n", [2, 5])
def test_very_few_samples_name_the_remedy(views, n):
    few = [X[:n] for X in views]
    with pytest.raises(ValueError, match=rf"n_neighbors=5 .*n_neighbors<={n - 1}"):
        model(n_clusters=2).fit(few)
    assert model(n_clusters=1, n_neighbors=n - 1).fit(few).labels_.tolist() == [0] * n


# The parameters


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_clusters", 0),
        ("n_clusters", 2.5),
        ("n_anchors", 0),
        ("n_neighbors", 0),
        ("beta", -0.1),
        ("beta", np.nan),
        ("beta", np.inf),
        ("beta", "0.3"),
        ("gamma", -1),
        ("gamma", np.nan),
        ("scale", "features"),
        ("weighting", "equal"),
        ("device", 3),
        ("anchors", "k-means"),
        ("init", "kmeans"),
        ("n_init", 0),
        ("max_iter", 0),
        ("tol", -1e-3),
        ("tol", np.nan),
        ("views", 2),
        ("random_state", "zero"),
        ("verbose", -1),
    ],
)
def test_values_out_of_range(views, name, value):
    message = rf"'{name}' parameter of OMCAL must be .*Got {value!r} instead"
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        model(**{name: value}).fit(views)


def test_unknown_device(views):
    with pytest.raises(ValueError, match=r"device='tpu' is not known; use 'cpu', 'cuda'"):
        model(device="tpu").fit(views)


@pytest.mark.parametrize(
    ("weighting", "message"),
    [
        ([1, 2, 3], r"weighting=\[1, 2, 3\].*one weight for each of the 2 views"),
        ([[1, 2]], r"weighting=\[\[1, 2\]\] has shape \(1, 2\)"),
        ([1, -1], r"weighting=\[1, -1\] must be non-negative"),
        ([0, 0], r"weighting=\[0, 0\] must be .*positive sum"),
        ([np.nan, 1], r"weighting=\[nan, 1\] must be non-negative"),
        (["a", "b"], r"weighting=\['a', 'b'\]"),
    ],
)
def test_wrong_weights(views, weighting, message):
    with pytest.raises(ValueError, match=message):
        model(weighting=weighting).fit(views)


def test_wrong_anchors(views):
    A, B = (X[:10] for X in views)
    with pytest.raises(
        ValueError, match=r"anchors has 1 arrays for 2 views; give one array a view"
    ):
        model(n_anchors=10, anchors=[A]).fit(views)
    with pytest.raises(ValueError, match=r"anchors .*\(9, 3\).*\(10, 4\), \(10, 3\).*n_anchors"):
        model(n_anchors=10, anchors=[A, B[:9]]).fit(views)
    with pytest.raises(ValueError, match=r"anchors .*\(10, 3\).*\(10, 4\)"):
        model(n_anchors=10, anchors=[B, A]).fit(views)
    with pytest.raises(ValueError, match=r"anchors contain NaN or infinity; give finite"):
        model(n_anchors=10, anchors=[A, np.full_like(B, np.nan)]).fit(views)
    with pytest.raises(ValueError, match=r"anchors"):
        model(n_anchors=10, anchors=[A, np.full(B.shape, "x")]).fit(views)


def test_wrong_init(views):
    good = np.eye(12, 3)
    assert model(n_anchors=12, init=good, max_iter=500).fit(views).basis_.shape == (12, 3)
    with pytest.raises(ValueError, match=r"init has shape \(11, 3\).*\(12, 3\)"):
        model(n_anchors=12, init=good[:11]).fit(views)
    with pytest.raises(ValueError, match=r"init has shape \(12,\).*\(12, 3\)"):
        model(n_anchors=12, init=np.ones(12)).fit(views)
    for bad in (2 * good, np.ones((12, 3)), np.full((12, 3), np.nan)):
        with pytest.raises(ValueError, match=r"init is not orthonormal.*numpy.linalg.qr"):
            model(n_anchors=12, init=bad).fit(views)


def test_a_beta_that_removes_the_graph(views):
    with pytest.raises(ValueError, match=r"beta=1000 removes .*use beta well below \d"):
        model(beta=1000).fit(views)


# predict


def test_predict_before_fit(views):
    for method in ("predict", "transform"):
        with pytest.raises(NotFittedError, match=r"OMCAL .*not fitted.*'fit'"):
            getattr(model(), method)(views)


def test_predict_with_other_views(views):
    A, B = views
    fitted = model().fit({"a": A, "b": B})
    with pytest.raises(ValueError, match=r"1 views? .*fitted on 2: \['a', 'b'\]"):
        fitted.predict([A])
    with pytest.raises(ValueError, match=r"3 views? .*fitted on 2"):
        fitted.predict([A, B, B])
    with pytest.raises(ValueError, match=r"view 'b' has 2 features .*fitted on 3"):
        fitted.predict([A, B[:, :2]])
    with pytest.raises(ValueError, match=r"view 'a' has 3 features .*fitted on 4"):
        fitted.predict([B, A])
    with pytest.raises(ValueError, match=r"\['a', 'c'\] .*\['a', 'b'\]; use the same names"):
        fitted.predict({"a": A, "c": B})
    with pytest.raises(ValueError, match=r"1 view.*fitted on 2"):
        fitted.predict(np.hstack([A, B]))
    with pytest.raises(ValueError, match=r"different numbers of samples"):
        fitted.predict([A, B[:9]])
    with pytest.raises(ValueError, match=r"0 sample"):
        fitted.predict([A[:0], B[:0]])


# Odd data that work


def test_constant_features(views):
    A, B = views
    padded = [np.hstack([A, np.full((60, 2), 7.7)]), np.hstack([np.zeros((60, 1)), B])]
    np.testing.assert_array_equal(model().fit(padded).labels_, model().fit(views).labels_)


@pytest.mark.sampled
@pytest.mark.parametrize("scale", ["feature", "sample", "view", None])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e5 / 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_view_that_says_nothing_is_reported_or_ignored(scale, value, dtype):
    (A, B), y = groups()
    views = {"a": A, "b": B, "flat": np.full((60, 3), value)}
    with noted_warnings() as caught:
        labels = model(scale=scale).fit({k: X.astype(dtype) for k, X in views.items()}).labels_
    named = any("'flat'" in str(warning.message) for warning in caught)
    assert named or ari(y, labels) > 0.95


def test_duplicate_samples_share_their_cluster():
    views, y = groups(n=30)
    twice = [np.repeat(X, 4, axis=0) for X in views]
    labels = model().fit(twice).labels_.reshape(30, 4)
    assert (labels == labels[:, :1]).all()
    assert ari(y, labels[:, 0]) == 1


def test_fewer_distinct_samples_than_anchors():
    distinct = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    X = np.repeat(distinct, 20, axis=0)
    labels = model(scale=None, n_init=5).fit([X, X]).labels_.reshape(3, 20)
    assert (labels == labels[:, :1]).all()
    assert len(set(labels[:, 0])) == 3


def test_all_zero_rows(views):
    A, B = (X.copy() for X in views)
    A[::7], B[::7] = 0, 0
    for make in (np.asarray, sparse.csr_array):
        for scale in ("feature", "sample", "view", None):
            fitted = model(scale=scale, max_iter=1000).fit([make(A), make(B)])
            assert len(set(fitted.labels_[::7])) == 1
            assert np.isfinite(fitted.transform([make(A), make(B)])).all()


def test_samples_on_a_grid_tie_everywhere():
    X = np.array([[i, j] for i in range(8) for j in range(8)], dtype=np.float64)
    fitted = OCAL(4, scale=None, random_state=0, tol=1e-4, max_iter=1000).fit(X)
    assert np.isfinite(fitted.objective_).all()
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)


@pytest.mark.parametrize("weighting", ["adaptive", "agreement", "uniform"])
def test_one_cluster(views, weighting):
    fitted = model(n_clusters=1, weighting=weighting, max_iter=1000).fit(views)
    assert set(fitted.labels_) == {0}
    assert set(fitted.predict(views)) == {0}


def test_one_sample_per_cluster():
    X = 100 * np.eye(7)
    with noted_warnings() as caught:
        fitted = OCAL(7, n_neighbors=1, beta=0.0, scale=None, random_state=0).fit(X)
    found = len(set(fitted.labels_))
    assert found == 7 or any(f"only {found} of n_clusters=7" in str(w.message) for w in caught)


def test_one_view_in_a_list(views):
    one = model().fit([views[0]])
    np.testing.assert_array_equal(one.labels_, model().fit(views[0]).labels_)
    np.testing.assert_array_equal(one.view_weights_, [1])


def test_the_same_view_twice(views):
    A, _ = views
    twice = model().fit([A, A])
    assert twice.view_weights_.sum() == pytest.approx(1)
    assert ari(model().fit([A]).labels_, twice.labels_) > 0.95


@pytest.mark.parametrize(("beta", "gamma"), [(0, 0), (0, 1), (0.3, 0), (0.3, 1e-12)])
def test_parameters_at_the_edge(views, beta, gamma):
    fitted = model(beta=beta, gamma=gamma, max_iter=2000).fit(views)
    assert np.isfinite(fitted.objective_).all()
    assert (fitted.transform(views) >= 0).all()


def test_a_cluster_that_ends_empty_is_reported():
    X = np.repeat([[0.0, 0.0], [10.0, 10.0]], 30, axis=0)
    with pytest.warns(
        ConvergenceWarning, match=r"only \d of n_clusters=6 clusters hold samples; l"
    ):
        OCAL(6, scale=None, random_state=0).fit(X)


def test_too_few_iterations_are_reported(views):
    with pytest.warns(ConvergenceWarning, match=r"tol=1e-09 after max_iter=2 .*raise max_iter"):
        fitted = model(tol=1e-9, max_iter=2).fit(views)
    assert (fitted.converged_, fitted.n_iter_) == (False, 2)
