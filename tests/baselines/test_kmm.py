"""KMM: the graph for fixed prototypes number by number, and the loop around it."""

from types import SimpleNamespace

import numpy as np
import pytest
from real_views import load_reference, stored_matrix
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs, make_circles
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines import kmm
from omcal.baselines._graphs import component_surplus
from omcal.baselines.kmm import KMM
from omcal.metrics import ari, evaluate


@pytest.fixture(scope="module")
def reference(shared):
    (X,), stored = load_reference(shared, "kmm_csbg")
    return X, stored


def test_first_graph(reference):
    X, stored = reference
    ties = kmm.BipartiteTies(X, stored["prototypes"], 5, "affinity")
    assert ties.samples.alpha == pytest.approx(float(stored["alpha"]), rel=1e-9)
    assert ties.prototypes.alpha == pytest.approx(float(stored["alphaT"]), rel=1e-9)
    first = ties.graph(ties.samples.affinities, ties.prototypes.affinities)
    np.testing.assert_allclose(first.toarray(), stored_matrix(stored, "graph_init"), atol=1e-9)


def test_published_form(reference, monkeypatch):
    X, stored = reference
    course = []  # λ and eigenvalues of each iteration

    class Followed(kmm.RankPenalty):
        def update(self, S):
            weight, done = self.weight, super().update(S)
            course.append((weight, self.values))
            return done

    monkeypatch.setattr(kmm, "RankPenalty", Followed)
    found = kmm.structured_graph(X, stored["prototypes"], 7, 5, "published_code")
    assert found.converged
    np.testing.assert_allclose(found.Z.toarray(), stored_matrix(stored, "graph"), atol=1e-8)
    weights, eigenvalues = map(np.array, zip(*course, strict=True))
    np.testing.assert_allclose(weights, stored["lambda_history"], rtol=1e-8)
    np.testing.assert_allclose(1 - eigenvalues, stored["eigenvalues"], atol=1e-8)
    np.testing.assert_array_equal(found.nearest, stored["sub_labels"])
    assert found.objective == pytest.approx(float(stored["objective"]), rel=1e-8)
    assert ari(stored["labels"], kmm.bipartite_labels(found.Z)) == 1


def test_default_form_has_c_components_too(reference):
    X, stored = reference
    found = kmm.structured_graph(X, stored["prototypes"], 7, 5, "affinity")
    assert found.converged
    assert len(np.unique(kmm.bipartite_labels(found.Z))) == 7
    np.testing.assert_allclose(found.Z.sum(axis=1), 1)
    assert ari(stored["labels"], kmm.bipartite_labels(found.Z)) < 1


def test_published_form_prefers_far_samples():
    """What the option is named for: more weight to the farthest of a prototype's samples."""
    rng = np.random.RandomState(0)
    X, A = 10 * rng.rand(60, 2), 10 * rng.rand(12, 2)
    flat = SimpleNamespace(weight=1.0, squared_distances=lambda rows, columns: 0.0)
    nearest = [
        kmm.BipartiteTies(X, A, 5, step).updated_graph(flat)
        for step in ("affinity", "published_code")
    ]
    squared = np.square(X[:, None] - A).sum(axis=2)
    mean_distance = [float((Z * squared).sum() / Z.sum()) for Z in nearest]
    assert mean_distance[0] < mean_distance[1]


def test_embedding_separates_components():
    Z = sparse.csr_array(np.kron(np.eye(3), np.full((4, 2), 0.5)))
    values, embedding = kmm.embed(Z, 3)
    np.testing.assert_allclose(values[:3], 0, atol=1e-7)
    assert component_surplus(values, 3, kmm._ZERO) == 0
    assert component_surplus(values, 2, kmm._ZERO) == 1
    assert component_surplus(kmm.embed(Z, 4)[0], 4, kmm._ZERO) == -1
    # Samples and prototypes of one component share their row.
    assert np.unique(embedding.round(10), axis=0).shape[0] == 3
    np.testing.assert_allclose(embedding[0], embedding[len(embedding) - 6], atol=1e-10)
    np.testing.assert_array_equal(kmm.bipartite_labels(Z), np.repeat([0, 1, 2], 4))


def test_new_prototypes_are_weighted_means():
    X = np.array([[0.0], [1.0], [2.0], [10.0], [20.0]])
    Z = sparse.csr_array([[1.0, 0], [0.5, 0.5], [0, 1], [0, 0.25], [0, 0.75]])
    graph = kmm.StructuredGraph(Z, np.array([0, 0, 0, 1, 1]), 0.0, True)
    np.testing.assert_allclose(kmm.next_prototypes(X, graph), [[1 / 3], [17.5]])
    without_ties = graph._replace(Z=sparse.csr_array([[0.0, 1]] * 5))
    np.testing.assert_allclose(kmm.next_prototypes(X, without_ties), [[1.0], [15.0]])
    assert kmm.next_prototypes(X, graph._replace(nearest=np.zeros(5, dtype=int))) is None


def test_clusters_need_not_be_convex():
    X, y = make_circles(400, factor=0.3, noise=0.02, random_state=0)
    model = KMM(2, n_prototypes=60, random_state=0).fit(X)
    assert ari(y, model.labels_) == 1
    assert model.graph_.shape == (400, 60)
    assert len(model.objective_) == model.n_iter_


def test_more_components_than_clusters_are_reported():
    X, y = make_blobs(120, centers=[[0, 0], [99, 0], [0, 99], [99, 99]], random_state=0)
    with pytest.warns(ConvergenceWarning, match="KMM found 4 clusters, not n_clusters=2"):
        labels = KMM(2, n_prototypes=24, max_iter=3, random_state=0).fit_predict(X)
    assert ari(y, labels) == 1


@pytest.mark.parametrize("n_prototypes", [5, 7, 31])
def test_impossible_numbers_of_prototypes_are_refused(n_prototypes):
    with pytest.raises(ValueError, match=f"n_prototypes={n_prototypes} must be"):
        KMM(8, n_prototypes=n_prototypes).fit(np.random.RandomState(0).rand(30, 2))


@pytest.mark.long
def test_digits_agree_with_the_reference():
    X, y = load_digits(return_X_y=True)
    scores = evaluate(y, KMM(10, random_state=0).fit_predict(X))
    assert scores["accuracy"] == pytest.approx(0.810, abs=0.02)
    assert scores["nmi"] == pytest.approx(0.834, abs=0.02)
