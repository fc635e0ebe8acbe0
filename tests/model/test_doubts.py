"""Results that are doubtful say so; healthy ones say nothing."""

import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from large_fits import mapped
from omcal import OCAL, OMCAL, Consensus, load
from omcal.datasets import make_multiview
from omcal.model import doubts as doubts_module
from omcal.model.doubts import cluster_sizes, doubts
from omcal.places import memory
from omcal.places.base import SampledGraphs
from omcal.places.team import SOLO

WEIGHTINGS = ["adaptive", "agreement", "distinct", "uniform", [0.2, 0.3, 0.5]]


def groups(member, width, rng, distance=8.0):
    """A view in which these groups are apart."""
    centres = distance * rng.normal(size=(max(member) + 1, width))
    return centres[member] + rng.normal(size=(len(member), width))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def member(rng):
    return rng.integers(3, size=300)


def only_doubt(model):
    (doubt,) = model.doubts_
    return doubt


# Nothing to say


@pytest.mark.sampled
@pytest.mark.parametrize("n_clusters", [2, 5, 12])
@pytest.mark.parametrize("noise", [0.5, 1.5])
@pytest.mark.parametrize("balanced", [True, False])
def test_healthy_results(n_clusters, noise, balanced):
    """Warnings are errors here; groups may differ in size by a factor of five."""
    data = make_multiview(400, n_clusters=n_clusters, noise=noise, random_state=0)
    keep = np.ones(400, bool) if balanced else (data.labels != 0) | (np.arange(400) % 5 == 0)
    views = [view[keep] for view in data.views.values()]
    joint = OMCAL(n_clusters, random_state=0).fit(views)
    single = OCAL(n_clusters, random_state=0).fit(views[0])
    # With much noise the groups of one view overlap, and no test can tell them from one group.
    overlapping = [m for m in (joint, single) if not m.structure_.found]
    assert [m.doubts_ for m in (joint, single) if m not in overlapping] in ([[], []], [[]], [])
    assert all("structure" in only_doubt(m).what for m in overlapping)
    if noise < 1 or n_clusters < 12:
        assert joint not in overlapping


def test_weights_that_the_user_gave_are_no_surprise(member, rng):
    views = [groups(member, width, rng) for width in (6, 5)]
    model = OMCAL(3, weighting=[0.99, 0.01], random_state=0).fit(views)
    assert model.doubts_ == []


# One thing to say


def test_one_cluster_holds_nearly_all(rng):
    member = np.repeat([0, 1], [285, 15])
    views = [groups(member, width, rng, distance=20) for width in (6, 5)]
    with pytest.warns(UserWarning, match=r"holds 95% of the samples; look at view_scales_"):
        model = OMCAL(2, random_state=0).fit(views)
    assert sorted(np.bincount(model.labels_)) == [15, 285]
    assert only_doubt(model).warning is UserWarning


def test_empty_clusters():
    X = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], 20, axis=0)
    message = r"only 3 of n_clusters=5 clusters hold samples; lower n_clusters"
    with pytest.warns(ConvergenceWarning, match=message):
        model = OCAL(5, random_state=0).fit(X)
    assert only_doubt(model).warning is ConvergenceWarning


def test_one_view_takes_the_weight(member, rng):
    """The published weights go to the view whose graph is smoothest."""
    views = {"clear": groups(member, 6, rng), "dim": groups(member, 20, rng, distance=0.4)}
    message = r"view 'clear' took 9\d% of the weight, .*; compare with weighting='uniform'"
    with pytest.warns(UserWarning, match=message):
        model = OMCAL(3, weighting="adaptive", random_state=0).fit(views)
    assert model.view_weights_[0] > 0.9


