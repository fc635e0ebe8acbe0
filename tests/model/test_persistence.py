"""Models that are saved and loaded: the same in another process, or an error."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError

import omcal
from omcal import OCAL, OMCAL, Consensus, __version__
from omcal.datasets import make_multiview
from omcal.machine.archive import Archive, write_archive
from omcal.model.files import FORMAT_VERSION, ModelError, load, save

MADE = make_multiview(150, n_clusters=3, random_state=0)
LIST = list(MADE.views.values())
TABLE = np.hstack(LIST)
WIDTHS = [view.shape[1] for view in LIST]


@pytest.mark.parametrize(("name", "value"), [("n_clusters", 5), ("n_neighbors", 2)])
def test_parameters_set_after_the_fit_contradict_the_model(name, value, tmp_path):
    """A file had the number of clusters and could not be read, or predicted otherwise."""
    path = tmp_path / "model.omcal"
    joined = Consensus(OMCAL(3), n_runs=2, random_state=0).fit(LIST)
    for model in (OMCAL(3, random_state=0).fit(LIST), OMCAL(3).partial_fit(LIST), joined):
        run = getattr(model, "estimator_", model)
        before = run.get_params()[name]
        run.set_params(**{name: value})
        for work, given in ((model.save, path), (model.partial_fit, LIST)):
            with pytest.raises(ValueError, match=f"{name}={value} was set after a fit with"):
                work(given)
        run.set_params(**{name: before})
        model.save(path)
        assert_array_equal(load(path).transform(LIST), model.transform(LIST))


# Runs in another process: predict for the data beside each model.
FRESH = """
import sys
import numpy as np
from pathlib import Path
from scipy import sparse
import omcal
for path in sorted(Path(sys.argv[1]).glob("*.omcal")):
    data = np.load(path.with_suffix(".npz"))
    X = [data[name] for name in sorted(data)]
    if path.stem == "sparse":
        X[1] = sparse.csr_array(X[1])
    if path.stem == "frame":
        import pandas as pd
        X = [pd.DataFrame(X[0], columns=[f"{'abc'[j // 10]}_{j}" for j in range(30)])]
    model = omcal.load(path)
    X = X if len(model.view_names_) == len(X) > 1 else X[0]
    np.save(path.with_suffix(".npy"), model.predict(X))
"""


def positive_part(X):
    return sparse.csr_array(np.maximum(X, 0))


def given_start():
    anchors = [view[:20] for view in LIST]
    init = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 3)))[0]
    return OMCAL(3, n_anchors=20, anchors=anchors, init=init, scale=None)


def frame():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(TABLE, columns=[f"{'abc'[j // 10]}_{j}" for j in range(30)])


MODELS = {
    "auto": lambda: OMCAL(3, random_state=0).fit(LIST),
    "feature": lambda: OMCAL(3, scale="feature", random_state=0).fit(LIST),
    "kinds": lambda: OMCAL(
        3, scale={"view1": "log", "view2": "tfidf", "view3": "unit"}, random_state=0
    ).fit([np.abs(LIST[0]), np.maximum(LIST[1], 0), LIST[2]]),
    "published": lambda: OMCAL.paper(3, random_state=0).fit(LIST),
    "sample": lambda: OMCAL(3, scale="sample", random_state=0).fit(LIST),
    "view": lambda: OMCAL(3, scale="view", weighting="agreement", random_state=0).fit(LIST),
    "float32": lambda: OMCAL(3, random_state=0).fit([v.astype(np.float32) for v in LIST]),
    "sparse": lambda: OMCAL(3, random_state=0).fit([LIST[0], positive_part(LIST[1]), LIST[2]]),
    "given": lambda: given_start().fit(LIST),
    "weights": lambda: OMCAL(3, weighting=np.array([1.0, 2.0, 1.0]), random_state=0).fit(LIST),
    "slices": lambda: OMCAL(
        3, views={"a": slice(0, 10), "b": [10, 11, -1], "c": np.arange(20, 29)}, random_state=0
    ).fit(TABLE),
    "frame": lambda: OMCAL(3, views="prefix_", random_state=0).fit(frame()),
    "single": lambda: OCAL(3, random_state=np.int64(4)).fit(LIST[0]),
}


def data_of(name):
    if name in ("slices", "frame"):
        return [TABLE]
    if name == "single":
        return LIST[:1]
    if name == "kinds":
        return [np.abs(LIST[0]), np.maximum(LIST[1], 0), LIST[2]]
    if name == "float32":
        return [view.astype(np.float32) for view in LIST]
    return [LIST[0], positive_part(LIST[1]).toarray(), LIST[2]] if name == "sparse" else LIST


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Each model, saved, and its labels from another process."""
    folder = tmp_path_factory.mktemp("models")
    fitted = {name: make() for name, make in MODELS.items()}
    for name, model in fitted.items():
        model.save(folder / f"{name}.omcal")
        np.savez(folder / name, *data_of(name))
    subprocess.run([sys.executable, "-c", FRESH, str(folder)], check=True)
    return folder, fitted


