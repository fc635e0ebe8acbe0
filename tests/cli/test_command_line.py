"""What all commands share: start, help, short options, words of errors, parameters."""

import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

from omcal import OMCAL, __version__
from omcal.cli.options import PARAMETERS, in_options
from omcal.datasets import make_multiview
from omcal.experiments import find_method, methods

COMMANDS = [
    "demo",
    "inspect",
    "convert",
    "cluster",
    "explain",
    "predict",
    "update",
    "score",
    "tune",
]
COMMANDS += ["compare", "reproduce"]
MADE = make_multiview(120, n_clusters=3, noise=0.3, random_state=0)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, **MADE.views, y=MADE.labels)
    return path


def python(code, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)


# Start


@pytest.mark.process
@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["-h"],
        ["cluster", "--help"],
        *(
            pytest.param(words, marks=pytest.mark.long)
            for words in [["-V"], *([c, "--help"] for c in COMMANDS if c != "cluster")]
        ),
    ],
)
def test_help_and_version_load_neither_scikit_learn_nor_numpy(words):
    code = (
        "import sys, atexit\n"
        "loaded = lambda: print('LOADED', {'sklearn', 'numpy'} & set(sys.modules))\n"
        "atexit.register(loaded)\n"
        f"from omcal.cli import main; main({words})"
    )
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("LOADED set()\n")


@pytest.mark.process
def test_as_a_module():
    words = [sys.executable, "-m", "omcal", "-V"]
    assert subprocess.check_output(words, text=True) == f"omcal {__version__}\n"


@pytest.mark.parametrize("words", [["-h"], *([c, "-h"] for c in COMMANDS)])
def test_h_is_help(omcal, words):
    short, long = omcal(*words), omcal(*words[:-1], "--help")
    assert short.code == 0 and "Usage" in short.out and short == long


@pytest.mark.process
def test_completion(tmp_path):
    environment = {**os.environ, "_OMCAL_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    environment["COMP_WORDS"] = "omcal cluster --wei"
    done = python("from omcal.cli import main; main()", env=environment)
    assert done.stdout.split() == ["--weighting"]
    assert "--install-completion" in python("from omcal.cli import main; main(['-h'])").stdout


# Options


@pytest.mark.slow
def test_short_options(omcal, file, tmp_path):
    out = tmp_path / "labels.csv"
    words = ("-c", 3, "-o", out, "-s", 4, "-v", "view1,view2", "-l", "y", "-m", "OMCAL", "-j")
    result = json.loads(omcal("cluster", file, *words).out)
    assert result["parameters"]["random_state"] == 4 and result["out"] == str(out)
    assert [view["name"] for view in result["views"]] == ["view1", "view2"]
    assert omcal("cluster", file, "-c", 3, "-q") == (0, "", "")


def test_every_parameter_of_the_estimator_is_an_option_once():
    theirs = OMCAL().get_params()
    beside = {"n_clusters", "random_state", "views", "client", "group", "verbose"}
    beside |= {"warm_start", "contamination", "half_life", "grow"}  # of models that are used again
    assert set(PARAMETERS) == set(theirs) - beside
    options = [parameter.option for parameter in PARAMETERS.values()]
    assert len(set(options)) == len(options)
    for name, parameter in PARAMETERS.items():
        shown = str(parameter.default) if parameter.shown is None else parameter.shown
        if theirs[name] is True:
            assert parameter.option == f"--{shown}/--no-{shown}"
        elif theirs[name] not in (None, False):
            assert shown == str(theirs[name]), name


@pytest.mark.slow
def test_the_command_of_a_report_gives_the_same_clusters(omcal, file, tmp_path):
    report, first, second = (tmp_path / name for name in ("r.html", "1.csv", "2.csv"))
    words = ["--scale", "none", "--accelerate", "--anchors", 20, "--views", "view3,view1"]
    omcal("cluster", file, "-c", 4, "-s", 7, "--report", report, "-o", first, *words)
    (command,) = set(re.findall(r"omcal cluster [^<\n]+", report.read_text()))
    assert "--scale none" in command and "--anchors 20" in command
    again = omcal(*shlex.split(command)[1:], "--out", second)
    assert again.code == 0, again.err
    assert second.read_bytes() == first.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["cluster"], "parameters"),
        pytest.param(["explain", "--resamples", 0], "parameters", marks=pytest.mark.long),
        (["tune", "--anchors-per-cluster", "3", "--scale", "auto", "--fits", 2], None),
    ],
)
def test_clusters_auto_everywhere(omcal, file, words, key):
    ended = omcal(words[0], file, "--clusters", "auto", *words[1:], "--json")
    result = json.loads(ended.out)
    assert (result[key] if key else result)["n_clusters"] == 3
    assert result["suggestion"]["suggestion"] == 3
    shown = omcal(words[0], file, "--clusters", "AUTO", *words[1:])
    assert "3 clusters, confidence" in shown.out


