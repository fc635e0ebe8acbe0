import json
import logging
import os
import subprocess
import sys
import warnings
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rich.progress import Progress

from omcal import OMCAL, Consensus, __version__
from omcal.cli import main
from omcal.cli.console import _BarHandler
from omcal.cli.options import usual_runs
from omcal.datasets import load_digits_views, make_multiview
from omcal.metrics import evaluate
from omcal.model import cost
from omcal.model.subset_fits import consensus_graphs

ROOT = Path(__file__).resolve().parents[2]
SCORES = ["accuracy", "nmi", "purity", "ari", "f_score", "precision", "recall"]

Ended = namedtuple("Ended", "code out err")


@pytest.fixture(scope="module")
def data():
    return make_multiview(120, n_clusters=3, random_state=0)


@pytest.fixture
def file(data, tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, **data.views, y=data.labels)
    return path


def is_one_error_line(ended):
    return (
        ended.code == 2
        and ended.out == ""
        and ended.err.startswith("omcal: error: ")
        and ended.err.count("\n") == 1
        and ended.err.endswith("\n")
    )


def test_version(omcal):
    assert omcal("--version") == (0, f"omcal {__version__}\n", "")


@pytest.mark.parametrize("args", [[], ["--help"]])
def test_help_lists_the_commands(omcal, args):
    ended = omcal(*args)
    assert ended.code == 0
    for command in ("demo", "cluster", "score"):
        assert command in ended.out


@pytest.mark.process
def test_as_a_process_with_the_arguments_of_the_process():
    code = "from omcal.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "score", "absent"], capture_output=True, text=True
    )
    assert is_one_error_line(Ended(done.returncode, done.stdout, done.stderr))
    assert "'PRED'" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("module", ["typer", "rich"])
def test_without_the_extra_the_error_names_it(module):
    code = f"import sys; sys.modules[{module!r}] = None; from omcal.cli import main; main(['demo'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert is_one_error_line(Ended(done.returncode, done.stdout, done.stderr))
    assert "pip install typer rich" in done.stderr


# demo


@pytest.fixture
def few_digits(monkeypatch):
    """A third of the digits, on which the demo runs with one start of k-means."""
    digits = load_digits_views()
    views = {name: view[:600] for name, view in digits.views.items()}
    few = replace(digits, views=views, labels=digits.labels[:600])
    monkeypatch.setattr("omcal.cli.demo._KMEANS_STARTS", 1)
    monkeypatch.setattr("omcal.datasets.load_digits_views", lambda: few)
    return few


@pytest.mark.slow
def test_demo_prints_a_comparison_and_draws_a_figure(omcal, tmp_path, few_digits):
    ended = omcal("demo", "--out", tmp_path / "new" / "folder")
    assert ended.code == 0
    figure = tmp_path / "new" / "folder" / "demo.png"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert os.listdir(figure.parent) == ["demo.png"]
    lines = ended.out.splitlines()
    for method in ("k-means, pixels", "k-means, all views", "OMCAL, adaptive", "OMCAL, distinct"):
        assert sum(line.startswith(method) for line in lines) == 1
    assert max(map(len, lines[:10])) <= 80
    assert str(figure) in ended.out


