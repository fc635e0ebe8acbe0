"""Valid files with a few bytes changed: they load, or a DataError says why not."""

import os

import numpy as np
import pytest
from fuzzed import FILES, mutate

from omcal.datasets import DataError, load_views

N_MUTANTS = int(os.environ.get("OMCAL_MUTANTS", 60))  # `make fuzz` makes far more


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FILES)
def test_mutants_load_or_are_refused(tmp_path, dense, mixed, kind):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    if "hdf5" in kind or kind == "mat7.3":
        pytest.importorskip("h5py")
    FILES[kind](tmp_path / "file", dense, mixed)
    root = next(tmp_path.iterdir())
    load_views(root)
    victims = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.is_file())
    rng = np.random.default_rng(0)
    outcomes = []
    for i in range(N_MUTANTS):
        victim = victims[i % len(victims)]
        content = victim.read_bytes()
        victim.write_bytes(mutate(content, rng))
        try:
            outcomes.append(load_views(root).n_samples > 0)
        except DataError:
            outcomes.append(False)
        victim.write_bytes(content)
    assert len(outcomes) == N_MUTANTS and not all(outcomes)
