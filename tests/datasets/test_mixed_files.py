"""Mixed tables from files follow the rules for data frames, whatever the format."""

import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from omcal import OMCAL
from omcal.cli.app import run as main
from omcal.datasets import describe, join_views, load_views

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("openpyxl")

pytestmark = pytest.mark.filterwarnings(
    "ignore:columns left out", "ignore:view '.*' lacks", "ignore:.* lack more than half"
)


@st.composite
def mixed_tables(draw):
    """Numbers, booleans, categories, dates, free text and constants, some cells missing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(24, 60))
    group = rng.integers(3, size=n)
    kinds = ["number", "category", *draw(st.lists(st.sampled_from(sorted(MAKERS)), max_size=6))]
    frame = pd.DataFrame({f"c{j} {kind}": MAKERS[kind](rng, group) for j, kind in enumerate(kinds)})
    if draw(st.booleans()):
        holes = rng.random(frame.shape) < 0.1
        holes[:, 0] = False  # a sheet does not keep a row without any value
        frame = frame.mask(holes)
    return frame[rng.permutation(frame.columns)]


def _dates(rng, group):
    days = np.datetime64("2019-03-01") + 90 * group + rng.integers(0, 30, len(group))
    return days.astype("datetime64[ns]")


def _levels(words):
    return lambda rng, group: np.array(words, dtype=object)[
        np.where(rng.random(len(group)) < 0.8, group, rng.integers(3, size=len(group)))
    ]


MAKERS = {
    "number": lambda rng, group: group + rng.normal(0, 0.5, len(group)).round(6),
    "whole": lambda rng, group: 3 * group + rng.integers(0, 9, len(group)),
    "flag": lambda rng, group: rng.random(len(group)) < 0.2 + 0.3 * group,
    "category": _levels(["Bergen", "Oslo", "Tromsø, north"]),
    "quoted": _levels(["-a-", "O'Neil", 'a "b"; c']),
    "date": _dates,
    "text": lambda rng, group: [f"note {i} {rng.integers(99)}" for i in range(len(group))],
    "constant": lambda rng, group: ["Norway"] * len(group),
    "nothing": lambda rng, group: [None] * len(group),
}


def as_written(frame, folder):
    """Return the table from every kind of file, and from the other libraries."""
    import pyarrow as pa

    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    frame.to_csv(folder / "semicolon.csv", index=False, sep=";", encoding="utf-16")
    frame.to_excel(folder / "t.xlsx", index=False)
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    pa.parquet.write_table(arrow, folder / "t.parquet")
    files = ("t.csv", "t.tsv", "semicolon.csv", "t.xlsx", "t.parquet")
    found = {name: load_views(folder / name) for name in files}
    found["join_views"] = join_views({"X": frame})
    frames = {"arrow": arrow, "pandas": frame}
    try:
        import polars
    except ImportError:
        pass
    else:
        frames["polars"] = polars.DataFrame({name: arrow.column(name) for name in frame})
    return found, frames


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(mixed_tables())
def test_every_format_gives_the_same_views(frame):
    import pyarrow.parquet  # noqa: F401

    from omcal.views.mixed import encode_tables

    found, frames = as_written(frame, Path(tempfile.mkdtemp()))
    expected, encoding = encode_tables(frame, None, None)
    for name, other in frames.items():
        found_views, plan = encode_tables(other, None, None)
        assert plan == encoding, name
        assert dict(found_views.feature_names) == dict(expected.feature_names)
        for view in expected:
            np.testing.assert_allclose(found_views[view], expected[view], atol=1e-9, err_msg=name)
    for name, data in found.items():
        assert data.views.encoding == encoding, name
        assert list(data.views) == list(expected)
        for view in expected:
            np.testing.assert_allclose(data.views[view], expected[view], atol=1e-9, err_msg=name)


@pytest.mark.long
@settings(max_examples=5, deadline=None)
@given(mixed_tables())
def test_every_format_gives_the_same_clusters(frame):
    import pyarrow.parquet  # noqa: F401

    def labels(X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return OMCAL(3, n_anchors=9, random_state=0).fit(X).labels_

    found, frames = as_written(frame, Path(tempfile.mkdtemp()))
    expected = labels(frame)
    for name, X in {**frames, **{k: data.views for k, data in found.items()}}.items():
        assert_array_equal(labels(X), expected, err_msg=name)


N = 120
RNG = np.random.default_rng(1)
GROUP = RNG.integers(3, size=N)
CUSTOMERS = pd.DataFrame(
    {
        "customer_id": [f"k{i}" for i in range(N)],
        "spent": 100.0 * GROUP + RNG.normal(0, 20, N),
        "visits": 5 * GROUP + RNG.integers(0, 4, N),
        "city": np.array(["Bergen", "Oslo", "Tromsø"])[GROUP],
        "member": RNG.random(N) < 0.3 + 0.2 * GROUP,
        "since": (np.datetime64("2021-05-01") + 90 * GROUP).astype("datetime64[ns]"),
        "remark": [f"remark {i}" for i in range(N)],
    }
)


@pytest.fixture
def customers(tmp_path):
    CUSTOMERS.to_csv(tmp_path / "customers.csv", index=False)
    return tmp_path / "customers.csv"


def test_the_commands_say_what_was_made_of_each_column(customers, capsys):
    assert main(["inspect", str(customers), "--json"]) == 0
    found = {c["name"]: c["kind"] for c in json.loads(capsys.readouterr().out)["columns"]}
    assert found == {
        "spent": "number",
        "visits": "number",
        "city": "category of 3 levels",
        "member": "yes/no",
        "since": "date, as days",
        "remark": f"left out: {N} different texts",
    }
    assert main(["inspect", str(customers)]) == 0
    assert "category of 3 levels" in capsys.readouterr().out
    assert main(["cluster", str(customers), "--clusters", "3", "--runs", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [view["name"] for view in result["views"]] == ["X"]
    (note,) = [note for note in result["notes"] if "category" in note]
    assert "'remark' (120 different texts)" in note and "yes/no: 'member'" in note


def test_missing_cells_are_counted_by_column(tmp_path):
    holed = CUSTOMERS.copy()
    holed.loc[:4, "city"] = None
    holed.loc[3:10, "spent"] = np.nan
    holed.to_csv(tmp_path / "t.csv", index=False)
    found = {c["name"]: c["n_missing"] for c in describe(tmp_path / "t.csv")["columns"]}
    assert found["city"] == 5 and found["spent"] == 8 and found["since"] == 0
    assert "'spent' 8, 'city' 5" in load_views(tmp_path / "t.csv").notes[-1]


@pytest.fixture
def model(customers, tmp_path):
    path = tmp_path / "model.omcal"
    command = ["cluster", str(customers), "-k", "3", "--runs", "1", "--save-model", str(path), "-q"]
    assert main([*command, "--out", str(tmp_path / "labels.csv")]) == 0
    return path


def test_predict_takes_another_format_with_an_unknown_level(model, tmp_path, capsys):
    new = CUSTOMERS.head(30).drop(columns="remark")
    new.loc[2, "city"] = "Paris"
    new[list(new)[::-1]].to_parquet(tmp_path / "new.parquet")
    assert main(["predict", str(model), str(tmp_path / "new.parquet"), "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert "'city' has 1 cells with levels that were not in fit ('Paris')" in err
    assert result["warnings"] and result["samples"]["ids"] == new["customer_id"].tolist()
    fitted = pd.read_csv(tmp_path / "labels.csv")["cluster"].head(30)
    kept = np.arange(30) != 2
    assert_array_equal(np.array(result["samples"]["clusters"])[kept], fitted[kept])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="city"), "'city' missing"),
        (lambda frame: frame.assign(more="a"), "'more' not in fit"),
        (lambda frame: frame.assign(spent="much"), "'spent' had numbers in fit and has texts now"),
    ],
)
def test_other_columns_are_refused_by_name(model, tmp_path, capsys, change, message):
    change(CUSTOMERS.head(20)).to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(model), str(tmp_path / "new.csv")]) != 0
    assert message in capsys.readouterr().err


def test_one_new_row_is_enough(model, tmp_path, capsys):
    """Every column of one row is constant; the encoding of the model decides."""
    CUSTOMERS.iloc[[7]].to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(model), str(tmp_path / "new.csv"), "--json"]) == 0
    fitted = pd.read_csv(tmp_path / "labels.csv")["cluster"]
    assert json.loads(capsys.readouterr().out)["samples"]["clusters"] == [fitted[7]]


def test_mixed_tables_are_joined_by_their_ids(tmp_path):
    CUSTOMERS[["customer_id", "spent", "city"]].to_csv(tmp_path / "shop.csv", index=False)
    others = CUSTOMERS[["customer_id", "visits", "member", "since"]].sample(frac=1, random_state=0)
    others.iloc[:100].to_parquet(tmp_path / "club.parquet", index=False)
    data = load_views([tmp_path / "shop.csv", tmp_path / "club.parquet"])
    assert list(data.views) == ["shop", "club"]
    assert data.ids.tolist() == CUSTOMERS["customer_id"].tolist()
    assert data.present["club"].sum() == 100
    here = data.present["club"]
    assert_array_equal(data.views["club"][here, 0], CUSTOMERS["visits"][here])
    model = OMCAL(3, n_anchors=9, random_state=0).fit(data.views)
    assert_array_equal(model.predict(data.views[20:40]), model.predict(data.views)[20:40])


def test_frames_of_other_order_are_joined_by_their_index():
    """Not by position, as the encoded arrays would be."""
    one = CUSTOMERS.set_index("customer_id")[["spent", "city"]]
    two = CUSTOMERS.set_index("customer_id")[["visits", "member", "since"]]
    model = OMCAL(3, n_anchors=9, random_state=0)
    expected = model.fit({"one": one, "two": two}).labels_
    shuffled = two.sample(frac=1, random_state=0)
    assert_array_equal(model.fit({"one": one, "two": shuffled}).labels_, expected)
    with pytest.raises(ValueError, match="different ids"):
        model.fit({"one": one, "two": shuffled.iloc[5:]})


def test_prefixes_and_bare_columns(tmp_path):
    frame = CUSTOMERS.rename(columns={"spent": "shop_spent", "city": "shop_city"})
    frame = frame.rename(columns={"visits": "club_visits", "since": "club_since"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load_views(tmp_path / "t.csv", views=["shop", "club"])
    assert list(data.views) == ["shop", "club"]
    whole = load_views(tmp_path / "t.csv")  # member has no prefix
    assert list(whole.views) == ["X"]
    assert any("are ignored, because" in note for note in whole.notes)


def test_text_columns_that_are_no_features_leave_a_table_of_numbers(tmp_path):
    frame = CUSTOMERS[["spent", "member", "remark"]]
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load_views(tmp_path / "t.csv")
    assert list(data.views) == ["X"] and data.widths == (2,)
    assert_array_equal(data.views["X"][:, 1], CUSTOMERS["member"])


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_mixed_tables_are_converted_as_numbers(customers, tmp_path, ending):
    data = load_views(customers)
    path = tmp_path / f"again.{ending}"
    assert main(["convert", str(customers), str(path), "-q"]) == 0
    again = load_views(path)
    for name, view in data.views.items():
        assert_array_equal(again.views[name], view)


def test_a_frame_in_anndata_follows_the_same_rules(tmp_path):
    h5py = pytest.importorskip("h5py")
    from dataset_files import put_observations

    frame = CUSTOMERS[["spent", "city", "member", "remark"]]
    with h5py.File(tmp_path / "t.h5ad", "w") as file:
        put_observations(file, [f"s{i}" for i in range(N)])
        group = file.create_group("obsm/table", track_order=True)
        group["_index"] = np.array([f"s{i}" for i in range(N)], dtype=object)
        group.attrs["_index"] = "_index"
        for name in frame:
            values = frame[name].to_numpy()
            group[name] = values.astype(object) if values.dtype.kind in "OU" else values
    data = load_views(tmp_path / "t.h5ad")
    assert list(data.views) == ["table"]
    assert any("'remark' (120 different texts)" in note for note in data.notes)
    expected = join_views({"table": frame})
    for name, view in expected.views.items():
        assert_array_equal(data.views[name], view)


def test_the_cell_of_a_category_is_missing_once(tmp_path):
    rng = np.random.default_rng(0)
    city = rng.choice(["Bergen", "Oslo", "Paris"], 90).astype(object)
    city[:30] = None
    frame = pd.DataFrame({"income": rng.normal(size=90), "city": city})
    frame.to_csv(tmp_path / "table.csv", index=False)
    assert describe(tmp_path / "table.csv")["views"][0]["n_nan"] == 30
    assert OMCAL(2, random_state=0).fit(frame).n_missing_ == [30]


def test_the_card_of_a_cluster_names_a_category_with_its_shares(tmp_path):
    group = np.arange(90) % 3
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"income": rng.normal(size=90), "city": np.array(["Bergen", "Oslo", "Paris"])[group]}
    )
    page = OMCAL(3, random_state=0).fit(frame).report(tmp_path / "page.html", frame)
    assert "city = Oslo 100%, elsewhere 0%" in page.read_text()
