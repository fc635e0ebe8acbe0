"""Several runs joined into one result."""

import logging
import signal
import threading
import time
import uuid
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_info

import reference
from large_fits import mapped, overlapping
from omcal import OCAL, OMCAL, Consensus, load
from omcal.datasets import make_multiview
from omcal.method.new_samples import joined_graph
from omcal.method.rows import Assignment, decide, second
from omcal.method.solver import Problem, solve
from omcal.method.starts import starts
from omcal.metrics import match_labels
from omcal.model.runs import RunsAtWork, certainty, run_table, small
from omcal.model.subset_fits import fitted_views
from omcal.places.memory import MemoryRows
from omcal.views.reading import read_views

DATA = make_multiview(400, n_clusters=4, noise=1.0, random_state=0)
ARRAYS = list(DATA.views.values())


@pytest.fixture(scope="module")
def model():
    return Consensus(OMCAL(4), n_runs=5, random_state=0).fit(DATA.views)


def test_attributes(model):
    assert model.labels_.shape == model.certainty_.shape == (400,)
    assert len(model.runs_) == 5
    assert 0 < model.stability_ <= 1
    assert ((model.certainty_ >= 0) & (model.certainty_ <= 1)).all()
    assert_allclose(model.view_weights_.sum(), 1)
    assert model.view_weights_spread_.shape == (3,)
    assert model.view_names_ == list(DATA.views)
    similar = [adjusted_rand_score(model.labels_, run.labels) for run in model.runs_]
    assert_allclose(model.stability_, np.mean(similar), atol=1e-12)
    assert_array_equal(model.estimator_.labels_, model.runs_[int(np.argmax(similar))].labels)


@pytest.mark.slow
def test_the_joined_graph_is_clustered_by_algorithm_1(model):
    """The same solver on the same graph: the plain oracle comes to the same objective."""
    runs = [next(rule.blocks(read_views(OMCAL(), DATA.views))) for rule in model._rule.runs]
    graph = joined_graph([Assignment(labels, 0, *second(U, labels)) for U, labels in runs], 4)
    S = graph.side_by_side().toarray().astype(np.float64)
    assert_allclose(S.sum(axis=1), 1, rtol=1e-6)
    entries = np.count_nonzero(S.reshape(-1, 5, 4), axis=2)
    assert (entries >= 1).all() and (entries <= 2).all()
    inner = OMCAL(4)
    G = np.linalg.qr(np.random.default_rng(0).normal(size=(S.shape[1], 4)))[0]
    expected = reference.algorithm1([S], model._rule.consensus.G, inner.beta, inner.gamma, 200)
    assert model.objective_[-1] <= expected.history[-1] * (1 + 1e-3)
    other = reference.algorithm1([S], G, inner.beta, inner.gamma, 200)
    assert model.objective_[-1] <= other.history[-1] * (1 + 1e-2)


def test_predict_and_transform(model):
    assert_array_equal(model.predict(DATA.views), model.labels_)
    F = model.transform(DATA.views)
    assert F.shape == (400, 4)
    assert (F >= 0).all()
    assert (F.argmax(axis=1) == model.labels_).mean() > 0.99
    some = {name: view[:7] for name, view in DATA.views.items()}
    assert_array_equal(model.predict(some), model.labels_[:7])


@pytest.mark.slow
def test_same_result_for_the_same_seed_and_any_number_of_jobs(model):
    again = clone(model).fit(DATA.views)
    assert_array_equal(again.labels_, model.labels_)
    threads = clone(model).set_params(n_jobs=2).fit(DATA.views)
    assert_array_equal(threads.labels_, model.labels_)
    other = clone(model).set_params(random_state=1).fit(DATA.views)
    assert not all(
        (a.labels == b.labels).all() for a, b in zip(other.runs_, model.runs_, strict=True)
    )


