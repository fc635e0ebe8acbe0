"""Rows on a Dask cluster of two processes: the same result, whatever dies on the way."""

import logging
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import test_exact
from omcal import OCAL, OMCAL
from omcal.graph import AnchorGraphs
from omcal.views import row_blocks

pytest.importorskip("distributed", reason="the extra dask is not installed")

import dask
import dask.array as da
import distributed
from distributed import Client, LocalCluster

from omcal import dask_backend
from omcal.dask_backend import GraphPart
from omcal.rows.dask import DaskRows

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.skipif(
        "OMCAL_TEST_DASK" not in os.environ,
        reason="starts and kills worker processes; set OMCAL_TEST_DASK=1 to run them",
    ),
]

SETTINGS = {"n_clusters": 4, "n_anchors": 9, "max_iter": 12, "tol": 0.0, "random_state": 0}


@pytest.fixture(scope="module")
def client():
    """Two worker processes on this machine, reachable from nowhere else."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        cluster = LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            memory_limit="1GB",
        )
    except RuntimeError as error:
        pytest.skip(f"no Dask cluster could be started on this machine: {error}")
    with cluster, Client(cluster, timeout="60s") as client:
        yield client


def overlapping(n=6000, widths=(6, 4), dtype=np.float32, seed=0):
    """Views of groups that overlap, with more rows than the anchors are chosen from."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n)
    return [
        (1.5 * rng.normal(size=(4, d))[y] + rng.normal(size=(n, d))).astype(dtype) for d in widths
    ]


def cut(views, rows=1700):
    return [da.from_array(X, chunks=(rows, -1)) for X in views]


@pytest.fixture(scope="module")
def expected():
    """The fit in memory."""
    return OMCAL(**SETTINGS).fit(overlapping())


def assert_same_fit(found, expected):
    np.testing.assert_array_equal(np.asarray(found.labels_), expected.labels_)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-10)
    np.testing.assert_allclose(found.view_weights_, expected.view_weights_, atol=1e-10)


# The solver against Algorithm 1


