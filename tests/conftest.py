"""Fixtures shared by all tests."""

from functools import partial
from pathlib import Path

import pytest

from omcal.rows.memory import MemoryRows

ROWS = {"memory": MemoryRows, "compiled": partial(MemoryRows, compiled=True)}


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
    if request.param == "compiled":
        pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
    return ROWS[request.param]