def test_runs_are_what_single_fits_give(model):
    seeds = np.random.RandomState(0).randint(2**31 - 1, size=6)
    single = OMCAL(4, random_state=int(seeds[2])).fit(DATA.views)
    assert_array_equal(match_labels(single.labels_, model.runs_[2].labels), single.labels_)
    assert_allclose(single.view_weights_, model.runs_[2].view_weights)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
def test_clusters_of_one_size_have_the_order_of_the_first_run(seed):
    """Where all runs agree, nothing but rounding would tell one number from another."""
    views = make_multiview(300, n_clusters=6, noise=0.05, random_state=seed).views
    model = Consensus(OMCAL(6), n_runs=4, random_state=seed).fit(views)
    assert model.stability_ == 1
    sizes = np.bincount(model.labels_)
    assert (np.diff(sizes) <= 0).all()
    first = match_labels(model.labels_, model.runs_[0].labels)
    assert_array_equal(first, model.labels_)
    for size in np.unique(sizes):
        same = np.isin(model.labels_, np.flatnonzero(sizes == size))
        pairs = set(zip(model.labels_[same], model.runs_[0].labels[same], strict=True))
        assert sorted(pairs) == sorted(pairs, key=lambda pair: pair[1])
    np.testing.assert_array_equal(model.predict(views), model.labels_)
    np.testing.assert_array_equal(model.transform(views).argmax(axis=1), model.labels_)


@pytest.mark.slow
def test_less_dependent_on_the_seed():
    hard = make_multiview(300, n_clusters=6, noise=1.7, random_state=1)
    single = [OMCAL(6, random_state=s).fit(hard.views).labels_ for s in range(6)]
    joined = [Consensus(OMCAL(6), random_state=s).fit(hard.views).labels_ for s in range(3)]

    def mean_ari(found):
        pairs = [(a, b) for i, a in enumerate(found) for b in found[:i]]
        return np.mean([adjusted_rand_score(a, b) for a, b in pairs])

    assert mean_ari(joined) > mean_ari(single)


@pytest.mark.slow
def test_in_files_as_in_memory(model, tmp_path):
    found = clone(model).fit(mapped(tmp_path, ARRAYS))
    expected = clone(model).fit(ARRAYS)
    assert_array_equal(found.labels_, expected.labels_)
    assert_array_equal(found.predict(mapped(tmp_path, ARRAYS)), expected.labels_)


@pytest.mark.slow
def test_samples_of_the_runs_in_files_as_in_memory(tmp_path):
    """Each run has anchors of rows of its own, of which the files are read once."""
    views = overlapping(3000, widths=(6, 4))
    joint = Consensus(OMCAL(3, n_anchors=8, n_neighbors=3), n_runs=3, random_state=0)
    expected, found = joint.fit(views), clone(joint).fit(mapped(tmp_path, views))
    for one, other in zip(found._rule.runs, expected._rule.runs, strict=True):
        for a, b in zip(one.learned.anchors, other.learned.anchors, strict=True):
            assert_allclose(a, b, atol=1e-10)
    assert_array_equal(found.labels_, expected.labels_)


def test_on_a_device_as_in_memory(torch, model):
    expected = clone(model).fit(ARRAYS)
    tensors = [torch.from_numpy(view) for view in ARRAYS]
    found = clone(model).fit(tensors)
    assert_array_equal(np.asarray(found.labels_), expected.labels_)
    assert_array_equal(found.predict(tensors).numpy(), expected.labels_)


@pytest.fixture(
    scope="module", params=[np.float32, pytest.param(np.float64, marks=pytest.mark.long)]
)
def in_span(request):
    """Views of so many samples and features that runs share a span, and what is found in memory."""
    views = overlapping(6000, widths=(60, 40), dtype=request.param, apart=0.25)
    joint = Consensus(OMCAL(4), n_runs=3, random_state=0).fit(views)
    assert joint.stability_ < 1
    return views, joint


