"""MLAN against the reference numbers, in all its variants."""

import warnings

import numpy as np
import pytest
from real_views import load_reference, load_wiki, stored_matrix
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines.components import MLAN
from omcal.metrics import ari, clustering_accuracy


@pytest.mark.parametrize("normalize", [None, "sample"])
@pytest.mark.parametrize("lambda0", [1, 10])
@pytest.mark.parametrize("weights", ["compound", "fresh"])
def test_equals_the_reference(shared, normalize, lambda0, weights):
    views, stored = load_reference(shared, "mlan")
    model = MLAN(int(stored["n_clusters"]), lambda0=lambda0, weights=weights, normalize=normalize)
    with warnings.catch_warnings():
        # One of the eight ends at the cap with 4 components.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(views)
    prefix = f"z{0 if normalize is None else 1}_l{lambda0}_"
    prefix += "fresh_" if weights == "fresh" else ""
    assert model.n_iter_ == stored[prefix + "n_iter"]
    assert len(np.unique(model.labels_)) == stored[prefix + "n_components"]
    assert ari(stored[prefix + "labels"], model.labels_) == 1
    np.testing.assert_allclose(model.view_weights_, stored[prefix + "weights"], rtol=1e-8)
    graph = stored_matrix(stored, prefix + "S")
    np.testing.assert_allclose(model.graph_.toarray(), graph, atol=1e-8)


def test_warns_at_the_cap_and_of_the_number_of_clusters(shared):
    views, _ = load_reference(shared, "mlan")
    with pytest.warns(ConvergenceWarning) as caught:
        MLAN(7).fit(views)
    messages = " ".join(str(warning.message) for warning in caught)
    assert "max_iter=30" in messages
    assert "found 4 clusters" in messages


@pytest.mark.slow
def test_warns_of_a_graph_in_too_many_pieces():
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(5), 10)
    X = rng.randn(50, 3) + 100 * y[:, None]
    with pytest.warns(ConvergenceWarning) as caught:
        model = MLAN(3, n_neighbors=4).fit([X, X])
    assert any("raise n_neighbors" in str(warning.message) for warning in caught)
    assert ari(y, model.labels_) == 1


def test_graph_has_the_promised_form():
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), 20)
    X = [rng.randn(60, 4) + 2.5 * y[:, None], rng.randn(60, 2) - 4 * y[:, None]]
    model = MLAN(3).fit(X)
    S = model.graph_.toarray()
    np.testing.assert_array_equal(S, S.T)
    assert S.min() >= 0
    assert S.sum() == pytest.approx(60)
    np.testing.assert_array_equal(np.diag(S), 0)
    assert len(model.objective_) == model.n_iter_
    spread = [np.sum(S * ((x[:, None] - x) ** 2).sum(axis=2)) for x in X]
    regularizer = (model.objective_[-1] - np.sqrt(spread).sum()) / np.sum(S**2)
    assert regularizer > 0


# Measured with an independent program.
@pytest.mark.parametrize(
    ("weights", "n_iter", "accuracy"),
    [pytest.param("fresh", 9, 0.4124, marks=pytest.mark.long), ("compound", 8, 0.4588)],
)
def test_wiki(shared, weights, n_iter, accuracy):
    X, y = load_wiki(shared)
    model = MLAN(10, weights=weights).fit(X)
    assert model.n_iter_ == n_iter
    assert clustering_accuracy(y, model.labels_) == pytest.approx(accuracy, abs=5e-5)
