"""Methods compared on a user's own data: the command, the tables, limits, resumption."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from experiment_cases import PAPER, run_command, write_mat
from omcal.cli import main
from omcal.datasets import MultiViewData, make_multiview
from omcal.experiments import compare, find_method
from omcal.experiments.records import read_records
from omcal.experiments.worker import GivenData, view_agreement

MADE = make_multiview(120, n_clusters=4, noise=0.2, random_state=0)
COMMAND = [sys.executable, "-m", "omcal", "compare"]


@pytest.fixture
def mat(tmp_path):
    path = tmp_path / "flowers_100%.mat"
    write_mat(path, list(MADE.views.values()), MADE.labels)
    return path


@pytest.fixture
def unlabelled(tmp_path):
    path = tmp_path / "plain.npz"
    np.savez(path, **MADE.views)
    return path


@pytest.mark.process
def test_a_mat_file_compared_with_three_methods_into_latex(mat, tmp_path):
    out = tmp_path / "table.tex"
    words = ["--clusters", 4, "--methods", "OMCAL,fsmsc,Concat-KMeans", "--seeds", 2, "--out", out]
    done = run_command("compare", mat, *words)
    assert done.returncode == 0, done.stderr
    assert "6 cells, 0 of them finished before" in done.stderr and "[6/6]" in done.stderr
    text = out.read_text()
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
    rows = [
        re.sub(r"\\(textbf|underline)\{([^}]*)\}", r"\2", r).split(" & ")
        for r in body.splitlines()[1:]
    ]
    assert [row[0] for row in rows] == ["OMCAL, one run", "FSMSC", "k-means, all views"]
    header = ["method", *PAPER.metrics, "rank", "seconds", "runs"]
    assert " & ".join(header) in text and all(len(row) == len(header) for row in rows)
    column = header.index("ARI")
    assert all(float(row[column][:5]) >= 0.95 for row in rows)
    assert r"flowers\_100\%: 120 samples, 3 views, 4 clusters, 4 classes" in text
    for name in ("begin", "end"):
        assert text.count(rf"\{name}{{table*}}") == text.count(rf"\{name}{{tabular}}") == 1
    records = read_records(tmp_path / "table.records.jsonl")
    assert len(records) == 6 and all(r["status"] == "ok" and r["peak_bytes"] for r in records)
    # Nothing is run again, and the table is the same.
    again = run_command("compare", mat, *words)
    assert "6 cells, 6 of them finished before" in again.stderr
    numbers = re.compile(r"Load of .*")
    assert numbers.sub("", out.read_text()) == numbers.sub("", text)


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_data(self, data):
        self.found.append(data)


@pytest.mark.process
def test_without_classes_stability_agreement_and_time(unlabelled, tmp_path):
    out = tmp_path / "table.html"
    words = ["-c", 4, "-m", "omcal,concat-kmeans", "--seeds", 3, "-o", out, "--json", "--quiet"]
    done = run_command("compare", unlabelled, *words)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert {run["method"] for run in result["runs"]} == {"omcal", "concat-kmeans"}
    parser = Cells()
    parser.feed(out.read_text())
    for word in ("stability", "agreement", "in view1", "seconds", "k-means, all views"):
        assert word in parser.found
    assert "ACC" not in parser.found
    assert parser.found.count("agreement") == 3  # in the table, and above its bars
    assert out.read_text().count('<td data-label="" class="bar v') == 2 * 3
    expected = view_agreement(
        MADE, find_method("omcal").make(4, random_state=1).fit(MADE.views).labels_
    )
    (one,) = (r for r in result["runs"] if (r["method"], r["seed"]) == ("omcal", 1))
    assert one["view_agreement"] == pytest.approx(expected)
    assert one["scores"]["agreement"] == pytest.approx(np.mean(list(expected.values())))


@pytest.mark.long
@pytest.mark.process
def test_stopped_and_started_again(mat, tmp_path):
    out, records = tmp_path / "table.md", tmp_path / "runs.jsonl"
    words = [mat, "-c", 4, "-m", "omcal,fsmsc", "--seeds", 9, "-o", out, "--records", records]
    process = subprocess.Popen([*COMMAND, *map(str, words)], stderr=subprocess.PIPE, text=True)
    while len(read_records(records)) < 3:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "the same command continues" in said
    kept = records.read_bytes()
    finished = kept.count(b"\n")
    assert finished >= 3 and not out.exists()
    assert f"18 cells, {finished} of them finished before" in run_command("compare", *words).stderr
    assert records.read_bytes().startswith(kept) and len(read_records(records)) == 18
    assert [line[-5:] for line in out.read_text().splitlines()].count("| 9 |") == 2


@pytest.mark.long
@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("after", [0.0, 0.15, 0.4])
def test_ctrl_c_while_the_first_process_starts_prints_no_traceback(mat, after):
    words = [*COMMAND, str(mat), "-c", "4", "-m", "omcal", "--seeds", "2"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children.read_text().split()) < 2:  # the resource tracker, then the fork server
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    time.sleep(after)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.splitlines()[-1] == "omcal: interrupted" and "Traceback" not in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-m", "fsmcs"], "did you mean fsmsc?"),
        (["-m", "nmf"], "nmf takes one view, and there are 3"),
        (["-m", ","], "at least one name"),
        (["-o", "table.pdf"], "table.pdf must end in .md, .tex, .csv or .html"),
        (["-o", "absent/table.md"], "absent"),
        (["--memory-limit", "much"], "'much' is not a size"),
        (["--seeds", "0"], "--seeds"),
    ],
)
def test_refusals_are_one_line(mat, tmp_path, monkeypatch, capsys, more, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["compare", str(mat), "-c", "4", "--quiet", *more])
    printed, errors = capsys.readouterr()
    assert (end.value.code, printed) == (2, "")
    assert said in errors and errors.count("\n") == 1
    assert os.listdir(tmp_path) == [mat.name]


@pytest.mark.process
def test_limits_are_words_of_the_table(tmp_path):
    big = make_multiview(1500, n_clusters=4, random_state=0)
    records = tmp_path / "runs.jsonl"
    compare(big, 4, "concat-kmeans", seeds=2, records=records)  # however slow the machine is
    slow = compare(big, 4, ["slmvgc", "concat-kmeans"], seeds=2, time_limit=0.5, records=records)
    assert slow.table.rows[0][1].text == "---" and slow.table.rows[1][1].text != "---"
    assert any("over 0.5 s" in note for note in slow.table.notes)
    assert [r["method"] for r in slow.records].count("slmvgc") == 1
    large = compare(big, 4, ["mcgc"], seeds=1, memory_limit="20MB")
    assert large.table.rows[0][1].text == "OM" and large.table.rows[0][-1].text == "0"


@pytest.mark.process
def test_mean_ranks_share_ties_and_put_failures_last(tmp_path):
    views = {name: view - 100 for name, view in MADE.views.items()}
    one = MultiViewData({"view1": views["view1"]}, labels=MADE.labels)
    found = compare(one, 4, ["concat-kmeans", "nmf", "best-view"], seeds=1)  # NMF: no negatives
    ranks = {row[0]: float(row[found.table.header.index("rank")].text) for row in found.table.rows}
    assert ranks == {"k-means, all views": 1.5, "NMF": 3.0, "k-means, best view": 1.5}
    assert any("nmf on data: error (ValueError" in note for note in found.table.notes)


@pytest.mark.process
def test_python_takes_what_fit_takes(tmp_path):
    X = [view.copy() for view in MADE.views.values()]
    X[1][:10] = np.nan
    found = compare(X, 4, "omcal,consensus", y=MADE.labels, seeds=1)
    assert all(record["scores"]["ACC"] > 0.9 for record in found.records)
    assert "OMCAL, 10 runs" in str(found)
    found = compare(X, 4, "omcal,fsmsc", y=MADE.labels, seeds=1)
    assert [row[0] for row in found.table.rows] == ["OMCAL, one run"]
    assert "Left out: fsmsc does not support samples missing from a view." in found.table.notes
    with pytest.raises(ValueError, match="fsmsc does not support samples missing from a view"):
        compare(X, 4, "fsmsc")
    with pytest.raises(ValueError, match="give n_clusters"):
        compare(MADE.views)
    with pytest.raises(ValueError, match="seeds=0"):
        compare(MADE, seeds=0)


def test_all_are_those_that_take_the_data():
    from omcal.experiments.comparison import supported_methods

    chosen, left_out = supported_methods("all", MADE)
    several = {method.name for method in chosen}
    assert {"omcal", "fsmsc", "mlan"} <= several and not several & {"nmf", "ocal"}
    assert left_out["nmf"] == "takes one view, and there are 3"
    one = MultiViewData({"a": sparse.csr_array(np.eye(9))})
    assert {"nmf", "omcal"} <= {method.name for method in supported_methods("ALL", one)[0]}


@pytest.mark.process
def test_other_content_is_another_experiment(tmp_path):
    records = tmp_path / "runs.jsonl"
    compare(MADE, 4, "concat-kmeans", seeds=1, records=records)
    compare(MADE, 4, "concat-kmeans", seeds=1, records=records)
    assert len(read_records(records)) == 1
    views = dict(MADE.views)
    views["view1"] = views["view1"] + 1e-9
    changed = MultiViewData(views, labels=MADE.labels, name=MADE.name)
    assert GivenData(changed).checksums() != GivenData(MADE).checksums()
    found = compare(changed, 4, "concat-kmeans", seeds=1, records=records)
    assert len(read_records(records)) == 2 and len(found.records) == 1


def test_agreement_is_by_chance_for_chance_and_zero_for_one_cluster():
    rng = np.random.default_rng(0)
    chance = view_agreement(MADE, rng.integers(0, 4, 120))
    assert max(map(abs, chance.values())) < 0.15
    assert set(view_agreement(MADE, np.zeros(120, int)).values()) == {0.0}
    present = {name: np.arange(120) >= 30 for name in MADE.views}
    views = {name: np.where(present[name][:, None], v, np.nan) for name, v in MADE.views.items()}
    partial = MultiViewData(views, present=present)
    assert min(view_agreement(partial, MADE.labels).values()) > 0.8