@pytest.mark.slow
def test_in_a_span_in_files_as_in_memory(in_span, tmp_path):
    views, expected = in_span
    found = clone(expected).fit(mapped(tmp_path, views))
    assert_array_equal(found.labels_, expected.labels_)
    limited = clone(expected).set_params(estimator__memory_limit="200 kB").fit(views)
    assert_array_equal(limited.labels_, expected.labels_)
    threads = clone(expected).set_params(n_jobs=2).fit(views)
    assert_array_equal(threads.labels_, expected.labels_)


@pytest.mark.slow
def test_in_a_span_with_graphs_one_after_another(in_span, monkeypatch):
    """Where those of all runs are too large together, two are made at a time, and one again."""
    views, expected = in_span
    one = expected.estimator_._graphs
    monkeypatch.setattr("omcal.places.memory.TOGETHER", 1)
    found = clone(expected).fit(views)
    assert_array_equal(found.labels_, expected.labels_)
    monkeypatch.setattr("omcal.places.memory.LARGEST_KEPT", 1)
    assert clone(expected).fit(views).estimator_._graphs is None
    again = found.estimator_._graphs
    same = [graphs.side_by_side().toarray() for graphs in (again, one)]
    assert_allclose(*same, atol=2e-4)


@pytest.mark.long
@pytest.mark.process
def test_in_a_span_on_a_cluster_as_in_memory(in_span, client):
    import dask.array as da

    views, expected = in_span
    found = clone(expected).fit([da.from_array(view, chunks=(1700, -1)) for view in views])
    assert_array_equal(np.asarray(found.labels_), expected.labels_)


@pytest.mark.long
@pytest.mark.process
def test_a_cluster_reads_the_rows_as_often_for_many_runs(in_span, client, tmp_path):
    import dask
    import dask.array as da

    views, _ = in_span

    def read(block, folder):
        (folder / uuid.uuid4().hex).touch()
        return block

    counts = []
    for n_runs in (2, 4):
        folder = tmp_path / str(n_runs)
        folder.mkdir()
        blocks = [
            [dask.delayed(read)(X[a : a + 2000], folder) for a in (0, 2000, 4000)] for X in views
        ]
        lazy = [
            da.concatenate([da.from_delayed(b, (2000, X.shape[1]), X.dtype) for b in of_view])
            for X, of_view in zip(views, blocks, strict=True)
        ]
        Consensus(OMCAL(4, client=client), n_runs=n_runs, random_state=0).fit(lazy)
        counts.append(len(list(folder.iterdir())))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("n_bytes", [1, 1 << 30])
def test_in_a_span_on_a_device_as_in_memory(torch, in_span, n_bytes, monkeypatch):
    """Where all runs are worked on together, and where they are too large for that."""
    monkeypatch.setattr("omcal.places.gpu.place._TOGETHER", n_bytes)
    views, expected = in_span
    tensors = [torch.from_numpy(view) for view in views]
    found = clone(expected).fit(tensors)
    # k-means of rounded coordinates may end next to the other result: these clusters overlap.
    most = 0.0 if views[0].dtype == np.float64 else 0.02
    assert np.mean(np.asarray(found.labels_) != expected.labels_) <= most
    assert np.mean(found.predict(tensors).numpy() != expected.predict(views)) <= most


@pytest.mark.slow
def test_in_a_span_with_samples_that_are_absent(in_span, tmp_path):
    views = [view.copy() for view in in_span[0]]
    views[0][::5] = np.nan
    found = clone(in_span[1]).fit(views)
    assert adjusted_rand_score(found.labels_, in_span[1].labels_) > 0.5
    assert_array_equal(clone(found).fit(mapped(tmp_path, views)).labels_, found.labels_)


def test_missing_views(model):
    views = [view.copy() for view in ARRAYS]
    views[0][::5] = np.nan
    views[2][1::7] = np.nan
    found = clone(model).fit(views)
    assert adjusted_rand_score(found.labels_, model.labels_) > 0.6
    assert_array_equal(found.predict(views), found.labels_)


