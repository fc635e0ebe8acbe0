"""What every baseline promises: scikit-learn's conventions, clear clusters, seeds, any input."""

import tracemalloc

import numpy as np
import pytest
from common_cases import (
    ALL,
    METHODS,
    VARIANTS,
    along_a_line,
    clear_data,
    each,
    given,
    in_blocks,
    name,
    of,
    on_axes,
    positive_only,
    scales_samples,
    seeded,
    takes_views,
    unclear_data,
)
from real_views import load_coil, load_wiki
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from docstrings import entries, sections
from omcal.baselines import (
    AMGL,
    BKM,
    CGFKM,
    ECPCS,
    FNMTF,
    FSMSC,
    MCGC,
    MLAN,
    MVSCHFD,
    SMC,
    SMCOCL,
    NMFClustering,
    UOMvSC,
)
from omcal.metrics import ari, clustering_accuracy

# SLMVGC seldom settles in the number of rounds of its authors, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def expected_failures(estimator):
    if positive_only(estimator):
        return {"check_clustering": "its data is negative, whatever the tag positive_only says"}
    return {}


# All baselines share the class that reads the views and checks the parameters.
CHECKED_OFTEN = of(AMGL, BKM, MLAN, among=METHODS)
CHECKED_SELDOM = [method for method in METHODS if method not in CHECKED_OFTEN]


@pytest.mark.slow
@parametrize_with_checks(
    [type(method)() for method in CHECKED_OFTEN], expected_failed_checks=expected_failures
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks(
    [*(type(method)() for method in CHECKED_SELDOM), *of(BKM, ECPCS, among=VARIANTS)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions_of_the_others(estimator, check):
    check(estimator)


@pytest.mark.slow
@clear_data(ALL, one=True)
def test_finds_clear_clusters(method, X, y):
    model = seeded(method).fit(given(method, X))
    assert ari(y, model.labels_) == 1
    assert set(model.labels_) == {0, 1, 2}


@pytest.mark.slow
@unclear_data(ALL)
def test_same_seed_same_result(method, X):
    first, second = (seeded(method).fit(given(method, X)) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, second.labels_)
    if hasattr(first, "objective_"):
        np.testing.assert_array_equal(first.objective_, second.objective_)
        assert np.size(first.objective_) == objectives_kept(first)


@pytest.mark.slow
@clear_data(METHODS, one=True)
def test_the_attributes_that_the_docstring_promises_are_there(method, X, y):
    model = seeded(method).fit(given(method, X))
    promised = entries(sections(type(method))["Attributes"])
    assert "labels_" in promised
    for attribute in promised:
        assert hasattr(model, attribute), attribute
    without = {"ECPCS", "SC", "SNF", "NEMO", "ConcatKMeans", "BestSingleView", "ConcatSpectral"}
    for attribute in ("objective_", "n_iter_"):
        assert hasattr(model, attribute) == (type(method).__name__ not in without)


def objectives_kept(model):
    if isinstance(model, NMFClustering):  # of the last iteration alone
        return 1
    if isinstance(model, CGFKM):  # after each of the two steps of a round
        return 2 * model.n_iter_
    return model.n_iter_ + isinstance(model, BKM | FNMTF)  # these also have that of the start


@pytest.mark.parametrize(
    ("method", "make", "noise", "least_ratio"),
    [
        (AMGL(3), along_a_line, 10 * np.random.RandomState(3).rand(75, 3), 2),
        (MLAN(3), in_blocks, np.random.RandomState(3).randn(75, 6), 2),
        (MVSCHFD(3), on_axes, np.random.RandomState(3).randn(75, 6), 1.3),
        (UOMvSC(3), on_axes, np.random.RandomState(3).randn(75, 6), 1.5),
        (SMCOCL(3), on_axes, np.random.RandomState(3).randn(75, 6), 2),
    ],
    ids=lambda value: name(value) if hasattr(value, "fit") else "",
)
def test_informative_view_weighs_more(method, make, noise, least_ratio):
    X, _ = make(spread=1)
    weights = seeded(method).fit([noise, X[0]]).view_weights_
    assert weights[1] > least_ratio * weights[0]


@pytest.mark.slow
@clear_data(METHODS + of(MLAN, MCGC, ECPCS, among=VARIANTS), luck=True, one=True)
def test_sparse_views_give_the_labels_of_dense_ones(method, X, y):
    X = [np.where(np.abs(x) > 1, x, 0) for x in X]
    dense = seeded(method).fit_predict(given(method, X))
    all_sparse = [sparse.csr_array(x) for x in X]
    for views in (all_sparse, [X[0], all_sparse[1]])[: 1 + takes_views(method)]:
        assert ari(dense, seeded(method).fit_predict(given(method, views))) == 1


# The others need each view dense: they refuse it where it does not fit, see the tests of memory.
@pytest.mark.memory
@each([method for method in ALL if not (scales_samples(method) or isinstance(method, MVSCHFD))])
def test_wide_sparse_views_stay_sparse(method):
    rng = np.random.RandomState(0)
    n, d = 60, 60_000
    y = np.repeat(np.arange(3), n // 3)
    rows = np.repeat(np.arange(n), 30)
    own = rng.randint(40, size=n * 30) + 40 * np.repeat(y, 30)
    columns = np.r_[own, rng.randint(d, size=n * 30)]
    X = sparse.csr_array((np.ones(n * 60), (np.r_[rows, rows], columns)), shape=(n, d))
    # Most terms occur in one sample alone: scaled to unit variance they would drown the others.
    parameters = {"scale": None} if "scale" in method.get_params() else {}
    tracemalloc.start()
    try:
        labels = seeded(method, **parameters).fit_predict([X, X] if takes_views(method) else X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ari(y, labels) == 1
    assert peak < 0.5 * n * d * 8


@pytest.mark.slow
@each([method for method in METHODS if takes_views(method)])
def test_mapping_and_table_are_the_same_as_a_list(method):
    X = [np.random.RandomState(1).randn(75, width) for width in (6, 4)]
    labels = seeded(method).fit_predict(X)
    named = {"first": X[0], "second": X[1]}
    np.testing.assert_array_equal(labels, seeded(method).fit_predict(named))
    table = seeded(method, views=[slice(0, 6), slice(6, 10)])
    np.testing.assert_array_equal(labels, table.fit_predict(np.hstack(X)))


@each([method for method in ALL if not takes_views(method)])
def test_several_views_are_refused(method):
    X = np.ones((10, 2))
    with pytest.raises(ValueError, match="takes one view and X holds 2"):
        seeded(method).fit([X, X])


# Measured with seed 0; the notes of each class compare such figures with the published code.
@pytest.mark.parametrize(
    ("method", "coil", "wiki"),
    [
        (FSMSC(), 1.0, 0.234),
        pytest.param(MVSCHFD(), 1.0, 0.5395, marks=pytest.mark.long),
        pytest.param(UOMvSC(), 1.0, 0.3828, marks=pytest.mark.long),
        pytest.param(SMC(), 0.86, 0.565, marks=pytest.mark.long),
    ],
    ids=name,
)
def test_accuracy_on_real_data(shared, method, coil, wiki):
    X, y = load_coil(shared)
    assert clustering_accuracy(y, seeded(method, n_clusters=20).fit_predict(X)) == approx(coil)
    X, y = load_wiki(shared)
    assert clustering_accuracy(y, seeded(method, n_clusters=10).fit_predict(X)) == approx(wiki)


def approx(accuracy):
    return pytest.approx(accuracy, abs=0.003)
