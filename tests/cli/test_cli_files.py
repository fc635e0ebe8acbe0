"""The commands about files: inspect, convert, predict; cluster with --save-model and --dry-run."""

import json
import re
import shlex
from collections import namedtuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import omcal.machine.memory
from omcal import OCAL, OMCAL, Consensus, load
from omcal.cli import main
from omcal.datasets import MultiViewData, load_views, make_multiview, save_views
from omcal.datasets.loading import read_labels
from omcal.metrics import evaluate

Ended = namedtuple("Ended", "code out err")

MADE = make_multiview(90, n_clusters=3, random_state=0)
NEEDS = {".parquet": "pyarrow", ".h5": "h5py", ".h5ad": "h5py", ".zarr": "zarr"}
ENDINGS = [".npz", ".mat", ".h5", ".h5ad", ".zarr", ".csv", ".parquet", ""]


@pytest.fixture
def omcal_command(capsys):
    def call(*args):
        with pytest.raises(SystemExit) as end:
            main([str(arg) for arg in args])
        return Ended(end.value.code, *capsys.readouterr())

    return call


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, **MADE.views, y=MADE.labels)
    return path


def is_one_error_line(ended):
    return (
        (ended.code, ended.out) == (2, "")
        and ended.err.startswith("omcal: error: ")
        and ended.err.count("\n") == 1
    )