@pytest.mark.slow
def test_demo_json_holds_the_scores_of_default_omcal(omcal, tmp_path, few_digits):
    ended = omcal("demo", "--out", tmp_path, "--json", "--seed", 5)
    result = json.loads(ended.out)
    methods = {record["method"]: record for record in result["methods"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OMCAL(10, weighting="distinct", random_state=5).fit(few_digits.views)
    expected = evaluate(few_digits.labels, model.labels_)
    found = methods["OMCAL, distinct"]
    assert {name: found[name] for name in SCORES} == expected
    assert found["seconds"] > 0
    assert len(found["warnings"]) == (0 if model.converged_ else 1)
    weights = result["view_weights"]["OMCAL, distinct"]
    assert list(weights) == list(few_digits.views)
    assert sum(weights.values()) == pytest.approx(1)


def test_consensus_graphs_agree_with_the_indicator(data):
    model = OMCAL(n_clusters=3, weighting="agreement", random_state=0).fit(data.views)
    before, after = consensus_graphs(model, data.views)
    assert_allclose(before.sum(axis=1), 1.0)
    assert_allclose(np.maximum(after @ model.basis_, 0), model.transform(data.views), atol=1e-9)


def test_demo_without_matplotlib_names_the_extra(omcal, tmp_path, monkeypatch):
    monkeypatch.setattr("omcal.cli.demo._fits", lambda *_: pytest.fail("it worked in vain"))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    ended = omcal("demo", "--out", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[-1].endswith("pip install matplotlib.")


def test_demo_cannot_write_into_a_file(omcal, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    assert is_one_error_line(omcal("demo", "--out", taken))
    assert taken.read_text() == "mine"


# cluster


@pytest.mark.slow
def test_cluster_writes_the_labels_of_the_estimator(omcal, file, data, tmp_path):
    out = tmp_path / "labels.csv"
    ended = omcal("cluster", file, "-c", 3, "--runs", 1, "--labels", "y", "--out", out)
    assert (ended.code, ended.err) == (0, "")
    model = OMCAL(n_clusters=3, random_state=0).fit(data.views)
    lines = out.read_text().splitlines()
    assert lines[0] == "sample,cluster,certainty,second"
    expected = [f"{i},{label}" for i, label in enumerate(model.labels_)]
    assert [line.rsplit(",", 2)[0] for line in lines[1:]] == expected
    assert "NMI (max)" in ended.out
    assert "Converged after" in ended.out
    for name, weight in zip(model.view_names_, model.view_weights_, strict=True):
        row = [name, "10", f"{weight:.3f}"]
        assert any(line.split()[:3] == row for line in ended.out.splitlines())


@pytest.mark.slow
def test_ten_runs_are_joined_and_the_result_says_so(omcal, file):
    note = "10 runs are combined (--runs 1 for one)"
    ended = omcal("cluster", file, "--clusters", 3)
    assert f"Note: {note}" in ended.out and ended.err == ""
    result = json.loads(omcal("cluster", file, "--clusters", 3, "--json").out)
    assert note in result["notes"] and result["n_runs"] == 10
    one = json.loads(omcal("cluster", file, "--clusters", 3, "--runs", 1, "--json").out)
    assert note not in one["notes"] and one["n_runs"] == 1


def test_what_is_loaded_once_does_not_speak_against_ten_runs(monkeypatch):
    """A process loads the compiled loops once, however many runs there are."""
    monkeypatch.setattr(cost, "compiled_pays", lambda n: True)
    monkeypatch.setattr(cost, "_operations_per_second", lambda: 1e10)
    views = [{"shape": (60_000, 10), "dtype": "float32", "density": None}] * 2
    assert usual_runs(OMCAL(5), views) == (10, "10 runs are combined (--runs 1 for one)")
    n_runs, note = usual_runs(OMCAL(50), [{**view, "shape": (10**6, 500)} for view in views])
    assert n_runs == 1 and "would take about" in note


def test_what_it_would_take_is_said_of_the_runs_that_it_joins(omcal, file):
    ten, one = (
        json.loads(omcal("cluster", file, "-c", 3, "--dry-run", "--json", *more).out)
        for more in ([], ["--runs", 1])
    )
    assert (ten["n_runs"], one["n_runs"]) == (10, 1) and one["notes"] == []
    assert "1000 iterations" in ten["time"] and "100 iterations" in one["time"]
    assert ten["bytes"] > one["bytes"] and "joining" in ten["memory"]
    shown = omcal("cluster", file, "-c", 3, "--dry-run").out
    assert shown.startswith("Note: 10 runs are combined") and "15 anchors, 10 runs;" in shown
    inspected = json.loads(omcal("inspect", file, "--json").out)["cluster"]["estimate"]
    assert inspected["memory"] == ten["memory"]
    assert "It takes all 3 views, 10 joined runs with 15 anchors" in omcal("inspect", file).out


def test_a_bar_counts_joined_runs(data):
    model = Consensus(OMCAL(3), n_runs=4, random_state=0)
    logger, bar = logging.getLogger("omcal"), Progress(disable=True)
    handler, level = _BarHandler(bar, model), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        model.fit(data.views)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    (task,) = bar.tasks
    assert (task.description, task.completed, task.total) == ("run 4/4", 4, 4)


def test_cluster_json_is_all_there_is_on_stdout(omcal, file, data):
    ended = omcal("cluster", file, "--clusters", 3, "--runs", 1, "--json")
    result = json.loads(ended.out)
    model = OMCAL(n_clusters=3, random_state=0).fit(data.views)
    assert result["cluster_sizes"] == np.bincount(model.labels_).tolist()
    assert result["scores"] == evaluate(data.labels, model.labels_)
    assert result["nmi_average"] == "max"
    assert result["converged"] is True
    assert result["n_iter"] == model.n_iter_
    assert [view["weight"] for view in result["views"]] == model.view_weights_.tolist()
    assert result["out"] is None


def test_cluster_passes_every_option_on(omcal, file):
    options = {
        "--clusters": ("n_clusters", 4),
        "--anchors": ("n_anchors", 20),
        "--anchors-by": ("anchors", "kmeans-full"),
        "--neighbors": ("n_neighbors", 3),
        "--beta": ("beta", 0.2),
        "--gamma": ("gamma", 0.05),
        "--scale": ("scale", "view"),
        "--weighting": ("weighting", "uniform"),
        "--init": ("init", "random"),
        "--n-init": ("n_init", 2),
        "--max-iter": ("max_iter", 70),
        "--tol": ("tol", 1e-3),
        "--seed": ("random_state", 9),
    }
    words = [word for option, (_, value) in options.items() for word in (option, value)]
    result = json.loads(omcal("cluster", file, *words, "--accelerate", "--json").out)
    for name, value in options.values():
        assert result["parameters"][name] == value
    assert result["parameters"]["accelerate"] is True


def test_cluster_on_a_device(torch, omcal, file):
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA GPU here")
    words = ("cluster", file, "--clusters", 3, "--json")
    here, there = (json.loads(omcal(*words, *more).out) for more in ((), ("--device", "cuda")))
    assert there["parameters"]["device"] == "cuda"
    assert there["cluster_sizes"] == here["cluster_sizes"]


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_cluster_on_a_device_that_is_not_there(omcal, file, device):
    ended = omcal("cluster", file, "--clusters", 3, "--device", device)
    assert ended.code == 2
    assert device in ended.err
    assert len(ended.err.splitlines()) == 1


def test_cluster_scale_none_leaves_the_data_as_they_are(omcal, file):
    result = json.loads(omcal("cluster", file, "--clusters", 3, "--scale", "none", "--json").out)
    assert result["parameters"]["scale"] is None


def test_cluster_uses_the_named_views_in_the_given_order(omcal, file):
    ended = omcal("cluster", file, "--clusters", 3, "--views", "view3, view1", "--json")
    assert [view["name"] for view in json.loads(ended.out)["views"]] == ["view3", "view1"]


@pytest.mark.slow
def test_cluster_without_classes_has_no_scores(omcal, data, tmp_path):
    path = tmp_path / "plain.npz"
    np.savez(path, **data.views)
    assert json.loads(omcal("cluster", path, "--clusters", 3, "--json").out)["scores"] is None
    assert "NMI" not in omcal("cluster", path, "--clusters", 3).out


@pytest.mark.slow
def test_cluster_lists_only_the_largest_of_many_clusters(omcal, file):
    out = omcal("cluster", file, "--clusters", 40, "--beta", 0).out
    assert "The 30 largest clusters" in out


def test_cluster_reports_warnings_as_single_lines(omcal, file):
    ended = omcal("cluster", file, "--clusters", 3, "--max-iter", 1, "--json")
    assert ended.code == 0
    noted = json.loads(ended.out)["warnings"]
    assert ended.err.splitlines() == [f"omcal: warning: {note}" for note in noted]
    assert sum("--max-iter 1" in note for note in noted) == 1
    assert json.loads(ended.out)["converged"] is False


@pytest.mark.slow
def test_cluster_shows_progress_on_a_terminal_only(omcal, file, monkeypatch):
    arguments = ("cluster", file, "--clusters", 3)
    assert omcal(*arguments).err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes the stream for a terminal
    assert "objective" in omcal(*arguments).err
    assert omcal(*arguments, "--quiet") == (0, "", "")
    logger = logging.getLogger("omcal")
    assert logger.handlers == []
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["absent.npz", "--clusters", "3"], "absent.npz"),
        (["data.npz", "--clusters", "121"], "--clusters 121 must"),
        (["data.npz", "--clusters", "0"], "--clusters must be a whole number"),
        (["data.npz", "--clusters", "many"], "--clusters"),
        (["data.npz", "--clusters", "3", "--scale", "loud"], "loud"),
        (["data.npz", "--clusters", "3", "--weighting", "loud"], "loud"),
        (["data.npz", "--clusters", "3", "--beta", "nan"], "--beta must be a number"),
        (["data.npz", "--clusters", "3", "--beta", "1e9"], "--beta 1e+09"),
        (["data.npz", "--clusters", "3", "--seed", "-1"], "--seed"),
        (["data.npz", "--clusters", "3", "--neighbors", "9", "--anchors", "9"], "--neighbors 9"),
        (["data.npz", "--clusters", "3", "--views", "view1,smell"], "smell"),
        (["data.npz", "--clusters", "3", "--labels", "species"], "species"),
        (["data.npz", "--clusters", "3", "--colour", "red"], "--colour"),
        (["data.npz", "--clusters", "3", "--out", "absent/labels.csv"], "absent"),
        (["data.npz", "--clusters", "3", "--out", "."], "--out"),
        (["data.npz", "--clusters", "3", "--out", "./data.npz"], "--out"),
    ],
)
def test_bad_input_of_cluster_is_one_line(omcal, file, monkeypatch, arguments, named):
    monkeypatch.chdir(file.parent)
    ended = omcal("cluster", *arguments)
    assert is_one_error_line(ended), ended
    assert named in ended.err


def test_damaged_files_are_one_line(omcal, file, tmp_path):
    cut = tmp_path / "cut.npz"
    cut.write_bytes(file.read_bytes()[:1000])
    empty = tmp_path / "empty.npz"
    empty.touch()
    for path in (cut, empty):
        ended = omcal("cluster", path, "--clusters", 3, "--json")
        assert is_one_error_line(ended), ended
        assert path.name in ended.err


@pytest.mark.slow
def test_missing_values_are_told_with_their_view(omcal, data, tmp_path):
    views = {name: view.copy() for name, view in data.views.items()}
    views["view2"][3, 1] = np.nan
    path = tmp_path / "holes.npz"
    np.savez(path, **views)
    ended = omcal("cluster", path, "--clusters", 3)
    assert "view 'view2' lacks 1 of its values" in " ".join((ended.out + ended.err).split())
    assert "view2" in omcal("inspect", path).out


def test_names_are_printed_as_they_are(omcal, data, tmp_path):
    path = tmp_path / "odd.npz"
    np.savez(path, **{"[red]a": data.views["view1"], ":smile:": data.views["view2"]})
    out = omcal("cluster", path, "--clusters", 3).out
    assert "[red]a" in out
    assert ":smile:" in out


def test_an_unwritable_out_is_refused_before_the_fit(omcal, file, monkeypatch):
    monkeypatch.setattr(OMCAL, "fit", lambda *_, **__: pytest.fail("the fit was started"))
    ended = omcal("cluster", file, "--clusters", 3, "--out", file.parent / "absent" / "l.csv")
    assert is_one_error_line(ended)


def test_a_failed_fit_leaves_the_old_labels(omcal, file, tmp_path):
    out = tmp_path / "labels.csv"
    out.write_text("old")
    assert omcal("cluster", file, "--clusters", 121, "--out", out).code == 2
    assert out.read_text() == "old"


@pytest.mark.slow
def test_a_failed_write_leaves_the_old_labels_and_nothing_else(omcal, file, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "labels.csv")

    out = tmp_path / "labels.csv"
    out.write_text("old")
    monkeypatch.setattr(Path, "replace", full)
    ended = omcal("cluster", file, "--clusters", 3, "--out", out)
    assert ended.code == 2 and ended.err.count("\n") == 1
    assert "no space left" in ended.err
    assert "clusters" in ended.out.lower()  # the fit is not thrown away
    assert out.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["data.npz", "labels.csv"]


def test_interruption_is_one_line_and_130(omcal, file, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(OMCAL, "fit", interrupt)
    out = tmp_path / "labels.csv"
    ended = omcal("cluster", file, "--clusters", 3, "--runs", 1, "--out", out)
    assert ended == (130, "", "omcal: interrupted\n")
    assert not out.exists()


def test_errors_of_the_program_itself_are_not_hidden(file, monkeypatch):
    def broken(*_, **__):
        raise AttributeError("a mistake")

    monkeypatch.setattr(OMCAL, "fit", broken)
    with pytest.raises(AttributeError, match="a mistake"):
        main(["cluster", str(file), "--clusters", "3", "--runs", "1"])


# score


@pytest.mark.slow
def test_score_of_written_labels_is_that_of_cluster(omcal, file, data, tmp_path):
    out, classes = tmp_path / "labels.csv", tmp_path / "classes.npy"
    np.save(classes, data.labels)
    clustered = json.loads(omcal("cluster", file, "--clusters", 3, "--out", out, "--json").out)
    scored = json.loads(omcal("score", classes, out, "--json").out)
    assert {name: scored[name] for name in SCORES} == clustered["scores"]
    assert scored["n_samples"] == 120
    assert scored["nmi_average"] == "max"


def test_score_prints_seven_scores(omcal, tmp_path):
    true, pred = tmp_path / "true.txt", tmp_path / "pred.txt"
    true.write_text("a\na\nb\nb\n")
    pred.write_text("1\n1\n0\n2\n")
    ended = omcal("score", true, pred)
    assert ended.code == 0
    expected = evaluate(["a", "a", "b", "b"], [1, 1, 0, 2])
    for title, name in [("accuracy", "accuracy"), ("NMI (max)", "nmi"), ("recall", "recall")]:
        assert any(
            line.startswith(title) and line.endswith(f"{expected[name]:.4f}")
            for line in ended.out.splitlines()
        )


def test_score_needs_equal_lengths_and_existing_files(omcal, tmp_path):
    short, long = tmp_path / "short.txt", tmp_path / "long.txt"
    short.write_text("1\n2\n")
    long.write_text("1\n2\n3\n")
    for arguments in [(short, long), (short, tmp_path / "absent"), (tmp_path, short)]:
        assert is_one_error_line(omcal("score", *arguments))