def test_explain_quiet(omcal, file):
    assert omcal("explain", file, "-c", 3, "--resamples", 0, "--quiet") == (0, "", "")


def clusters_listed(text):
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("cluster "))
    found = []
    for line in lines[start + 2 :]:
        if not line[:1].isdigit():
            break
        found.append(int(line.split()[0]))
    return found


@pytest.mark.slow
def test_clusters_are_in_one_order(omcal, file, tmp_path):
    model = tmp_path / "m.omcal"
    words = ("-c", 5, "--views", "view1,view2")
    listed = [
        omcal("cluster", file, *words, "--save-model", model).out,
        omcal("predict", model, file).out,
        omcal("explain", file, *words, "--resamples", 0).out,
    ]
    assert [clusters_listed(text) for text in listed] == [list(range(5))] * 3
    many = clusters_listed(omcal("cluster", file, "-c", 40, "--beta", 0).out)
    assert len(many) == 30 and many == sorted(many)


# Words of errors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-c", "121"], "--clusters 121 must be at most"),
        (
            ["-c", "0"],
            "--clusters must be a whole number in the range [1, inf) or a str among {'auto'}.",
        ),
        (["-c", "3.5"], "--clusters '3.5' must be a whole number, or auto"),
        (["-c", "3", "--anchors", "2"], "--anchors 2 must be at least --clusters 3"),
        (["-c", "3", "--n-init", "0"], "--n-init must be a whole number"),
        (["-c", "3", "--memory-limit", "x"], "--memory-limit"),
        (["-c", "3", "-m", "fsmcs"], "did you mean fsmsc?"),
        (["-c", "3", "-m", "fsmsc", "--beta", "1"], "--beta is for OMCAL; leave it out"),
    ],
)
def test_errors_speak_of_options(omcal, file, words, said):
    ended = omcal("cluster", file, *words)
    assert ended.code == 2 and said in ended.err
    assert not re.search(r"n_clusters|n_anchors|n_init|memory_limit|parameter of", ended.err)


def test_ordinary_words_stay_as_they_are():
    said = "the views have 3 anchors and a scale; raise max_iter or tol, or set anchors='random'."
    expected = (
        "the views have 3 anchors and a scale; raise --max-iter or --tol, or set "
        "--anchors-by 'random'."
    )
    assert in_options(said) == expected


def test_what_to_try_is_said_in_words_of_the_command_line():
    said = (
        "look at certainty_, and compare with another scale=, or n_anchors=; ask explain_views()."
    )
    assert in_options(said) == (
        "look at the certainty in a --report, and compare with another --scale, or --anchors; ask "
        "`omcal explain`."
    )


# Methods


@pytest.mark.parametrize("name", ["FSMSC", "fsmsc", "MVSC-HFD", "mvschfd", "smc_agc", "Omcal"])
def test_methods_are_found_whatever_the_case(name):
    assert find_method(name).name.replace("-", "") == re.sub(r"\W|_", "", name.lower())


def test_the_method_of_cluster_is_the_one_of_that_name(omcal, file):
    result = json.loads(omcal("cluster", file, "-c", 3, "--method", "FSMSC", "--json").out)
    assert result["method"] == "fsmsc"
    expected = methods()["fsmsc"].make(3, random_state=0).fit(MADE.views)
    assert result["cluster_sizes"] == np.bincount(expected.labels_).tolist()


@pytest.mark.slow
def test_consensus_is_the_runs_joined(omcal, file):
    by_name, by_runs = (
        json.loads(omcal("cluster", file, "-c", 3, *more, "--json").out)
        for more in (["-m", "Consensus"], ["--runs", 10])
    )
    assert by_name["samples"] == by_runs["samples"] and len(by_name["cluster_sizes"]) == 3
    ended = omcal("cluster", file, "-c", 3, "-m", "consensus", "--runs", 1)
    assert ended.code == 2 and "the method consensus combines runs" in ended.err