@pytest.mark.parametrize("other", ["groups", "noise"])
def test_views_that_contradict(member, rng, other):
    views = {"a": groups(member, 6, rng), "b": groups(member, 5, rng)}
    views["c"] = groups(rng.permutation(member), 6, rng, distance=8.0 * (other == "groups"))
    message = r"view 'c' shows other groups than the result, or none: .* [01]% of its graph; see"
    with pytest.warns(UserWarning, match=message):
        model = OMCAL(3, random_state=0).fit(views)
    assert only_doubt(model).what.startswith("view 'c'")


@pytest.mark.sampled
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("n_views", [2, 3])
def test_views_that_contradict_and_none_wins(n_views, joined, monkeypatch):
    """The result is a bit of each, and the clusters show in none of them."""
    clustered, spectral_refits = [], doubts_module.spectral_refits

    def counted(graphs, *how):
        clustered.append(graphs)
        return spectral_refits(graphs, *how)

    monkeypatch.setattr(doubts_module, "spectral_refits", counted)
    rng = np.random.default_rng(29)
    views = [groups(rng.integers(7, size=200), 20, rng, distance=0.8) for _ in range(n_views)]
    one = OMCAL(7, random_state=0)
    model = Consensus(OMCAL(7), n_runs=3, random_state=0) if joined else one
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        found = [doubt.what for doubt in model.fit(views).doubts_]
    contradictions = [what for what in found if "contradicts the others" in what]
    assert contradictions and all("groups of its own" in what for what in contradictions), found
    assert len(clustered) == n_views  # also for a run beside its result
    if joined:
        for one in (model.as_one_run(), model.estimator_):
            sizes = cluster_sizes(one.labels_, 7)
            expected = doubts(one, SampledGraphs(model.estimator_._graphs), sizes, SOLO)
            assert one.doubts_[: len(expected)] == expected  # then come those of the runs


def contradiction(views, joined, **options):
    """What is said of views that contradict, by one run or several."""
    one = OMCAL(3, random_state=0, **options)
    model = Consensus(one, n_runs=2, random_state=0) if joined else one
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        found = model.fit(views).doubts_
    assert re.match(r"view 'view\d' (shows other groups|contradicts)", found[0].what)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("place", ["files", "limit", "large"])
def test_views_contradict_wherever_they_are(member, rng, tmp_path, monkeypatch, place, joined):
    """Of graphs that no model keeps, too, some are looked at."""
    views = [groups(some, 6, rng, distance=3) for some in (member, rng.permutation(member))]
    views[1][:50] = np.nan
    expected = contradiction(views, joined)
    if place == "large":
        monkeypatch.setattr(memory, "LARGEST_KEPT", 1000)
        monkeypatch.setattr(memory, "TOGETHER", 1000)
    there = mapped(tmp_path, views) if place == "files" else views
    options = {"memory_limit": "1MB"} if place == "limit" else {}
    assert contradiction(there, joined, **options) == expected


@pytest.mark.parametrize("joined", [pytest.param(False, marks=pytest.mark.long), True])
def test_views_contradict_on_a_cluster(member, rng, client, joined):
    import dask.array as da

    views = [groups(some, 6, rng, distance=3) for some in (member, rng.permutation(member))]
    lazy = [da.from_array(view, chunks=(130, 6)) for view in views]
    assert contradiction(lazy, joined, client=client) == contradiction(views, joined)


@pytest.mark.slow
def test_some_of_many_samples_are_looked_at_with_their_labels(rng, tmp_path):
    member = np.sort(rng.integers(3, size=7000))
    views = [groups(member, 6, rng), groups(member, 5, rng), rng.normal(size=(7000, 4))]
    found = []
    for there in (views, mapped(tmp_path, views)):
        with pytest.warns(UserWarning, match=r"view 'view3' shows other groups"):
            found.append(only_doubt(OMCAL(3, random_state=0).fit(there)))
    assert found[0] == found[1]


@pytest.mark.sampled
@pytest.mark.parametrize("noise", [0.3, 1.0, 2.5])
def test_views_that_agree_do_not_contradict(noise):
    """However dim they are."""
    for seed in range(4):
        data = make_multiview(200, n_clusters=4, n_views=3, noise=noise, random_state=seed)
        model = OMCAL(4, random_state=0).fit(data.views)
        assert not any("contradicts" in doubt.what for doubt in model.doubts_)


