"""Every baseline knows what memory it takes, and refuses in time what does not fit."""

import tracemalloc

import numpy as np
import pytest
from common_cases import METHODS, VARIANTS, each, given, of, seeded
from scipy import sparse

from omcal.baselines import (
    BKM,
    CGFKM,
    ECPCS,
    FSMSC,
    MCGC,
    MLAN,
    MVSCHFD,
    SC,
    SLMVGC,
    SMC,
    SMCAGC,
    SMCOCL,
)

# SLMVGC seldom settles in the number of rounds of its authors, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.long
@pytest.mark.memory
@each(METHODS + of(MLAN, BKM, among=VARIANTS), every=3)
def test_memory_estimate_is_of_the_right_size(method):
    rng = np.random.RandomState(0)
    X = given(method, [rng.rand(500, 800), rng.rand(500, 1200)])
    asked = []

    class Noted(type(method)):
        def _memory_needed(self, views):
            asked.append(super()._memory_needed(views))
            return asked[-1]

    parameters = {"n_init": 1} if "n_init" in method.get_params() else {}
    model = seeded(Noted(**method.get_params()), **parameters)
    tracemalloc.start()
    try:
        model.fit(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / 2 < asked[0] < 3 * peak


def assert_refused_in_time(method, X, monkeypatch):
    """Before any work is done."""
    monkeypatch.setattr(type(method), "_cluster", lambda *given: pytest.fail("it began"))
    message = f"{type(method).__name__} on {X.shape[0]} samples"
    with pytest.raises(MemoryError, match=message):
        seeded(method).fit(X)


@each(of(FSMSC, MVSCHFD, SMC, SMCAGC, SMCOCL))
def test_too_wide_for_memory_is_refused_in_time(method, monkeypatch):
    assert_refused_in_time(method, sparse.csr_array((3000, 2_000_000_000)), monkeypatch)


@each([*of(MCGC, SLMVGC, SC, CGFKM), ECPCS(3, consensus="hc")])
def test_too_many_samples_for_memory_are_refused_in_time(method, monkeypatch):
    assert_refused_in_time(method, sparse.csr_array((3_000_000, 2_500_000)), monkeypatch)
