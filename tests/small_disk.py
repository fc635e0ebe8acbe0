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
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):  # no such command, or not for this user
        pytest.skip("this user cannot mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
