"""Disks that are full when a data set is written, files that are cut short when one is read."""

import json
import subprocess
import sys

import numpy as np
import pytest

from omcal.datasets import load_views, make_multiview, save_views
from small_disk import small_disk

# In a process of its own, because a library that crashes would take this one with it.
WRITES = """
import json, os, sys
from omcal.datasets import make_multiview, save_views
data = make_multiview(300, n_clusters=3, random_state=0)
disk, found = sys.argv[1], {}
for ending in sys.argv[2:]:
    for kept in range(8, 160, 30):
        with open(disk + "/ballast", "wb") as file:
            file.write(bytes((160 - kept) * 1024))
        path = disk + "/data" + ending
        try:
            save_views(path, data)
        except OSError as error:
            found[f"{ending} {kept}"] = [error.errno, str(error), os.listdir(disk)]
        else:
            os.system(f"rm -r {path}")
        os.unlink(disk + "/ballast")
print(json.dumps(found))
"""

ENDINGS = [".npz", ".mat", ".h5", ".h5ad", ".csv", ".parquet", ".zarr", ""]


@pytest.mark.long
@pytest.mark.process
def test_a_full_disk_is_one_error_and_leaves_nothing(tmp_path):
    for library in ("h5py", "pyarrow", "zarr"):
        pytest.importorskip(library)
    with small_disk(tmp_path / "disk", kilobytes=168) as disk:
        command = [sys.executable, "-c", WRITES, str(disk), *ENDINGS]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {key.rpartition(" ")[0] for key in found} == set(ENDINGS)  # each was full at some level
    for key, (code, said, left) in found.items():
        assert code == 28, (key, said)
        assert "no space left on its disk" in said and "/disk/data" in said, (key, said)
        assert left == ["ballast"], key


READS = """
import sys
from pathlib import Path
from omcal.baselines import METHODS
from omcal.datasets import describe, load_views, save_views

def attempt(work, *given):
    try:
        work(*given)
    except OSError as error:
        print("OSError", "bytes too early" in str(error), flush=True)
    else:
        print("done", flush=True)

for name in ("by_rows", "by_columns.npy"):
    path = Path(sys.argv[1], name)
    loaded = load_views(path)
    for file in path.glob("view?.npy") if path.is_dir() else [path]:
        with file.open("r+b") as stream:
            stream.truncate(file.stat().st_size // 3)
    attempt(describe, loaded)
    for ending in sys.argv[2:]:
        attempt(save_views, Path(sys.argv[1], "copy" + ending), loaded)
    for method in ("concat-kmeans", "smc"):
        attempt(METHODS[method].cls(n_clusters=3, random_state=0).fit, loaded.views)
"""


@pytest.mark.long
@pytest.mark.process
def test_files_cut_short_are_an_error_and_not_the_end_of_the_process(tmp_path):
    """After they were mapped; in a process of its own, too."""
    for library in ("h5py", "pyarrow", "zarr"):
        pytest.importorskip(library)
    data = make_multiview(4000, n_clusters=3, n_views=2, random_state=0)
    save_views(tmp_path / "by_rows", data)
    np.save(tmp_path / "by_columns.npy", np.asfortranarray(data.views["view1"]))
    command = [sys.executable, "-c", READS, str(tmp_path), *ENDINGS]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["OSError True"] * 2 * (1 + len(ENDINGS) + 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["by_columns.npy", "by_rows"]


def test_a_folder_of_arrays_comes_back(tmp_path):
    data = make_multiview(50, n_clusters=3, n_views=2, random_state=0)
    save_views(tmp_path / "data", data)
    save_views(tmp_path / "again", load_views(tmp_path / "data"))
    again = load_views(tmp_path / "again")
    for name, view in data.views.items():
        np.testing.assert_array_equal(again.views[name], view)
    np.testing.assert_array_equal(again.labels, data.labels)
