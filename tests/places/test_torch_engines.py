"""What starts ranks: torchrun, the command line under it, and other engines that are installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import started_fits
from large_fits import overlapping
from omcal import OMCAL
from omcal.cli import main

pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
pytestmark = [pytest.mark.process, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "started_fits.py"
SECONDS = 300  # most that any of these may take


def run(words, folder):
    """Run a program in a folder, on loopback; what it printed."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "RAY_TRAIN_V2_ENABLED": "1",
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def torchrun(*words):
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, *words]


def assert_labels(folder, **changes):
    labels = np.concatenate([np.load(folder / f"{rank}.npy") for rank in range(2)])
    expected = OMCAL(**started_fits.GIVEN, **changes).fit(overlapping(started_fits.N))
    np.testing.assert_array_equal(labels, expected.labels_)


def test_the_example(tmp_path):
    out = run(torchrun(ROOT / "examples" / "collective.py", "--samples", 4000), tmp_path)
    assert "4000 samples on 2 ranks" in out
    assert float(re.search(r"largest cluster of their group: (\S+)", out)[1]) > 0.99


@pytest.mark.filterwarnings("ignore")  # it was asked not to converge
def test_ranks_that_torchrun_starts_again_go_on(tmp_path):
    """After a rank was killed in the 43rd iteration, from the 40th; the result is the same."""
    out = run(torchrun("--max-restarts", 1, PROGRAM, "torchrun_again", tmp_path), tmp_path)
    found = re.findall(r"first=False resumed=True sweeps=(\d+) n_iter=60", out)
    assert len(found) == 2 and not (tmp_path / "fit.checkpoint").exists()
    # Twenty new ones, and those of the forty that F still knows of.
    assert all(20 < int(sweeps) < 45 for sweeps in found)
    assert_labels(tmp_path, init="random", **started_fits.LONG)


@pytest.mark.parametrize(("ending", "more"), [("npz", []), ("npy", ["--runs", "3", "--json"])])
def test_the_command_line(tmp_path, ending, more):
    """Files that are read, or mapped; each rank takes its rows, and the first one writes."""
    pytest.importorskip("typer", reason="the extra cli is not installed")
    views = dict(zip("ab", overlapping(1000), strict=True))
    np.savez(tmp_path / "data.npz", **views)
    np.save(tmp_path / "data.npy", views["a"])
    words = ["cluster", str(tmp_path / f"data.{ending}"), "--clusters", "4"]
    with pytest.raises(SystemExit) as end:
        main([*words, *(more or ["--runs", "1"]), "--quiet", "--out", str(tmp_path / "one.csv")])
    assert end.value.code == 0
    outputs = ["--out", "two.csv", "--save-model", "two.omcal", "--report", "two.html"]
    out = run(torchrun("-m", "omcal", *words, "--collective", *more, *outputs), tmp_path)
    assert out.count("two.csv") == 1  # one rank speaks
    one, two = ((tmp_path / name).read_text().splitlines() for name in ("one.csv", "two.csv"))
    # Ranks do not know the certainty of their samples.
    assert two == [",".join(line.split(",")[:2]) for line in one]
    assert (tmp_path / "two.html").exists()
    predicted = ["predict", str(tmp_path / "two.omcal"), words[1], "--out"]
    with pytest.raises(SystemExit) as end:
        main([*predicted, str(tmp_path / "new.csv"), "--quiet"])
    assert end.value.code == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "--collective is for processes that are started together"),
        (["--dask"], "--dask cannot be combined with --collective"),
        (["--method", "fsmsc"], "--collective is for OMCAL"),
    ],
)
def test_what_the_command_line_refuses(tmp_path, capsys, more, message):
    pytest.importorskip("typer", reason="the extra cli is not installed")
    np.save(tmp_path / "data.npy", overlapping(300)[0])
    with pytest.raises(SystemExit) as end:
        main(["cluster", str(tmp_path / "data.npy"), "--clusters", "4", "--collective", *more])
    assert end.value.code != 0 and message in capsys.readouterr().err


@pytest.mark.parametrize(("backend", "ranks"), [("nccl", 1), ("gloo", 2)])
def test_one_gpu(tmp_path, backend, ranks):
    """NCCL takes a GPU for each rank; over gloo two ranks may share one."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA GPU here")
    words = torchrun(PROGRAM, f"{backend}_on_a_gpu", tmp_path)
    words[words.index("--nproc-per-node") + 1] = ranks
    assert f"{backend}: the same on {ranks} ranks" in run(words, tmp_path)


def test_ray_train(tmp_path):
    pytest.importorskip("ray.train", reason="Ray Train is not installed")
    run([sys.executable, PROGRAM, "ray", tmp_path], tmp_path)
    assert_labels(tmp_path)


def test_spark(tmp_path):
    pytest.importorskip("pyspark", reason="Spark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    run([sys.executable, PROGRAM, "spark", tmp_path], tmp_path)
    assert_labels(tmp_path)
