"""The examples and the commands of the documents run."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.filterwarnings("ignore:only 5 of n_clusters=6:sklearn.exceptions.ConvergenceWarning")
def test_multiomics(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", ["multiomics.py", str(tmp_path / "cells.png")])
    runpy.run_path(str(ROOT / "examples" / "multiomics.py"), run_name="__main__")
    accuracy = re.findall(r"accuracy (\d\.\d+)", capsys.readouterr().out)
    *alone, _, both = map(float, accuracy)
    assert both > 0.95 > max(alone)
    assert (tmp_path / "cells.png").read_bytes().startswith(b"\x89PNG")


def test_commands_about_formats(tmp_path):
    """In the order of the page, where its first block has made a file."""
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    first = re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)[1]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) >= 7 and all(line.startswith("omcal ") for line in commands)
    program = "\n".join(
        [first, "from omcal.cli import main"]
        + [
            f"try: main({shlex.split(line)[1:]})\nexcept SystemExit as end: assert end.code == 0"
            for line in commands
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    made = {"digits.npz", "labels.csv", "digits.csv", "digits.mat", "digits.omcal", "predicted.csv"}
    assert set(os.listdir(tmp_path)) == made
