"""UOMvSC against the reference numbers, its options, and what its updates promise."""

import numpy as np
import pytest
from real_views import load_reference, stored_matrix
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines._base import has_converged
from omcal.baselines._linalg import minmax_features
from omcal.baselines.uomvsc import (
    Ascent,
    UOMvSC,
    indicator,
    moved_at_once,
    moved_in_turn,
    normalized_graphs,
)
from omcal.method.updates import orthogonal_factor
from omcal.metrics import ari

LAMBDAS = {"lam000_": 0.0, "lam025_": 0.25, "lam050_": 0.5}


@pytest.fixture(scope="module")
def msrc(shared):
    views, stored = load_reference(shared, "uomvsc")
    c = int(stored["n_clusters"])
    return normalized_graphs([minmax_features(x) for x in views], 15, c), stored


def ascend(graphs, lam, H, labels, *, sequential):
    model = UOMvSC(lam=lam, y_update="refreshed" if sequential else "jacobi")
    ascent = Ascent(graphs, model, H, labels)
    history = []
    while len(history) < 3 or not has_converged(history, 1e-6):
        history.append(ascent.step())
    return ascent, history


def test_graphs_equal_the_reference(msrc):
    graphs, stored = msrc
    assert len(graphs) == 12
    for v, (A, B) in enumerate(zip(graphs[:6], graphs[6:], strict=True)):
        assert abs(A - stored_matrix(stored, f"Ax_v{v}")).max() < 1e-8
        assert abs(B - stored_matrix(stored, f"Ah_v{v}")).max() < 1e-8


@pytest.mark.parametrize("prefix", LAMBDAS)
def test_published_updates_equal_the_reference(msrc, prefix):
    graphs, stored = msrc
    H, labels = stored[prefix + "init_H"], stored[prefix + "init_labels"]
    ascent, objective = ascend(graphs, LAMBDAS[prefix], H, labels, sequential=False)
    np.testing.assert_allclose(objective, stored[prefix + "objective"], rtol=1e-8)
    np.testing.assert_array_equal(ascent.labels, stored[prefix + "labels"])
    np.testing.assert_allclose(ascent.a, stored[prefix + "a"], rtol=1e-8)
    np.testing.assert_allclose(ascent.b, stored[prefix + "b"], rtol=1e-8)
    np.testing.assert_allclose(ascent.H, stored[prefix + "H"], atol=1e-8)


@pytest.mark.parametrize(("prefix", "changed", "value"), [
    ("lam000_", 4, 12.2200),
    ("lam025_", 4, 12.3100),
    ("lam050_", 5, 12.4212),
])  # fmt: skip
def test_moving_in_turn_changes_as_much_as_reported(msrc, prefix, changed, value):
    graphs, stored = msrc
    H, labels = stored[prefix + "init_H"], stored[prefix + "init_labels"]
    ascent, objective = ascend(graphs, LAMBDAS[prefix], H, labels, sequential=True)
    assert np.count_nonzero(ascent.labels != stored[prefix + "labels"]) == changed
    np.testing.assert_allclose(objective[-1], value, atol=5e-5)


@pytest.mark.parametrize(("prefix", "changed"), [("lam000_", 4), ("lam025_", 0), ("lam050_", 3)])
def test_aligned_start_changes_as_much_as_reported(msrc, prefix, changed):
    graphs, stored = msrc
    lam, labels = LAMBDAS[prefix], stored[prefix + "init_labels"]
    A = (1 - lam) * graphs[5] + lam * graphs[-1]
    H = orthogonal_factor(A @ indicator(labels, 7))
    ascent, objective = ascend(graphs, lam, H, labels, sequential=False)
    assert np.count_nonzero(ascent.labels != stored[prefix + "labels"]) == changed
    assert np.all(np.diff(objective) >= -1e-10)


def test_aligned_start_does_not_depend_on_the_numbering(msrc):
    graphs, stored = msrc
    labels = stored["lam050_init_labels"]
    A = 0.5 * graphs[5] + 0.5 * graphs[-1]
    results = []
    for numbering in (np.arange(7), np.random.RandomState(0).permutation(7)):
        renumbered = numbering[labels]
        H = orthogonal_factor(A @ indicator(renumbered, 7))
        ascent, objective = ascend(graphs, 0.5, H, renumbered, sequential=True)
        results.append((ascent.labels, objective))
    assert ari(results[0][0], results[1][0]) == 1
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-9)


def total(labels, G):
    return np.vdot(G, indicator(labels, G.shape[1]))


def moved_by_definition(labels, G):
    """Each sample in turn where the objective, computed anew, is largest."""
    labels = labels.copy()
    for i in range(len(labels)):
        if np.count_nonzero(labels == labels[i]) > 1:
            trials = [np.where(np.arange(len(labels)) == i, k, labels) for k in range(G.shape[1])]
            labels[i] = np.argmax([total(trial, G) for trial in trials])
    return labels


def test_moves_in_turn_are_exact():
    rng = np.random.RandomState(0)
    for _ in range(20):
        G, labels = rng.randn(30, 4), rng.randint(4, size=30)
        moved = moved_in_turn(labels, G)
        np.testing.assert_array_equal(moved, moved_by_definition(labels, G))
        assert total(moved, G) >= total(labels, G)


def test_moves_at_once_are_the_first_moves_in_turn():
    rng = np.random.RandomState(1)
    for _ in range(20):
        G, labels = rng.randn(12, 3), rng.permutation(np.arange(12) % 3)
        at_once = moved_at_once(labels, G)
        for i in range(12):
            alone = labels[i] if np.count_nonzero(labels == labels[i]) == 1 else None
            trials = [np.where(np.arange(12) == i, k, labels) for k in range(3)]
            best = np.argmax([total(trial, G) for trial in trials])
            assert at_once[i] == (best if alone is None else alone)


def test_no_move_empties_a_cluster():
    G = np.zeros((6, 3))
    G[:, 0] = 1.0
    labels = np.array([0, 0, 0, 0, 1, 2])
    for move in (moved_in_turn, moved_at_once):
        np.testing.assert_array_equal(np.unique(move(labels, G)), [0, 1, 2])


def noisy_views(n=80, seed=0):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % 4
    return [rng.randn(n, 5) + 2.5 * rng.randn(4, 5)[y] for _ in range(2)], y


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_objective_never_falls(lam):
    X, _ = noisy_views()
    model = UOMvSC(4, lam=lam, tol=0, max_iter=12, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=12"):
        model.fit(X)
    assert np.all(np.diff(model.objective_) >= -1e-10)
    np.testing.assert_allclose(np.linalg.norm(model.view_weights_), 1)
    np.testing.assert_allclose(np.linalg.norm(model.embedding_weights_), 1)


def test_tied_embedding_at_lambda_one():
    """View graphs of exactly c components embed each component on one point."""
    rng = np.random.RandomState(0)
    y = np.arange(90) % 3
    X = [100 * y[:, None] + rng.rand(90, 4), -50 * y[:, None] + rng.rand(90, 2)]
    model = UOMvSC(3, lam=1.0, random_state=0).fit(X)
    assert ari(y, model.labels_) == 1
    assert np.isfinite(model.objective_).all()


@pytest.mark.slow
def test_options_reach_the_updates():
    X = [np.random.RandomState(seed).randn(80, 5) for seed in range(2)]
    runs = [
        UOMvSC(4, y_update=update, align=align, random_state=0).fit(X).objective_[0]
        for update in ("refreshed", "jacobi")
        for align in (True, False)
    ]
    assert len(set(runs)) == 4
