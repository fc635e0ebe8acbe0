"""ECPCS: equal to the original number by number, given its ensemble."""

import numpy as np
import pytest
from real_views import load_reference
from sklearn.datasets import load_digits

from omcal.baselines import ecpcs
from omcal.baselines._linalg import one_hot
from omcal.baselines.ecpcs import ECPCS
from omcal.metrics import ari, evaluate


@pytest.fixture(scope="module")
def reference(shared):
    return load_reference(shared, "ecpcs")[1]


@pytest.fixture(scope="module")
def base(reference):
    return ecpcs.base_clusters(reference["ensemble"])


def test_propagated_similarity(reference, base):
    J = ecpcs.jaccard(one_hot(base, base.max() + 1))
    assert np.linalg.norm(J) == pytest.approx(float(reference["jaccard_frobenius"]), abs=1e-10)
    Z = ecpcs.propagated_similarity(J, int(reference["t"]))
    np.testing.assert_allclose(Z, reference["Z"], atol=1e-10)


def test_hierarchical_consensus(reference, base):
    B = ecpcs.enhanced_coassociation(reference["Z"], base)
    np.testing.assert_allclose(B[:20], reference["eca_rows"], atol=1e-10)
    assert np.linalg.norm(B) == pytest.approx(float(reference["eca_frobenius"]), abs=1e-9)
    assert ari(reference["hc_labels"], ecpcs.linkage_labels(B, 7)) == 1


def test_meta_cluster_consensus(reference, base):
    Z, H = reference["Z"], one_hot(base, base.max() + 1)
    values, _ = ecpcs.cut_embedding(Z, 8)
    np.testing.assert_allclose(values, reference["ncut_eigenvalues"], atol=1e-10)
    for first_row, expected in zip(
        reference["mc_first_row"], reference["mc_labels"].T, strict=True
    ):
        assert ari(expected, ecpcs.meta_cluster_labels(Z, H, 7, first_row)) == 1


def test_base_clusters_are_numbered_through():
    ensemble = np.array([[0, 5], [2, 5], [2, 1]])
    np.testing.assert_array_equal(ecpcs.base_clusters(ensemble), [[0, 3], [1, 3], [1, 2]])


def test_jaccard_of_known_clusters():
    base = np.array([[0, 2], [0, 2], [0, 3], [1, 3]])
    expected = [[1, 0, 2 / 3, 1 / 4], [0, 1, 0, 1 / 2], [2 / 3, 0, 1, 0], [1 / 4, 1 / 2, 0, 1]]
    np.testing.assert_allclose(ecpcs.jaccard(one_hot(base, base.max() + 1)), expected)


def test_isolated_clusters_are_similar_to_themselves_only():
    J = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    Z = ecpcs.propagated_similarity(J, 20)
    np.testing.assert_allclose(Z[2], [0, 0, 1])
    assert np.isfinite(Z).all()


def test_discretisation_does_not_depend_on_the_basis():
    rng = np.random.RandomState(0)
    U = np.eye(3)[rng.randint(3, size=40)] + 0.2 * rng.randn(40, 3)
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    rotation = np.linalg.qr(rng.randn(3, 3))[0]
    np.testing.assert_array_equal(ecpcs.discretized(U, 5), ecpcs.discretized(U @ rotation, 5))


@pytest.mark.slow
def test_ensemble_sizes():
    X = np.random.RandomState(0).rand(225, 2)
    ensemble = ecpcs.kmeans_ensemble(X, 4, 15, np.random.RandomState(0))
    sizes = ensemble.max(axis=0) + 1
    assert ensemble.shape == (225, 15)
    assert sizes.min() >= 4 and sizes.max() <= 15 and len(set(sizes)) > 5


def test_few_samples_for_many_clusters():
    rng = np.random.RandomState(0)
    ensemble = ecpcs.kmeans_ensemble(rng.rand(12, 2), 9, 3, rng)
    np.testing.assert_array_equal(ensemble.max(axis=0), [8, 8, 8])


@pytest.mark.long
@pytest.mark.parametrize(
    ("consensus", "accuracy", "nmi"), [("mc", 0.802, 0.801), ("hc", 0.817, 0.800)]
)
def test_digits_are_in_the_range_of_the_reference(consensus, accuracy, nmi):
    X, y = load_digits(return_X_y=True)
    scores = [
        evaluate(y, ECPCS(10, consensus=consensus, random_state=s).fit_predict(X)) for s in (0, 1)
    ]
    assert np.mean([s["accuracy"] for s in scores]) == pytest.approx(accuracy, abs=0.08)
    assert np.mean([s["nmi"] for s in scores]) == pytest.approx(nmi, abs=0.04)
