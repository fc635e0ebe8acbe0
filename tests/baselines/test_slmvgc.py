"""SLMVGC against the reference numbers, its small quadratic programs, and its updates."""

import numpy as np
import pytest
from common_cases import on_axes
from real_views import load_coil, load_reference, stored_matrix
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines import _linalg
from omcal.baselines._graphs import neighbor_graph
from omcal.baselines._linalg import minimize_batch
from omcal.baselines.slmvgc import SLMVGC, Consensus
from omcal.method.simplex import minimize_on_simplex
from omcal.metrics import ari, clustering_accuracy


@pytest.fixture(scope="module")
def msrc(shared):
    views, stored = load_reference(shared, "slmvgc")
    return [neighbor_graph(x, 10) for x in views], stored


def published_loss(consensus, graphs):
    """As the published code prints it: G_v for L, and Q_v symmetrised with a zero diagonal."""
    mixture = np.einsum("iv,vij->ij", consensus.weights, consensus.Q)
    loss = consensus.alpha * np.sum((consensus.S - mixture) ** 2)
    loss += consensus.beta * np.sum(consensus.S**2)
    for Z, Q, graph in zip(consensus.Z, consensus.Q, graphs, strict=True):
        Q = (Q + Q.T) / 2
        np.fill_diagonal(Q, 0)
        dense = Z.toarray()
        loss += np.trace(dense @ (graph @ dense.T))
        loss += consensus.lam * np.sum((dense - np.eye(len(Q))) ** 2)
        loss += consensus.gamma * np.sum((dense - Q) ** 2)
    return loss


@pytest.mark.parametrize("prefix", ["a", "b"])
def test_published_updates_equal_the_reference(msrc, prefix):
    graphs, stored = msrc
    alpha, beta, lam, gamma, _ = stored[f"{prefix}_params"]
    model = SLMVGC(alpha=alpha, beta=beta, lam=lam, gamma=gamma, z_solver="alm10")
    consensus = Consensus(graphs, model)
    for v, Z in enumerate(consensus.Z):
        assert abs(Z - stored_matrix(stored, f"{prefix}_Zinit_v{v}")).max() < 1e-8
    losses = []
    for _ in stored[f"{prefix}_loss"]:
        consensus.step()
        losses.append(published_loss(consensus, graphs))
    np.testing.assert_allclose(losses, stored[f"{prefix}_loss"], rtol=1e-8)
    np.testing.assert_allclose(consensus.weights.T, stored[f"{prefix}_W"], atol=1e-8)
    S = stored_matrix(stored, f"{prefix}_S")
    np.testing.assert_allclose(consensus.S, S, atol=1e-8)
    for v, Z in enumerate(consensus.Z):
        assert abs(Z - stored_matrix(stored, f"{prefix}_Z_v{v}")).max() < 1e-8


@pytest.mark.parametrize(("prefix", "entry", "whole"), [("a", 4.1e-3, 0.039), ("b", 1.0e-2, 0.047)])
def test_exact_programs_change_as_much_as_reported(msrc, prefix, entry, whole):
    graphs, stored = msrc
    alpha, beta, lam, gamma, _ = stored[f"{prefix}_params"]
    consensus = Consensus(graphs, SLMVGC(alpha=alpha, beta=beta, lam=lam, gamma=gamma))
    objective = [consensus.step() for _ in range(11)]
    S = stored_matrix(stored, f"{prefix}_S")
    change = consensus.S - S
    np.testing.assert_allclose(np.abs(change).max(), entry, rtol=0.03)
    np.testing.assert_allclose(np.linalg.norm(change) / np.linalg.norm(S), whole, rtol=0.02)
    assert np.all(np.diff(objective) < 0)


def random_programs(count, size, condition, seed=0):
    rng = np.random.RandomState(seed)
    Q = np.linalg.qr(rng.randn(count, size, size))[0]
    A = (Q * np.geomspace(1, condition, size)) @ np.swapaxes(Q, 1, 2)
    return (A + np.swapaxes(A, 1, 2)) / 2, rng.randn(count, size) * 10 ** rng.uniform(-1, 3)


def relative_gap(A, b, z):
    slope = 2 * np.einsum("ijk,ik->ij", A, z) - b
    gap = np.einsum("ij,ij->i", z, slope) - slope.min(axis=1)
    return (gap / np.maximum(np.abs(A).max(axis=(1, 2)), np.abs(b).max(axis=1))).max()


@pytest.mark.parametrize("size", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e8])
def test_programs_are_solved_exactly(size, condition):
    A, b = random_programs(30, size, condition)
    z = minimize_batch(A, b)
    assert z.min() >= 0
    np.testing.assert_allclose(z.sum(axis=1), 1, atol=1e-12)
    assert relative_gap(A, b, z) < 1e-12


def test_programs_that_cycle_are_solved_one_by_one(monkeypatch):
    A, b = random_programs(40, 5, 1e8, seed=1)
    calls = []

    def counted(M, m):
        calls.append(m)
        return minimize_on_simplex(M, m)

    monkeypatch.setattr(_linalg, "minimize_on_simplex", counted)
    z = minimize_batch(A, b)
    assert 0 < len(calls) < 40
    assert relative_gap(A, b, z) < 1e-12


def test_programs_equal_the_reference(shared):
    stored = np.load(shared / "reference" / "simplex.npz")
    for i in np.flatnonzero(stored["qp_rank"] == stored["qp_dim"]):
        d = stored["qp_dim"][i]
        A, b = stored["qp_A"][i][:d, :d], stored["qp_b"][i][:d]
        z = minimize_batch(A[None], b[None])[0]
        np.testing.assert_allclose(z, stored["qp_x"][i][:d], atol=1e-9)


