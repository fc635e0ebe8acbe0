"""Which tests a run leaves out, and how it says so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

SAMPLE = """
import subprocess, sys
import pytest
from hypothesis import given, settings, strategies as st

def test_without_a_mark():
    subprocess.run([sys.executable, "-c", ""], check=True)

@pytest.mark.long
def test_long():
    pass

def test_of_real_data():
    pytest.skip("the folder ../shared is absent")

drawn = []

@settings(max_examples=7)
@given(st.integers())
def test_drawn(number):
    drawn.append(number)

@pytest.mark.sampled
@pytest.mark.parametrize("number", range(7))
def test_of_seven(number):
    print(f"took number {number}")

def test_count():
    print(f"drew {len(drawn)} examples")
"""


def run(folder, *options, **environment):
    """Run a file of sample tests with the plugins of these tests."""
    (folder / "test_sample.py").write_text(SAMPLE)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q -s\n")
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent / "src")])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.parametrize("workers", [[], pytest.param(["-n", "2"], marks=pytest.mark.long)])
def test_long_tests_are_left_out_and_named(tmp_path, workers):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    printed = run(tmp_path, *workers)
    assert "1 × marked long: make test-all" in printed
    assert "1 × the folder ../shared is absent: place that folder beside" in printed
    assert "10 passed, 1 skipped" in printed


@pytest.mark.long
def test_all_tests_run_where_asked_for(tmp_path):
    printed = run(tmp_path, "--all", OMCAL_EXAMPLES="3")
    assert "11 passed, 1 skipped" in printed and "marked long" not in printed
    assert "drew 21 examples" in printed


@pytest.mark.long
def test_a_named_test_runs_whatever_its_marks(tmp_path):
    assert "1 passed" in run(tmp_path, "test_sample.py::test_long")


@pytest.mark.long
def test_a_quick_run_fails_where_a_mark_is_missing(tmp_path):
    printed = run(tmp_path, "--quick")
    assert "1 failed, 4 passed, 1 skipped" in printed
    assert "mark it with pytest.mark.process" in printed and "make test, make test-all" in printed
    assert "drew 2 examples" in printed  # a quarter of them
    assert re.findall(r"took number (\d)", printed) == ["0", "5"]


@pytest.mark.long
def test_tests_that_begin_too_late_are_skipped_and_named(tmp_path):
    printed = run(tmp_path, "--seconds", "-1")
    assert "no time was left: make test-all" in printed and "passed" not in printed
