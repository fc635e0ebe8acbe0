"""OMCAL, OCAL and Consensus as scikit-learn estimators."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from omcal import OCAL, OMCAL, Consensus
from omcal.metrics import ari
from omcal.places import base


class Settable(Consensus):
    """With a number of clusters that can be set, as some of the checks do with all clusterers."""

    @property
    def n_clusters(self):
        return super().n_clusters

    @n_clusters.setter
    def n_clusters(self, n_clusters):
        self.set_params(n_clusters=n_clusters)

    def set_params(self, *, n_clusters=None, **params):
        if n_clusters is not None:
            params["estimator"] = OMCAL(n_clusters)
        return super().set_params(**params)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the runs differ")  # two runs on the noise of some checks
@parametrize_with_checks(
    [
        OMCAL(),
        OCAL(),
        OMCAL(n_clusters=2, views=[slice(0, 1), slice(0, None)], weighting="agreement", n_init=2),
        Settable(n_runs=2),
    ],
    # They ask whoever has predict_proba for the tags of a classifier, which a clusterer has not.
    expected_failed_checks=lambda _: dict.fromkeys(
        ("check_estimator_sparse_array", "check_estimator_sparse_matrix"), "tags of a classifier"
    ),
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    """One table of 300 × 7, four groups, whose first 4 and last 3 columns are two views."""
    return make_blobs(300, n_features=7, centers=4, cluster_std=1.5, random_state=3)


VIEWS = {"a": slice(0, 4), "b": slice(4, 7)}


def model(**settings):
    defaults = {"n_clusters": 4, "views": VIEWS, "tol": 1e-4, "max_iter": 300, "random_state": 0}
    return OMCAL(**{**defaults, **settings})


# Composition


def test_pipeline(blobs):
    X, y = blobs
    pipeline = make_pipeline(MinMaxScaler(), model())
    labels = pipeline.fit_predict(X)
    assert ari(y, labels) > 0.9
    assert pipeline.predict(X[:9]).shape == (9,)
    assert pipeline.transform(X[:9]).shape == (9, 4)
    columns = ["omcal0", "omcal1", "omcal2", "omcal3"]
    assert pipeline.get_feature_names_out().tolist() == columns


@pytest.mark.slow
def test_grid_search(blobs):
    X, y = blobs
    search = GridSearchCV(
        model(),
        {"n_clusters": [2, 4], "views": [VIEWS, None]},
        scoring="adjusted_rand_score",
        cv=3,
        error_score="raise",
    )
    search.fit(X, y)
    assert search.best_params_["n_clusters"] == 4
    assert search.best_score_ > 0.9


@pytest.mark.parametrize("as_table", [True, False])
def test_output_as_a_data_frame(blobs, as_table):
    pd = pytest.importorskip("pandas")
    X, _ = blobs
    index = np.arange(300)[::-1]
    frame = pd.DataFrame(X, index=index).add_prefix("x")
    estimator = model(views=VIEWS if as_table else None).set_output(transform="pandas")
    data = frame if as_table else [frame.iloc[:, :4], frame.iloc[:, 4:]]
    out = estimator.fit_transform(data)
    assert list(out.columns) == ["omcal0", "omcal1", "omcal2", "omcal3"]
    assert len(out) == 300
    np.testing.assert_array_equal(out.to_numpy(), estimator.transform(data).to_numpy())
    if as_table:
        assert list(out.index) == list(index)


@pytest.mark.parametrize("cls", [OMCAL, OCAL])
def test_names_of_the_output(blobs, cls):
    fitted = cls(3, random_state=0, tol=1e-3).fit(blobs[0])
    prefix = cls.__name__.lower()
    assert fitted.get_feature_names_out().tolist() == [f"{prefix}{j}" for j in range(3)]


def test_names_of_a_data_frame_are_kept_and_compared(blobs):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(blobs[0]).add_prefix("x")
    fitted = model().fit(frame)
    assert fitted.feature_names_in_.tolist() == list(frame)
    turned = frame[list(frame)[::-1]]
    np.testing.assert_array_equal(fitted.predict(turned), fitted.predict(frame))
    with pytest.raises(ValueError, match=r"feature names.*'x0' missing"):
        fitted.predict(frame.rename(columns={"x0": "y"}))
    refitted = fitted.set_params(views=None).fit([blobs[0][:, :4], blobs[0][:, 4:]])
    assert not hasattr(refitted, "feature_names_in_")


# Parameters and state


def test_clone_and_parameters_survive_a_fit(blobs):
    X, _ = blobs
    anchors = [X[:20, :4].copy(), X[:20, 4:].copy()]
    init = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 4)))[0]
    weights = [0.3, 0.7]
    estimator = model(anchors=anchors, init=init, weighting=weights, n_anchors=20, scale=None)
    before = {name: pickle.dumps(value) for name, value in estimator.get_params().items()}
    identities = {name: id(value) for name, value in estimator.get_params().items()}
    estimator.fit(X)
    for name, value in estimator.get_params().items():
        assert pickle.dumps(value) == before[name], name
        assert id(value) == identities[name], name
    twin = clone(estimator).fit(X)
    np.testing.assert_array_equal(twin.labels_, estimator.labels_)
    assert not hasattr(clone(estimator), "labels_")


def test_the_fitted_state_is_not_the_users_arrays(blobs):
    X, _ = blobs
    anchors = [X[:20, :4].copy(), X[:20, 4:].copy()]
    fitted = model(anchors=anchors, n_anchors=20, scale=None).fit(X)
    expected = fitted.predict(X)
    for a in anchors:
        a[:] = 0
    np.testing.assert_array_equal(fitted.predict(X), expected)


@pytest.mark.parametrize("views", [VIEWS, None])
def test_pickle(blobs, views):
    X, _ = blobs
    fitted = model(views=views).fit(X)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.labels_, fitted.labels_)
    np.testing.assert_array_equal(copy.transform(X), fitted.transform(X))
    assert copy.get_params().keys() == fitted.get_params().keys()


def test_fitted_attributes(blobs):
    X, _ = blobs
    fitted = model(n_anchors=15).fit(X)
    assert fitted.labels_.shape == (300,)
    assert np.issubdtype(fitted.labels_.dtype, np.integer)
    assert set(fitted.labels_) == set(range(4))
    assert fitted.view_weights_.shape == (2,)
    assert fitted.view_weights_.sum() == pytest.approx(1)
    assert fitted.basis_.shape == (15, 4)
    np.testing.assert_allclose(fitted.basis_.T @ fitted.basis_, np.eye(4), atol=1e-10)
    assert [a.shape for a in fitted.anchors_] == [(15, 4), (15, 3)]
    assert fitted.objective_.shape == (fitted.n_iter_,)
    assert fitted.converged_ is True
    assert fitted.n_features_in_ == 7
    assert fitted.n_features_per_view_ == [4, 3]
    assert fitted.view_names_ == ["a", "b"]


def test_the_same_seed_gives_the_same_and_fit_returns_self(blobs):
    X, _ = blobs
    estimator = model()
    assert estimator.fit(X) is estimator
    first = estimator.labels_.copy()
    np.testing.assert_array_equal(estimator.fit(X).labels_, first)
    np.testing.assert_array_equal(model().fit_predict(X), first)
    seeded = model(random_state=np.random.RandomState(0)).fit(X)
    np.testing.assert_array_equal(seeded.labels_, first)


def test_given_anchors_and_init_make_the_fit_deterministic(blobs):
    X, _ = blobs
    anchors = [X[:20, :4], X[:20, 4:]]
    init = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 4)))[0]
    fits = [
        model(anchors=anchors, init=init, n_anchors=20, scale=None, random_state=seed).fit(X)
        for seed in (0, 1)
    ]
    np.testing.assert_array_equal(fits[0].objective_, fits[1].objective_)
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)


@pytest.mark.slow
def test_the_best_of_several_starts_is_kept(monkeypatch):
    ends, plain = [], base.solve

    def noted(*given):
        solution = plain(*given)
        ends.append(solution.history)
        return solution

    monkeypatch.setattr(base, "solve", noted)
    X = np.random.default_rng(0).normal(size=(150, 6))
    best = []
    for seed in range(5):
        ends.clear()
        found = OCAL(6, init="random", n_init=5, random_state=seed).fit(X)
        best.append(int(np.argmin([history[-1] for history in ends])))
        assert len(ends) == 5
        np.testing.assert_array_equal(found.objective_, ends[best[-1]])
    assert len(set(best)) > 1  # it is not always the same one


def test_ocal_is_omcal_with_one_view(blobs):
    X, _ = blobs
    settings = {"n_clusters": 4, "random_state": 0, "tol": 1e-4}
    one, many = OCAL(**settings).fit(X), OMCAL(**settings).fit(X)
    np.testing.assert_array_equal(one.labels_, many.labels_)
    np.testing.assert_allclose(one.objective_, many.objective_)
    np.testing.assert_array_equal(many.view_weights_, [1])


def test_ocal_refuses_several_views(blobs):
    X, _ = blobs
    with pytest.raises(ValueError, match=r"OCAL .*(one view|2 views).*OMCAL"):
        OCAL(4).fit([X[:, :4], X[:, 4:]])


# Labels, predict and transform agree


@pytest.mark.slow
@pytest.mark.parametrize("weighting", ["adaptive", "agreement", "uniform", [0.2, 0.8]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_predict_gives_the_training_labels_once_converged(weighting, dtype):
    digits = load_digits().data.astype(dtype)
    views = [digits[:, :32], digits[:, 32:]]
    fitted = OMCAL(
        10, weighting=weighting, tol=1e-7, max_iter=2000, accelerate=True, random_state=0
    ).fit(views)
    assert np.mean(fitted.predict(views) == fitted.labels_) >= 0.999
    F = fitted.transform(views)
    assert F.dtype == dtype
    assert (F >= 0).all()
    decided = F.max(axis=1) > 0
    assert np.mean(F.argmax(axis=1)[decided] == fitted.labels_[decided]) >= 0.999


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["feature", "sample", "view", None])
@pytest.mark.parametrize("gamma", [1e-5, 0.1, 1.0])
def test_predict_gives_the_training_labels_of_synthetic_data(blobs, scale, gamma):
    X, _ = blobs
    fitted = model(scale=scale, gamma=gamma, tol=1e-9, max_iter=5000, accelerate=True).fit(X)
    assert np.mean(fitted.predict(X) == fitted.labels_) >= 0.999
    np.testing.assert_array_equal(
        clone(fitted).fit_predict(X), fitted.labels_, err_msg="fit_predict is not labels_"
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", [1e5, 1e8])
def test_a_large_gamma_leaves_predict_finite(blobs, dtype, gamma):
    X = blobs[0].astype(dtype)
    fitted = model(gamma=gamma).fit(X)
    F = fitted.transform(X)
    assert np.isfinite(F).all()
    exact = fitted.transform(blobs[0])
    np.testing.assert_allclose(F, exact, rtol=1e-2, atol=1e-3 * exact.max())


def test_new_samples_go_to_the_cluster_of_their_group(blobs):
    X, y = blobs
    fitted = model().fit(X[:200])
    both = np.concatenate([fitted.labels_, fitted.predict(X[200:])])
    assert ari(y, both) > 0.9


def test_verbose_reports_through_the_logger(blobs, caplog):
    with caplog.at_level("INFO", logger="omcal"):
        model(verbose=2).fit(blobs[0])
    text = caplog.text
    assert "anchors" in text and "objective" in text
    caplog.clear()
    with caplog.at_level("INFO", logger="omcal"):
        model(verbose=0).fit(blobs[0])
    assert not caplog.records


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.coo_matrix, sparse.csc_matrix])
@pytest.mark.parametrize("estimator", [OMCAL(3, random_state=0), OCAL(3, random_state=0)])
def test_sparse_input_is_fitted_and_predicted(estimator, container):
    X = np.random.RandomState(0).uniform(size=(40, 3))
    X[X < 0.6] = 0
    fitted = clone(estimator).fit(container(X))
    assert fitted.predict(container(X)).shape == (40,)
    assert fitted.predict_proba(container(X)).shape == (40, 3)
