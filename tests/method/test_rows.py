"""What one pass returns, and what a sample takes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omcal.method.rows import Assignment, Sums, row_bytes


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


@pytest.mark.parametrize(("m", "bytes_of_an_index"), [(2, 1), (256, 1), (257, 2), (65537, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bytes_of_a_sample(m, bytes_of_an_index, dtype):
    size = np.dtype(dtype).itemsize
    expected = {"graphs": 15 * (bytes_of_an_index + size), "indicator": 7 * size, "label": 4}
    assert row_bytes(3, 5, 7, m, np.dtype(dtype)) == expected
    expected["sparse form"] = 4 * 16  # 15 columns, and where the row begins
    assert row_bytes(3, 5, 7, m, np.dtype(dtype), compiled=False) == expected
