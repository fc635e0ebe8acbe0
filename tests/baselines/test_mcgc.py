"""MCGC against the reference numbers."""

import numpy as np
import pytest
from real_views import load_coil, load_reference, stored_matrix

from omcal.baselines import components as mcgc
from omcal.baselines._graphs import component_labels
from omcal.baselines.components import MCGC
from omcal.metrics import ari, clustering_accuracy


@pytest.fixture(scope="module")
def reference(shared):
    views, stored = load_reference(shared, "mcgc")
    return views, stored, MCGC(int(stored["n_clusters"])).fit(views)


def test_equals_the_reference(reference):
    views, stored, model = reference
    for v in range(len(views)):
        W = stored_matrix(stored, f"W_v{v}")
        np.testing.assert_allclose(model.view_graphs_[v].toarray(), W, atol=1e-7)
    assert model.view_components_ == stored["W_n_components"].tolist()
    np.testing.assert_allclose(model.graph_.toarray(), stored_matrix(stored, "S"), atol=1e-8)
    assert ari(stored["labels"], model.labels_) == 1


def test_objective_falls(reference):
    *_, model = reference
    assert len(model.objective_) == model.n_iter_ == 5
    assert np.all(np.diff(model.objective_) < 0)


def test_mean_consensus_is_another_method(reference):
    views, stored, _ = reference
    model = MCGC(int(stored["n_clusters"]), consensus="mean").fit(views)
    difference = np.abs(model.graph_.toarray() - stored_matrix(stored, "S")).max()
    assert difference == pytest.approx(0.98, abs=0.005)  # measured with the authors' program
    assert ari(stored["labels"], model.labels_) == pytest.approx(0.45, abs=0.005)


def test_block_size_does_not_matter(reference, monkeypatch):
    views, _, model = reference
    monkeypatch.setattr(mcgc, "_BLOCK_ENTRIES", 1000)
    again = MCGC(7).fit(views)
    np.testing.assert_allclose(again.graph_.toarray(), model.graph_.toarray(), atol=1e-10)


def test_edges_beyond_the_neighbours_where_asked_for():
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), 25)
    X = [rng.randn(75, 3) + 8 * y[:, None], rng.randn(75, 2) - 8 * y[:, None]]
    local, free = MCGC(3, n_neighbors=6).fit(X), MCGC(3, n_neighbors=6, local=False).fit(X)
    assert ari(y, local.labels_) == ari(y, free.labels_) == 1
    assert free.view_graphs_[0].nnz > local.view_graphs_[0].nnz
    for W in free.view_graphs_:
        assert W.sum() == pytest.approx(75)
        assert len(np.unique(component_labels(W))) == 3


@pytest.mark.long
@pytest.mark.parametrize(("consensus", "accuracy"), [("sum", 1.0), ("mean", 0.9493)])
def test_coil(shared, consensus, accuracy):
    X, y = load_coil(shared)
    model = MCGC(20, consensus=consensus).fit(X)
    assert clustering_accuracy(y, model.labels_) == pytest.approx(accuracy, abs=5e-5)
