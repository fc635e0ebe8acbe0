"""Files under the names of views, standard input and output, and samples with some of the views."""

import io
import json
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import omcal as package
from omcal.datasets import DataError, load_views, make_multiview

MADE = make_multiview(90, n_clusters=3, n_views=2, noise=0.3, random_state=0)
RNA, PROTEIN = MADE.views.values()


def write_csv(path, rows, letter, start=0):
    header = ",".join(["id", *(f"{letter}{j}" for j in range(rows.shape[1]))])
    lines = [f"s{start + i}," + ",".join(map(repr, row)) for i, row in enumerate(rows.tolist())]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch, omcal):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "rna.csv", RNA, "g")
    write_csv(tmp_path / "protein.csv", PROTEIN, "p")
    words = ("rna.csv", "protein.csv", "-c", 3, "--runs", 1, "--save-model", "m.omcal", "-q")
    ended = omcal("cluster", *words, "--out", "labels.csv")
    assert ended.code == 0, ended.err
    write_csv(tmp_path / "week2_rna.csv", RNA[:30], "g", 500)
    write_csv(tmp_path / "week2_protein.csv", PROTEIN[:30], "p", 500)
    return tmp_path


def test_views_for_a_model_are_as_many_as_it_has(omcal, folder):
    words = ("week2_rna.csv", "week2_protein.csv", "--views", "week2_rna")
    for command in ("predict", "update"):
        ended = omcal(command, "m.omcal", *words)
        assert ended.code == 2
        assert "--views names 1 views; name one for each of rna, protein." in ended.err


@pytest.fixture
def pipe(monkeypatch):
    def give(path):
        stream = io.TextIOWrapper(io.BytesIO(path.read_bytes()))
        monkeypatch.setattr(sys, "stdin", stream)

    return give


def labels_in(text):
    return [line.split(",") for line in text.splitlines()[1:]]


def test_load_views_takes_names_for_files(folder):
    data = load_views({"a": "rna.csv", "b": "protein.csv"})
    assert list(data.views) == ["a", "b"]
    assert_array_equal(data.views["a"], RNA)
    data = load_views({"a": "rna.csv"}, views=["a"])
    assert list(data.views) == ["a"] and data.ids[0] == "s0"
    np.savez("several.npz", u=RNA, v=PROTEIN)
    assert list(load_views({"a": "several.npz"}).views) == ["u", "v"]


def test_names_of_views_are_given_with_the_files(omcal, folder):
    words = ("rna=week2_rna.csv", "protein=week2_protein.csv")
    ended = omcal("predict", "m.omcal", *words, "--out", "new.csv", "-q")
    assert ended.code == 0, ended.err
    expected = omcal(
        "predict",
        "m.omcal",
        "week2_rna.csv",
        "week2_protein.csv",
        "--views",
        "week2_rna,week2_protein",
        "--out",
        "other.csv",
        "-q",
    )
    assert expected.code == 0, expected.err
    assert (folder / "new.csv").read_text() == (folder / "other.csv").read_text()
    found = json.loads(omcal("cluster", *words, "-c", 3, "--json").out)
    assert [view["name"] for view in found["views"]] == ["rna", "protein"]


def test_the_error_offers_the_names(omcal, folder):
    ended = omcal("predict", "m.omcal", "week2_rna.csv", "week2_protein.csv")
    assert ended.code == 2
    assert "rna=week2_rna.csv protein=week2_protein.csv" in ended.err
    ended = omcal("predict", "m.omcal", "week2_rna.csv", "protein.csv")
    assert ended.code == 2 and "rna=week2_rna.csv" in ended.err


def test_two_files_of_one_name_are_refused(omcal, folder):
    ended = omcal("cluster", "a=rna.csv", "a=protein.csv", "-c", 3)
    assert ended.code == 2 and "two files are named 'a'" in ended.err


def test_a_file_whose_name_has_an_equals_sign(omcal, folder):
    write_csv(folder / "a=b.csv", RNA, "g")
    found = json.loads(omcal("inspect", "a=b.csv", "--json").out)
    assert found["n_samples"] == 90