class Distributed(DaskRows):
    """Rows on a cluster, with the F of all of them."""

    def __init__(self, client, graphs, n_clusters, n_parts=3):
        rows = list(row_blocks(graphs.n, -(-graphs.n // n_parts)))
        parts = [GraphPart(graphs[part], n_clusters, graphs.n) for part in rows]
        super().__init__(client, client.scatter(parts), [len(range(graphs.n)[r]) for r in rows])
        self._last = None

    def assign(self, alpha, P, R, G):
        self._last = (alpha, P, R)
        return super().assign(alpha, P, R, G)

    @property
    def F(self):
        self.sweep(*self._last)
        return np.concatenate([F for F, _ in self._client.gather(self._states)])


@pytest.fixture
def make_rows(client):
    def make(graphs, n_clusters):
        return Distributed(client, graphs, n_clusters)

    return make


few = settings(test_exact.exhaustive, max_examples=5)
test_equals_algorithm_1 = few(
    given(test_exact.problems(), st.sampled_from(["adaptive", "agreement", "fixed"]))(
        test_exact.test_equals_algorithm_1.hypothesis.inner_test
    )
)
test_float32_storage_gives_the_same_labels = few(
    given(test_exact.problems())(
        test_exact.test_float32_storage_gives_the_same_labels.hypothesis.inner_test
    )
)
test_rows_may_be_grouped_in_any_way = test_exact.test_rows_may_be_grouped_in_any_way


# The estimator


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("rows", [6000, 1700, 130])
def test_any_chunking_gives_the_result_of_memory(expected, rows):
    model = OMCAL(**SETTINGS).fit(cut(overlapping(), rows))
    assert isinstance(model.labels_, da.Array)
    assert model.labels_.shape == (6000,)
    assert model.labels_.dtype == np.int32
    assert_same_fit(model, expected)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("scale", ["sample", "view", None])
def test_every_scaling(scale):
    views = overlapping(dtype=np.float64)
    settings = {**SETTINGS, "scale": scale, "n_init": 2}
    found = OMCAL(**settings).fit(cut(views))
    assert_same_fit(found, OMCAL(**settings).fit(views))


@pytest.mark.usefixtures("client")
def test_given_anchors_and_init():
    rng = np.random.default_rng(2)
    views = overlapping()
    settings = {
        **SETTINGS,
        "scale": None,
        "anchors": [rng.normal(size=(9, 6)), rng.normal(size=(9, 4))],
        "init": np.linalg.qr(rng.normal(size=(9, 4)))[0],
    }
    assert_same_fit(OMCAL(**settings).fit(cut(views)), OMCAL(**settings).fit(views))


@pytest.mark.usefixtures("client")
def test_predict_and_transform_stay_in_dask(expected):
    views = overlapping(seed=1)
    labels, F = expected.predict(cut(views)), expected.transform(cut(views, 999))
    assert isinstance(labels, da.Array) and isinstance(F, da.Array)
    np.testing.assert_array_equal(labels.compute(), expected.predict(views))
    np.testing.assert_array_equal(F.compute(), expected.transform(views))
    with pytest.raises(ValueError, match=r"out= is not for X in Dask"):
        expected.predict(cut(views), out=np.empty(6000))


@pytest.mark.usefixtures("client")
def test_views_cut_at_different_rows(expected, caplog):
    A, B = overlapping()
    model = OMCAL(**SETTINGS)
    with caplog.at_level(logging.WARNING, logger="omcal"):
        model.fit([da.from_array(A, chunks=(2000, 5)), da.from_array(B, chunks=(900, 2))])
    assert "view 'view2' has 7 chunks of rows and another view 3; it is cut anew" in caplog.text
    assert_same_fit(model, expected)


@pytest.mark.usefixtures("client")
def test_data_frames(expected):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    A, B = overlapping()
    columns = [f"a_{i}" for i in range(6)] + [f"b_{i}" for i in range(4)]
    frame = dd.from_pandas(pd.DataFrame(np.hstack([A, B]), columns=columns), npartitions=4)
    frame = frame[frame.a_0 > -1e9]  # nobody knows any longer how many rows there are
    model = OMCAL(**SETTINGS, views="prefix_").fit(frame)
    assert model.view_names_ == ["a", "b"]
    assert_same_fit(model, expected)
    assert_same_fit(OMCAL(**SETTINGS).fit([frame[columns[:6]], frame[columns[6:]]]), expected)
    named = {"a": frame[columns[:6]], "b": frame.assign(b_3="x")[columns[6:]]}
    with pytest.raises(ValueError, match=r"view 'b' holds .* values; a view must be numeric"):
        OMCAL(**SETTINGS).fit(named)


@pytest.mark.usefixtures("client")
def test_lists_of_delayed_blocks(expected):
    A, B = overlapping()
    blocks = [[dask.delayed(X[rows]) for rows in row_blocks(6000, 2500)] for X in (A, B)]
    assert_same_fit(OMCAL(**SETTINGS).fit(blocks), expected)
    assert_same_fit(OMCAL(**SETTINGS).fit({"view1": blocks[0], "view2": blocks[1]}), expected)
    one = OCAL(**SETTINGS).fit(blocks[0])
    np.testing.assert_array_equal(np.asarray(one.labels_), OCAL(**SETTINGS).fit(A).labels_)
    with pytest.raises(ValueError, match=r"view 'view2': its blocks have the shapes .*same number"):
        OMCAL(**SETTINGS).fit([blocks[0], [blocks[1][0], blocks[0][0]]])


def test_files_that_the_workers_read(client, expected, tmp_path):
    for v, X in enumerate(overlapping()):
        np.save(tmp_path / f"{v}.npy", X)
    files = [np.load(tmp_path / f"{v}.npy", mmap_mode="r") for v in range(2)]
    assert_same_fit(OMCAL(**SETTINGS, client=client).fit(files), expected)
    with pytest.raises(ValueError, match=r"view 'view1' is in the memory of this process"):
        OMCAL(**SETTINGS, client=client).fit(overlapping())


def test_a_client_is_shared_by_clones_and_left_out_of_pickles(client):
    import pickle

    model = OMCAL(**SETTINGS, client=client)
    assert clone(model).client is client
    assert pickle.loads(pickle.dumps(model)).client is None
    assert model.client is client


# What travels


def test_bytes_of_an_iteration_do_not_depend_on_n(client, monkeypatch):
    from distributed.comm.tcp import TCP

    sent = 0
    plain = TCP.write

    async def write(self, *args, **kwargs):
        nonlocal sent
        n_bytes = await plain(self, *args, **kwargs)
        sent += n_bytes
        return n_bytes

    def between_workers():
        def total(dask_worker):
            return dask_worker.transfer_outgoing_bytes_total

        return sum(client.run(total).values())

    monkeypatch.setattr(TCP, "write", write)  # the client and the scheduler are in this process
    rng = np.random.default_rng(0)
    V, k, m, c = 2, 5, 30, 6
    per_iteration = []
    for n in (2000, 100_000):
        indices = rng.integers(m, size=(n, V, k)).astype(np.uint8)
        graphs = AnchorGraphs(indices, np.full((n, V, k), 0.2, np.float32), m)
        rows = Distributed(client, graphs, c, n_parts=4)
        step = np.full(V, 1 / V), rng.normal(size=(m, c)), 0.05 * np.eye(c)
        rows.gram()
        for _ in range(3):
            rows.sweep(*step)
        before = sent + between_workers()
        for _ in range(10):
            rows.sweep(*step)
        per_iteration.append((sent + between_workers() - before) / 10)
    small, large = per_iteration
    assert large < 1.25 * small
    assert large < 100_000 < 100_000 * c * 4  # while F alone has 2.4 MB


def test_task_names_say_what_is_done(client):
    seen = set()

    def spy(dask_scheduler):
        return {distributed.utils.key_split(key) for key in dask_scheduler.tasks}

    plain = DaskRows.sweep

    def sweep(self, *step):
        seen.update(client.run_on_scheduler(spy))
        return plain(self, *step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DaskRows, "sweep", sweep)
        OMCAL(**{**SETTINGS, "max_iter": 3}).fit(cut(overlapping()))
    assert {"omcal-graph", "omcal-sweep", "omcal-step"} <= seen


# What dies


def worker_pids(client):
    return set(client.run(os.getpid).values())


def during_sweep(monkeypatch, at, action):
    """Run the action just before the sweep of this number."""
    count = 0
    plain = DaskRows.sweep

    def sweep(self, *step):
        nonlocal count
        count += 1
        if count == at:
            action()
        return plain(self, *step)

    monkeypatch.setattr(DaskRows, "sweep", sweep)


def test_a_killed_worker_does_not_change_the_result(client, expected, monkeypatch):
    killed = []

    def kill():
        killed.append(worker_pids(client).pop())
        os.kill(killed[0], signal.SIGKILL)

    during_sweep(monkeypatch, 6, kill)
    model = OMCAL(**SETTINGS).fit(cut(overlapping()))
    assert_same_fit(model, expected)
    client.wait_for_workers(2, timeout=60)
    assert killed[0] not in worker_pids(client)


CLIENT = """
import os, signal, sys
import dask.array as da, numpy as np
from distributed import Client
from omcal import OMCAL
from omcal.rows.dask import DaskRows
folder, address = sys.argv[1:]
count, plain = 0, DaskRows.sweep
def sweep(self, *step):
    global count
    count += 1
    if count == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(self, *step)
DaskRows.sweep = sweep
client = Client(address)
views = [da.from_array(np.load(f"{folder}/{v}.npy"), chunks=(1700, -1)) for v in range(2)]
OMCAL(4, n_anchors=9, max_iter=12, tol=0.0, random_state=0,
      checkpoint=folder + "/fit.checkpoint").fit(views)
"""


def test_a_killed_client_goes_on_from_its_checkpoint(client, expected, tmp_path, monkeypatch):
    for v, X in enumerate(overlapping()):
        np.save(tmp_path / f"{v}.npy", X)
    address = client.scheduler.address
    done = subprocess.run([sys.executable, "-c", CLIENT, str(tmp_path), address], check=False)
    assert done.returncode == -signal.SIGKILL
    path = tmp_path / "fit.checkpoint"
    assert path.exists()
    model = OMCAL(**SETTINGS, checkpoint=path).fit(cut(overlapping(), 2500))
    assert_same_fit(model, expected)
    assert not path.exists()


@pytest.fixture
def lone_cluster(tmp_path):
    """A scheduler and a worker as processes of their own."""
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    file = tmp_path / "scheduler.json"
    shared = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    scheduler = subprocess.Popen([*command, *options, "--scheduler-file", str(file)], **shared)
    command[-1] = "distributed.cli.dask_worker"
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"]
    worker = subprocess.Popen([*command, *options, "--scheduler-file", str(file)], **shared)
    try:
        for _ in range(600):
            if file.exists():
                break
            time.sleep(0.1)
        yield SimpleNamespace(file=file, scheduler=scheduler)
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()


def test_a_lost_scheduler_is_a_clear_error(lone_cluster, monkeypatch):
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        lost = Client(scheduler_file=str(lone_cluster.file), set_as_default=False, timeout=60)
        during_sweep(monkeypatch, 4, lone_cluster.scheduler.kill)
        try:
            lost.wait_for_workers(1, timeout=60)
            model = OMCAL(**SETTINGS, client=lost)
            with pytest.raises(ConnectionError, match=r"the Dask scheduler at .* was lost.*checkp"):
                model.fit(cut(overlapping()))
        finally:
            lost.close(timeout=1)
    assert not hasattr(model, "labels_")


# What is wrong with the data


def test_no_cluster():
    with pytest.MonkeyPatch.context() as patch:

        def none():
            raise ValueError("No clients found")

        patch.setattr(dask_backend, "default_client", none)
        with pytest.raises(
            ValueError, match=r"there is no cluster to work on; make a client first"
        ):
            OMCAL(**SETTINGS).fit(cut(overlapping()))


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("given_anchors", [False, True])
def test_nan_is_counted_in_its_view(given_anchors):
    A, B = overlapping()
    B[10, 1], B[5000, 2], B[5001, 0] = np.nan, np.inf, np.nan
    model = OMCAL(**SETTINGS)
    if given_anchors:
        model.set_params(scale=None, anchors=[np.eye(9)[:, :6], np.eye(9)[:, :4]])
    image, text = cut([A, B])
    with pytest.raises(ValueError, match=r"view 'text' contains 2 NaN and 1 infinity"):
        model.fit({"image": image, "text": text})


@pytest.mark.usefixtures("client")
def test_views_that_do_not_fit_together():
    A, B = cut(overlapping())
    with pytest.raises(ValueError, match=r"'view1': 6000, 'view2': 5000.*row i must be the same"):
        OMCAL(**SETTINGS).fit([A, B[:5000]])
    with pytest.raises(ValueError, match=r"view 'view2' holds complex"):
        OMCAL(**SETTINGS).fit([A, B + 1j])
    with pytest.raises(ValueError, match=r"memory_limit and scratch_dir are for one machine"):
        OMCAL(**SETTINGS, memory_limit="1GB").fit([A, B])
    with pytest.raises(ValueError, match=r"'kmeans-full' would take all rows off the cluster"):
        OMCAL(**SETTINGS, anchors="kmeans-full").fit([A, B])


@pytest.mark.usefixtures("client")
def test_a_block_that_cannot_be_read():
    def fail(block):
        if len(block) and block[0, 0] > -1e9:
            raise OSError("Input/output error")
        return block

    A, B = cut(overlapping())
    with pytest.raises(OSError, match="Input/output error"):
        OMCAL(**SETTINGS).fit([A, B.map_blocks(fail, meta=np.empty((0, 0), B.dtype))])


@pytest.mark.usefixtures("client")
def test_data_that_change_between_the_reads():
    def noise(block):
        return block + np.random.default_rng().normal(size=block.shape)

    A, B = cut(overlapping())
    changing = B.map_blocks(noise, meta=np.empty((0, 0), B.dtype))
    with pytest.raises(ValueError, match=r"rows \d+ to \d+ have changed since they were first"):
        OMCAL(**SETTINGS).fit([A, changing])


@pytest.mark.usefixtures("client")
def test_blocks_of_another_size_than_announced():
    def shorter(block):
        return block[:-1]

    A, B = cut(overlapping())
    short = B.map_blocks(shorter, meta=np.empty((0, 0), B.dtype), chunks=B.chunks)
    with pytest.raises(
        ValueError, match=r"view 'view2': rows \d+ to \d+ have shape \(\d+, 4\); the data"
    ):
        OMCAL(**SETTINGS).fit([A, short])
