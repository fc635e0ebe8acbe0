"""Processes that form groups of torch.distributed over loopback, and do what they are sent."""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import warnings
from contextlib import nullcontext
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from large_fits import mapped
from omcal import OMCAL, Consensus
from omcal.machine import versions
from omcal.method import solver
from omcal.model import progress
from omcal.model.checkpoint import Checkpoint
from omcal.places.memory import InMemory, MemoryRows

SIZES = (1, 2, 3, 7)
PATIENCE = 240  # seconds that a test waits for an answer


class Team:
    """So many processes, and a group of the first one, two, three and seven of them.

    `seconds` is the time-out of the groups.
    """

    def __init__(self, size, seconds=60):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "rank_team"])
        self._folder = tempfile.TemporaryDirectory()
        where = f"file://{self._folder.name}/meeting"
        self._pipes, self.processes = [], []
        for rank in range(size):
            here, there = context.Pipe()
            process = context.Process(
                target=_serve, args=(there, where, rank, size, seconds), daemon=True
            )
            process.start()
            there.close()
            self._pipes.append(here)
            self.processes.append(process)

    def run(self, work, arguments):
        """What `work` returned, or raised, on the first processes: one for each of the arguments.

        `work` is called with their group and with the arguments of each.
        """
        pipes = self._pipes[: len(arguments)]
        for pipe, given in zip(pipes, arguments, strict=True):
            pipe.send((work, len(arguments), given))
        return [self._answer(pipe) for pipe in pipes]

    def _answer(self, pipe):
        if not pipe.poll(PATIENCE):
            raise TimeoutError(f"a process has not answered for {PATIENCE} s")
        try:
            return pipe.recv()
        except EOFError:
            return None  # it has died

    def close(self):
        for pipe in self._pipes:
            pipe.close()
        for process in self.processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        self._folder.cleanup()


def _serve(pipe, where, rank, size, seconds):
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    warnings.simplefilter("ignore")
    import torch.distributed as dist

    limit = timedelta(seconds=seconds)
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size, timeout=limit)
    sizes = [s for s in SIZES if s < size]
    groups = {s: dist.new_group(range(s), timeout=limit) for s in sizes} | {size: "world"}
    while True:
        try:
            work, members, given = pipe.recv()
        except EOFError:
            os._exit(0)  # without waiting for the others
        began = time.monotonic()
        try:
            answer = work(groups[members], *given)
        except Exception as error:
            answer = SimpleNamespace(error=type(error).__name__, message=str(error))
            answer.seconds = time.monotonic() - began
        pipe.send(answer)


def cut(views, sizes):
    """Consecutive rows of all views for each rank."""
    edges = np.cumsum([0, *sizes])
    assert edges[-1] == len(views[0])
    return [[view[a:b] for view in views] for a, b in pairwise(edges)]


def fit(group, parameters, X, present=None):
    """What a fit on this rank leaves."""
    return _result(OMCAL(**parameters, group=group).fit(X, present=present))


