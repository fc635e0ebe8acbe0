"""Fits that go on from a checkpoint: the same result, whatever ended them."""

import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from large_fits import assert_same_fit, file_size_limit, mapped, overlapping, sweeps
from omcal import OMCAL
from omcal.model.checkpoint import influential

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SETTINGS = {"n_clusters": 4, "n_anchors": 9, "max_iter": 20, "random_state": 0}


class Killed(BaseException):
    """Ends a fit as a crash would, without any handling on the way."""


def interrupted(model, X, monkeypatch, at):
    def before(count):
        if count == at:
            raise Killed

    with sweeps(monkeypatch, before), pytest.raises(Killed):
        model.fit(X)


@pytest.mark.parametrize("settings", [{}, {"n_init": 3}, {"accelerate": True}, {"gamma": 50.0}])
@pytest.mark.parametrize("at", [13, 33])
def test_a_fit_goes_on_from_its_checkpoint(tmp_path, monkeypatch, settings, at):
    views = overlapping()
    settings = {**SETTINGS, "tol": 0.0, "max_iter": 40, "random_state": None, **settings}
    path = tmp_path / "fit.checkpoint"
    model = OMCAL(**settings, checkpoint=path)
    np.random.seed(3)  # noqa: NPY002
    expected = OMCAL(**settings).fit(views)
    np.random.seed(3)  # noqa: NPY002
    interrupted(model, views, monkeypatch, at)
    assert path.exists()
    counts = []
    with sweeps(monkeypatch, counts.append):
        model.fit(views)
    assert_same_fit(model, expected)
    assert not list(tmp_path.iterdir())
    whole = 40 * settings.get("n_init", 1)
    if settings["gamma" if "gamma" in settings else "tol"] < 1:
        assert len(counts) <= whole - (at - 1) // 5 * 5 + 20 * settings.get("n_init", 1)
    else:
        assert len(counts) <= whole


def test_only_the_last_steps_matter():
    rng = np.random.default_rng(0)
    P = [rng.normal(size=(6, 3)) for _ in range(60)]
    R = [0.0 * np.eye(3)] + [0.09 * np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(59)]
    steps = [(np.ones(1), p, r) for p, r in zip(P, R, strict=True)]
    assert len(influential(steps)) == 20
    assert len(influential(steps[:4])) == 4
    assert influential([]) == []
    A = rng.random((10, 6))

    def replay(some):
        F = np.zeros((10, 3))
        for _, p, r in some:
            F = np.maximum(A @ p + F @ r, 0)
        return F

    np.testing.assert_array_equal(replay(influential(steps)), replay(steps))


def test_a_checkpoint_of_another_fit(tmp_path, monkeypatch):
    views = overlapping()
    path = tmp_path / "fit.checkpoint"
    model = OMCAL(**SETTINGS, tol=0.0, checkpoint=path)
    interrupted(model, views, monkeypatch, 12)
    with pytest.raises(ValueError, match=r"another fit \(beta: 0.3 there, 0.2 here\); delete it"):
        clone(model).set_params(beta=0.2).fit(views)
    with pytest.raises(ValueError, match=r"n_samples: 6000 there, 5999 here"):
        clone(model).fit([X[1:] for X in views])
    with pytest.raises(ValueError, match=r"was made from other data; delete it"):
        clone(model).fit(overlapping(seed=5))
    kept = path.read_bytes()
    assert len(kept) < 200_000
    path.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(ValueError, match=r"is not a checkpoint, or is damaged"):
        clone(model).fit(views)


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    views = overlapping()
    path = tmp_path / "fit.checkpoint"
    model = OMCAL(**SETTINGS, tol=0.0, checkpoint=path)
    interrupted(model, views, monkeypatch, 7)
    kept = path.read_bytes()
    with file_size_limit(len(kept)), pytest.raises(OSError, match=r"(large|space)"):
        model.fit(views)
    assert path.read_bytes() == kept
    assert list(tmp_path.iterdir()) == [path]


SCRIPT = """
import os, signal, sys
import numpy as np
from omcal import OMCAL
from omcal.places.memory import MemoryRows
folder, limit = sys.argv[1], sys.argv[2]
count, plain = 0, MemoryRows.sweep
def sweep(self, *step):
    global count
    count += 1
    if count == 60:
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(self, *step)
MemoryRows.sweep = sweep
views = [np.load(f"{folder}/{v}.npy", mmap_mode="r") for v in range(2)]
OMCAL(4, n_anchors=9, random_state=0, tol=0, max_iter=40, memory_limit=limit,
      scratch_dir=folder, checkpoint=folder + "/fit.checkpoint").fit(views)
"""


@pytest.mark.process
def test_a_killed_process_leaves_a_checkpoint_and_no_scratch_files(tmp_path):
    views = overlapping()
    files = mapped(tmp_path, views)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path), "250kB"], check=False)
    assert done.returncode == -signal.SIGKILL
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["0.npy", "1.npy", "fit.checkpoint"]
    settings = {**SETTINGS, "tol": 0.0, "max_iter": 40}
    resumed = OMCAL(**settings, checkpoint=tmp_path / "fit.checkpoint").fit(files)
    assert_same_fit(resumed, OMCAL(**settings).fit(views))
