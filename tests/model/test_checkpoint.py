"""Fits that go on from a checkpoint: the same result, whatever ended them."""

import io
import json
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from damage import archive_of, checksum_of, members_of, mutated, npy_that_declares
from large_fits import assert_same_fit, file_size_limit, mapped, overlapping, sweeps
from omcal import OMCAL
from omcal.model.checkpoint import influential
from small_disk import small_disk

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


@pytest.mark.slow
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
    with pytest.raises(ValueError, match=r"another fit \(beta: 0.3 in it, 0.2 here\); delete it"):
        clone(model).set_params(beta=0.2).fit(views)
    with pytest.raises(ValueError, match=r"n_samples: 6000 in it, 5999 here"):
        clone(model).fit([X[1:] for X in views])
    with pytest.raises(ValueError, match=r"was made from other data; delete it"):
        clone(model).fit(overlapping(seed=5))
    kept = path.read_bytes()
    assert len(kept) < 200_000
    path.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(ValueError, match=r"is not a checkpoint, or is damaged"):
        clone(model).fit(views)


@pytest.mark.slow
def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    views = overlapping()
    path = tmp_path / "fit.checkpoint"
    model = OMCAL(**SETTINGS, tol=0.0, checkpoint=path)
    interrupted(model, views, monkeypatch, 7)
    kept = path.read_bytes()
    # At the next full sweep it can not be written any more; then the process dies.
    with (
        file_size_limit(len(kept)),
        pytest.warns(UserWarning, match=r"cannot be written \(File too large\); the fit continues"),
    ):
        interrupted(model, views, monkeypatch, 15)
    assert path.read_bytes() == kept
    assert list(tmp_path.iterdir()) == [path]
    assert_same_fit(model.fit(views), OMCAL(**SETTINGS, tol=0.0).fit(views))


@pytest.mark.process
@pytest.mark.process
def test_a_full_disk_costs_the_checkpoint_and_not_the_fit(tmp_path):
    views = overlapping()
    with small_disk(tmp_path / "disk", kilobytes=16) as disk:
        model = OMCAL(**SETTINGS, tol=0.0, checkpoint=disk / "fit.checkpoint")
        with pytest.warns(UserWarning, match=r"no space left.*needed.*missing.*continues without"):
            model.fit(views)
        assert not list(disk.iterdir())
    assert_same_fit(model, OMCAL(**SETTINGS, tol=0.0).fit(views))


@pytest.mark.parametrize(
    "name", ["x" * 300, "folder", "pipe", "loop", "nul\0"], ids=["long", *"fpl", "nul"]
)
def test_a_checkpoint_that_could_not_be_written_is_refused_before_the_fit(tmp_path, name):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ValueError, match=r"^(checkpoint=.*cannot be written|embedded null)"):
        OMCAL(**SETTINGS, checkpoint=tmp_path / name).fit(overlapping())


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A checkpoint, and the fit that it belongs to."""
    path = tmp_path_factory.mktemp("kept") / "fit.checkpoint"
    model = OMCAL(**SETTINGS, tol=0.0, checkpoint=path)
    views = overlapping(600)
    with pytest.MonkeyPatch.context() as patch:
        interrupted(model, views, patch, 8)
    return path.read_bytes(), model, views


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def crafted(**changes):
    """Members changed, by functions of what they hold, and the checksum made right."""

    def craft(content):
        members = members_of(content)
        for name, change in changes.items():
            name = name.replace("__", ".")
            members[name] = change(members[name])
        return archive_of(members)

    return craft


def header(**changes):
    return crafted(model__json=lambda old: json.dumps(json.loads(old) | changes))


def zeroed(content):
    """A member of zeros, with the checksum that zip has of it made right, too."""
    members = members_of(content)
    raw = members["StF.npy"]
    members["StF.npy"] = raw[:128] + bytes(len(raw) - 128)
    return archive_of(members, checksum=checksum_of(content))


CRAFTED = {
    "zeroed": zeroed,
    "not sweeps": header(n_sweeps="5"),
    "true sweeps": header(n_sweeps=True),
    "many sweeps": header(n_sweeps=10**12),
    "no identity": header(identity=None),
    "identity of numbers": header(identity=[1, 2]),
    "no random numbers": header(random_state=None),
    "random numbers beyond": header(random_state=["MT19937", 10**9, 0, 0.0]),
    "random numbers of text": header(random_state=["MT19937", 1, 0, "0"]),
    "another generator": header(random_state=["PCG64", 1, 0, 0.0]),
    "deep": crafted(model__json=lambda old: b"[" * 100_000),
    "huge": crafted(P__npy=lambda old: npy_that_declares("(10000000, 10000000)")),
    "objects": crafted(P__npy=lambda old: npy(np.array([{}]), allow_pickle=True)),
    "texts": crafted(P__npy=lambda old: npy(np.array(["a"]))),
    "not finite": crafted(StS__npy=lambda old: npy(np.full((2, 2, 9, 9), np.nan))),
    "other anchors": crafted(anchors__0__npy=lambda old: npy(np.ones((9, 5)))),
    "a short key": crafted(random_key__npy=lambda old: npy(np.ones(3, np.uint32))),
    "a model": lambda content: archive_of({"model.json": '{"format": "omcal model"}'}),
    "pickle": lambda content: pickle.dumps([1]),
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("craft", CRAFTED)
def test_a_crafted_checkpoint_is_one_clean_error(kept, tmp_path, craft):
    content, model, views = kept
    path = tmp_path / "fit.checkpoint"
    path.write_bytes(CRAFTED[craft](content))
    with pytest.raises(ValueError, match=r"is not a checkpoint, or is damaged|another fit") as info:
        clone(model).set_params(checkpoint=path).fit(views)
    assert len(str(info.value)) < 1000


@pytest.mark.slow
def test_mutated_checkpoints_are_refused(kept, tmp_path):
    """Whatever byte is changed, one clean error: the checksums notice all that matter."""
    content, model, views = kept
    expected = OMCAL(**SETTINGS, tol=0.0).fit(views)
    rng = np.random.default_rng(0)
    path = tmp_path / "fit.checkpoint"
    refused = harmless = 0
    for _ in range(150):
        path.write_bytes(mutated(content, rng))
        twin = clone(model).set_params(checkpoint=path)
        try:
            twin.fit(views)
        except ValueError as error:
            refused += "is not a checkpoint, or is damaged" in str(error)
        else:  # the date of a member, for instance
            assert_same_fit(twin, expected)
            harmless += 1
    assert refused + harmless == 150
    assert harmless < 30


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
