"""The scores: known values, scikit-learn's functions, degenerate cases, errors."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn import metrics as reference
from sklearn.datasets import load_digits

from omcal.metrics import (
    ari,
    clustering_accuracy,
    evaluate,
    f_score,
    nmi,
    precision,
    purity,
    recall,
)

quick = settings(max_examples=60, deadline=None)
SCORES = {
    "accuracy": clustering_accuracy,
    "nmi": nmi,
    "purity": purity,
    "ari": ari,
    "f_score": f_score,
    "precision": precision,
    "recall": recall,
}
AVERAGES = ["max", "arithmetic", "geometric", "min"]


@st.composite
def two_labellings(draw):
    n = draw(st.integers(1, 40))
    labels = st.lists(st.integers(-3, 6), min_size=n, max_size=n)
    return np.array(draw(labels)), np.array(draw(labels))


# Known values

# The rows of the table of check values that follow from the true labels alone:
# ACC, NMI max, purity, ARI, F, precision, recall, NMI arithmetic.
DIGITS = {
    "one group": [0.101836, 0, 0.101836, 0, 0.181024, 0.099520, 1, 0],
    "two merged": [0.903172, 0.940708, 0.903172, 0.900354, 0.911152, 0.836804, 1, 0.969448],
    "perfect": [1, 1, 1, 1, 1, 1, 1, 1],
}


@pytest.mark.parametrize("labelling", DIGITS)
def test_digits(labelling):
    y = load_digits().target
    predicted = {"one group": np.zeros_like(y), "two merged": np.minimum(y, 8), "perfect": y}
    found = evaluate(y, predicted[labelling])
    arithmetic = nmi(y, predicted[labelling], average="arithmetic")
    np.testing.assert_allclose([*found.values(), arithmetic], DIGITS[labelling], rtol=0, atol=5e-7)


def test_reference_values(shared):
    data = np.load(shared / "reference" / "metrics_MSRCv1.npz")
    stored = {"accuracy": "ACC", "ari": "ARI", "f_score": "F", "nmi": "NMI_max"}
    for i, predicted in enumerate(data["pred"]):
        for name, score in SCORES.items():
            expected = data[stored.get(name, name)][i]
            tolerance = 1e-10 if name == "nmi" else 1e-12
            assert score(data["truth"], predicted) == pytest.approx(expected, abs=tolerance), name
        found = nmi(data["truth"], predicted, average="arithmetic")
        assert found == pytest.approx(data["NMI_arith"][i], abs=1e-12)


def test_pairs_by_hand():
    y, p = [0, 0, 0, 1, 1], [5, 5, 7, 7, 7]
    # Together in p: 1 + 3 pairs, 2 of them in y; together in y: 3 + 1 pairs.
    assert precision(y, p) == 2 / 4
    assert recall(y, p) == 2 / 4
    assert f_score(y, p) == 0.5
    assert purity(y, p) == 4 / 5
    assert clustering_accuracy(y, p) == 4 / 5


# Against scikit-learn


@pytest.mark.slow
@quick
@given(two_labellings())
def test_agrees_with_scikit_learn(labels):
    y, p = labels
    assert ari(y, p) == pytest.approx(reference.adjusted_rand_score(y, p), abs=1e-12)
    (_, only_p), (only_y, both) = reference.pair_confusion_matrix(y, p)
    assert precision(y, p) == pytest.approx(both / (both + only_p) if both + only_p else 1)
    assert recall(y, p) == pytest.approx(both / (both + only_y) if both + only_y else 1)
    for average in AVERAGES:
        expected = reference.normalized_mutual_info_score(y, p, average_method=average)
        assert nmi(y, p, average=average) == pytest.approx(expected, abs=1e-10)


@pytest.mark.slow
@quick
@given(two_labellings())
def test_ranges_symmetry_and_invariance(labels):
    y, p = labels
    scores = evaluate(y, p)
    assert list(scores) == list(SCORES)
    for name, score in SCORES.items():
        assert scores[name] == score(y, p)
        assert (-1 if name == "ari" else 0) <= scores[name] <= 1
        assert isinstance(scores[name], float)
    swapped = evaluate(p, y)
    for name in ("accuracy", "nmi", "ari", "f_score"):
        assert swapped[name] == pytest.approx(scores[name], abs=1e-12)
    assert swapped["precision"] == pytest.approx(scores["recall"])
    renamed = evaluate(np.array(list("abcdefghij"))[y + 3], -7 * p)
    assert renamed == pytest.approx(scores)
    if len(y) > 1:
        assert evaluate(y, y) == pytest.approx(dict.fromkeys(SCORES, 1.0))


@quick
@given(two_labellings())
def test_accuracy_is_the_best_naming(labels):
    y, p = labels
    table = reference.cluster.contingency_matrix(y, p)
    assert clustering_accuracy(y, p) >= table.max() / len(y)
    assert clustering_accuracy(y, p) <= purity(y, p) + 1e-12


def test_accuracy_against_all_namings():
    from itertools import permutations

    rng = np.random.default_rng(0)
    for _ in range(20):
        y, p = rng.integers(0, 4, 30), rng.integers(0, 5, 30)
        best = max(np.mean(np.array(naming)[p] == y) for naming in permutations(range(5)))
        assert clustering_accuracy(y, p) == pytest.approx(best)


# Degenerate cases


def test_one_class_and_one_cluster():
    assert evaluate([3, 3, 3], ["a", "a", "a"]) == dict.fromkeys(SCORES, 1.0)


def test_a_single_sample():
    assert evaluate([0], [5]) == dict.fromkeys(SCORES, 1.0)


@pytest.mark.parametrize("average", AVERAGES)
def test_exactly_one_entropy_is_zero(average):
    y, one = [0, 0, 1, 2], [1, 1, 1, 1]
    assert nmi(y, one, average=average) == 0
    assert nmi(one, y, average=average) == 0
    assert ari(y, one) == 0


def test_no_pair_in_the_clusters_or_in_the_classes():
    y, singletons = [0, 0, 1, 1], [0, 1, 2, 3]
    assert (precision(y, singletons), recall(y, singletons), f_score(y, singletons)) == (1, 0, 0)
    assert (precision(singletons, y), recall(singletons, y), f_score(singletons, y)) == (0, 1, 0)
    assert evaluate(singletons, [3, 2, 1, 0]) == dict.fromkeys(SCORES, 1.0)


def test_no_pair_in_common():
    y, p = [0, 0, 1, 1], [0, 1, 0, 1]
    assert (precision(y, p), recall(y, p), f_score(y, p)) == (0, 0, 0)


@pytest.mark.parametrize("n_clusters", [1, 2, 9])
def test_another_number_of_clusters_than_classes(n_clusters):
    y = np.repeat(range(4), 10)
    assert all(np.isfinite(v) for v in evaluate(y, np.arange(40) % n_clusters).values())


@pytest.mark.memory
def test_many_clusters_cost_no_square_table():
    y, p = np.repeat([0, 1], 50_000), np.arange(100_000)
    assert evaluate(y, p)["purity"] == 1
    assert nmi(np.arange(100_000), p) == pytest.approx(1)
    tracemalloc.start()
    try:
        scores = evaluate(np.arange(20_000), np.arange(20_000)[::-1])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert scores == pytest.approx(dict.fromkeys(SCORES, 1.0))
    assert peak < 100e6  # the table of all pairs would take 3.2 GB


@quick
@given(two_labellings())
def test_accuracy_is_the_assignment_in_the_full_table(labels):
    table = reference.cluster.contingency_matrix(*labels)
    rows, columns = linear_sum_assignment(table, maximize=True)
    expected = table[rows, columns].sum() / len(labels[0])
    assert clustering_accuracy(*labels) == pytest.approx(expected, abs=1e-15)


def test_large_counts_do_not_overflow():
    y = np.repeat([0, 1], [300_000, 1])
    assert precision(y, np.zeros_like(y)) == pytest.approx(1, abs=1e-5)
    assert ari(y, y) == 1


# Kinds of labels, and errors


def test_labels_of_any_kind():
    y = [0, 0, 1, 2]
    for labels in (["x", "x", "y", "z"], (0.5, 0.5, 1.5, -1), np.array([9, 9, -9, 0], np.int8)):
        assert evaluate(y, labels) == dict.fromkeys(SCORES, 1.0)
    assert clustering_accuracy([True, False], [False, True]) == 1
    objects = np.array(["x", "x", "y", "z"], dtype=object)
    assert evaluate(y, objects) == dict.fromkeys(SCORES, 1.0)


@pytest.mark.parametrize("score", [*SCORES.values(), evaluate])
def test_errors_name_the_argument_and_the_remedy(score):
    with pytest.raises(ValueError, match=r"y_true has 3 labels and y_pred has 2; give one label"):
        score([0, 1, 1], [0, 1])
    with pytest.raises(ValueError, match=r"y_true is empty; give at least one"):
        score([], [])
    with pytest.raises(ValueError, match=r"y_pred is empty"):
        score([1], [])
    with pytest.raises(ValueError, match=r"y_pred contains 2 NaN or missing labels; remove"):
        score([0, 1, 1], [0, np.nan, np.nan])
    with pytest.raises(ValueError, match=r"y_true has shape \(2, 1\); give a 1-D"):
        score([[0], [1]], [0, 1])
    with pytest.raises(ValueError, match=r"y_pred has shape \(\); give a 1-D"):
        score([0, 1], 3)


@pytest.mark.parametrize(
    "labels", [[1.0, np.nan, np.nan], ["a", np.nan, "b"], ["a", None, "b"], [1, None, 2]]
)
def test_missing_labels_in_an_object_array_raise(labels):
    with pytest.raises(ValueError, match=r"y_true contains \d (NaN|missing)"):
        evaluate(np.array(labels, dtype=object), [0, 1, 1])


@pytest.mark.parametrize("labels", [["a", np.nan, "b"], ("a", float("nan"), "b"), [b"a", np.nan]])
def test_nan_in_a_list_of_words_is_no_class(labels):
    with pytest.raises(ValueError, match=r"y_true contains 1 NaN or missing labels"):
        evaluate(labels, range(len(labels)))
    words = ["nan" if label != label else label for label in labels]
    assert evaluate(words, range(len(labels)))["accuracy"] == 1  # the word itself is a label


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["2024-01-01", "NaT", "2024-01-02"], "M8[D]"),
        np.ma.array([0, 1, 1], mask=[0, 1, 0]),
    ],
)
def test_missing_dates_and_masked_labels_are_no_classes(labels):
    with pytest.raises(ValueError, match=r"y_pred contains 1 NaN or missing labels"):
        evaluate([0, 1, 1], labels)
    assert evaluate([0, 1], labels[::2])["accuracy"] == 1


def test_missing_labels_in_a_data_frame_raise():
    pd = pytest.importorskip("pandas")
    for column in (
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series(["a", None, "b"]),
        pd.Series(["a", None, "b"], dtype="category"),
    ):
        with pytest.raises(ValueError, match=r"y_true contains 1 (NaN|missing)"):
            evaluate(column, [0, 1, 1])


@pytest.mark.parametrize("labels", [([0, 1, 1], [0, 0, 1]), ([0, 0], [1, 1]), ([0, 1], [1, 1])])
def test_unknown_average(labels):
    with pytest.raises(ValueError, match=r"average='mean' is unknown; use 'max'"):
        nmi(*labels, average="mean")
    with pytest.raises(ValueError, match=r"average='mean'"):
        evaluate(*labels, average="mean")
