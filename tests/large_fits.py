"""Data, and ways to disturb a fit, that the tests of large fits share."""

import resource
import signal
from contextlib import contextmanager

import numpy as np

from omcal.places.memory import MemoryRows


def overlapping(n=6000, widths=(6, 4), dtype=np.float32, seed=0, apart=1.5):
    """Views of groups that overlap, with more rows than the anchors are chosen from."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n)
    return [
        (apart * rng.normal(size=(4, d))[y] + rng.normal(size=(n, d))).astype(dtype) for d in widths
    ]


def mapped(folder, views):
    """The views as memory-mapped files."""
    for v, X in enumerate(views):
        np.save(folder / f"{v}.npy", X)
    return [np.load(folder / f"{v}.npy", mmap_mode="r") for v in range(len(views))]


def assert_same_fit(found, expected):
    np.testing.assert_array_equal(np.asarray(found.labels_), expected.labels_)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-10)
    np.testing.assert_allclose(found.view_weights_, expected.view_weights_, atol=1e-10)


@contextmanager
def sweeps(monkeypatch, before):
    """Call `before` with the number of each sweep over a part, before it."""
    count = 0
    plain = MemoryRows.sweep

    def sweep(self, *step):
        nonlocal count
        count += 1
        before(count)
        return plain(self, *step)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryRows, "sweep", sweep)
        yield


@contextmanager
def file_size_limit(n_bytes):
    """No file of this process may grow beyond n_bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
