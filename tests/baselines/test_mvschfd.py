"""MVSC-HFD against the reference numbers, its options, and what its updates promise."""

import numpy as np
import pytest
from real_views import load_coil, load_reference
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines._linalg import left_singular_vectors, scaled
from omcal.baselines.subspaces import MVSCHFD, Descent, level_sizes
from omcal.metrics import clustering_accuracy


def descend(X, sizes, *, stale=False, squared=True, zero_start=False, n_iter=10):
    descent = Descent(X, sizes, stale=stale)
    if zero_start:
        descent.chains = [[np.zeros_like(W) for W in chain] for chain in descent.chains]
    history = [(descent.step(squared=squared), descent.weights) for _ in range(n_iter)]
    return descent, *map(np.array, zip(*history, strict=True))


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("suffix", ["stale", "fresh"])
def test_equals_the_reference(shared, depth, suffix):
    views, stored = load_reference(shared, "mvsc_hfd")
    c = int(stored["n_clusters"])
    sizes = level_sizes(min(x.shape[1] for x in views), c, depth)
    assert sizes == stored[f"delta{depth}_dims"].tolist()
    X = [scaled(x, "feature") for x in views]
    descent, objective, weights = descend(
        X, sizes, stale=suffix == "stale", squared=False, zero_start=True
    )
    prefix = f"delta{depth}_" + ("fresh_" if suffix == "fresh" else "")
    np.testing.assert_allclose(descent.Z.T, stored[prefix + "Z"], atol=1e-8)
    np.testing.assert_allclose(descent.weights, stored[prefix + "weights"], rtol=1e-8)
    np.testing.assert_allclose(objective, stored[prefix + "objective"], rtol=1e-8)
    if suffix == "stale":
        np.testing.assert_allclose(weights, stored[prefix + "weights_history"], rtol=1e-8)
        np.testing.assert_allclose(descent.A, stored[prefix + "A"], atol=1e-8)
        U = left_singular_vectors(descent.Z, c)
        np.testing.assert_allclose(U @ U.T, stored[prefix + "projector"], atol=1e-5)


@pytest.mark.parametrize("depth", [1, 2])
def test_options_of_the_published_code_equal_the_reference(shared, depth):
    views, stored = load_reference(shared, "mvsc_hfd")
    model = MVSCHFD(7, depth=depth, weights="unsquared", suffix="stale", random_state=0)
    model.fit(views)
    np.testing.assert_allclose(model.anchor_graph_.T, stored[f"delta{depth}_Z"], atol=1e-8)
    np.testing.assert_allclose(model.view_weights_, stored[f"delta{depth}_weights"], rtol=1e-8)


def test_optimal_weights_on_the_reference_data(shared):
    views, _ = load_reference(shared, "mvsc_hfd")
    model = MVSCHFD(7, random_state=0).fit(views)
    np.testing.assert_allclose(model.view_weights_, [0.813, 0.028, 0.032, 0.063, 0.064], atol=1e-3)


def random_views(widths=(12, 17), n=60, seed=0):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % 4
    return [rng.randn(n, width) + 2 * rng.randn(4, width)[y] for width in widths]


def test_objective_never_rises_and_is_that_of_the_factors():
    X = [scaled(x, "feature") for x in random_views()]
    descent, objective, _ = descend(X, [8, 4], n_iter=40)
    assert np.all(np.diff(objective) <= 1e-10 * objective[0])
    residuals = [
        np.sum((x - descent.Z @ (W1 @ W2 @ descent.A).T) ** 2)
        for x, (W1, W2) in zip(X, descent.chains, strict=True)
    ]
    np.testing.assert_allclose(objective[-1], descent.weights**2 @ residuals)
    np.testing.assert_allclose(
        descent.weights, (1 / np.array(residuals)) / sum(1 / np.array(residuals))
    )
    for chain in descent.chains:
        for W in chain:
            np.testing.assert_allclose(W.T @ W, np.eye(W.shape[1]), atol=1e-10)


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_a_deeper_chain_gives_the_same_result(depth):
    X = random_views()
    flat, deep = (MVSCHFD(4, depth=d, random_state=0).fit(X) for d in (1, depth))
    np.testing.assert_allclose(deep.anchor_graph_, flat.anchor_graph_, atol=1e-9)
    np.testing.assert_array_equal(deep.labels_, flat.labels_)


def test_stale_suffixes_change_the_result_through_the_first_round():
    rng = np.random.RandomState(0)
    X = [scaled(rng.randn(60, width), "feature") for width in (12, 17)]
    fresh, stale = (descend(X, [8, 4], stale=stale, n_iter=1)[0] for stale in (False, True))
    assert np.abs(fresh.Z - stale.Z).max() > 1e-3
    again = descend(X, [8, 4], zero_start=True, n_iter=1)[0]
    np.testing.assert_allclose(again.Z, stale.Z, atol=1e-12)


def test_level_sizes():
    assert level_sizes(24, 7, 1) == [7]
    assert level_sizes(24, 7, 3) == [17, 12, 7]
    assert level_sizes(7, 7, 3) == [7, 7, 7]
    assert level_sizes(19, 20, 3) == [18, 19, 20]


def test_a_view_may_be_narrower_than_the_clusters_are_many():
    X = random_views((12, 3))
    model = MVSCHFD(4, depth=2, random_state=0).fit(X)
    assert len(np.unique(model.labels_)) == 4 and np.isfinite(model.objective_).all()
    with pytest.raises(ValueError, match=r"depth=9 .* 3 features of 'view2' .* lower it"):
        MVSCHFD(4, depth=9).fit(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_deeper_chains_lose_rank_on_coil(shared):
    X, y = load_coil(shared)  # 19 features in a view, 20 clusters
    found = [
        clustering_accuracy(y, MVSCHFD(20, depth=depth, random_state=0).fit_predict(X))
        for depth in (1, 2, 3, 4)
    ]
    np.testing.assert_allclose(found, [1, 1, 0.95, 0.9], atol=5e-3)


def test_view_that_fits_exactly_takes_all_the_weight():
    rng = np.random.RandomState(0)
    exact = np.repeat(np.eye(3), 20, axis=0)[rng.permutation(60)]
    model = MVSCHFD(3, random_state=0, max_iter=50).fit([rng.randn(60, 5), exact])
    assert np.isfinite(model.view_weights_).all()
    np.testing.assert_allclose(model.view_weights_.sum(), 1)
    assert model.view_weights_[1] > 0.5


def test_tolerance_stops_early_and_a_cap_warns():
    X = random_views()
    model = MVSCHFD(4, tol=1e-3, max_iter=200, random_state=0).fit(X)
    assert 1 < model.n_iter_ < 200
    assert abs(model.objective_[-2] - model.objective_[-1]) <= 1e-3 * model.objective_[-2]
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        MVSCHFD(4, tol=1e-12, max_iter=2, random_state=0).fit(X)