@pytest.mark.process
@pytest.mark.parametrize("name", MODELS)
def test_a_fresh_process_gives_identical_labels(models, name):
    folder, fitted = models
    X = data_of(name)
    if name == "sparse":
        X[1] = sparse.csr_array(X[1])
    expected = fitted[name].predict(frame() if name == "frame" else X if len(X) > 1 else X[0])
    assert_array_equal(np.load(folder / f"{name}.npy"), expected)


@pytest.mark.process
@pytest.mark.parametrize("name", MODELS)
def test_everything_comes_back(models, name):
    folder, fitted = models
    model, loaded = fitted[name], load(folder / f"{name}.omcal")
    assert type(loaded) is type(model)
    # Whoever adds fitted state must add it to the file, or predict will miss it. The graphs are as
    # large as data and stay behind; counts and samples of missing cells serve the doubts of a fit.
    state = {key: value for key, value in vars(model).items() if key != "_graphs"}
    assert set(vars(loaded)) == set(state)
    for key in ("_missing", "_gaps"):
        del state[key]
    for key, value in state.items():
        assert same(getattr(loaded, key), value), key


def same(one, other):
    if isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in other)
    if hasattr(other, "__dataclass_fields__"):
        return all(same(getattr(one, k), getattr(other, k)) for k in other.__dataclass_fields__)
    return one == other


@pytest.mark.process
def test_a_loaded_model_can_be_fitted_and_saved_again(models, tmp_path):
    folder, fitted = models
    loaded = omcal.load(folder / "feature.omcal")
    loaded.save(tmp_path / "again.omcal")
    assert (tmp_path / "again.omcal").read_bytes() == (folder / "feature.omcal").read_bytes()
    assert_array_equal(loaded.fit(LIST).labels_, fitted["feature"].labels_)


@pytest.mark.process
def test_the_file_says_what_it_is(models):
    folder, fitted = models
    with zipfile.ZipFile(folder / "feature.omcal") as archive:
        header = json.loads(archive.read("model.json"))
    assert header["format_version"] == FORMAT_VERSION
    assert header["class"] == "OMCAL"
    assert header["versions"]["omcal"] == __version__
    assert header["versions"]["numpy"] == np.__version__
    assert [view["name"] for view in header["views"]] == ["view1", "view2", "view3"]
    assert [view["width"] for view in header["views"]] == WIDTHS
    assert header["parameters"]["beta"] == fitted["feature"].beta
    # The arrays are those of any NumPy archive.
    arrays = np.load(folder / "feature.omcal", allow_pickle=False)
    assert_array_equal(arrays["anchors.1"], fitted["feature"].anchors_[1])


@pytest.mark.process
def test_column_names_are_compared_after_loading(models):
    folder, _ = models
    table = frame()
    loaded = load(folder / "frame.omcal")
    turned = table[list(table.columns)[::-1]]
    assert_array_equal(loaded.predict(turned), loaded.predict(table))
    name = table.columns[0]
    with pytest.raises(ValueError, match=rf"feature names.*'{name}' missing, 'other' not in fit"):
        loaded.predict(table.rename(columns={name: "other"}))
    with pytest.raises(ValueError, match="29 features"):
        load(folder / "slices.omcal").predict(TABLE[:, :29])