@pytest.mark.parametrize("weighting", ["uniform", "agreement", "distinct"])
def test_copies_that_count_twice(member, rng, weighting):
    X = groups(member, 6, rng)
    views = {"a": X, "copy": 3 * X + 1, "b": groups(member, 5, rng)}
    model = OMCAL(3, weighting=weighting, random_state=0)
    if weighting == "distinct":
        assert model.fit(views).doubts_ == []
        assert "share the weight of one view" in model.explain_views(n_resamples=0).warnings[-1]
        return
    with pytest.warns(UserWarning, match=r"'a' and 'copy' are the same, and count twice; leave"):
        model.fit(views)
    only_doubt(model)
    assert model.set_params(weighting=[1.0, 2.0, 1.0]).fit(views).doubts_ == []


def test_samples_that_a_view_lacks_do_not_speak_for_it(member, rng):
    """Where a sample is absent another view stands in, which agrees with itself."""
    views = {"a": groups(member, 6, rng), "b": groups(rng.permutation(member), 6, rng)}
    present = {"b": rng.uniform(size=300) < 0.3}
    with pytest.warns(UserWarning, match=r"view 'b' shows other groups than the result"):
        OMCAL(3, random_state=0).fit(views, present=present)


def test_a_view_that_is_ignored(member, rng):
    views = [groups(member, 6, rng) for _ in range(3)] + [rng.normal(size=(300, 60))]
    model = OMCAL(3, random_state=0)
    with pytest.warns(UserWarning, match="view 'view4'"):
        model.fit(views)
    model.view_weights_ = np.array([0.4, 0.3, 0.29, 0.01])
    for weighting, other in (("distinct", "uniform"), ("adaptive", "agreement")):
        model.set_params(weighting=weighting)
        (doubt,) = doubts(model, None, cluster_sizes(model.labels_, 3), SOLO)
        assert str(doubt) == (
            f"view 'view4' is ignored: its weight is 0.010; try weighting='{other}' if it should "
            "count; if not, leave it out."
        )


def test_iterations_that_were_not_enough(member, rng):
    views = [groups(member, width, rng) for width in (6, 5)]
    message = r"still changes by more than tol=1e-09 after max_iter=2 .*; raise max_iter or tol"
    with pytest.warns(ConvergenceWarning, match=message):
        model = OMCAL(3, max_iter=2, tol=1e-9, random_state=0).fit(views)
    assert not model.converged_
    assert only_doubt(model).advice == "raise max_iter or tol"


def test_the_next_fit_has_its_own_doubts(member, rng):
    views = [groups(member, 6, rng), np.ones((300, 2))]
    model = OMCAL(3, random_state=0)
    with pytest.warns(UserWarning, match="leave it out"):
        model.fit(views)
    assert model.fit([views[0], views[0][:, :3]]).doubts_ == []


@pytest.mark.parametrize("joined", [False, True])
def test_a_file_keeps_the_doubts(member, rng, tmp_path, joined):
    """Those that only the graphs tell, too, which a file does not hold."""
    views = [groups(member, 6, rng), groups(member, 5, rng), rng.normal(size=(300, 6))]
    model = Consensus(OMCAL(3), n_runs=3, random_state=0) if joined else OMCAL(3, random_state=0)
    with pytest.warns(UserWarning, match=r"view 'view3' shows other groups"):
        model.fit(views)
    model.save(tmp_path / "model.omcal")
    assert load(tmp_path / "model.omcal").doubts_ == model.doubts_


# A view that is the same for all samples