def test_saved_and_loaded(model, tmp_path):
    path = tmp_path / "joined.omcal"
    model.save(path)
    again = load(path)
    assert isinstance(again, Consensus)
    assert_array_equal(again.labels_, model.labels_)
    assert_array_equal(again.certainty_, model.certainty_)
    assert again.stability_ == pytest.approx(model.stability_)
    assert_array_equal(again.predict(DATA.views), model.labels_)
    assert again.n_runs == 5 and again.estimator.n_clusters == 4
    again.save(tmp_path / "twice.omcal")
    assert_array_equal(load(tmp_path / "twice.omcal").predict(DATA.views), model.labels_)


@pytest.mark.slow
def test_goes_on_after_an_interruption(model, tmp_path, monkeypatch, caplog):
    path = tmp_path / "state"
    joint = clone(model).set_params(estimator__checkpoint=path)
    calls = []
    plain = OMCAL._optimise

    def failing(self, *args, **options):
        if len(calls) == 3:
            raise RuntimeError("power cut")
        calls.append(1)
        return plain(self, *args, **options)

    monkeypatch.setattr(OMCAL, "_optimise", failing)
    with pytest.raises(RuntimeError, match="power cut"):
        joint.fit(DATA.views)
    assert not hasattr(joint, "labels_")
    monkeypatch.undo()
    for other in ({"random_state": 1}, {"n_runs": 6}):
        with pytest.raises(ValueError, match=rf"another fit .{next(iter(other))}: "):
            clone(joint).set_params(**other).fit(DATA.views)
    caplog.set_level(logging.INFO, logger="omcal")
    assert_array_equal(
        joint.set_params(estimator__verbose=1).fit(DATA.views).labels_, model.labels_
    )
    assert "continuing after" in caplog.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_explanation_report_and_estimate(model, tmp_path):
    assert len(model.explain_views(n_resamples=0).views) == 3
    text = model.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<html" in text
    one, ten = OMCAL(4).estimate(10**6, [20, 30]), Consensus(OMCAL(4)).estimate(10**6, [20, 30])
    # The graphs of a second run beside those of the first, and the labels of all runs.
    more = one.memory["iterating"]["graphs"] + ten.memory["iterating"]["labels of the runs"]
    assert one.bytes + 10**7 <= ten.bytes <= one.bytes + more
    assert ten.seconds > 5 * one.seconds


@pytest.mark.slow
@pytest.mark.parametrize("together", [1 << 25, 1])  # bytes: all are kept, or one is made again
def test_the_graphs_are_those_of_the_run_that_is_kept(together, monkeypatch):
    monkeypatch.setattr("omcal.places.memory.TOGETHER", together)
    kept = []
    for seed in range(4):
        model = Consensus(OMCAL(4), n_runs=3, random_state=seed).fit(DATA.views)
        run = model.estimator_
        kept.append([run._rule is rule for rule in model._rule.runs].index(True))
        expected = run._rule.learned.graphs(fitted_views(run, DATA.views))
        assert_array_equal(run._graphs.indices, expected.indices)
        assert_allclose(run._graphs.weights, expected.weights)
    assert any(kept)  # it is not always the first


@pytest.mark.parametrize(("c", "n_bytes"), [(1, 1), (256, 1), (257, 2), (70_000, 4)])
def test_what_runs_found_is_kept_in_few_bytes(c, n_bytes):
    labels, share = np.array([0, c - 1], dtype=np.int32), np.array([255, 200], dtype=np.uint8)
    found = small(Assignment(labels, 0, labels[::-1], share), c)
    assert found.labels.itemsize == found.second.itemsize == n_bytes
    for part in (found.labels, found.second[::-1]):
        assert_array_equal(part, labels)
    assert_array_equal(found.share, share)


@pytest.mark.parametrize("c", [1, 2, 15, 16, 17, 300])
def test_tables_of_any_number_of_clusters(c):
    run, labels = np.random.default_rng(c).integers(c, size=(2, 5000))
    expected = np.zeros((c, c), dtype=int)
    np.add.at(expected, (run, labels), 1)
    found = run_table(run.astype(np.min_scalar_type(c - 1)), labels.astype(np.int32), c)
    assert_array_equal(found, expected)


