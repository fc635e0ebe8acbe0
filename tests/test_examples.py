"""The examples and the commands of the documents run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def both_views_tell_what_neither_tells_alone(out, folder):
    *alone, _, both = map(float, re.findall(r"accuracy (\d\.\d+)", out))
    assert both > 0.95 > max(alone)
    assert (folder / "multiomics.png").read_bytes().startswith(b"\x89PNG")


CHECKS = {"multiomics.py": both_views_tell_what_neither_tells_alone}


@pytest.mark.process
@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda s: s.name)
def test_every_example_runs(script, tmp_path):
    """In an empty folder, as a program of its own."""
    if "matplotlib" in script.read_text(encoding="utf-8"):
        pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    CHECKS.get(script.name, lambda out, folder: None)(done.stdout, tmp_path)


@pytest.mark.process
def test_commands_about_formats(tmp_path):
    """In the order of the page, where its first two blocks have made the files."""
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    made = "\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[:2])
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    commands = [
        line
        for block in re.findall(r"```sh\n(.*?)```", page, flags=re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) >= 7 and all(line.startswith("omcal ") for line in commands)
    program = "\n".join(
        [made, "from omcal.cli import main"]
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
    data = {"digits.npz", "digits.csv", "digits.mat", "digits.h5ad", "pixels.csv", "profiles.csv"}
    results = {"labels.csv", "joined.csv", "digits.omcal", "predicted.csv"}
    assert set(os.listdir(tmp_path)) == data | results