def write_h5mu(path):
    """Two modalities of 90 cells, of which 9 lack rna."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["obs/_index"] = np.array([f"c{i}" for i in range(90)], dtype=object)
        for name, rows in {"rna": slice(9, 90), "protein": slice(0, 90)}.items():
            view = MADE.views["view1" if name == "rna" else "view2"][rows]
            group = file.create_group(f"mod/{name}")
            group["X"] = view
            group["obs/_index"] = np.array([f"c{i}" for i in range(90)][rows], dtype=object)
            position = np.zeros(90, dtype=np.uint32)
            position[rows] = np.arange(len(view)) + 1
            file[f"obsmap/{name}"] = position


# inspect


def test_inspect_lists_views_labels_and_what_cluster_would_do(omcal_command, file):
    ended = omcal_command("inspect", file)
    assert (ended.code, ended.err) == (0, "")
    rows = [line.split() for line in ended.out.splitlines()]
    assert ended.out.startswith("data.npz (NumPy archive): 90 samples in 3 views\n")
    assert ["view1", "10", "float64", "dense", "0", "0"] in rows
    assert ["y", "*", "3"] in rows
    assert f"To cluster it: omcal cluster {shlex.quote(str(file))} --clusters 3" in ended.out
    assert "of memory beyond the data" in ended.out


def test_inspect_json(omcal_command, file):
    result = json.loads(omcal_command("inspect", file, "--json").out)
    assert [view["name"] for view in result["views"]] == list(MADE.views)
    assert result["labels"] == "y"
    assert result["cluster"]["obstacle"] is None
    expected = result["cluster"]["estimate"]
    usual = Consensus(OMCAL(3)).estimate(90, [10] * 3)
    assert expected["bytes"] == pytest.approx(usual.bytes, rel=1e-6)
    assert expected["rows_in"] == "the memory of this machine"


@pytest.mark.slow
def test_the_command_that_inspect_prints_runs(omcal_command, tmp_path):
    path = tmp_path / "a name.npz"
    np.savez(path, **MADE.views, y=MADE.labels)
    command = json.loads(omcal_command("inspect", path, "--json").out)["cluster"]["command"]
    assert omcal_command(*shlex.split(command)[1:]).code == 0


def test_inspect_of_sparse_views_without_labels(omcal_command, tmp_path):
    counts = sparse.random_array((50, 200), density=0.1, format="csr", rng=0)
    sparse.save_npz(tmp_path / "counts.npz", counts)
    out = omcal_command("inspect", tmp_path / "counts.npz").out
    assert "sparse, 10.00% stored" in out
    assert "in 1 view\n" in out
    assert out.rstrip().splitlines()[-2].endswith("--clusters C")


def write_npz_with_absences(path):
    """The samples 0 to 8 are absent from a sparse view, where only the mask says so."""
    views = {
        "counts": sparse.csr_array(np.maximum(MADE.views["view1"], 0)),
        "b": MADE.views["view2"],
    }
    present = {"counts": np.arange(90) >= 9, "b": np.ones(90, dtype=bool)}
    views["counts"] = sparse.diags_array(present["counts"].astype(float)) @ views["counts"]
    save_views(path, MultiViewData(views, labels=MADE.labels, present=present))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "write", "lacking"),
    [("cells.h5mu", write_h5mu, "rna"), ("counts.npz", write_npz_with_absences, "counts")],
)
def test_samples_that_a_view_lacks(omcal_command, tmp_path, name, write, lacking):
    path, model, out = tmp_path / name, tmp_path / "m.omcal", tmp_path / "labels.csv"
    write(path)
    ended = omcal_command("inspect", path)
    assert ended.code == 0
    rows = [line.split() for line in ended.out.splitlines() if line]
    assert any((row[0], row[-1]) == (lacking, "9") for row in rows)
    assert "Samples that a view lacks are clustered by their other views." in ended.out
    words = ("--clusters", 3, "--runs", 1)
    ended = omcal_command("cluster", path, *words, "--save-model", model, "--json")
    assert f"of 90 samples {lacking} lacks 9" in json.loads(ended.out)["notes"]
    data = load_views(path)
    expected = OMCAL(3, random_state=0).fit(data.views, present=data.present)
    assert_array_equal(load(model).labels_, expected.labels_)
    assert evaluate(MADE.labels, expected.labels_)["accuracy"] > 0.8
    assert f"Note: of 90 samples {lacking} lacks 9" in omcal_command("predict", model, path).out
    # Named in their order, the views keep their masks.
    order = ("--views", ",".join(data.views))
    omcal_command("predict", model, path, *order, "--out", out)
    by_mask = expected.predict(data.views, present=data.present)
    assert_array_equal(read_labels(out).labels.astype(int), by_mask)
    ended = omcal_command("cluster", path, "--clusters", 3, "--method", "fsmsc")
    assert is_one_error_line(ended) and f"view {lacking!r} lacks 9 of 90 samples" in ended.err
    report = tmp_path / "report.html"
    assert omcal_command("cluster", path, "--clusters", 3, "--report", report).code == 0
    assert "for 81 samples" in report.read_text()  # those that are in every view
    alone = omcal_command("cluster", path, "--clusters", 3, "--views", lacking)
    assert is_one_error_line(alone) and "absent from every view" in alone.err


def test_inspect_says_what_stands_in_the_way(omcal_command, tmp_path):
    few, nowhere = MADE.views["view1"].copy(), MADE.views["view2"].copy()
    few[:80] = np.nan
    np.savez(tmp_path / "few.npz", few=few, b=nowhere)
    out = omcal_command("inspect", tmp_path / "few.npz").out
    assert "view 'few' has 10 samples, fewer than --anchors" in out
    assert is_one_error_line(omcal_command("cluster", tmp_path / "few.npz", "--clusters", 8))
    nowhere[:2] = np.nan
    np.savez(tmp_path / "nowhere.npz", few=few, b=nowhere)
    out = omcal_command("inspect", tmp_path / "nowhere.npz").out
    assert "2 samples are absent from every view" in out


def test_inspect_of_single_missing_values(omcal_command, tmp_path):
    holed = MADE.views["view1"].copy()
    holed[4, 2] = np.nan
    np.savez(tmp_path / "holed.npz", a=holed, b=MADE.views["view2"])
    ended = omcal_command("inspect", tmp_path / "holed.npz")
    (counts,) = re.findall(r"^a .*dense +(\d+) +(\d+)$", ended.out, re.MULTILINE)
    assert counts == ("1", "0")


@pytest.mark.slow
def test_samples_without_a_class_are_clustered_and_not_scored(omcal_command, tmp_path):
    path, model = tmp_path / "partly.npz", tmp_path / "m.omcal"
    classes = np.array(["one", "two", "three"])[MADE.labels]
    classes[:20] = ""
    np.savez(path, **MADE.views, y=classes)
    assert "--clusters 3\n" in omcal_command("inspect", path).out
    ended = omcal_command("cluster", path, "--clusters", 3, "--save-model", model, "--json")
    result = json.loads(ended.out)
    assert result["notes"][:2] == ["labels: y", "20 samples have no label in 'y'"]
    expected = evaluate(MADE.labels[20:], load(model).labels_[20:], average="max")
    assert result["scores"] == pytest.approx(expected) and result["n_samples"] == 90
    predicted = json.loads(omcal_command("predict", model, path, "--json").out)
    assert predicted["scores"] == pytest.approx(expected, abs=0.1)


def test_inspect_of_a_file_that_needs_an_option(omcal_command, tmp_path):
    np.savez(tmp_path / "odd.npz", a=np.ones((9, 2)), b=np.ones((7, 3)))
    ended = omcal_command("inspect", tmp_path / "odd.npz")
    assert ended.code == 0
    assert "It cannot be clustered as it is" in ended.out
    assert omcal_command("inspect", tmp_path / "odd.npz", "--json").code == 0


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickle", b"PK\x03\x04broken", b"\x93NUMPY"])
@pytest.mark.parametrize("command", ["inspect", "convert", "predict", "cluster"])
def test_damaged_files_are_one_line(omcal_command, tmp_path, content, command):
    path = tmp_path / "damaged"
    path.write_bytes(content)
    rest = {
        "inspect": [path],
        "convert": [path, tmp_path / "out.npz"],
        "predict": [path, path],
        "cluster": [path, "--clusters", 3, "--dry-run"],
    }
    ended = omcal_command(command, *rest[command])
    assert is_one_error_line(ended), ended
    assert "damaged" in ended.err
    assert [item.name for item in tmp_path.iterdir()] == ["damaged"]


# convert


@pytest.mark.parametrize("ending", ENDINGS)
def test_convert_there_and_back(omcal_command, file, tmp_path, ending):
    pytest.importorskip(NEEDS.get(ending, "numpy"))
    there, back = tmp_path / f"there{ending}", tmp_path / "back.npz"
    ended = omcal_command("convert", file, there)
    assert (ended.code, ended.err) == (0, "")
    assert "90 samples, views view1 (10), view2 (10), view3 (10), labels of 3" in ended.out
    assert omcal_command("convert", there, back, "--quiet") == (0, "", "")
    data = load_views(back)
    assert list(data.views) == list(MADE.views)
    for name, view in data.views.items():
        assert_array_equal(view, MADE.views[name])
    assert_array_equal(data.labels, MADE.labels)
    inspected = json.loads(omcal_command("inspect", there, "--json").out)
    assert inspected["n_samples"] == 90 and inspected["labels"] is not None


def test_convert_some_views_as_json(omcal_command, file, tmp_path):
    out = tmp_path / "some.npz"
    ended = omcal_command("convert", file, out, "--views", "view3,view1", "--json")
    assert json.loads(ended.out)["views"] == {"view3": 10, "view1": 10}
    assert list(load_views(out).views) == ["view3", "view1"]


def test_convert_does_not_lose_which_samples_are_absent(omcal_command, tmp_path):
    here = np.arange(20) != 4
    counts = sparse.random_array((20, 30), density=0.2, format="csr", rng=0)
    data = MultiViewData({"a": counts}, present={"a": here})
    save_views(tmp_path / "data.npz", data)
    ended = omcal_command("convert", tmp_path / "data.npz", tmp_path / "data.mat")
    assert is_one_error_line(ended)
    assert "lacks 1 of 20 samples" in ended.err
    assert omcal_command("convert", tmp_path / "data.npz", tmp_path / "other.npz").code == 0


def test_convert_refuses(omcal_command, file, tmp_path):
    for target in (file, tmp_path / "data.xlsx", tmp_path / "absent" / "data.npz", tmp_path):
        assert is_one_error_line(omcal_command("convert", file, target)), target
    assert load_views(file).n_samples == 90


# cluster --save-model, predict


def test_predict_gives_the_labels_of_the_saved_model(omcal_command, file, tmp_path):
    model, out = tmp_path / "made.omcal", tmp_path / "labels.csv"
    ended = omcal_command("cluster", file, "--clusters", 3, "--runs", 1, "--save-model", model)
    assert ended.out.endswith(f"Model: {model}\n")
    ended = omcal_command("predict", model, file, "--out", out)
    assert (ended.code, ended.err) == (0, "")
    assert "NMI (max)" in ended.out
    expected = OMCAL(3, random_state=0).fit(MADE.views).predict(MADE.views)
    assert_array_equal(read_labels(out).labels.astype(int), expected)
    assert_array_equal(load(model).predict(MADE.views), expected)
    result = json.loads(omcal_command("predict", model, file, "--json").out)
    assert result["cluster_sizes"] == np.bincount(expected).tolist()
    assert result["scores"]["accuracy"] > 0.9
    assert omcal_command("predict", model, file, "--quiet") == (0, "", "")
    assert "add --out" in omcal_command("predict", model, file).out


@pytest.mark.slow
def test_predict_finds_views_by_name_or_by_the_given_order(omcal_command, file, tmp_path):
    model = tmp_path / "made.omcal"
    omcal_command("cluster", file, "--clusters", 3, "--save-model", model)
    names = ["one", "two", "three"]
    views = dict(zip(names, MADE.views.values(), strict=True))
    np.savez(tmp_path / "renamed.npz", **views)
    ended = omcal_command("predict", model, tmp_path / "renamed.npz")
    assert is_one_error_line(ended)
    assert "fitted on the views view1, view2, view3" in ended.err and "--views" in ended.err
    order = ("--views", "one,two,three", "--json")
    result = json.loads(omcal_command("predict", model, tmp_path / "renamed.npz", *order).out)
    by_name = json.loads(omcal_command("predict", model, file, "--json").out)
    assert result["cluster_sizes"] == by_name["cluster_sizes"]


def test_predict_with_a_model_of_one_view(omcal_command, tmp_path):
    X = MADE.views["view1"]
    OCAL(3, random_state=0).fit(X).save(tmp_path / "one.omcal")
    np.save(tmp_path / "X.npy", X)
    out = tmp_path / "labels.csv"
    omcal_command("predict", tmp_path / "one.omcal", tmp_path / "X.npy", "--out", out)
    expected = OCAL(3, random_state=0).fit(X).predict(X)
    assert_array_equal(read_labels(out).labels.astype(int), expected)


@pytest.mark.usefixtures("torch")
def test_predict_on_a_device_that_is_not_there(omcal_command, file, tmp_path):
    OMCAL(3, random_state=0).fit(MADE.views).save(tmp_path / "made.omcal")
    words = ("predict", tmp_path / "made.omcal", file)
    ended = omcal_command(*words, "--device", "cuda:99")
    assert ended.code == 2
    assert "cuda:99" in ended.err
    assert omcal_command(*words, "--device", "cpu").code == 0


@pytest.mark.slow
def test_predict_refuses(omcal_command, file, tmp_path):
    model = tmp_path / "made.omcal"
    omcal_command("cluster", file, "--clusters", 3, "--save-model", model)
    narrow = tmp_path / "narrow.npz"
    np.savez(narrow, **{name: view[:, :9] for name, view in MADE.views.items()})
    for arguments, named in [
        ((model, narrow), "9 features"),
        ((model, tmp_path / "absent.npz"), "absent.npz"),
        ((tmp_path / "absent.omcal", file), "absent.omcal"),
        ((file, file), "not a saved model"),
        ((model, file, "--out", model), "--out"),
        ((model, file, "--out", file), "--out"),
    ]:
        ended = omcal_command("predict", *arguments)
        assert is_one_error_line(ended), ended
        assert named in ended.err
    assert load(model).n_clusters == 3


def test_save_model_refuses_before_the_fit(omcal_command, file, tmp_path, monkeypatch):
    monkeypatch.setattr(OMCAL, "fit", lambda *_, **__: pytest.fail("the fit was started"))
    for arguments, named in [
        (("--save-model", file), "--save-model"),
        (("--save-model", tmp_path / "absent" / "m.omcal"), "absent"),
        (("--save-model", tmp_path / "m.omcal", "--method", "nmf"), "--save-model is for OMCAL"),
        (("--dry-run", "--method", "nmf"), "--dry-run is for OMCAL"),
    ]:
        ended = omcal_command("cluster", file, "--clusters", 3, *arguments)
        assert is_one_error_line(ended), ended
        assert named in ended.err


# cluster --dry-run


def test_dry_run_says_what_it_would_take_and_does_nothing(omcal_command, file, monkeypatch):
    monkeypatch.setattr(OMCAL, "fit", lambda *_, **__: pytest.fail("the fit was started"))
    out = file.parent / "labels.csv"
    ended = omcal_command("cluster", file, "--clusters", 3, "--dry-run", "--out", out)
    assert (ended.code, ended.err) == (0, "")
    assert "90 samples, 10 + 10 + 10 features" in ended.out
    assert "the rows would live in the memory of this machine" in ended.out
    assert "Memory beyond the input: about" in ended.out and "Time: at most" in ended.out
    assert not out.exists()
    result = json.loads(omcal_command("cluster", file, "--clusters", 3, "--dry-run", "--json").out)
    assert (
        result["dry_run"] is True
        and result["n_anchors"] == OMCAL(3).estimate(90, [10] * 3).n_anchors
    )
    assert result["bytes"] > 0 and result["seconds_at_most"] > 0


def test_what_does_not_fit_in_memory_is_one_line(omcal_command, file, monkeypatch):
    monkeypatch.setattr(omcal.machine.memory, "available_memory", lambda: 1000)
    ended = omcal_command("cluster", file, "--clusters", 3)
    assert is_one_error_line(ended)
    assert "on 90 samples needs about" in ended.err and "1.0 kB are available" in ended.err
    assert "--dry-run says more" in ended.err


# the files beside the project

# Clustered in less than a second.
SMALL = {f"{name}.mat" for name in ("BBC4view", "CESC", "Coil", "Dermatology", "Movies")} | {
    "htad.csv"
}

# Their 101 clusters, 148349 terms and 30000 or 70000 samples take longer than a test should.
LARGE = {
    "caltech101_silhouettes_28.mat",
    "SCOTUS_counts.npz",
    "NoisyMNIST_derived_30000_0.npz",
    "mnist",
}


@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.long)])
def test_every_real_file_opens_and_clusters(omcal_command, shared, part, whole):
    """The small ones are inspected and clustered; in a run of all tests, all of them."""
    files = sorted((shared / "data").iterdir())
    assert len(files) > 20
    if not whole:
        files = [path for path in files if path.name in SMALL | {"README.md"}]
    for path in files[part::5]:
        inspected = omcal_command("inspect", path, "--json")
        if path.name == "README.md":
            assert is_one_error_line(inspected)
            continue
        assert inspected.code == 0, inspected.err
        plan = json.loads(inspected.out)["cluster"]
        assert plan["obstacle"] is None
        command = shlex.split(plan["command"].replace("--clusters C", "--clusters 20"))
        fewer = ("--max-iter", 2) if path.name in LARGE else ()
        ended = omcal_command(*command[1:], *fewer, "--json")
        assert ended.code == 0, ended.err
        result = json.loads(ended.out)
        assert sum(result["cluster_sizes"]) == result["n_samples"]
        # One file has its classes in a column of the matrix, which only its list says.
        assert (result["scores"] is None) == (path.name == "TDT2.mat")
