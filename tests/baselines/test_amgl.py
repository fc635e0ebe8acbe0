"""AMGL against the reference numbers, and the case its published formula cannot handle."""

import numpy as np
import pytest
from real_views import load_coil, load_reference
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines._graphs import neighbor_graph, normalized_adjacency
from omcal.baselines.amgl import AMGL
from omcal.metrics import ari, clustering_accuracy


def test_equals_the_reference(shared):
    views, stored = load_reference(shared, "amgl")
    model = AMGL(int(stored["n_clusters"]), random_state=0).fit(views)
    assert model.n_iter_ == len(stored["objective"])
    np.testing.assert_allclose(model.objective_, stored["objective"], rtol=1e-8)
    np.testing.assert_allclose(model.view_weights_, stored["weights"][-1], rtol=1e-8)
    projector = model.embedding_ @ model.embedding_.T
    np.testing.assert_allclose(projector, stored["projector"], atol=1e-8)


def two_noisy_views(seed=0, n=90):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % 3
    return [rng.randn(n, 4) + 2 * y[:, None], rng.randn(n, 3) - 3 * y[:, None]], y


def test_objective_is_that_of_the_embedding_and_falls():
    X, _ = two_noisy_views()
    model = AMGL(3, random_state=0).fit(X)
    F = model.embedding_
    traces = [np.trace(F.T @ (F - normalized_adjacency(neighbor_graph(x, 5)) @ F)) for x in X]
    np.testing.assert_allclose(model.objective_[-1], np.sqrt(traces).sum())
    np.testing.assert_allclose(model.view_weights_, 1 / (2 * np.sqrt(traces)))
    # The first embedding is made with equal weights; from it on each step is a descent.
    assert np.all(np.diff(model.objective_) <= 1e-9)


def test_views_whose_graphs_fall_apart_as_wanted():
    X, y = two_noisy_views()
    X = X[0] + 100 * y[:, None]
    model = AMGL(3, random_state=0).fit([X, X])
    assert ari(y, model.labels_) == 1
    np.testing.assert_allclose(model.view_weights_, 1 / 2e-6)  # the floor of the traces
    assert np.isfinite(model.objective_).all()


def test_warns_at_the_cap():
    X, _ = two_noisy_views()
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        AMGL(3, max_iter=2, random_state=0).fit(X)


@pytest.mark.long
def test_coil(shared):
    X, y = load_coil(shared)
    model = AMGL(20, random_state=0).fit(X)
    assert model.n_iter_ == 13
    assert clustering_accuracy(y, model.labels_) == 1