@pytest.mark.parametrize("words", [("protein.csv",), ("protein=week2_protein.csv",)])
def test_samples_with_some_of_the_views_are_predicted(omcal, folder, words):
    ended = omcal("predict", "m.omcal", *words, "--out", "new.csv", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert "predicted without the view rna" in " ".join(found["notes"])
    rows = PROTEIN if words == ("protein.csv",) else PROTEIN[:30]
    with pytest.warns(UserWarning, match="view 'protein' has no names of features, which it had"):
        expected = package.load("m.omcal").predict({"rna": None, "protein": rows})
    assert_array_equal(
        [int(c) for _, c, *_ in labels_in((folder / "new.csv").read_text())], expected
    )


def test_labels_go_to_standard_output(omcal, folder):
    ended = omcal("predict", "m.omcal", "rna.csv", "protein.csv", "--out", "-")
    assert ended.code == 0, ended.err
    assert (
        ended.out.splitlines()[0] == "id,cluster,certainty,second"
        and len(labels_in(ended.out)) == 90
    )
    assert not (folder / "-").exists()
    ended = omcal("cluster", "rna.csv", "protein.csv", "-c", 3, "--runs", 1, "--out", "-")
    assert ended.out == (folder / "labels.csv").read_text()
    ended = omcal("cluster", "rna.csv", "-c", 3, "--out", "-", "--json")
    assert ended.code == 2 and "--json" in ended.err
    ended = omcal("cluster", "rna.csv", "-c", 3, "--report", "-")
    assert ended.code == 2 and "--report" in ended.err
    ended = omcal("convert", "rna.csv", "-")
    assert len(ended.out.splitlines()) == 91 and not (folder / "-").exists()


def test_views_come_from_standard_input(omcal, folder, pipe):
    pipe(folder / "rna.csv")
    ended = omcal("predict", "m.omcal", "rna=-", "protein.csv", "--out", "-")
    assert ended.code == 0, ended.err
    assert ended.out == omcal("predict", "m.omcal", "rna.csv", "protein.csv", "--out", "-").out
    pipe(folder / "protein.csv")
    found = json.loads(omcal("inspect", "-", "--json").out)
    assert found["n_samples"] == 90
    pipe(folder / "labels.csv")
    ended = omcal("cluster", "rna.csv", "protein.csv", "-c", 3, "--runs", 1, "-l", "-", "--json")
    assert json.loads(ended.out)["scores"]["accuracy"] == 1.0
    pipe(folder / "labels.csv")
    assert json.loads(omcal("score", "labels.csv", "-", "--json").out)["accuracy"] == 1.0


def test_errors_name_standard_input(omcal, folder, pipe):
    (folder / "bad.csv").write_text("")
    pipe(folder / "bad.csv")
    ended = omcal("cluster", "-", "-c", 3)
    assert ended.code == 2 and "standard input: " in ended.err and "/tmp" not in ended.err
    pipe(folder / "rna.csv")
    ended = omcal("cluster", "a=-", "b=-", "-c", 3)
    assert ended.code == 2 and "standard input (-) is given twice" in ended.err


def test_a_terminal_is_no_table(omcal, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    ended = omcal("inspect", "-")
    assert ended.code == 2 and "is a terminal" in ended.err


def test_several_tables_under_one_name(tmp_path):
    for name in ("a", "b"):
        write_csv(tmp_path / f"{name}.csv", RNA, name)
    with pytest.raises(DataError, match=r"it holds several tables: \['a', 'b'\]"):
        load_views({"x": tmp_path})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_are_found_by_name(omcal, folder, ending):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="the extra io is not installed")

    def write(name, table):
        path = folder / f"{name}.{ending}"
        table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path, index=False)
        return path

    tables = {name: pandas.read_csv(f"{name}.csv") for name in ("rna", "protein")}
    model = folder / "by_name.omcal"
    files = [write(f"fit_{name}", table) for name, table in tables.items()]
    named = [f"{name}={file}" for name, file in zip(tables, files, strict=True)]
    words = ("-c", 3, "--runs", 1, "--save-model", model, "--out", "fitted.csv", "-q")
    assert omcal("cluster", *named, *words).code == 0
    turned = write("turned", tables["rna"][["id", *reversed(tables["rna"].columns[1:])]])
    ended = omcal("predict", model, f"rna={turned}", named[1], "--out", "-")
    assert ended.code == 0, ended.err
    assert ended.out == (folder / "fitted.csv").read_text()
    renamed = write("renamed", tables["rna"].rename(columns={"g3": "other"}))
    ended = omcal("predict", model, f"rna={renamed}", named[1], "--out", "-")
    assert ended.code == 2 and "g3" in ended.err and "other" in ended.err