def test_certainty_is_the_share_of_runs_that_agree():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=50)
    turned = np.array([2, 0, 1])[labels]

    def found(*runs):
        return certainty(runs, labels, [run_table(run, labels, 3) for run in runs])

    assert (found(labels, turned) == 1).all()
    wrong = labels.copy()
    wrong[0] = (labels[0] + 1) % 3
    shares = found(labels, wrong)
    assert shares[0] == 0.5 and (shares[1:] == 1).all()


def test_clusters_that_a_run_left_empty_take_no_part():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 30)
    fewer = np.where(labels == 2, 0, labels)
    sure = (np.zeros(90, np.uint8), np.full(90, 255, np.uint8))
    graph = joined_graph([Assignment(run, 0, *sure) for run in (labels, fewer, labels)], 3)
    S = graph.side_by_side().toarray()
    assert_allclose(S.sum(axis=1), 1, rtol=1e-6)
    assert (S[:, 5] == 0).all()
    rows = MemoryRows(graph, 3)
    problem = Problem(0.3, 0.1, "fixed", np.ones(1), 50, 1e-6, True)
    ((G,),) = starts("spectral", 1, rows.gram()[0], 3, [rng])
    Z = solve(rows, rows.gram(), G, problem).consensus
    assert_allclose(Z.G[5], 0, atol=1e-12)
    assert adjusted_rand_score(labels, rows.assign(Z.alpha, *Z.f_step(), Z.G).labels) == 1


@given(st.integers(0, 2**32 - 1))
def test_the_runner_up_is_second_and_shares_by_squares(seed):
    rng = np.random.default_rng(seed)
    n, c = rng.integers(1, 30), rng.integers(1, 9)
    U = np.round(rng.normal(size=(n, c)), 1).astype(rng.choice([np.float32, np.float64]))
    found = decide(U, U.__getitem__, 1.0, runner_up=True)
    for u, label, runner_up, share in zip(U, found.labels, found.second, found.share, strict=True):
        F = np.maximum(u, 0)
        a, b = F[label] ** 2, F[runner_up] ** 2 if runner_up != label else 0.0
        assert b == (np.sort(F)[-2] ** 2 if c > 1 else 0) and (runner_up != label or c == 1)
        assert abs(share / 255 - (a / (a + b) if a else 1)) <= 0.5 / 255 + 1e-6


def test_single_view_and_doubts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5)) + 6 * np.repeat(np.eye(5)[:3], 40, axis=0)
    model = Consensus(OCAL(3), n_runs=3, random_state=0).fit(X)
    assert model.stability_ == 1
    assert model.doubts_ == []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        Consensus(OCAL(8), n_runs=4, random_state=0).fit(rng.normal(size=(90, 40)))
    assert any("the runs differ" in str(w.message) for w in seen)


def test_verbose_tells_scalings_and_runs(caplog):
    with caplog.at_level(logging.INFO, logger="omcal"):
        Consensus(OMCAL(4, verbose=1), n_runs=2, random_state=0).fit(DATA.views)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert "view 'view1' is scaled as standard (plain numeric features)" in said
    assert [line.split(":")[0] for line in said[-2:]] == ["run 1 of 2", "run 2 of 2"]


def test_refusals():
    from sklearn.cluster import KMeans

    with pytest.raises(ValueError, match=r"estimator=KMeans\(.*cannot be joined; give OMCAL"):
        Consensus(KMeans(3)).fit(ARRAYS)
    with pytest.raises(ValueError, match="n_runs"):
        Consensus(OMCAL(3), n_runs=1).fit(ARRAYS)
    given = [view[:20] for view in ARRAYS]
    for settings in ({}, {"init": np.eye(20, 3)}):
        with pytest.raises(ValueError, match=r"n_runs=3 runs would all be the same: anchors are"):
            Consensus(OMCAL(3, anchors=given, **settings), n_runs=3).fit(ARRAYS)


