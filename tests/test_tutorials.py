"""The tutorials run as programs, draw the figures that they make, and show what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))

# As a program would be run, and then a look at its figures, if it has any.
PROGRAM = """
import runpy, sys
runpy.run_path(sys.argv[1], run_name="__main__")
pyplot = sys.modules.get("matplotlib.pyplot")
assert pyplot is None or pyplot.get_fignums(), "no figure was drawn"
"""


def numbers(out, pattern):
    """What the pattern finds in the output, by its first group."""
    found = {name.strip(): float(value) for name, value in re.findall(pattern, out)}
    assert found
    return found


def cells(out):
    found = numbers(out, r"(\w+) +accuracy (\d\.\d+)")
    assert found["both"] > 0.95 > max(found["rna"], found["protein"])


def embeddings(out):
    found = numbers(out, r"(?m)^(\S.*?) +(\d\.\d{3})$")
    assert max(found, key=found.get) == "omcal, both"


def customers(out):
    (found,) = numbers(out, r"(accuracy) (\d\.\d+)").values()
    assert found > 0.9 and "not in fit ('Paris')" in out


def sensors(out):
    found = numbers(out, r"(?m)^(.*?) +accuracy (\d\.\d+)")
    assert found["as they are"] > found["fill with means"] > found["drop"]


def cluster(out):
    (same,) = numbers(out, r"(?m)^()(\d+\.\d+)% of the labels are the same").values()
    assert same > 99.9


def million(out):
    (accuracy,) = numbers(out, r"(accuracy) (\d\.\d+)").values()
    assert accuracy > 0.95


def place(out):
    assert "labels the same: True" in out and "refused: memory_limit" in out


CLAIMS = {
    "cells": cells,
    "cluster": cluster,
    "customers": customers,
    "embeddings": embeddings,
    "million": million,
    "place": place,
    "sensors": sensors,
}


def test_claims_are_about_tutorials():
    assert set(CLAIMS) <= {script.stem for script in SCRIPTS}


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_tutorial_runs(script, tmp_path):
    """In an empty folder, without a window, with warnings as errors."""
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    ignored = ("FigureCanvasAgg", "Couldn't detect a suitable IP")  # without a window, a network
    warnings = ["-Werror", *(f"-Wignore:{message}" for message in ignored)]
    done = subprocess.run(
        [sys.executable, *warnings, "-c", PROGRAM, str(script)],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    CLAIMS.get(script.stem, lambda out: None)(done.stdout)
