"""Rows on a Dask cluster of two processes: what travels, what dies, and what is wrong."""

import os
import signal
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from large_fits import assert_same_fit, overlapping
from omcal import OMCAL
from omcal.method.graph import AnchorGraphs

pytest.importorskip("distributed", reason="the extra dask is not installed")

import dask
import dask.array as da
import distributed
from distributed import Client

from dask_fits import SETTINGS, Distributed, cut
from omcal.places import cluster as dask_backend
from omcal.places.cluster_rows import ClusterRows

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def expected():
    """The fit in memory."""
    return OMCAL(**SETTINGS).fit(overlapping())


# What travels


@pytest.fixture
def sent(monkeypatch):
    """Bytes that the client and the scheduler, both in this process, have sent so far."""
    from distributed.comm.tcp import TCP

    count = SimpleNamespace(bytes=0)
    plain = TCP.write

    async def write(self, *args, **kwargs):
        n_bytes = await plain(self, *args, **kwargs)
        count.bytes += n_bytes
        return n_bytes

    monkeypatch.setattr(TCP, "write", write)
    return count


def test_bytes_of_an_iteration_do_not_depend_on_n(client, sent):
    def between_workers():
        def total(dask_worker):
            return dask_worker.transfer_outgoing_bytes_total

        return sum(client.run(total).values())

    rng = np.random.default_rng(0)
    V, k, m, c = 2, 5, 30, 6
    per_iteration = []
    for n in (2000, 40_000):
        indices = rng.integers(m, size=(n, V, k)).astype(np.uint8)
        graphs = AnchorGraphs(indices, np.full((n, V, k), 0.2, np.float32), m)
        rows = Distributed(client, graphs, c, n_parts=4)
        step = np.full(V, 1 / V), rng.normal(size=(m, c)), 0.05 * np.eye(c)
        rows.gram()
        for _ in range(3):
            rows.sweep(*step)
        before = sent.bytes + between_workers()
        for _ in range(10):
            rows.sweep(*step)
        per_iteration.append((sent.bytes + between_workers() - before) / 10)
    small, large = per_iteration
    assert large < 1.25 * small
    assert large < 100_000  # while F alone has 960 kB


def test_nothing_with_n_rows_comes_here(client, sent):
    taken = []
    for n in (4000, 40_000):
        made = da.random.default_rng(0)
        views = [made.random((n, d), chunks=(n // 4, d), dtype=np.float32) for d in (6, 4)]
        before = sent.bytes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # noise shows no groups that both views have
            model = OMCAL(**SETTINGS, client=client).fit(views)
        taken.append(sent.bytes - before)
        assert model.labels_.shape == (n,)
    small, large = taken
    assert large < 1.25 * small
    assert large - small < 40_000 * 4  # while the labels alone have as much


def test_task_names_say_what_is_done(client):
    seen = set()

    def spy(dask_scheduler):
        return {distributed.utils.key_split(key) for key in dask_scheduler.tasks}

    plain = ClusterRows.sweep

    def sweep(self, *step):
        seen.update(client.run_on_scheduler(spy))
        return plain(self, *step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterRows, "sweep", sweep)
        OMCAL(**{**SETTINGS, "max_iter": 3}).fit(cut(overlapping()))
    assert {"omcal-graph", "omcal-sweep", "omcal-step"} <= seen


# What dies


def worker_pids(client):
    return set(client.run(os.getpid).values())


def during_sweep(monkeypatch, at, action):
    """Run the action just before the sweep of this number."""
    count = 0
    plain = ClusterRows.sweep

    def sweep(self, *step):
        nonlocal count
        count += 1
        if count == at:
            action()
        return plain(self, *step)

    monkeypatch.setattr(ClusterRows, "sweep", sweep)


def test_a_killed_worker_does_not_change_the_result(client, expected, monkeypatch):
    killed = []

    def kill():
        killed.append(worker_pids(client).pop())
        os.kill(killed[0], signal.SIGKILL)

    during_sweep(monkeypatch, 6, kill)
    model = OMCAL(**SETTINGS).fit(cut(overlapping()))
    assert_same_fit(model, expected)
    assert killed[0] not in worker_pids(client)


@pytest.mark.long
def test_rows_that_kill_every_worker_are_a_clear_error(client):
    def failures(dask_scheduler, allowed=0):
        before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, allowed
        return before

    def fatal(block):
        if len(block):
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    A, B = cut(overlapping(), 6000)
    allowed = client.run_on_scheduler(failures)
    try:
        with pytest.raises(RuntimeError, match=r"One worker after another died at the same rows"):
            OMCAL(**SETTINGS).fit([A, B.map_blocks(fatal, meta=np.empty((0, 0), B.dtype))])
    finally:
        client.run_on_scheduler(failures, allowed=allowed)


CLIENT = """
import os, signal, sys
import dask.array as da, numpy as np
from distributed import Client
from omcal import OMCAL
from omcal.places.cluster_rows import ClusterRows
folder, address = sys.argv[1:]
count, plain = 0, ClusterRows.sweep
def sweep(self, *step):
    global count
    count += 1
    if count == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(self, *step)
ClusterRows.sweep = sweep
client = Client(address, timeout="120s")
views = [da.from_array(np.load(f"{folder}/{v}.npy"), chunks=(1700, -1)) for v in range(2)]
OMCAL(4, n_anchors=9, max_iter=12, tol=0.0, random_state=0,
      checkpoint=folder + "/fit.checkpoint").fit(views)
"""


@pytest.mark.long
def test_a_killed_client_goes_on_from_its_checkpoint(client, expected, tmp_path):
    for v, X in enumerate(overlapping()):
        np.save(tmp_path / f"{v}.npy", X)
    address = client.scheduler.address
    command = [sys.executable, "-c", CLIENT, str(tmp_path), address]
    done = subprocess.run(command, check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    path = tmp_path / "fit.checkpoint"
    assert path.exists()
    model = OMCAL(**SETTINGS, checkpoint=path).fit(cut(overlapping(), 2500))
    assert_same_fit(model, expected)
    assert not path.exists()


@pytest.fixture
def lone_cluster(tmp_path):
    """A scheduler and a worker as processes of their own."""
    file = tmp_path / "scheduler.json"
    places = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]

    def start(what, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *places, *options]
        silent = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        return subprocess.Popen([*command, "--scheduler-file", str(file)], **silent)

    scheduler = start("scheduler", "--port", "0")
    worker = start("worker", "--nthreads", "1", "--no-nanny")
    try:
        for _ in range(1200):
            if file.exists():
                break
            time.sleep(0.1)
        yield SimpleNamespace(file=file, scheduler=scheduler)
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()


@pytest.mark.long
def test_a_lost_scheduler_is_a_clear_error(lone_cluster, monkeypatch):
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        lost = Client(scheduler_file=str(lone_cluster.file), set_as_default=False, timeout=120)
        during_sweep(monkeypatch, 4, lone_cluster.scheduler.kill)
        try:
            lost.wait_for_workers(1, timeout=120)
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
        with pytest.raises(ValueError, match=r"there is no cluster; create a client first"):
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
    with pytest.raises(
        ValueError, match=r"'view1': 6000 × 6, 'view2': 5000 × 4.*row i must be the same"
    ):
        OMCAL(**SETTINGS).fit([A, B[:5000]])
    with pytest.raises(ValueError, match=r"view 'view2' holds complex"):
        OMCAL(**SETTINGS).fit([A, B + 1j])
    with pytest.raises(ValueError, match=r"memory_limit cannot be combined with views in Dask"):
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
