"""What a model says about its views."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omcal import OCAL, OMCAL, Consensus
from omcal.datasets import load_views, make_multiview
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import indicate
from omcal.method.solver import Problem, solve
from omcal.method.weights import normalized
from omcal.metrics import ari
from omcal.model.explain import agreement_with, explain_graphs
from omcal.model.files import load
from omcal.model.subset_fits import (
    explained_shares,
    fitted_views,
    for_views,
    most_steps,
    refit,
    view_products,
)
from omcal.places.memory import MemoryRows


def fitted(X, c, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return OMCAL(c, random_state=0, **parameters).fit(X)


def clusters(n=300, c=3, **options):
    return make_multiview(n, n_clusters=c, noise=0.5, random_state=0, **options)


def in_files(views, folder):
    for name, X in views.items():
        np.save(folder / f"{name}.npy", X)
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in views}


def said(explanation, *words):
    """The warnings in which all of these words occur."""
    return [text for text in explanation.warnings if all(word in text for word in words)]


# With these the morphological view of Handwritten takes the weight that the paper's rule gives it.
FEW_ANCHORS = {"n_anchors": 20, "scale": "feature", "accelerate": False, "tol": 1e-6}


@pytest.fixture(scope="module")
def handwritten(shared):
    views = load_views(shared / "data" / "Handwritten.mat").views
    model = fitted(views, 10, weighting="adaptive", **FEW_ANCHORS)
    return model, model.explain_views(views, n_resamples=3)


def test_handwritten_leans_on_the_morphological_view(handwritten):
    _, explanation = handwritten
    assert max(explanation.views, key=lambda view: view.weight).name == "view4"
    (warning,) = said(explanation, "lean on view 'view4'", 'weighting="agreement"')
    assert "smoothest graph" in warning


def test_handwritten_is_worse_than_its_best_view(handwritten):
    _, explanation = handwritten
    assert said(explanation, "all views together are worse than view")


def test_handwritten_changes_most_without_the_morphological_view(handwritten):
    _, explanation = handwritten
    without = {view.name: view.without for view in explanation.views}
    assert min(without, key=without.get) == "view4"
    assert without["view4"] < 0.8
    low, _ = explanation.repeated_range
    assert without["view4"] < low  # no accident of the sample


def test_handwritten_by_agreement_has_nothing_to_warn_of(shared):
    views = load_views(shared / "data" / "Handwritten.mat").views
    model = fitted(views, 10, weighting="agreement", **FEW_ANCHORS)
    explanation = model.explain_views(views, n_resamples=0)
    assert not explanation.warnings
    assert explanation.explained > 0.55


def test_numbers_are_those_of_the_model():
    data = clusters(n_noise_views=1)
    model = fitted(data.views, 3, weighting="agreement")
    explanation = model.explain_views(data.views, n_resamples=0)
    assert [view.weight for view in explanation.views] == pytest.approx(model.view_weights_)
    cosines = np.array([view.agreement for view in explanation.views])
    assert cosines / cosines.sum() == pytest.approx(model.view_weights_, abs=5e-3)
    assert explanation.cluster_sizes == tuple(np.bincount(model.labels_))


@pytest.mark.slow
def test_without_a_view_is_near_a_fit_without_it():
    data = clusters(c=4, redundancy=0.5)
    model = fitted(data.views, 4)
    explanation = model.explain_views(data.views, n_resamples=0)
    for view in explanation.views:
        others = {name: X for name, X in data.views.items() if name != view.name}
        assert view.without == pytest.approx(ari(model.labels_, fitted(others, 4).labels_), abs=0.2)


def test_ranges_hold_what_resamples_gave():
    data = clusters()
    explanation = fitted(data.views, 3).explain_views(data.views, n_resamples=4)
    assert explanation.n_resamples == 4
    for view in explanation.views:
        for low, high in (view.weight_range, view.agreement_range, view.without_range):
            assert low <= high
        assert view.agreement_range[0] - 0.05 <= view.agreement <= view.agreement_range[1] + 0.05
    none = fitted(data.views, 3).explain_views(data.views, n_resamples=0)
    assert none.views[0].weight_range is None and none.repeated_range is None


def test_the_same_every_time():
    data = clusters()
    model = fitted(data.views, 3)
    assert model.explain_views(data.views) == model.explain_views(data.views)


def test_by_cluster_a_view_that_misses_a_cluster():
    rng = np.random.RandomState(0)
    labels = np.arange(400) % 4
    # Each view merges two clusters that the other one tells apart.
    one = 6.0 * np.eye(4)[np.minimum(labels, 2)] + rng.normal(scale=0.3, size=(400, 4))
    two = 6.0 * np.eye(4)[np.maximum(labels, 1)] + rng.normal(scale=0.3, size=(400, 4))
    model = fitted({"one": one, "two": two}, 4, weighting="uniform", n_init=5)
    assert ari(labels, model.labels_) > 0.9
    explanation = model.explain_views({"one": one, "two": two}, n_resamples=0)
    kept = np.array(explanation.views[1].kept_without_by_cluster)
    majority = [np.bincount(labels[model.labels_ == j]).argmax() for j in range(4)]
    lost = [j for j in range(4) if majority[j] >= 2]
    assert kept[lost].max() < kept[[j for j in range(4) if j not in lost]].min()


def test_warns_of_a_view_that_does_all():
    data = clusters()
    noise = np.random.RandomState(0).normal(size=(300, 10))
    one = {"good": data.views["view1"], "noise": noise}
    explanation = fitted(one, 3, weighting="uniform").explain_views(one, n_resamples=0)
    assert said(explanation, "'good' alone gives the same result")
    both = {**one, "other": data.views["view2"]}  # which bears the first one out
    explanation = fitted(both, 3, weighting="uniform").explain_views(both, n_resamples=0)
    assert min(view.alone for view in explanation.views if view.name != "noise") > 0.95
    assert not said(explanation, "alone gives the same result")


def test_a_constant_view_is_not_said_to_be_ignored():
    """Another rule of the weights would not help."""
    views = {**clusters().views, "dead": np.ones((300, 2))}
    explanation = fitted(views, 3).explain_views(views, n_resamples=0)
    assert explanation.views[-1].weight == 0 and not said(explanation, "'dead' is ignored")


@pytest.mark.slow
def test_joined_runs_are_compared_with_their_result():
    """Not with the run whose graphs are looked at."""
    rng = np.random.RandomState(0)
    views = {name: rng.normal(size=(400, 4)) for name in "ab"}  # every run finds something else
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Consensus(OMCAL(4), n_runs=5, random_state=0).fit(views)
    run = model.estimator_
    assert ari(run.labels_, model.labels_) < 0.9
    for X, labels in ((None, model.labels_), (views, model.predict(views))):
        found = model.explain_views(X, n_resamples=2)
        assert found.cluster_sizes == tuple(np.bincount(labels, minlength=4).tolist())
        assert [view.weight for view in found.views] == model.view_weights_.tolist()
        assert found.repeated_range[1] < 0.95
        alone = [run._rule.learned.graphs(fitted_views(run, views)).of_views([v]) for v in (0, 1)]
        shares = [float(explained_shares(graphs, labels)[0]) for graphs in alone]
        np.testing.assert_allclose([view.explained for view in found.views], shares)


def test_warns_of_an_ignored_view():
    data = clusters()
    model = fitted(data.views, 3, weighting=[0.5, 0.5, 0.0])
    assert said(model.explain_views(data.views, n_resamples=0), "'view3' is ignored")
    model = fitted(data.views, 3, weighting="uniform")
    assert not said(model.explain_views(data.views, n_resamples=0), "is ignored")


def test_warns_of_twins():
    data = clusters()
    views = {**data.views, "copy": 3.0 * data.views["view2"]}
    explanation = fitted(views, 3).explain_views(views, n_resamples=0)
    assert len(said(explanation, "are the same")) == 1
    assert said(explanation, "'view2' and 'copy' are the same", "share the weight of one")


def test_warns_where_the_best_view_beats_all():
    data = make_multiview(400, n_clusters=4, n_views=2, noise=(0.3, 0.3), n_noise_views=0,
                          random_state=1)  # fmt: skip
    noise = np.random.RandomState(0).normal(size=(400, 10))
    views = {**data.views, "noise": noise}
    spoiled = fitted(views, 4, weighting=[0.01, 0.01, 0.98])
    explanation = spoiled.explain_views(views, n_resamples=0)
    assert said(explanation, "all views together are worse than view")
    assert said(explanation, "lean on view 'noise'")
    sound = fitted(views, 4, weighting="uniform").explain_views(views, n_resamples=0)
    assert not said(sound, "worse")


def test_prints_and_becomes_json():
    data = clusters(n_noise_views=1)
    explanation = fitted(data.views, 3).explain_views(data.views, n_resamples=2)
    text = str(explanation)
    assert all(view.name in text for view in explanation.views)
    assert all(warning in text for warning in explanation.warnings)
    stored = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert stored["views"][0]["weight"] == explanation.views[0].weight


def test_refits_leave_out_beta():
    data = clusters()
    model = fitted(data.views, 3)
    before = model.explain_views(n_resamples=1)
    model.beta = 1e6
    assert model.explain_views(n_resamples=1) == before


@pytest.mark.sampled
@pytest.mark.parametrize("weighting", ["distinct", "adaptive", "uniform"])
def test_a_refit_is_near_the_solver(weighting):
    """Without the nuclear norm, in float32, stopped by the labels: nearly the same clusters."""
    data = make_multiview(600, n_clusters=12, noise=0.7, random_state=0)
    model = fitted(data.views, 12, weighting=weighting)
    graphs, problem = model._graphs, model._problem(3)
    for views in ([0, 1, 2], [1, 2], [0]):
        some, asked = graphs.of_views(views), for_views(problem, views)
        rows = MemoryRows(some, 12)
        if weighting == "adaptive":  # these are kept
            asked = replace(asked, alpha=normalized(model.view_weights_[views]))
        Z = solve(rows, rows.gram(), model.basis_, asked).consensus
        expected = rows.assign(Z.alpha, *Z.f_step(), Z.G).labels
        found = refit(some, model.basis_, asked, view_products(some))
        assert ari(expected, found.labels) > 0.95
        assert found.alpha == pytest.approx(
            asked.alpha if weighting == "adaptive" else Z.alpha, abs=0.02
        )


def test_refits_do_not_depend_on_gamma():
    """Without the nuclear norm the best F and G minimise ‖A − F Gᵀ‖, whatever gamma is."""
    model = fitted(clusters().views, 3)
    before = model.explain_views(n_resamples=0)
    for view, other in zip(before.views, _with_gamma(model, 30.0).views, strict=True):
        assert (other.without, other.alone) == (view.without, view.alone)


def _with_gamma(model, gamma):
    model.gamma = gamma
    return model.explain_views(n_resamples=0)


def test_a_refit_ends_at_a_minimum():
    """No other start of the same graphs explains them better by much."""
    data = make_multiview(400, n_clusters=5, noise=0.8, random_state=3)
    model = fitted(data.views, 5)
    graphs, problem = model._graphs, model._problem(3)
    H = view_products(graphs)
    found = refit(graphs, model.basis_, problem, H)
    again = refit(graphs, found.basis, replace(problem, alpha=found.alpha), H)
    assert ari(found.labels, again.labels) > 0.98


@pytest.mark.slow
def test_refits_of_many_clusters_are_bounded(monkeypatch):
    calls = []

    def counted(graphs, G, problem, H):
        calls.append((graphs.n, min(problem.max_iter, most_steps(G.shape[1]))))
        return refit(graphs, G, problem, H)

    monkeypatch.setattr("omcal.model.explain.refit", counted)
    data = make_multiview(2400, n_clusters=60, random_state=0)
    model = fitted(data.views, 60, n_anchors=210, max_iter=40)
    model.explain_views(n_resamples=1)
    assert {n for n, _ in calls} == {2000}  # a sample of the rows
    assert [steps for _, steps in calls] == [20] * 7 + [10] * 3
    calls.clear()
    explain_graphs(model, model._graphs, 1, 500, np.random.RandomState(0), resample_without=False)
    assert [n for n, _ in calls] == [500] * 7


@pytest.mark.parametrize(("c", "steps"), [(2, 30), (40, 30), (100, 12), (300, 8)])
def test_steps_of_a_refit(c, steps):
    assert most_steps(c) == steps


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), c=st.integers(2, 5), V=st.integers(1, 3))
def test_a_refit_of_any_graphs(seed, c, V):
    rng = np.random.RandomState(seed)
    n, m, k = rng.randint(c, 40), c + rng.randint(1, 10), 2
    indices = np.argsort(rng.rand(n, V, m), axis=2)[:, :, :k].astype(np.uint8)
    graphs = AnchorGraphs(indices, np.full((n, V, k), 0.5, np.float32), m)
    problem = Problem(0.3, 0.1, "distinct", np.full(V, 1 / V), 100, 1e-6)
    G = np.linalg.qr(rng.normal(size=(m, c)))[0]
    found = refit(graphs, G, problem, view_products(graphs))
    assert found.labels.shape == (n,) and 0 <= found.labels.min() <= found.labels.max() < c
    assert np.isfinite(found.F).all() and found.alpha.sum() == pytest.approx(1)


def test_products_of_graphs(graphs):
    expected = np.einsum("uim,vim->uv", dense(graphs), dense(graphs))
    assert view_products(graphs) == pytest.approx(expected)


@pytest.mark.slow
def test_agreement_by_cluster_is_that_of_its_samples():
    model = fitted(clusters().views, 3)
    explanation = model.explain_views(n_resamples=0)
    U, labels = indicate(model._rule.consensus, model._graphs)
    for cluster in range(3):
        rows = np.flatnonzero(labels == cluster)
        expected = agreement_with(model._graphs[rows], np.maximum(U, 0)[rows], model.basis_)
        found = [view.agreement_by_cluster[cluster] for view in explanation.views]
        assert found == pytest.approx(expected)


def test_takes_what_fit_takes():
    data = clusters()
    table = np.hstack(list(data.views.values()))
    model = fitted(table, 3, views=[slice(0, 10), slice(10, 20), slice(20, 30)])
    assert len(model.explain_views(table, n_resamples=0).views) == 3
    assert model.explain_views(table, n_resamples=0, max_samples=100).n_samples == 100


def test_files_give_what_memory_gives(tmp_path):
    data = clusters()
    stored = in_files(data.views, tmp_path)
    model = fitted(data.views, 3)
    options = {"n_resamples": 1, "max_samples": 150}
    assert model.explain_views(stored, **options) == model.explain_views(data.views, **options)


@pytest.mark.parametrize("options", [{}, {"missing": 0.2}])
def test_the_model_alone_gives_what_the_data_give(options):
    data = clusters(**options)
    model = fitted(data.views, 3)
    alone, given = (model.explain_views(X, n_resamples=2) for X in (None, data.views))
    assert alone == given
    assert model.explain_views(max_samples=100, n_resamples=0).n_samples == 100


def test_looks_at_complete_samples_only(tmp_path):
    data = clusters(missing=0.2)
    complete = np.all(list(data.present.values()), axis=0)
    model = fitted(data.views, 3)
    explanation = model.explain_views(data.views, n_resamples=0)
    assert explanation.n_samples == complete.sum() < 300
    assert model.explain_views(in_files(data.views, tmp_path), n_resamples=0) == explanation
    nowhere = {name: here & (np.arange(300) % 3 != v) for v, (name, here) in
               enumerate(data.present.items())}  # fmt: skip
    with pytest.raises(ValueError, match="X has 0 of them"):
        model.explain_views(clusters().views, present=nowhere)


def test_a_stored_model_explains_the_same(tmp_path):
    data = clusters()
    model = fitted(data.views, 3)
    model.save(tmp_path / "model.omcal")
    again = load(tmp_path / "model.omcal").explain_views(data.views, n_resamples=1)
    assert again == model.explain_views(data.views, n_resamples=1)


def test_refuses():
    data = clusters()
    model = fitted(data.views, 3)
    with pytest.raises(ValueError, match="n_resamples=-1"):
        model.explain_views(data.views, n_resamples=-1)
    with pytest.raises(ValueError, match="max_samples=1 "):
        model.explain_views(data.views, max_samples=1)
    single = OCAL(3, random_state=0).fit(data.views["view1"])
    with pytest.raises(ValueError, match="one view"):
        single.explain_views(data.views["view1"])


def test_refuses_dask():
    array = pytest.importorskip("dask.array", reason="the extra dask is not installed")
    data = clusters()
    model = fitted(data.views, 3)
    lazy = {name: array.from_array(X) for name, X in data.views.items()}
    with pytest.raises(ValueError, match="computed arrays"):
        model.explain_views(lazy)


def dense(graphs):
    return graphs.side_by_side().toarray().reshape(graphs.n, graphs.n_views, -1).swapaxes(0, 1)


@pytest.fixture
def graphs():
    rng = np.random.RandomState(0)
    indices = np.argsort(rng.rand(40, 2, 6), axis=2)[:, :, :3].astype(np.uint8)
    weights = rng.rand(40, 2, 3)
    return AnchorGraphs(indices, weights / weights.sum(axis=2, keepdims=True), 6)


def test_agreement_is_the_cosine(graphs):
    rng = np.random.RandomState(1)
    F, G = rng.rand(40, 2), np.linalg.qr(rng.normal(size=(6, 2)))[0]
    expected = [
        max(np.sum(S * (F @ G.T)) / (np.linalg.norm(S) * np.linalg.norm(F)), 0)
        for S in dense(graphs)
    ]
    assert agreement_with(graphs, F, G) == pytest.approx(expected)


def test_explained_is_the_share_between_clusters(graphs):
    labels = np.random.RandomState(2).randint(3, size=40)
    for S, share in zip(dense(graphs), explained_shares(graphs, labels), strict=True):
        within = sum(
            np.square(S[labels == j] - S[labels == j].mean(axis=0)).sum() for j in (0, 1, 2)
        )
        total = np.square(S - S.mean(axis=0)).sum()
        assert share == pytest.approx(1 - within / total)
