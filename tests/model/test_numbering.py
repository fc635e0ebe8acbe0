"""Numbers of clusters: by size, or those of an earlier clustering."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import NotFittedError

from omcal import OCAL, OMCAL, Consensus, load
from omcal.datasets import make_multiview
from omcal.metrics import ari, match_labels
from omcal.model.numbering import as_before, by_size, overlaps, renumbered

DATA = make_multiview(700, n_clusters=5, noise=0.6, random_state=0)
VIEWS = list(DATA.views.values())
MODELS = {
    "OMCAL": OMCAL(5, random_state=0),
    "Consensus": Consensus(OMCAL(5), n_runs=3, random_state=0),
}


def part(rows):
    return [view[rows] for view in VIEWS]


@pytest.mark.parametrize("name", MODELS)
def test_the_largest_cluster_is_the_first(name):
    model = clone(MODELS[name]).fit(part(np.r_[:300, 420:700]))
    sizes = np.bincount(model.labels_)
    assert (np.diff(sizes) <= 0).all()
    assert model.matched_ == []
    agree = model.predict(part(np.r_[:300, 420:700])) == model.labels_
    assert agree.mean() > 0.99


@pytest.mark.parametrize("name", MODELS)
def test_a_refit_keeps_the_numbers_of_a_model(name, tmp_path):
    old = clone(MODELS[name]).fit(part(slice(0, 500)))
    new = clone(MODELS[name]).set_params(random_state=1)
    new.fit(part(slice(200, 700)), like=old)
    shared = old.labels_[200:500], new.labels_[:300]
    assert ari(*shared) > 0.9
    assert (shared[0] == shared[1]).mean() > 0.95
    assert [match.old for match in new.matched_] == list(range(5))
    assert all(0.8 < match.share <= 1 for match in new.matched_)
    assert (new.predict(part(slice(200, 700))) == new.labels_).mean() > 0.99


@pytest.mark.slow
def test_labels_and_labels_by_id():
    pd = pytest.importorskip("pandas")
    plain = OMCAL(5, random_state=0).fit(VIEWS)
    mixed = (np.arange(5)[::-1])[plain.labels_]
    mixed[::3] = -1
    again = OMCAL(5, random_state=0).fit(VIEWS, like=mixed)
    assert_array_equal(again.labels_, 4 - plain.labels_)
    frames = {name: pd.DataFrame(view).add_prefix("x") for name, view in DATA.views.items()}
    frames = {
        name: frame.set_index("s" + frame.index.astype(str)) for name, frame in frames.items()
    }
    known = pd.Series(mixed, index=frames["view1"].index)[mixed >= 0].sample(frac=1, random_state=0)
    for like in (known, known.to_dict()):
        assert_array_equal(OMCAL(5, random_state=0).fit(frames, like=like).labels_, again.labels_)


@pytest.mark.slow
def test_names_stay_with_their_clusters(tmp_path):
    old = OMCAL(4, random_state=0).fit(VIEWS)
    assert list(old.cluster_names_) == ["0", "1", "2", "3"]
    old.cluster_names_ = ["calm", "loud", "odd", "new"]
    old.save(tmp_path / "old.omcal")
    loaded = load(tmp_path / "old.omcal")
    assert list(loaded.cluster_names_) == ["calm", "loud", "odd", "new"]
    for model in (OMCAL(6, random_state=0), Consensus(OMCAL(6), n_runs=3, random_state=0)):
        model.fit(VIEWS, like=loaded)
        for match, name in zip(model.matched_, model.cluster_names_, strict=True):
            known = match.old is not None
            assert name == (old.cluster_names_[match.old] if known else str(match.cluster))
        model.save(tmp_path / "new.omcal")
        again = load(tmp_path / "new.omcal")
        assert again.cluster_names_ == model.cluster_names_
        assert again.matched_ == model.matched_
        assert list(model.fit(VIEWS).cluster_names_) == list("012345")
    for wrong in (["a", "b"], ["a", "a", "b", "c"], ["a", "b", "c", 4], "abcd"):
        with pytest.raises(ValueError, match="cluster_names_ must be 4 different texts"):
            old.cluster_names_ = wrong
    with pytest.raises(TypeError):  # it would be lost
        old.cluster_names_[0] = "other"
    with pytest.raises(NotFittedError):
        OMCAL(3).cluster_names_  # noqa: B018


def test_more_and_fewer_clusters():
    old = OMCAL(4, random_state=0).fit(VIEWS)
    more = OMCAL(6, random_state=0).fit(VIEWS, like=old)
    kept = {match.cluster for match in more.matched_ if match.old is not None}
    assert kept >= {0, 1, 2} and {match.cluster for match in more.matched_} == set(range(6))
    for match in more.matched_:
        assert match.old in (None, match.cluster)
    fewer = OMCAL(3, random_state=0).fit(VIEWS, like=old)
    assert set(np.unique(fewer.labels_)) == {0, 1, 2}


def frames_with_ids(ids):
    pd = pytest.importorskip("pandas")
    views = {name: pd.DataFrame(view, index=ids) for name, view in DATA.views.items()}
    return {name: frame.add_prefix("x") for name, frame in views.items()}


def test_ids_are_compared_as_text():
    pd = pytest.importorskip("pandas")
    frames = frames_with_ids(np.arange(100, 800))
    plain = OMCAL(5, random_state=0).fit(frames)
    ids, labels = map(str, range(100, 800)), 4 - plain.labels_
    like = dict(zip(ids, labels.tolist(), strict=True))
    again = OMCAL(5, random_state=0)
    assert_array_equal(again.fit(frames, like=like).labels_, labels)
    one = OCAL(5, random_state=0)
    table = frames["view1"]
    expected = one.fit(table, like=like).labels_
    if hasattr(pd.DataFrame, "__arrow_c_stream__"):
        pa = pytest.importorskip("pyarrow")
        assert_array_equal(one.fit(pa.Table.from_pandas(table), like=like).labels_, expected)


def test_labels_by_other_ids():
    """Without a shared id all clusters were new, without a word; of two labels the last counted."""
    pd = pytest.importorskip("pandas")
    frames = frames_with_ids([f"s{i}" for i in range(700)])
    model = OMCAL(5, random_state=0)
    labels = pd.Series(np.arange(700) % 5)
    with pytest.raises(ValueError, match="X has 's0', 's1', 's2', like has '0'"):
        model.fit(frames, like=labels)
    labels.index = ["s0", "s0", *(f"s{i}" for i in range(2, 700))]
    with pytest.raises(ValueError, match="1 ids are there more than once in like: 's0'"):
        model.fit(frames, like=labels)
    pl = pytest.importorskip("polars")
    with pytest.raises(ValueError, match="X has nothing, like has 's0'; pass data"):
        model.fit(pl.DataFrame(VIEWS[0]), like={"s0": 1})


def test_a_model_is_its_own_predecessor():
    """It was asked for its labels when it had the columns of the new data already."""
    frames = frames_with_ids([f"s{i}" for i in range(700)])
    frames["view1"] += 100 * np.arange(frames["view1"].shape[1])
    turned = {name: frame.iloc[:, ::-1] for name, frame in reversed(frames.items())}
    for model in map(clone, MODELS.values()):
        old = model.fit(frames).labels_
        model.cluster_names_ = list("abcde")
        model.set_params(random_state=1).fit(turned, like=model)
        assert [match.old for match in model.matched_] == list(range(5))
        assert (model.labels_ == old).mean() > 0.95
        assert list(model.cluster_names_) == list("abcde")


def test_a_clustering_of_scikit_learn_is_continued():
    old = KMeans(5, random_state=0).fit(VIEWS[0])
    new = OCAL(5, random_state=0).fit(VIEWS[0], like=old)
    assert [match.old for match in new.matched_] == list(range(5))


def test_new_names_are_different():
    old = OMCAL(3, random_state=0).fit(VIEWS)
    old.cluster_names_ = ["3", "4", "new 4"]
    new = OMCAL(5, random_state=0).fit(VIEWS, like=old)
    assert list(new.cluster_names_) == ["3", "4", "new 4", "new 3", "new new 4"]


def test_refusals():
    model = OMCAL(5, random_state=0)
    with pytest.raises(ValueError, match=r"like has shape \(3,\); give a fitted model"):
        model.fit(VIEWS, like=[0, 1, 2])
    with pytest.raises(ValueError, match="like must be whole numbers"):
        model.fit(VIEWS, like=np.full(700, 0.5))
    with pytest.raises(ValueError, match="X has nothing, like has 'a'; pass data"):
        model.fit(VIEWS, like={"a": 1})
    assert not hasattr(model, "labels_")


def test_a_warm_start_goes_on_from_the_last_fit():
    model = OMCAL(5, random_state=0, warm_start=True).fit(part(slice(0, 500)))
    before, cold = model.labels_.copy(), OMCAL(5, random_state=1).fit(VIEWS)
    basis = len(model.basis_)
    model.set_params(random_state=1).fit(VIEWS)
    assert len(model.basis_) == basis
    assert (model.labels_[:500] == before).mean() > 0.95
    assert ari(model.labels_, cold.labels_) > 0.9
    assert model.n_iter_ <= cold.n_iter_
    with pytest.raises(ValueError, match="warm_start=True continues from 5 clusters"):
        model.set_params(n_clusters=4).fit(VIEWS)
    with pytest.raises(ValueError, match="warm_start=True is for OMCAL and OCAL alone"):
        Consensus(OMCAL(3, warm_start=True)).fit(VIEWS)
    assert OCAL(3, warm_start=True, random_state=0).fit(VIEWS[0]).n_iter_ > 0


def test_a_warm_start_needs_the_features_of_the_last_fit():
    """Anchors were taken for those of other features, as long as there were as many."""
    frames = frames_with_ids(np.arange(700))
    model = OMCAL(5, random_state=0, warm_start=True).fit(frames)
    before = model.labels_
    turned = {name: frame.iloc[:, ::-1] for name, frame in frames.items()}
    with pytest.raises(ValueError, match=r"5 clusters of the views .* same order; X has"):
        model.fit(turned)
    renamed = {name.upper(): frame for name, frame in frames.items()}
    with pytest.raises(ValueError, match=r"X has \['VIEW1', .*warm_start=False"):
        model.fit(renamed)
    assert model.labels_ is before
    assert model.fit(VIEWS).n_iter_ > 0  # without names


labelled = st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 4)), min_size=1, max_size=60)


@given(pairs=labelled)
def test_matched_labels_are_the_same_clusters(pairs):
    old, new = np.array(pairs).T
    found = match_labels(old, new)
    assert_array_equal(found < 0, new < 0)
    known = new >= 0
    assert len(set(zip(new[known], found[known], strict=True))) == len(set(new[known]))
    assert len(set(found[known])) == len(set(new[known]))
    assert_array_equal(match_labels(new, new), new)
    assert_array_equal(match_labels(found, found), found)


@given(st.permutations(range(5)), st.lists(st.integers(0, 4), min_size=5, max_size=50))
def test_a_permutation_is_undone(order, labels):
    labels = np.array([*range(5), *labels], dtype=np.int32)
    other = np.array(order, dtype=np.int32)[labels]
    assert_array_equal(match_labels(labels, other), labels)
    found, matches = as_before(overlaps(labels, other, 5, 7), np.bincount(other, minlength=5))
    assert_array_equal(renumbered(other, found), labels)
    assert [match.share for match in matches] == [1.0] * 5
    sizes = np.bincount(renumbered(other, by_size(np.bincount(other, minlength=5))))
    assert (np.diff(sizes) <= 0).all()


def test_refused_labels():
    with pytest.raises(ValueError, match="old has 1 labels and new has 2"):
        match_labels([0], [0, 1])
    with pytest.raises(ValueError, match=r"new has .* a 1-D array of whole numbers below"):
        match_labels([0], [0.5])
    for wrong in (np.ma.array([0], mask=[1]), np.array([2**62]), np.array([2**63], "u8")):
        with pytest.raises(ValueError, match=r"old has .* below 2\*\*62, none masked; numpy"):
            match_labels(wrong, [0])


@pytest.mark.parametrize("dtype", ["u1", "u4", "u8", "i2"])
def test_labels_of_any_whole_type(dtype):
    old, new = np.array([0, 0, 1, 1, 255], "u1").astype(dtype), np.array([1, 1, 0, 0, 2], dtype)
    highest = int(old.max())
    assert match_labels(old[:4], new[:4]).tolist() == [0, 0, 1, 1]
    found = match_labels(np.append(old, old[-1:]), np.append(new, new[:1] + 2))
    assert found[:4].tolist() == [0, 0, 1, 1] and found.max() == highest + 1


@pytest.mark.slow
def test_names_are_shown_in_a_report(tmp_path):
    data = make_multiview(120, n_clusters=3, random_state=0)
    model = OMCAL(3, random_state=0).fit(data.views)
    plain = model.report(tmp_path / "plain.html").read_text(encoding="utf-8")
    assert "cluster 2" in plain and "cluster 2:" not in plain
    model.cluster_names_ = ["north", "south", "<east>"]
    page = model.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "cluster 0: north" in page and "cluster 2: &lt;east&gt;" in page


def test_large_numbers_of_clusters():
    """They would be the rows of a table of gigabytes."""
    old = np.array([5, 5, 5, 10**12, 10**12, -1])
    assert match_labels(old, [1, 1, 1, 0, 0, 2]).tolist() == [*old[:5], 10**12 + 1]
    with pytest.raises(ValueError, match=r"like must be whole numbers from 0 to 99999.*unique"):
        OMCAL(2, n_neighbors=2).fit(np.arange(12.0).reshape(6, 2), like=np.abs(old))