@pytest.mark.slow
@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=str)
@pytest.mark.parametrize("scale", ["auto", "feature", "sample", "view", None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_view_has_no_weight(member, rng, weighting, scale, dtype):
    views = {
        "a": groups(member, 6, rng).astype(dtype),
        "b": groups(member, 5, rng).astype(dtype),
        "dead": np.full((300, 4), 3.3, dtype),
    }
    message = r"view 'dead' is the same for all samples .*: its weight is 0; leave it out"
    with pytest.warns(UserWarning, match=message):
        model = OMCAL(3, weighting=weighting, scale=scale, random_state=0).fit(views)
    assert model.view_weights_[2] == 0
    assert model.view_weights_.sum() == pytest.approx(1)
    assert (model.view_weights_[:2] > 0).all()
    assert only_doubt(model).what.startswith("view 'dead'")


@pytest.mark.parametrize("place", ["files", pytest.param("tensors", marks=pytest.mark.torch)])
def test_a_constant_view_elsewhere(member, rng, tmp_path, place):
    views = [groups(member, 6, rng), groups(member, 5, rng), np.full((300, 4), 3.3)]
    if place == "files":
        views = mapped(tmp_path, views)
    else:
        torch = pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
        views = [torch.from_numpy(view) for view in views]
    with pytest.warns(UserWarning, match=r"view 'view3' is the same for all samples"):
        model = OMCAL(3, random_state=0).fit(views)
    assert model.view_weights_[2] == 0


def test_the_other_views_are_clustered_as_if_alone(member, rng):
    views = [groups(member, 6, rng, distance=1.5), groups(member, 5, rng, distance=1.5)]
    with pytest.warns(UserWarning, match="leave it out"):
        found = OMCAL(3, random_state=0).fit([*views, np.zeros((300, 7))])
    alone = OMCAL(3, random_state=0).fit(views)
    np.testing.assert_array_equal(found.labels_, alone.labels_)
    np.testing.assert_allclose(found.view_weights_[:2], alone.view_weights_, rtol=1e-6)


def test_weights_that_only_a_constant_view_was_given(member, rng):
    """Nothing would be left to go by, and the views that say something were given nothing."""
    views = [groups(member, 6, rng), np.ones((300, 2))]
    message = (
        r"^weighting=\[0.0, 1.0\] gives all weight to views that are the same for all samples "
        r"after scaling; give some to the others\.$"
    )
    with pytest.raises(ValueError, match=message):
        OMCAL(3, weighting=[0, 3], random_state=0).fit(views)


def test_views_that_are_all_constant():
    """There is nothing to find, and no other view that could have the weight."""
    message = r"all samples are the same in every view after scaling; look at the data"
    empty = pytest.warns(ConvergenceWarning, match=r"only 1 of n_clusters=2")
    with empty, pytest.warns(UserWarning, match=message):
        model = OMCAL(2, random_state=0).fit([np.ones((50, 3)), np.zeros((50, 2))])
    np.testing.assert_allclose(model.view_weights_, 0.5)


# Of several runs


def test_a_consensus_has_the_doubts_of_its_data(member, rng):
    views = [groups(member, 6, rng), np.ones((300, 2))]
    with pytest.warns(UserWarning, match="leave it out"):
        model = Consensus(OMCAL(3), n_runs=3, random_state=0).fit(views)
    assert "is the same for all samples" in only_doubt(model).what
    np.testing.assert_array_equal(model.view_weights_, [1, 0])


def test_runs_that_had_not_converged_are_counted(member, rng):
    views = [groups(member, width, rng) for width in (6, 5)]
    with pytest.warns(ConvergenceWarning, match=r"3 of 3 runs had not converged after max_iter=2"):
        Consensus(OMCAL(3, max_iter=2, tol=1e-12), n_runs=3, random_state=0).fit(views)


def test_the_former_name_of_a_diagnostic_warns():
    with pytest.warns(FutureWarning, match="now called Diagnostic"):
        assert doubts_module.Doubt is doubts_module.Diagnostic
    with pytest.raises(AttributeError, match="no attribute 'Doubts'"):
        doubts_module.Doubts  # noqa: B018
