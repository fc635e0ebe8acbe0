"""Disks that are soon full."""

import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, kilobytes):
    """A file system of this size at a new folder; the test is skipped where none can be made."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, check=False, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"no disk of its own can be made: {error}")
    if done.returncode:
        pytest.skip(f"no disk of its own can be made: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
