"""What people come with: files to join, counts, cells, frames in another order; the real commands.

The data are separable, so that anything but the right clusters is a mistake of the reading.
"""

import csv
import json
from collections import namedtuple

import numpy as np
import pytest
from scipy import sparse

from omcal import OMCAL, load
from omcal.cli import main
from omcal.datasets import MultiViewData, join_views, make_multiview, save_views
from omcal.metrics import ari
from report_cases import payload_of

Ended = namedtuple("Ended", "code out err")

N = 240
MADE = make_multiview(N, n_clusters=3, n_views=2, n_features=8, noise=0.1, random_state=0)
IMAGE, TEXT = MADE.views.values()
IDS = np.array([f"item-{i:04d}" for i in np.random.default_rng(1).permutation(N)])


@pytest.fixture
def omcal(capsys):
    """Run the command line in this process."""

    def call(*args):
        with pytest.raises(SystemExit) as end:
            main([str(arg) for arg in args])
        return Ended(end.value.code, *capsys.readouterr())

    return call


def is_one_error_line(ended):
    return (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)


def write_table(path, view, rows, ids=IDS, id_name="id", **more):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([id_name, *(f"e{j}" for j in range(view.shape[1])), *more])
        for i in rows:
            writer.writerow([ids[i], *view[i].tolist(), *(values[i] for values in more.values())])
    return path


