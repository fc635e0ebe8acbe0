"""Tables of numbers, categories, dates and text as analysts have them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import omcal
from omcal import OMCAL, Consensus
from omcal.metrics import ari

RNG = np.random.default_rng(0)
N = 240
GROUP = RNG.integers(3, size=N)
CITIES = np.array(["Bergen", "Oslo", "Tromsø"])
COLUMNS = {
    "income": 100.0 * GROUP + RNG.normal(0, 30, N),
    "age": 20 + 10 * (GROUP == 1) + RNG.normal(0, 4, N),
    "city": CITIES[np.where(RNG.random(N) < 0.9, GROUP, RNG.integers(3, size=N))],
    "smoker": RNG.random(N) < np.where(GROUP == 2, 0.9, 0.1),
    "joined": np.datetime64("2020-01-01") + (GROUP * 100 + RNG.integers(0, 40, N)),
    "note": [f"customer number {i}" for i in range(N)],
    "country": ["Norway"] * N,
}

pytestmark = pytest.mark.filterwarnings("ignore:columns left out", "ignore:view '.*' lacks")


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def make(request):
    library = pytest.importorskip(request.param)
    return library.table if request.param == "pyarrow" else library.DataFrame


def model(**how):
    return OMCAL(3, n_anchors=12, random_state=0, **how)


def test_a_mixed_table_is_clustered_by_kind_of_column(make):
    with pytest.warns(UserWarning, match=r"left out: 'note' \(240 different texts\), 'country'"):
        fitted = model().fit(make(COLUMNS))
    assert fitted.view_names_ == ["X"]
    assert fitted.n_features_per_view_ == [3 + 5]  # three cities, yes and no
    assert "one-hot" in fitted.view_scales_[0].reason
    assert ari(fitted.labels_, GROUP) > 0.9
    assert_array_equal(fitted.predict(make(COLUMNS)), fitted.labels_)


def test_the_result_is_the_same_from_every_library():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    frame = pd.DataFrame(COLUMNS)
    tables = (frame, frame.astype({"city": "category"}), pl.DataFrame(COLUMNS), pa.table(COLUMNS))
    first, *others = (model().fit(table).labels_ for table in tables)
    for labels in others:
        assert_array_equal(labels, first)


def test_clusters_are_described_in_the_words_of_the_table(make):
    fitted = model().fit(make(COLUMNS))
    found = fitted.describe_clusters(make(COLUMNS))
    names = {effect.feature for effect in found.features}
    assert {"city = Oslo", "city = Bergen", "income"} <= names
    effect = max((e for e in found.features if e.feature == "city = Oslo"), key=lambda e: e.effect)
    assert effect.share > 0.8 and effect.share_elsewhere < 0.2


def test_new_rows_are_told_not_guessed(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(COLUMNS)
    fitted = model().fit(frame)
    fitted.save(tmp_path / "model.omcal")
    for one in (fitted, omcal.load(tmp_path / "model.omcal")):
        assert_array_equal(one.predict(frame[list(frame)[::-1]]), fitted.labels_)
        numbers = frame.assign(smoker=frame["smoker"].astype(int))
        assert_array_equal(one.predict(numbers), fitted.labels_)
        with pytest.warns(UserWarning, match=r"'smoker' has 240 cells .* \('2'\)"):
            one.predict(frame.assign(smoker=2))
        other = frame.assign(city=np.where(np.arange(N) < 5, "Paris", frame["city"]))
        with pytest.warns(UserWarning, match=r"'city' has 5 cells .* not in fit \('Paris'\)"):
            found = one.predict(other)
        assert_array_equal(found[5:], fitted.labels_[5:])
        with pytest.raises(ValueError, match=r"'city' missing"):
            one.predict(frame.drop(columns="city"))
        with pytest.raises(ValueError, match=r"'more' not in fit"):
            one.predict(frame.assign(more=1))


@pytest.mark.filterwarnings("ignore:.* samples lack more than half")
def test_gaps_in_every_kind_of_column():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(COLUMNS)
    holes = RNG.random(frame.shape) < 0.1
    fitted = model().fit(frame.mask(holes))
    assert ari(fitted.labels_, GROUP) > 0.8
    assert fitted.n_missing_ == [int(holes[:, :5].sum())]  # a category has one cell, not several


def test_parts_of_a_table_follow_the_same_rules():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(COLUMNS)
    views = {"person": ["age", "smoker", "city"], "money": ["income"]}
    fitted = model(views=views).fit(frame)
    assert fitted.view_names_ == ["person", "money"]
    assert_array_equal(fitted.predict(frame[list(frame)[::-1]]), fitted.predict(frame))
    joined = Consensus(model(), n_runs=2, random_state=0).fit(frame)
    assert ari(joined.predict(frame), GROUP) > 0.9


def test_a_table_of_numbers_and_booleans_is_one_view():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({name: COLUMNS[name] for name in ("income", "age", "smoker")})
    assert model().fit(frame).view_names_ == ["X"]


def test_the_season_of_dates_is_a_feature_where_it_shows():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    summer = np.datetime64("2019-07-01") + rng.integers(0, 40, N) + 365 * rng.integers(0, 4, N)
    anytime = np.datetime64("2019-01-01") + rng.integers(0, 4 * 365, N)
    one_year = np.datetime64("2019-06-01") + rng.integers(0, 40, N)
    for dates, season in ((summer, True), (anytime, False), (one_year, False)):
        frame = pd.DataFrame({"x": COLUMNS["income"], "city": COLUMNS["city"], "day": dates})
        fitted = model().fit(frame)
        assert fitted.n_features_per_view_[0] == (4 if season else 2) + 3
        assert_array_equal(fitted.predict(frame), fitted.labels_)


def test_part_of_a_year_is_no_season():
    from omcal.views.mixed import _has_season

    rng = np.random.default_rng(0)
    assert not _has_season(18_000 + rng.integers(0, 900, 100_000).astype(float))
    summer = 18_000 + 365 * rng.integers(0, 3, 1000) + rng.integers(0, 60, 1000)
    assert _has_season(summer.astype(float))


def test_categories_of_whole_numbers_are_the_same_as_floats():
    pd = pytest.importorskip("pandas")
    plan = np.arange(60) % 3 + 1
    table = pd.DataFrame({"x": np.arange(60.0) % 7, "plan": pd.Categorical(plan)})
    model = OMCAL(3, random_state=0).fit(table)
    assert_array_equal(model.predict(table.assign(plan=pd.Categorical(plan * 1.0))), model.labels_)
    known = pd.Categorical(np.where(np.arange(60) == 5, np.nan, plan))
    assert OMCAL(3, random_state=0).fit(table.assign(plan=known)).view_names_ == ["X"]
    halves = OMCAL(3, random_state=0).fit(table.assign(plan=pd.Categorical(plan / 2)))
    assert halves._view_columns[0][-1].endswith("= 1.5")


def test_missing_categories_are_counted_as_cells(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(COLUMNS)
    frame.loc[:6, "city"] = None
    doubts = map(str, model().fit(frame).doubts_)
    assert any(doubt.startswith("view 'X' lacks 7 of its values (0.6%)") for doubt in doubts)


def test_booleans_with_gaps_beside_numbers_are_numbers(make):
    flags = [None, *(COLUMNS["smoker"][1:].tolist())]
    fitted = model().fit(make({"income": COLUMNS["income"], "smoker": flags}))
    assert fitted.n_features_per_view_ == [2] and fitted.n_missing_ == [1]


def test_unknown_levels_are_said_once():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=60), "city": ["Oslo", "Rome"] * 30})
    model = OMCAL(2, random_state=0).fit(table)
    with pytest.warns(UserWarning, match=r"'Lima'.*count as missing") as said:
        model.predict(table.replace({"city": {"Rome": "Lima"}}))
    assert len(said) == 1


def test_views_are_compared_by_name_before_their_columns(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(COLUMNS)
    numbers = RNG.normal(size=(N, 3)) + GROUP[:, None]
    frame.to_csv(tmp_path / "c.csv", index=False)
    files = omcal.datasets.load_views([tmp_path / "c.csv"]).views
    fitted = model().fit({"a": numbers, "b": frame})
    for new in ({"a": numbers, "c": frame}, files):
        with pytest.raises(ValueError, match=r"the model was fitted on \['a', 'b'\]; use the same"):
            fitted.predict(new)
