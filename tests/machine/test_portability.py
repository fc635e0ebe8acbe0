"""Systems other than this one: what they lack is taken away, and everything works without it."""

import ctypes
import multiprocessing
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import omcal
from omcal import OCAL, OMCAL
from omcal.cli import main
from omcal.datasets import load_views, make_multiview, save_views
from omcal.experiments.runner import run_cells
from omcal.experiments.worker import Limits, PaperData
from omcal.machine import files, memory, scratch

MADE = make_multiview(150, n_clusters=3, random_state=0)
VIEWS = list(MADE.views.values())


@pytest.fixture(scope="module")
def labels():
    return OMCAL(3, random_state=0).fit(VIEWS).labels_


@pytest.fixture
def no_proc(monkeypatch):
    """No files in which Linux describes itself."""
    read_text = Path.read_text

    def absent(path, *args, **kwargs):
        if path.parts[1:2] in (("proc",), ("sys",)):
            raise FileNotFoundError(path)
        return read_text(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", absent)


@pytest.fixture
def like_windows(monkeypatch, no_proc):
    """No locks, owners and modes of Unix; open files keep their names; folders are not opened."""
    monkeypatch.setattr(files, "fcntl", None)
    for name in ("fchown", "fchmod", "sysconf", "posix_fallocate"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.delattr(scratch.mmap, "MADV_DONTNEED", raising=False)
    system_open, system_replace, system_sync = os.open, os.replace, os.fsync

    def open_file(path, flags, *args, **kwargs):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return system_open(path, flags, *args, **kwargs)

    def replace(source, target):
        held = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
        if {os.path.realpath(source), os.path.realpath(target)} & held:
            raise PermissionError(13, "somebody has it open", str(source))
        system_replace(source, target)

    def sync(file):
        import fcntl

        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(9, "Bad file descriptor")
        system_sync(file)

    monkeypatch.setattr(os, "open", open_file)
    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(Path, "replace", lambda source, target: replace(source, target))
    monkeypatch.setattr(os, "fsync", sync)


# Memory


def test_memory_without_the_files_of_linux(no_proc):
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert memory.available_memory() == pages


def test_memory_of_windows(monkeypatch, no_proc):
    class Kernel:
        @staticmethod
        def GlobalMemoryStatusEx(pointer):
            status = pointer._obj
            assert status.length == 64  # what Windows checks
            status.total_physical, status.free_physical = 8 * 10**9, 3 * 10**9
            return 1

    library = type("Library", (), {"kernel32": Kernel})
    monkeypatch.setattr(ctypes, "windll", library, raising=False)
    monkeypatch.delattr(os, "sysconf")
    assert memory.available_memory() == 3 * 10**9


@pytest.mark.parametrize("error", [AttributeError, ValueError, OSError])
def test_memory_that_no_system_tells_is_no_limit(monkeypatch, no_proc, error):
    def fail(name):
        raise error(name)

    monkeypatch.setattr(os, "sysconf", fail)
    memory.require_memory(1e15, "a large fit", "")
    assert OMCAL(3, random_state=0).fit(VIEWS).converged_


# Files


@pytest.mark.usefixtures("like_windows")
def test_a_fit_from_files_in_little_memory(tmp_path, labels):
    stored = []
    for v, view in enumerate(VIEWS):
        np.save(tmp_path / f"{v}.npy", view)
        stored.append(np.load(tmp_path / f"{v}.npy", mmap_mode="r"))
    model = OMCAL(3, random_state=0, memory_limit="20kB", scratch_dir=tmp_path).fit(stored)
    assert_array_equal(model.labels_, labels)


@pytest.mark.usefixtures("like_windows")
def test_models_checkpoints_and_data(tmp_path, labels):
    path = tmp_path / "model.omcal"
    for _ in range(2):  # the second replaces the first
        model = OMCAL(3, random_state=0, checkpoint=tmp_path / "state").fit(VIEWS)
        model.save(path)
    assert_array_equal(omcal.load(path).predict(VIEWS), model.predict(VIEWS))
    assert_array_equal(model.labels_, labels)
    save_views(tmp_path / "data.npz", MADE)
    save_views(tmp_path / "data.npz", MADE)
    assert_array_equal(load_views(tmp_path / "data.npz").labels, MADE.labels)
    assert sorted(os.listdir(tmp_path)) == ["data.npz", "model.omcal"]


@pytest.mark.usefixtures("like_windows")
def test_a_failed_write_leaves_the_old_file_there_too(tmp_path):
    path = tmp_path / "text"
    files.write_whole(path, "old")
    with suppress(RuntimeError), files.replacing(path) as temporary:
        temporary.write_text("half", encoding="utf-8")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["text"]


def test_scratch_files_where_the_file_system_has_none_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)
    array = scratch.Scratch(tmp_path).array((4, 3), np.float32)
    array[:] = 1
    assert array.sum() == 12
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["with some spaces", "Größe-λ-数据", 'quote\'d & "marked"'])
def test_folders_with_other_letters(tmp_path, labels, name, capsys):
    folder = tmp_path / name
    folder.mkdir()
    settings = {"scratch_dir": folder, "checkpoint": folder / "zwischen stand"}
    model = OMCAL(3, random_state=0, memory_limit="20kB", **settings).fit(VIEWS)
    assert_array_equal(model.labels_, labels)
    model.save(folder / "modèle.omcal")
    assert_array_equal(omcal.load(folder / "modèle.omcal").labels_, labels)
    data, out = folder / "daten ü.npz", folder / "labels é.csv"
    save_views(data, MADE)
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(folder / "modèle.omcal"), str(data), "--out", str(out)])
    assert ended.value.code == 0, capsys.readouterr().err
    assert len(out.read_text(encoding="utf-8").splitlines()) == len(labels) + 1


# Processes

FIT = """
import sys
import numpy as np
from omcal import OMCAL
views = list(np.load(sys.argv[1]).values())
np.save(sys.argv[2], OMCAL(3, random_state=0).fit(views).labels_)
"""


def fit_there(views):
    return OMCAL(3, random_state=0).fit(views).labels_


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fits_in_other_processes(labels, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply_async(fit_there, (VIEWS,)).get(timeout=120)
    assert_array_equal(found, labels)


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        pytest.param({"TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8"}, marks=pytest.mark.long),
        pytest.param({"PYTHONOPTIMIZE": "1"}, marks=pytest.mark.long),
        {"HOME": "/nowhere", "NUMBA_DISABLE_JIT": "1"},
    ],
    ids=lambda environment: " ".join(environment),
)
def test_fits_in_other_environments(labels, tmp_path, environment):
    np.savez(tmp_path / "views.npz", *VIEWS)
    command = [sys.executable, "-c", FIT, tmp_path / "views.npz", tmp_path / "labels.npy"]
    subprocess.run(command, env=os.environ | environment, check=True, cwd=tmp_path)
    assert_array_equal(np.load(tmp_path / "labels.npy"), labels)


@pytest.mark.process
def test_experiments_where_processes_cannot_be_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(OSError, match="run them on Linux or macOS"):
        run_cells([], PaperData(tmp_path), Limits(60, 4), tmp_path / "records.jsonl")


# Numbers


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_views_with_indices_of_either_size(kind, index):
    X = np.maximum(VIEWS[0], 0)
    found = kind(X)
    found.indices, found.indptr = found.indices.astype(index), found.indptr.astype(index)
    assert found.indices.dtype == index
    expected = OCAL(3, random_state=0).fit(sparse.csr_array(X)).labels_
    assert_array_equal(OCAL(3, random_state=0).fit(found).labels_, expected)