def score(path, truth=MADE.labels, ids=IDS):
    """ARI of a file of labels, matched by its ids; it must have every sample once."""
    with path.open(encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    assert header[1] == "cluster"
    clusters = {name: int(cluster) for name, cluster, *_ in rows}
    assert len(rows) == len(clusters) == len(ids) and set(clusters) == set(map(str, ids))
    return ari(truth, [clusters[str(name)] for name in ids])


@pytest.fixture
def image_and_text(tmp_path):
    """Two tables with an id column, in other orders; 20 samples lack an image, 30 a text."""
    rng = np.random.default_rng(2)
    order = rng.permutation(N)
    image = write_table(tmp_path / "image.csv", IMAGE, order[20:])
    text = write_table(tmp_path / "text.csv", TEXT, rng.permutation(order[:-30]))
    return image, text


# two tables joined by id


@pytest.mark.slow
def test_two_tables_joined_by_id(omcal, tmp_path, image_and_text):
    out, model = tmp_path / "labels.csv", tmp_path / "m.omcal"
    inspected = omcal("inspect", *image_and_text)
    assert "240 samples in 2 views" in inspected.out and "Ids: id" in inspected.out
    joined = "joined by 'id': 240 samples, 190 in every table; image has 220, text 210"
    assert joined in inspected.out
    ended = omcal("cluster", *image_and_text, "--clusters", 3, "--out", out, "--save-model", model)
    assert ended.code == 0 and f"Note: {joined}" in ended.out
    assert "of 240 samples image lacks 20, text lacks 30" in ended.out
    assert score(out) >= 0.95
    assert out.read_text().startswith("id,cluster,certainty,second\nitem-")
    # New tables of the same views, asked for by the names of the files.
    ended = omcal("predict", model, *image_and_text, "--out", out, "--json")
    assert score(out) >= 0.95
    samples = json.loads(ended.out)["samples"]
    assert samples["id"] == "id" and set(samples["ids"]) == set(IDS)
    assert load(model).view_names_ == ["image", "text"]


@pytest.mark.slow
def test_numeric_ids_and_a_common_folder(omcal, tmp_path):
    ids = np.random.default_rng(3).permutation(N) + 1000
    folder = tmp_path / "tables"
    folder.mkdir()
    write_table(folder / "image.csv", IMAGE, range(N), ids)
    write_table(folder / "text.csv", TEXT, range(N)[::-1], ids)
    out = tmp_path / "labels.csv"
    ended = omcal("cluster", folder, "--clusters", 3, "--out", out, "--json")
    result = json.loads(ended.out)
    assert score(out, ids=ids) >= 0.95
    assert [(v["name"], v["n_features"]) for v in result["views"]] == [("image", 8), ("text", 8)]


@pytest.mark.slow
def test_inner_join_and_the_commands_that_need_all_samples(omcal, tmp_path, image_and_text):
    out = tmp_path / "labels.csv"
    ended = omcal("cluster", *image_and_text, "-c", 3, "--join", "inner", "--out", out, "--json")
    result = json.loads(ended.out)
    assert result["n_samples"] == 190 and len(out.read_text().splitlines()) == 191
    ended = omcal("cluster", *image_and_text, "-c", 3, "--method", "concat-kmeans")
    assert is_one_error_line(ended) and "--join inner" in ended.err
    explained = omcal("explain", *image_and_text, "-c", 3, "--resamples", 0)
    assert explained.code == 0 and "joined by 'id': 240 samples" in explained.out


@pytest.mark.slow
def test_settings_compared_on_joined_tables(omcal, tmp_path, image_and_text):
    small = ("--weighting", "distinct", "--anchors-per-cluster", "3,5", "--fits", 2)
    ended = omcal("tune", *image_and_text, "-c", 3, "--scale", "auto", *small)
    assert ended.code == 0 and "Note: joined by 'id': 240 samples" in ended.out
    assert "text lacks 30" in ended.out and "failed" not in ended.out
    out, files = tmp_path / "labels.csv", " ".join(map(str, image_and_text))
    after = next(line for line in ended.out.splitlines() if line.startswith("Next: "))
    assert after.startswith(f"Next: omcal cluster {files} --clusters 3 --scale auto")
    assert omcal(*after.split()[2:], "--out", out).code == 0
    assert score(out) >= 0.95
    # The number is asked of the samples that are in every view.
    ended = omcal("tune", *image_and_text, "-c", "auto", "--scale", "auto", *small, "--json")
    result = json.loads(ended.out)
    assert result["n_clusters"] == 3 and result["suggestion"]["n_samples"] == 190
    assert [trial["clusters_found"] for trial in result["trials"]] == [3, 3]


@pytest.mark.process
def test_methods_compared_on_joined_tables(omcal, tmp_path, image_and_text):
    words = ("-c", 3, "--methods", "omcal,concat-kmeans", "--seeds", 2, "--out", tmp_path / "t.tex")
    ended = omcal("compare", *image_and_text, *words, "--join", "inner", "--quiet")
    assert ended.code == 0, ended.err
    assert "tabular" in (tmp_path / "t.tex").read_text()


@pytest.mark.slow
def test_the_report_names_the_samples(omcal, tmp_path, image_and_text):
    report = tmp_path / "report.html"
    assert omcal("cluster", *image_and_text, "-c", 3, "--report", report).code == 0
    page = report.read_text()
    assert "image.csv + text.csv" in page
    assert set(payload_of(page)["arrays"]["names"]) == set(IDS)


@pytest.mark.slow
def test_the_command_of_inspect_runs(omcal, tmp_path, image_and_text):
    import shlex

    write_table(tmp_path / "text.csv", TEXT, range(30, N), id_name="code")
    write_table(tmp_path / "image.csv", IMAGE, range(N), id_name="code")
    words = (*image_and_text, "--id", "code", "--join", "inner")
    command = json.loads(omcal("inspect", *words, "--json").out)["cluster"]["command"]
    ended = omcal(*shlex.split(command.replace("--clusters C", "--clusters 3"))[1:], "--json")
    assert json.loads(ended.out)["n_samples"] == N - 30


def test_joins_that_are_refused(omcal, tmp_path, image_and_text):
    image, text = image_and_text
    write_table(text, TEXT, [*range(N), 0, 1])
    ended = omcal("cluster", image, text, "-c", 3)
    assert (
        is_one_error_line(ended)
        and f"2 ids are there more than once in 'id': '{min(IDS[:2])}'" in ended.err
    )
    write_table(text, TEXT, range(N), id_name="code")
    ended = omcal("cluster", image, text, "-c", 3)
    assert is_one_error_line(ended) and "image: 220, text: 240 samples" in ended.err
    np.save(tmp_path / "a.npy", IMAGE)
    np.save(tmp_path / "b.npy", TEXT[:100])
    ended = omcal("cluster", tmp_path / "a.npy", tmp_path / "b.npy", "-c", 3)
    assert is_one_error_line(ended) and "a: 240, b: 100 samples" in ended.err


def test_nothing_is_turned_unless_it_is_asked_for(omcal, tmp_path):
    np.savez(tmp_path / "d.npz", image=IMAGE, text=TEXT[:200])
    ended = omcal("cluster", tmp_path / "d.npz", "-c", 3)
    assert is_one_error_line(ended)
    assert "'image': 240 × 8, 'text': 200 × 8" in ended.err and "--transpose" in ended.err
    np.savez(tmp_path / "d.npz", image=IMAGE.T, text=TEXT.T[:5])
    ended = omcal("cluster", tmp_path / "d.npz", "-c", 3, "--transpose", "--json")
    assert json.loads(ended.out)["n_samples"] == N


# ids and labels


@pytest.mark.slow
def test_ids_and_row_numbers_are_no_features(omcal, tmp_path):
    table = write_table(tmp_path / "d.csv", IMAGE, range(N), np.arange(N), "row_number")
    result = json.loads(omcal("cluster", table, "-c", 3, "--json").out)
    assert result["views"][0]["n_features"] == 8
    assert any("'row_number' (--id none" in note for note in result["notes"])
    result = json.loads(omcal("cluster", table, "-c", 3, "--id", "none", "--json").out)
    assert result["views"][0]["n_features"] == 9


@pytest.mark.slow
def test_labels_in_a_file_of_their_own(omcal, tmp_path, image_and_text):
    truth = tmp_path / "truth.csv"
    kinds = np.array(["cat", "dog", "cow"])[MADE.labels]
    rows = [f"{name},{kind}" for name, kind in zip(IDS[::-1], kinds[::-1], strict=True)]
    truth.write_text("\n".join(["id,species", *rows]) + "\n")
    ended = omcal("cluster", *image_and_text, "-c", 3, "--labels", truth, "--json")
    result = json.loads(ended.out)
    assert result["scores"]["ari"] >= 0.95
    assert (
        "labels of truth.csv joined by id: 240 of 240 samples, 0 labels of others"
        in result["notes"]
    )
    out = tmp_path / "labels.csv"
    omcal("cluster", *image_and_text, "-c", 3, "--out", out)
    truth.write_text("\n".join(["id,label", *rows]) + "\n")
    assert json.loads(omcal("score", truth, out, "--json").out)["ari"] >= 0.95
    truth.write_text("\n".join(["id,label", *rows[:-3]]) + "\n")
    ended = omcal("score", truth, out)
    assert is_one_error_line(ended) and "237 ids are in both files, 0 only in" in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".xlsx", ".parquet"])