def random_views(n=60, seed=0):
    rng = np.random.RandomState(seed)
    return [rng.randn(n, 4), rng.randn(n, 6), rng.randn(n, 3)]


@pytest.fixture
def one_round():
    graphs = [neighbor_graph(x, 6) for x in random_views()]
    consensus = Consensus(graphs, SLMVGC(alpha=3.0, beta=0.2, lam=0.7, gamma=0.4))
    before = consensus.S.copy(), consensus.Q.copy()
    return graphs, consensus, before, consensus.step()


def test_weights_are_optimal_for_every_sample(one_round):
    _, consensus, (S, Q), _ = one_round
    rng = np.random.RandomState(1)
    np.testing.assert_allclose(consensus.weights.sum(axis=1), 1)
    for i in range(0, 60, 7):

        def cost(w, i=i):
            return np.sum((S[i] - w @ Q[:, i]) ** 2)

        for _ in range(20):
            other = rng.randn(3)
            other += (1 - other.sum()) / 3
            assert cost(consensus.weights[i]) <= cost(other) + 1e-9


def test_graphs_stay_in_the_neighbourhoods(one_round):
    graphs, consensus, _, _ = one_round
    for Z, graph in zip(consensus.Z, graphs, strict=True):
        assert Z.data.min() >= 0
        assert abs(Z - Z.T).max() == 0
        assert Z.diagonal().max() == 0
        outside = Z.toarray()[graph.toarray() == 0]
        assert not outside.any()
        np.testing.assert_allclose(Z.sum(), 60)


def test_closed_form_of_Q_equals_the_systems(one_round):
    _, consensus, (S, _), _ = one_round
    alpha, gamma = consensus.alpha, consensus.gamma
    Z = np.stack([Z.toarray() for Z in consensus.Z])
    for i in range(0, 60, 7):
        w = consensus.weights[i]
        system = gamma * np.eye(3) + alpha * np.outer(w, w)
        Q = np.linalg.solve(system, gamma * Z[:, :, i] + alpha * np.outer(w, S[i]))
        np.testing.assert_allclose(consensus.Q[:, i], np.maximum(Q, 0), atol=1e-10)


def test_objective_is_that_of_the_variables(one_round):
    _, consensus, _, objective = one_round
    value = consensus.beta * np.sum(consensus.S**2)
    mixture = np.einsum("iv,vij->ij", consensus.weights, consensus.Q)
    value += consensus.alpha * np.sum((consensus.S - mixture) ** 2)
    L = consensus.L.toarray()
    for sparse_Z, Q in zip(consensus.Z, consensus.Q, strict=True):
        Z = sparse_Z.toarray()
        value += np.trace(Z @ L @ Z.T) + consensus.lam * np.sum((Z - np.eye(60)) ** 2)
        value += consensus.gamma * np.sum((Z - Q) ** 2)
    np.testing.assert_allclose(objective, value)
    np.testing.assert_allclose(consensus.S, consensus.S.T)
    np.testing.assert_allclose(consensus.S.sum(), 60)


@pytest.mark.sampled
@pytest.mark.parametrize("copies", [[0, 0], [0, 0, 0], [0, 1, 1], [1, 0, 1, 0]])
def test_equal_views_have_equal_weights(copies):
    X = random_views()
    with pytest.warns(ConvergenceWarning):
        model = SLMVGC(3, tol=1e-9, random_state=0).fit([X[i] for i in copies])
    assert np.isfinite(model.objective_).all()
    for i in set(copies):
        alike = model.sample_weights_[:, np.array(copies) == i]
        np.testing.assert_allclose(alike, alike[:, :1] @ np.ones((1, alike.shape[1])), rtol=1e-9)


def test_one_view_has_weight_one():
    model = SLMVGC(3, tol=1e-2, random_state=0).fit([random_views()[0]])
    np.testing.assert_allclose(model.sample_weights_, 1)


@pytest.mark.slow
def test_warns_at_the_cap_and_stops_before():
    X = random_views()
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        SLMVGC(3, max_iter=2, random_state=0).fit(X)
    model = SLMVGC(3, tol=1e-3, max_iter=100, random_state=0).fit(X)
    assert model.n_iter_ == len(model.objective_) < 100


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_order_of_samples_reorders_graph_and_weights():
    X, _ = on_axes(spread=0.2)
    order = np.random.RandomState(2).permutation(75)
    model, other = (SLMVGC(3, random_state=0).fit(views) for views in (X, [x[order] for x in X]))
    np.testing.assert_allclose(other.graph_, model.graph_[np.ix_(order, order)], atol=1e-8)
    np.testing.assert_allclose(other.sample_weights_, model.sample_weights_[order], atol=1e-5)
    assert ari(model.labels_[order], other.labels_) == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.long
def test_coil(shared):
    X, y = load_coil(shared)
    model = SLMVGC(20, random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1
    np.testing.assert_allclose(model.sample_weights_.sum(axis=1), 1)
    assert np.all(np.diff(model.objective_) < 0)


def test_too_large_for_memory_is_refused():
    X = np.zeros((3_000_000, 1), dtype=np.float32)
    with pytest.raises(MemoryError, match="SLMVGC on 3000000 samples"):
        SLMVGC(3).fit([X, X])
