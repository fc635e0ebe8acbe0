"""What one pass returns, and what a sample takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from omcal.machine.compiled import decide_kernel
from omcal.method.rows import Assignment, Sums, decide, row_bytes, zero_tolerance


def test_sums_of_two_sets_of_rows_add():
    total = Sums(*map(np.array, ([1.0], [2.0], [3.0]))) + Sums(
        *map(np.array, ([4.0], [6.0], [8.0]))
    )
    assert [total.StF[0], total.FtF[0], total.FoldtF[0]] == [5, 8, 11]


def test_labels_of_consecutive_rows_are_joined():
    one, two = (Assignment(np.arange(n), n, np.arange(n) + 1, np.arange(n) + 9) for n in (2, 3))
    whole = Assignment.joined([one, two])
    assert_array_equal(whole.labels, [0, 1, 0, 1, 2])
    assert_array_equal(whole.second, [1, 2, 1, 2, 3])
    assert_array_equal(whole.share, [9, 10, 9, 10, 11])
    assert whole.n_undecided == 5
    plain = Assignment.joined([Assignment(np.arange(2), 1), Assignment(np.arange(3), 2)])
    assert plain.second is None and plain.share is None and plain.n_undecided == 3


@given(
    n=st.integers(0, 40),
    c=st.integers(1, 12),
    dtype=st.sampled_from([np.float32, np.float64]),
    scale=st.sampled_from([1e-30, 1.0, 1e15]),
    seed=st.integers(0),
)
def test_the_compiled_loop_decides_alike(n, c, dtype, scale, seed):
    pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
    rng = np.random.default_rng(seed)
    # Few different numbers: there are ties, single positive entries and rows of zeros.
    F = (scale * np.maximum(rng.integers(-4, 5, size=(n, c)), 0)).astype(dtype)
    F[rng.random(n) < 0.3] *= rng.random(dtype=np.float32)
    labels, second, share = (np.empty(n, t) for t in (np.int32, np.uint16, np.uint8))
    decide_kernel()(F, zero_tolerance(scale), labels, second, share)
    plain = decide(F.copy(), lambda some: F[some], scale, runner_up=True)
    there = F.max(axis=1, initial=0) > zero_tolerance(scale)
    assert_array_equal(labels, np.where(there, plain.labels, -1))
    assert_array_equal(second[there], plain.second[there])
    assert_array_equal(share[there], plain.share[there])


@pytest.mark.parametrize(("m", "bytes_of_an_index"), [(2, 1), (256, 1), (257, 2), (65537, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bytes_of_a_sample(m, bytes_of_an_index, dtype):
    size = np.dtype(dtype).itemsize
    expected = {"graphs": 15 * (bytes_of_an_index + size), "indicator": 7 * size, "label": 4}
    assert row_bytes(3, 5, 7, m, np.dtype(dtype)) == expected
    expected["sparse form"] = 4 * 16  # 15 columns, and where the row begins
    assert row_bytes(3, 5, 7, m, np.dtype(dtype), compiled=False) == expected