@pytest.mark.parametrize(
    "settings",
    [{"anchors": [view[:20] for view in ARRAYS], "init": "random"}, {"anchors": "random"}],
)
def test_runs_with_the_same_anchors_say_so(settings):
    views = [view[:20] for view in ARRAYS] if settings["anchors"] == "random" else ARRAYS
    with pytest.warns(UserWarning, match="all 3 runs have the same anchors"):
        Consensus(OMCAL(3, n_anchors=20, **settings), n_runs=3, random_state=0).fit(views)


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_all_runs(press, tmp_path, n_jobs, times, monkeypatch):
    slow = OMCAL(4, tol=0, max_iter=3000, accelerate=False, gamma=1e-3, checkpoint=tmp_path / "s")
    model = Consensus(slow, n_runs=6, n_jobs=n_jobs, random_state=0)
    Consensus(OMCAL(4), n_runs=2, n_jobs=n_jobs).fit(DATA.views)  # starts the threads that stay
    before = state_of_process()
    if times == 2:  # signals of a thread are handled later, and then as one
        monkeypatch.setattr("omcal.model.progress.FitMonitor._ask", signal.default_int_handler)
    press(iteration=7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KeyboardInterrupt):
            model.fit(DATA.views)
    assert state_of_process() == before  # no thread works on
    for saved in tmp_path.iterdir():
        saved.unlink()
    time.sleep(0.2)
    assert not list(tmp_path.iterdir())
    assert hasattr(model, "labels_") == (times == 1)
    if times == 1:
        assert 1 <= len(model.runs_) <= (n_jobs or 1)
        assert 7 <= model.runs_[0].solution.n_iter < 3000
        assert model.predict(DATA.views).shape == model.labels_.shape
        model.save(tmp_path / "model.omcal")
        assert_array_equal(load(tmp_path / "model.omcal").labels_, model.labels_)


def state_of_process():
    pools = [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()]
    return threading.active_count(), signal.getsignal(signal.SIGINT), sorted(pools)


def test_an_error_in_one_thread_ends_the_others(monkeypatch):
    slow = OMCAL(4, tol=0, max_iter=100_000, accelerate=False, gamma=1e-3)
    calls, plain, before = [], OMCAL._optimise, threading.active_count()

    def failing(self, *args, **options):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("broken")
        return plain(self, *args, **options)

    monkeypatch.setattr(OMCAL, "_optimise", failing)
    with pytest.raises(RuntimeError, match="broken"):
        Consensus(slow, n_runs=4, n_jobs=2, random_state=0).fit(DATA.views)
    assert threading.active_count() == before


@pytest.mark.slow
def test_runs_with_many_anchors_are_solved_in_threads_with_the_same_result(monkeypatch):
    """By default one per core, each with one thread of BLAS."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    views = make_multiview(260, n_clusters=5, noise=0.8, random_state=0).views
    seen = []
    solve = RunsAtWork._in_threads
    monkeypatch.setattr(
        RunsAtWork, "_in_threads", lambda self, *given: seen.append(given[1]) or solve(self, *given)
    )
    default, alone = (
        Consensus(OMCAL(5, n_anchors=100), n_runs=4, n_jobs=n_jobs, random_state=0).fit(views)
        for n_jobs in (None, 1)
    )
    assert seen == [2]
    np.testing.assert_array_equal(default.labels_, alone.labels_)
    for one, other in zip(default.runs_, alone.runs_, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
        np.testing.assert_allclose(one.solution.history, other.solution.history, rtol=1e-9)
    few = Consensus(OMCAL(5, n_anchors=99), n_runs=2, random_state=0).fit(views)
    assert seen == [2] and len(few.runs_) == 2


def test_another_fit_forgets_the_names_of_columns():
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(60, 4))
    model = Consensus(OMCAL(3), n_runs=2, random_state=0).fit(pd.DataFrame(X, columns=list("abcd")))
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    model.fit([X, X[:, :2]])
    assert not hasattr(model, "feature_names_in_") and model.n_features_in_ == 6