def test_what_belongs_to_a_machine_is_not_stored(tmp_path):
    places = {"scratch_dir": tmp_path, "checkpoint": tmp_path / "state", "memory_limit": "1GB"}
    OMCAL(3, random_state=0, **places).fit(LIST).save(tmp_path / "model.omcal")
    loaded = load(tmp_path / "model.omcal")
    assert loaded.get_params() == OMCAL(3, random_state=0).get_params()


def test_labels_that_are_tensors(torch, tmp_path):
    model = OMCAL(3, random_state=0).fit([torch.from_numpy(view) for view in LIST])
    model.save(tmp_path / "model.omcal")
    loaded = load(tmp_path / "model.omcal")
    assert_array_equal(loaded.labels_, np.asarray(model.labels_))
    assert_array_equal(loaded.predict(LIST), OMCAL(3, random_state=0).fit(LIST).predict(LIST))


def test_what_cannot_be_saved(tmp_path):
    path = tmp_path / "model.omcal"

    class Mine(OMCAL):
        pass

    with pytest.raises(NotFittedError):
        OMCAL(3).save(path)
    with pytest.raises(ModelError, match="Mine cannot be saved"):
        save(Mine(3, random_state=0).fit(LIST), path)
    model = OMCAL(3, random_state=np.random.RandomState(0)).fit(LIST)
    with pytest.raises(ModelError, match=r"random_state=.*set_params\(random_state=None\)"):
        model.save(path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        model.set_params(random_state=None).save(tmp_path / "absent" / "model.omcal")
    with pytest.raises(FileNotFoundError):
        load(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.omcal"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    model = OMCAL(3, random_state=0).fit(LIST)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="no space left"):
            model.save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.omcal"]
    model.save(str(path))
    assert_array_equal(load(str(path)).labels_, model.labels_)


def large_files_begin_at(n_bytes, monkeypatch):
    """Let zipfile treat files and members above this size as if they were above 2 GiB."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", n_bytes)


@pytest.mark.parametrize("limit", [100, 3000])
def test_a_large_model_is_saved_and_loaded(tmp_path, monkeypatch, limit):
    model = OMCAL(3, random_state=0).fit(LIST)
    model.save(tmp_path / "small.omcal")
    large_files_begin_at(limit, monkeypatch)
    model.save(tmp_path / "large.omcal")
    raw = (tmp_path / "large.omcal").read_bytes()
    assert b"PK\x06\x07" in raw  # the records of a large archive are there
    assert_array_equal(load(tmp_path / "large.omcal").predict(LIST), model.predict(LIST))
    assert_array_equal(np.load(tmp_path / "large.omcal")["basis"], model.basis_)
    monkeypatch.undo()
    assert_array_equal(load(tmp_path / "large.omcal").labels_, model.labels_)


@pytest.mark.slow
def test_damage_to_the_end_of_a_large_model_is_found(tmp_path, monkeypatch):
    path = tmp_path / "large.omcal"
    large_files_begin_at(100, monkeypatch)
    model = OMCAL(3, random_state=0).fit(LIST)
    model.save(path)
    raw = path.read_bytes()
    for at in range(len(raw) - 98, len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :])
        try:
            load(path)  # a byte that means nothing may differ
        except ModelError:
            continue
        assert_array_equal(load(path).labels_, model.labels_)
    for cut in (1, 22, 23, 42, 98):
        path.write_bytes(raw[:-cut])
        with pytest.raises(ModelError):
            load(path)


def test_arrays_in_any_order_of_memory_are_stored_whole(tmp_path):
    arrays = {
        "columns": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "strided": np.arange(24.0).reshape(4, 6)[::2, ::-1],
        "big-endian": np.arange(5, dtype=">f4"),
        "none": np.empty((0, 3)),
        "scalar": np.array(2.0),
    }
    path = tmp_path / "some.archive"
    write_archive(path, {"a": 1}, arrays)
    with path.open("rb") as stream, Archive.open(stream, "archive") as archive:
        for name, array in arrays.items():
            assert_array_equal(archive.take(name, array.shape), array)
