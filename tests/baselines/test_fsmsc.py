"""FSMSC against the reference numbers, and what its updates promise."""

import numpy as np
import pytest
from real_views import load_reference

from omcal.baselines._linalg import left_singular_vectors, scaled, standardized
from omcal.baselines.subspaces import FSMSC, factorize

RUNS = {"iter1_": (1e-3, 500.0, 10.0, 1), "": (1e-3, 500.0, 10.0, 20), "alt_": (1e-3, 1.0, 1.0, 20)}


def published_objective(X, joined, f, tau, lam1, lam2):
    """What the published code prints, which is not what its updates minimise."""
    fit = sum(np.sum((x - f.Z @ (w @ f.A).T) ** 2) for x, w in zip(X, f.W, strict=True))
    coupling = np.sum((f.Z - f.Z_joined @ f.Q.T) ** 2)
    joint = np.sum((joined - f.Z_joined @ f.D.T) ** 2)
    return fit / len(X) + lam1 * coupling + lam2 * np.linalg.norm(f.Q, axis=0).sum() + tau * joint


@pytest.mark.parametrize("prefix", RUNS)
def test_equals_the_reference(shared, prefix):
    views, stored = load_reference(shared, "fsmsc")
    X, joined = [scaled(x, "sample") for x in views], scaled(np.hstack(views), "sample")
    *parameters, n_iter = RUNS[prefix]
    tau, lam1, lam2 = parameters
    how = {"tau": tau, "lam1": lam1, "lam2": lam2, "max_iter": n_iter}
    f, _ = factorize(X, joined, FSMSC(int(stored["n_clusters"]), **how))
    np.testing.assert_allclose(f.Z.T, stored[prefix + "Z"], atol=1e-8)
    np.testing.assert_allclose(f.Z_joined.T, stored[prefix + "Zbar"], atol=1e-8)
    np.testing.assert_allclose(f.Q, stored[prefix + "Q"], rtol=1e-8, atol=1e-8)
    printed = stored["alt_objective" if prefix == "alt_" else "objective"][n_iter - 1]
    value = published_objective(X, joined, f, *parameters)
    np.testing.assert_allclose(value, printed, rtol=1e-8)


def test_estimator_equals_the_reference(shared):
    views, stored = load_reference(shared, "fsmsc")
    c = int(stored["n_clusters"])
    model = FSMSC(c, random_state=0).fit(views)
    np.testing.assert_allclose(model.anchor_graph_.T, stored["Z"], atol=1e-8)
    U = left_singular_vectors(model.anchor_graph_, c)
    np.testing.assert_allclose(U @ U.T, stored["projector"], atol=1e-8)
    assert model.n_iter_ == len(model.objective_) == 20


def random_views(widths=(6, 9), n=50, seed=0):
    rng = np.random.RandomState(seed)
    return [rng.randn(n, width) for width in widths]


def test_objective_never_rises_and_is_that_of_the_factors():
    X = [standardized(x) for x in random_views()]
    joined = standardized(np.hstack(X))
    tau, lam1, lam2 = 0.3, 2.0, 0.7
    f, objective = factorize(X, joined, FSMSC(4, tau=tau, lam1=lam1, lam2=lam2, max_iter=30))
    assert np.all(np.diff(objective) <= 1e-10 * objective[0])
    value = sum(np.sum((x - f.Z @ f.A.T @ w.T) ** 2) for x, w in zip(X, f.W, strict=True))
    value += tau * np.sum((joined - f.Z_joined @ f.D.T) ** 2) + lam2 * np.sum(f.Q**2)
    coupling = np.sum((f.Z - f.Z_joined @ f.Q.T) ** 2)
    value += lam1 * (coupling + np.sum(f.Z**2) + np.sum(f.Z_joined**2))
    np.testing.assert_allclose(objective[-1], value)


@pytest.mark.slow
def test_no_block_can_be_improved_alone():
    X = [standardized(x) for x in random_views()]
    joined = standardized(np.hstack(X))
    f, objective = factorize(X, joined, FSMSC(3, tau=0.5, lam1=2.0, lam2=1.0, max_iter=1000))
    assert objective[-2] - objective[-1] < 1e-12 * objective[0]
    for factor in (*f.W, f.A, f.D):
        np.testing.assert_allclose(factor.T @ factor, np.eye(3), atol=1e-10)
    assert f.Z.min() >= 0
    np.testing.assert_allclose(f.Z.sum(axis=1), 1)
    # At a minimum over Z a row's gradient is least, and level, where the row is positive.
    gradient = 2 * sum(
        f.Z @ f.A.T @ w.T @ w @ f.A - x @ w @ f.A for x, w in zip(X, f.W, strict=True)
    )
    gradient += 2 * 2.0 * (2 * f.Z - f.Z_joined @ f.Q.T)
    slack = gradient - gradient.min(axis=1, keepdims=True)
    assert np.abs(slack[f.Z > 1e-9]).max() < 1e-4


def test_views_narrower_than_the_number_of_clusters():
    X = random_views((2, 3, 1))
    model = FSMSC(6, random_state=0).fit(X)
    assert np.isfinite(model.objective_).all()
    np.testing.assert_allclose(model.anchor_graph_.sum(axis=1), 1)


def test_one_and_two_features_are_standardised_by_feature():
    x = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    np.testing.assert_allclose(standardized(x), [[-1, -1], [0, 0], [1, 1]])
    wide = standardized(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]]))
    np.testing.assert_allclose(wide, [[-1, 0, 1], [0, 0, 0]])


def test_singular_vectors_of_zero_singular_values_are_zero():
    Z = np.outer(np.arange(1.0, 6.0), [1.0, 2.0, 3.0])
    U = left_singular_vectors(Z, 3)
    np.testing.assert_allclose(U @ U.T, np.outer(Z[:, 0], Z[:, 0]) / np.sum(Z[:, 0] ** 2))
    assert not np.any(left_singular_vectors(np.zeros((5, 3)), 2))


@pytest.mark.parametrize("parameters", [{"lam1": 0.0}, {"lam2": -1.0}, {"tau": -1.0}])
def test_weights_out_of_range_are_refused(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        FSMSC(3, **parameters).fit(random_views())