def test_the_ending_says_what_is_written(omcal, tmp_path, image_and_text, ending):
    pytest.importorskip({".xlsx": "openpyxl", ".parquet": "pyarrow"}.get(ending, "numpy"))
    truth, out = tmp_path / "truth.csv", tmp_path / f"labels{ending}"
    rows = [f"{name},{kind}" for name, kind in zip(IDS, MADE.labels, strict=True)]
    truth.write_text("\n".join(["id,label", *rows]) + "\n")
    assert omcal("cluster", *image_and_text, "-c", 3, "--out", out).code == 0
    start = {".xlsx": b"PK", ".parquet": b"PAR1", ".tsv": b"id\tcluster\t", ".csv": b"id,cluster,"}
    assert out.read_bytes().startswith(start[ending])
    assert json.loads(omcal("score", truth, out, "--json").out)["ari"] >= 0.95


@pytest.mark.slow
def test_a_plot_is_what_its_ending_says(omcal, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    np.savez(tmp_path / "d.npz", **MADE.views)
    for name, start in {"v.pdf": b"%PDF", "v.svg": b"<?xml", "v.png": b"\x89PNG"}.items():
        omcal("explain", tmp_path / "d.npz", "-c", 3, "--resamples", 0, "--plot", tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)


def test_an_ending_that_says_nothing_is_refused_before_the_fit(omcal, tmp_path, monkeypatch):
    monkeypatch.setattr(OMCAL, "fit", lambda *_, **__: pytest.fail("the fit was started"))
    np.savez(tmp_path / "d.npz", **MADE.views)
    for command, option, name in [
        ("cluster", "--out", "labels.ods"),
        ("cluster", "--report", "report.pdf"),
        ("explain", "--plot", "views.jpg"),
    ]:
        ended = omcal(command, tmp_path / "d.npz", "-c", 3, option, tmp_path / name)
        ending = name[name.index(".") :]
        assert is_one_error_line(ended) and f"ends in '{ending}'" in ended.err


@pytest.mark.slow
def test_a_workbook(omcal, tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="the extra io is not installed")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, view, rows in (("image", IMAGE, range(N)), ("text", TEXT, range(30, N))):
        sheet = book.create_sheet(title)
        sheet.append(["id", *(f"e{j}" for j in range(8))])
        for i in rows:
            sheet.append([str(IDS[i]), *view[i].tolist()])
    book.save(tmp_path / "book.xlsx")
    out = tmp_path / "labels.csv"
    assert omcal("cluster", tmp_path / "book.xlsx", "-c", 3, "--out", out).code == 0
    assert score(out) >= 0.95


@pytest.mark.slow
def test_a_header_of_numbers(omcal, tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(np.hstack([IMAGE, TEXT])).to_csv(tmp_path / "d.csv", index=False)
    out = tmp_path / "labels.csv"
    assert omcal("cluster", tmp_path / "d.csv", "-c", 3, "--out", out).code == 0
    assert score(out, ids=np.arange(N)) >= 0.95
    (tmp_path / "d.csv").write_text("1,2\n3,4\n5,6\n")
    ended = omcal("cluster", tmp_path / "d.csv", "-c", 2)
    assert is_one_error_line(ended) and "--header or --no-header" in ended.err
    result = json.loads(omcal("inspect", tmp_path / "d.csv", "--no-header", "--json").out)
    assert result["n_samples"] == 3 and "--no-header" in result["cluster"]["command"]


# counts


def counts(seed=0):
    """Counts of 120 terms in 240 documents of three topics."""
    rng = np.random.default_rng(seed)
    topics = rng.gamma(0.3, size=(3, 120)) + 0.02
    rates = topics[MADE.labels] / topics.sum(axis=1)[MADE.labels, None]
    return sparse.csr_array(rng.poisson(rates * rng.integers(40, 200, size=(N, 1))))


@pytest.mark.slow
def test_a_sparse_matrix_of_counts(omcal, tmp_path):
    sparse.save_npz(tmp_path / "counts.npz", counts())
    out = tmp_path / "labels.csv"
    inspected = omcal("inspect", tmp_path / "counts.npz")
    assert "240 samples in 1 view" in inspected.out and "sparse" in inspected.out
    assert omcal("cluster", tmp_path / "counts.npz", "-c", 3, "--out", out).code == 0
    assert score(out, ids=np.arange(N)) >= 0.95


# cells


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of mudata, about its next version
def test_cells_of_two_modalities_of_which_some_lack_one(omcal, tmp_path):
    anndata = pytest.importorskip("anndata", reason="the extra omics is not installed")
    mudata = pytest.importorskip("mudata", reason="the extra omics is not installed")
    pandas = pytest.importorskip("pandas")
    rna = anndata.AnnData(counts().astype(np.float32), obs=pandas.DataFrame(index=IDS))
    protein = anndata.AnnData(TEXT[30:][::-1], obs=pandas.DataFrame(index=IDS[30:][::-1]))
    rna.var_names = [f"gene{j}" for j in range(120)]
    protein.var_names = [f"protein{j}" for j in range(8)]
    mudata.MuData({"rna": rna, "protein": protein}).write(tmp_path / "cells.h5mu")
    check_cells(omcal, tmp_path)


@pytest.mark.slow
def test_cells_in_a_file_written_by_hand(omcal, tmp_path):
    h5py = pytest.importorskip("h5py", reason="the extra io is not installed")
    with h5py.File(tmp_path / "cells.h5mu", "w") as file:
        file["obs/_index"] = IDS.astype(object)
        for name, view, rows in (
            ("rna", counts(), np.arange(N)),
            ("protein", TEXT, np.arange(N)[:29:-1]),
        ):
            part = view[rows]
            group = file.create_group(f"mod/{name}")
            group["X"] = part.toarray() if sparse.issparse(part) else part
            group["obs/_index"] = IDS[rows].astype(object)
            position = np.zeros(N, dtype=np.uint32)
            position[rows] = np.arange(len(rows)) + 1
            file[f"obsmap/{name}"] = position
    check_cells(omcal, tmp_path)


def check_cells(omcal, tmp_path):
    out = tmp_path / "labels.csv"
    ended = omcal("cluster", tmp_path / "cells.h5mu", "-c", 3, "--out", out)
    assert ended.code == 0 and "Note: of 240 samples protein lacks 30" in ended.out
    assert out.read_text().startswith("barcode,cluster,") and score(out) >= 0.95
    # A table of the same cells joins by their barcodes.
    table = write_table(tmp_path / "image.csv", IMAGE, range(N)[::-1], id_name="barcode")
    ended = omcal("cluster", tmp_path / "cells.h5mu", table, "-c", 3, "--out", out, "--json")
    assert len(json.loads(ended.out)["views"]) == 3 and score(out) >= 0.95


# frames


def test_frames_in_another_order():
    pandas = pytest.importorskip("pandas")
    order = np.random.default_rng(4).permutation(N)
    image = pandas.DataFrame(IMAGE, index=IDS).add_prefix("f")
    text = pandas.DataFrame(TEXT, index=IDS).add_prefix("f").iloc[order]
    model = OMCAL(3, random_state=0).fit({"image": image, "text": text})
    assert ari(MADE.labels, model.labels_) >= 0.95
    data = join_views({"image": image, "text": text.iloc[:200]})
    model = OMCAL(3, random_state=0).fit(data.views, present=data.present)
    clusters = pandas.Series(model.labels_, index=data.ids)
    assert ari(MADE.labels, clusters[IDS]) >= 0.95


@pytest.mark.slow
def test_converted_data_keep_their_ids(omcal, tmp_path, image_and_text):
    joined = tmp_path / "joined.npz"
    assert omcal("convert", *image_and_text, joined, "--quiet").code == 0
    out = tmp_path / "labels.csv"
    assert omcal("cluster", joined, "-c", 3, "--out", out).code == 0
    assert out.read_text().startswith("ids,cluster,") and score(out) >= 0.95
    save_views(tmp_path / "d.csv", MultiViewData(MADE.views, ids=IDS, id_name="key"))
    assert omcal("cluster", tmp_path / "d.csv", "-c", 3, "--out", out).code == 0
    assert out.read_text().startswith("key,cluster,") and score(out) >= 0.95
