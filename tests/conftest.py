"""Fixtures shared by all tests."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared():
    """The folder of real data and reference results beside the project; skips without it."""
    folder = Path(__file__).resolve().parents[1].parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder ../shared with real data and reference results is absent")
    return folder
