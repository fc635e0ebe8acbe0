"""Fixtures shared by all tests."""

from pathlib import Path

import pytest

from omcal.rows.memory import MemoryRows

ROWS = {"memory": MemoryRows}


@pytest.fixture(scope="session")
def shared():
    """The folder of real data and reference results beside the project; skips without it."""
    folder = Path(__file__).resolve().parents[1].parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder ../shared with real data and reference results is absent")
    return folder


@pytest.fixture(params=list(ROWS))
def make_rows(request):
    """Every way to hold the rows: (graphs, n_clusters) -> rows."""
    return ROWS[request.param]
