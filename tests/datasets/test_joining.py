"""Several tables of the same samples, joined by their ids."""

import numpy as np
import pytest
from scipy import sparse

from omcal.datasets import DataError, MultiViewData, join_views, load_views, save_views

RNG = np.random.default_rng(0)
IMAGE, TEXT = RNG.normal(size=(30, 4)).round(5), RNG.normal(size=(30, 3)).round(5)
IDS = [f"s{i:02d}" for i in range(30)]
KINDS = [["cat", "dog", "cow"][i % 3] for i in range(30)]


def table(path, view, rows, id_name="id", **more):
    """A CSV file of these rows of a view."""
    header = [id_name, *(f"f{j}" for j in range(view.shape[1])), *more]
    lines = [",".join(header)]
    for i in rows:
        lines.append(",".join([IDS[i], *map(str, view[i]), *(str(v[i]) for v in more.values())]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def files(tmp_path):
    """Image without the last three samples, text in another order without the first five."""
    order = RNG.permutation(np.arange(5, 30))
    return [
        table(tmp_path / "image.csv", IMAGE, range(27)),
        table(tmp_path / "text.csv", TEXT, order, label=KINDS),
    ]


def in_order(data):
    """Rows of the result in the order of the ids."""
    rows = np.argsort(data.ids)
    return {name: view[rows] for name, view in data.views.items()}


def test_outer_and_inner(files):
    data = load_views(files)
    assert sorted(data.ids) == IDS and data.ids[:27].tolist() == IDS[:27]
    views = in_order(data)
    assert list(views) == ["image", "text"]
    assert np.array_equal(views["image"][:27], IMAGE[:27]) and np.isnan(views["image"][27:]).all()
    assert np.array_equal(views["text"][5:], TEXT[5:]) and np.isnan(views["text"][:5]).all()
    assert data.notes[-1] == "joined by 'id': 30 samples, 22 in every table; image has 27, text 25"
    assert data.labels[np.argsort(data.ids)].tolist() == [""] * 5 + KINDS[5:]
    inner = load_views(files, join="inner")
    assert inner.ids.tolist() == IDS[5:27] and inner.present is None
    assert np.array_equal(inner.views["text"], TEXT[5:27])
    with pytest.raises(DataError, match="join='left' must be"):
        load_views(files, join="left")


def test_each_file_may_call_its_ids_otherwise(tmp_path, files):
    table(tmp_path / "text.csv", TEXT, range(5, 30), id_name="sample_id")
    assert sorted(load_views(files).ids) == IDS
    table(tmp_path / "text.csv", TEXT, range(5, 30), id_name="code")
    with pytest.raises(DataError, match=r"'text' cannot be joined by id.*image: 27, text: 25"):
        load_views(files)
    table(tmp_path / "image.csv", IMAGE, range(27), id_name="code")
    assert load_views(files, id="code").n_samples == 30
    with pytest.raises(DataError, match=r"image\.csv: id='id' is not in it"):
        load_views(files, id="id")


def test_the_name_that_all_share_is_the_id(tmp_path):
    table(tmp_path / "a.csv", IMAGE, range(30), id_name="index", key=IDS[::-1])
    table(tmp_path / "b.csv", TEXT, range(30), id_name="key")
    data = load_views([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert data.id_name == "key" and np.array_equal(data.views["b"], TEXT[::-1])


def test_duplicates_are_refused_by_name(tmp_path, files):
    table(tmp_path / "text.csv", TEXT, [*range(5, 30), 7, 7, 9])
    for name in ("id", None):
        with pytest.raises(DataError, match=r"text\.csv: 2 ids are there more.*'id': 's07', 's09'"):
            load_views(files, id=name)


def test_ids_that_match_nowhere(tmp_path, files):
    table(tmp_path / "text.csv", TEXT, range(30))
    text = (tmp_path / "text.csv").read_text().replace("s", "sample ")
    (tmp_path / "text.csv").write_text(text)
    with pytest.raises(DataError, match=r"no id of image is in another table.*'s00'.*'sample 00'"):
        load_views(files)


def test_without_ids_rows_pair_by_position_or_not_at_all(tmp_path):
    np.save(tmp_path / "a.npy", IMAGE)
    np.save(tmp_path / "b.npy", TEXT)
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    data = load_views(paths)
    assert list(data.views) == ["a", "b"] and data.ids is None
    assert data.notes[-1] == "joined by position, row i of each: 30 samples"
    np.save(tmp_path / "b.npy", TEXT[:20])
    with pytest.raises(DataError, match="a: 30, b: 20 samples"):
        load_views(paths)
    # One with ids, the other with as many rows.
    table(tmp_path / "c.csv", IMAGE, range(20))
    assert load_views([tmp_path / "c.csv", tmp_path / "b.npy"]).ids.tolist() == IDS[:20]


def test_indices_of_pandas_that_merely_number_rows_are_no_ids(tmp_path):
    pandas = pytest.importorskip("pandas")
    image, text = pandas.DataFrame(IMAGE).add_prefix("f"), pandas.DataFrame(TEXT).add_prefix("g")
    paths = [tmp_path / "image.csv", tmp_path / "text.csv"]
    image.to_csv(paths[0])
    text.iloc[5:].reset_index(drop=True).to_csv(paths[1])
    with pytest.raises(DataError, match="cannot be joined by id"):
        load_views(paths)
    # An index that was kept through a selection tells which rows are which.
    text.iloc[5:].sample(frac=1, random_state=0).to_csv(paths[1])
    data = load_views(paths)
    assert data.n_samples == 30 and np.array_equal(data.views["text"][5:], TEXT[5:])


def test_views_by_the_name_of_the_file_or_their_own(tmp_path, files):
    both = np.hstack([IMAGE, TEXT])
    header = ["id", *(f"left_{j}" for j in range(4)), *(f"right_{j}" for j in range(3))]
    rows = [",".join([i, *map(str, row)]) for i, row in zip(IDS, both, strict=True)]
    (tmp_path / "more.csv").write_text("\n".join([",".join(header), *rows]) + "\n")
    paths = [*files, tmp_path / "more.csv"]
    assert list(load_views(paths).views) == ["image", "text", "left", "right"]
    assert list(load_views(paths, views=["image", "right"]).views) == ["image", "right"]
    assert list(load_views(paths, views=["image", "more:left"]).views) == ["image", "more:left"]
    turned = ["right", "text", "image"]  # the order may stand for the views of a model
    assert list(load_views(paths, views=turned).views) == turned
    with pytest.raises(DataError, match=r"view 'X' is in 'image', 'text', 'more'.*image:X"):
        load_views(paths, views=["X"])
    with pytest.raises(DataError, match="view 'nothing' is in none of the files"):
        load_views(paths, views=["nothing"])
    same = [table(tmp_path / "a.csv", IMAGE, range(30)), tmp_path / "more.csv"]
    (tmp_path / "a.csv").write_text((tmp_path / "more.csv").read_text())
    names = ["a:left", "a:right", "more:left", "more:right"]
    assert list(load_views(same).views) == list(load_views(same, views=names).views) == names


def test_a_folder_of_tables(tmp_path, files):
    data = load_views(tmp_path)
    assert list(data.views) == ["image", "text"] and data.n_samples == 30


def test_files_of_the_same_name(tmp_path):
    for folder, view in {"one": IMAGE, "two": TEXT}.items():
        (tmp_path / folder).mkdir()
        table(tmp_path / folder / "data.csv", view, range(30))
    data = load_views([tmp_path / "one" / "data.csv", tmp_path / "two" / "data.csv"])
    assert list(data.views) == ["one_data", "two_data"]
    with pytest.raises(DataError, match="several files or tables are called"):
        load_views([tmp_path / "one" / "data.csv"] * 2)


def test_barcodes_and_a_table(tmp_path, files):
    pytest.importorskip("h5py", reason="the extra io is not installed")
    counts = sparse.csr_array(RNG.poisson(1, size=(30, 12)))
    save_views(tmp_path / "cells.h5ad", MultiViewData({"X": counts}, ids=np.array(IDS)[::-1]))
    data = load_views([files[0], tmp_path / "cells.h5ad"])
    assert data.n_samples == 30 and list(data.views) == ["image", "cells"]
    rows = np.argsort(data.ids)
    assert np.array_equal(data.views["cells"].toarray()[rows], counts.toarray()[::-1])
    assert data.present["image"].sum() == 27 and data.present["cells"].all()


# labels


def test_labels_in_a_file_of_their_own(tmp_path, files):
    lines = "\n".join(f"{i},{kind}" for i, kind in zip(IDS[::-1], KINDS[::-1], strict=True))
    (tmp_path / "truth.csv").write_text(f"id,species\n{lines}\nother,cat\n")
    data = load_views(files, labels=tmp_path / "truth.csv")
    assert data.labels[np.argsort(data.ids)].tolist() == KINDS and data.label_name == "species"
    assert "labels of truth.csv joined by id: 30 of 30 samples, 1 labels of others" in data.notes
    assert load_views([*files, tmp_path / "truth.csv"], id="id").n_samples == 31
    (tmp_path / "truth.csv").write_text("id,species\nx,cat\ny,dog\n")
    said = r"truth\.csv: no id of the data is in another.* 's00', .* 'x', 'y'"
    with pytest.raises(DataError, match=said):
        load_views(files, labels=tmp_path / "truth.csv")
    (tmp_path / "truth.csv").write_text("species\ncat\ndog\n")
    with pytest.raises(DataError, match=r"truth\.csv: .*the data: 30, the labels: 2 samples"):
        load_views(files, labels=tmp_path / "truth.csv")


def test_labels_that_contradict_each_other(tmp_path, files):
    table(files[0], IMAGE, range(27), label=KINDS)
    assert load_views(files).label_name == "label"
    table(files[0], IMAGE, range(27), label=KINDS[::-1])
    data = load_views(files)
    assert data.labels is None and any("contradict" in note for note in data.notes)
    with pytest.raises(DataError, match="labels='kind' is in none of 'image', 'text'"):
        load_views(files, labels="kind")


# in Python


@pytest.fixture(params=["pandas", "polars"])
def frame(request):
    return pytest.importorskip(request.param).DataFrame


def columns(view, ids, prefix):
    return {"id": ids, **{f"{prefix}{j}": view[:, j] for j in range(view.shape[1])}}


def test_frames_with_a_column_of_ids(frame):
    tables = {
        "image": frame(columns(IMAGE, IDS, "a")),
        "text": frame(columns(TEXT[5:][::-1], IDS[5:][::-1], "b") | {"label": KINDS[5:][::-1]}),
    }
    for on in ("id", None):
        data = join_views(tables, on=on)
        assert data.ids.tolist() == IDS and np.array_equal(data.views["text"][5:], TEXT[5:])
        assert data.labels.tolist() == [""] * 5 + KINDS[5:]
    assert join_views(tables, on="id", how="inner").ids.tolist() == IDS[5:]
    with pytest.raises(DataError, match="id='nothing' is not in it"):
        join_views(tables, on="nothing")


def test_frames_with_an_index_paths_and_data(tmp_path, files):
    pandas = pytest.importorskip("pandas")
    image = pandas.DataFrame(IMAGE, index=IDS).add_prefix("f")
    made = MultiViewData({"left": TEXT[::-1]}, ids=np.array(IDS[::-1]))
    data = join_views({"image": image, "text": files[1], "more": made})
    assert data.ids.tolist() == IDS and list(data.views) == ["image", "text", "more"]
    assert np.array_equal(data.views["more"], TEXT)
    with pytest.raises(DataError, match="30 ids are there more than once in 'index': 's00'"):
        join_views({"image": pandas.concat([image, image]), "text": files[1]})
    with pytest.raises(DataError, match="table 'a' is a ndarray"):
        join_views({"a": IMAGE})
    with pytest.raises(DataError, match="tables must be a dict"):
        join_views([image])


def test_numbers_with_gaps_and_categories_of_pandas():
    pandas = pytest.importorskip("pandas")
    one = pandas.DataFrame(
        {
            "id": IDS,
            "whole": pandas.array([None, *range(10, 39)], dtype="Int64"),
            "b": IMAGE[:, 0],
            "class": pandas.Categorical(KINDS),
        }
    )
    data = join_views({"one": one})
    assert np.isnan(data.views["one"][0, 0]) and data.views["one"][1, 0] == 10
    assert data.labels.tolist() == KINDS