def structure_of(group, parameters, X):
    """The test for structure of a fit on this rank, and its first doubt."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OMCAL(**parameters, group=group).fit(X)
    return model.structure_, model.doubts_[0].what


def fit_in(group, parameters, X, name=None):
    """A fit in a group of this name, or in this one, asked for by name."""
    return fit(name or group.group_name, parameters, X)


def fit_at_home(group, parameters, X, home, folder):
    """A fit to rows that this rank has in files, in scratch files, in tensors, or in memory."""
    if home == "scratch files":
        parameters = parameters | {"memory_limit": 30_000, "scratch_dir": folder}
    if home == "files":
        X = mapped(folder, X)
    if home == "tensors":
        import torch

        X = [torch.from_numpy(view.copy()) for view in X]
    return fit(group, parameters, X)


def fit_then_predict(group, parameters, X, predicts):
    """`predict` where this rank is to, while others do nothing."""
    model = OMCAL(**parameters, group=group).fit(X)
    return model.predict(X) if predicts else None


def stream(group, parameters, first, batches, n_runs=None):
    """A fit, if there are rows for it, and updates by batches; what they leave."""
    model = OMCAL(**parameters, group=group)
    if n_runs:
        model = Consensus(model, n_runs=n_runs, random_state=0)
    labels = [] if first is None else [model.fit(first).labels_]
    labels += [model.partial_fit(X).labels_ for X in batches]
    Z = model._rule.consensus
    n_strangers = 0 if n_runs or model._strangers is None else len(model._strangers)
    return SimpleNamespace(
        labels=labels, G=Z.G, T=Z.T, n=model._sums.n, n_clusters=model.n_clusters_,
        parts=model._sums.parts, n_strangers=n_strangers, tables=getattr(model, "_tables", None),
    )  # fmt: skip


def stream_of_files(group, paths):
    """An update by batches that are mapped from files."""
    batch = [np.load(path, mmap_mode="r") for path in paths]
    return stream(group, {"n_clusters": 4}, None, [batch])


def fit_and_stop(group, parameters, X, stop_after):
    """A fit that a callback of this rank may want to stop."""
    model = OMCAL(**parameters, group=group)
    found = []
    plain = progress.StartTask.iterated

    def iterated(self, iteration):
        found.append(iteration)
        return plain(self, iteration) or iteration == stop_after

    with patch.object(progress.StartTask, "iterated", iterated):
        model.fit(X)
    return found, model.n_iter_, model.labels_


def fit_until(group, parameters, X, last):
    """A fit that fails on every rank after this many sweeps; who wrote the checkpoint?"""
    counts = {"sweep": 0, "save": 0}
    plain_sweep, plain_save = MemoryRows.sweep, Checkpoint.save

    def sweep(self, *step):
        counts["sweep"] += 1
        if last is not None and counts["sweep"] > last:
            raise RuntimeError("the end")
        return plain_sweep(self, *step)

    def save(self):
        counts["save"] += 1
        plain_save(self)

    with patch.object(MemoryRows, "sweep", sweep), patch.object(Checkpoint, "save", save):
        try:
            return _result(OMCAL(**parameters, group=group).fit(X)), counts
        except RuntimeError as error:
            return str(error), counts


def fit_with_version(group, parameters, X, version):
    """A fit by a rank with this version of NumPy."""
    plain = versions._version

    def found(name):
        return version if version and name == "numpy" else plain(name)

    with patch.object(versions, "_version", found):
        return fit(group, parameters, X)


def fit_failing(group, parameters, X, step):
    """A fit that fails at this step of the rank's own work."""

    def fail(*_, **__):
        raise OSError("no space left on the device")

    names = {None: (None, None), "build": (InMemory, "build")}
    owner, name = names.get(step, (MemoryRows, step))
    with patch.object(owner, name, fail) if owner else nullcontext():
        return fit(group, parameters, X)


def fit_rounding_differently(group, parameters, X, differently):
    """A fit by a rank whose G is off by a rounding."""
    plain = solver.orthogonal_factor
    with patch.object(solver, "orthogonal_factor", lambda A: plain(A) * (1 + 1e-15 * differently)):
        return fit(group, parameters, X)


def fit_and_vanish(group, parameters, X, how, seconds):
    """A fit in the course of which this rank is killed, or stands still for so long."""
    plain, count = MemoryRows.sweep, iter(range(10**6))

    def sweep(self, *step):
        if how and next(count) == 2:
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(seconds)
        return plain(self, *step)

    with patch.object(MemoryRows, "sweep", sweep):
        return fit(group, parameters | {"tol": 0}, X)


def fit_consensus(group, parameters, X, path):
    """The same for joined runs, written and read again."""
    import omcal

    runs = {"n_runs": 4, "random_state": 0}
    model = Consensus(OMCAL(**parameters, group=group), **runs).fit(X)
    model.save(path)
    loaded = omcal.load(path)
    joined = ("certainty_", "stability_", "view_weights_spread_")
    found = _result(model)
    found.joined = {name: getattr(model, name) for name in joined}
    found.loaded = {name: getattr(loaded, name) for name in joined}
    found.predicted = loaded.predict(X) if len(X[0]) else model.labels_
    return found


def _result(model):
    names = ("labels_", "view_weights_", "objective_", "n_iter_", "converged_", "n_undecided_")
    found = SimpleNamespace(**{name: getattr(model, name) for name in names})
    found.anchors = getattr(model, "anchors_", None)
    found.doubts_ = [str(doubt) for doubt in model.doubts_]
    found.labels_ = np.asarray(found.labels_)
    return found
