"""Help texts, and names of options."""

import json
import re

import numpy as np
import pytest

from omcal.datasets import make_multiview

COMMANDS = (
    *("demo", "inspect", "convert", "cluster", "explain", "predict", "update", "score"),
    *("tune", "compare"),
    "reproduce",
)


@pytest.mark.parametrize("command", [*COMMANDS, None])
def test_help_is_whole_at_80_columns(omcal, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    text = omcal(*([command] if command else []), "--help").out
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text.replace("cuda:1 …", "") and "..." not in text.split("\n", 1)[1]
    assert not re.search(r"<\w+( range)?>|list\[|\(default|\[default: \(", text)
    for line in text.splitlines():
        assert "─" not in line and "│" not in line


def test_help_groups_the_options(omcal):
    text = omcal("cluster", "--help").out
    titles = [line for line in text.splitlines() if re.fullmatch(r"[A-Z][\w ]+:", line)]
    assert titles == ["Arguments:", "Options:", "How the files are read:", "Parameters of OMCAL:"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, **make_multiview(60, n_clusters=3, random_state=0).views)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("number", [("-k", 3), ("--n-clusters", 3), ("--n-clusters=3",)])
def test_names_of_python_are_options(omcal, file, number):
    ours = ("-c", 3, "--anchors", 12, "--neighbors", 4, "--seed", 2, "--runs", 2)
    python = (*number, "--n-anchors", 12, "--n-neighbors", 4, "--random-state", 2, "--n-runs", 2)
    for command, more in (("cluster", ()), ("explain", ("--resamples", 0))):
        results = []
        for words in (ours, python):
            ended = omcal(command, file, *words, *more, "--json")
            assert ended.code == 0, ended.err
            result = json.loads(ended.out)
            result.pop("seconds", None)
            results.append(result)
        assert results[0] == results[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("explain", "-k", 3, "--n-resamples", 0),
        ("tune", "-k", 3, "--n-fits", 2, "--scale", "auto", "--weighting", "distinct"),
        ("tune", "--n-clusters", 3, "--random-state", 1, "--scale", "auto", "--fits", 2),
    ],
)
def test_names_of_python_in_other_commands(omcal, file, words):
    ended = omcal(words[0], file, *words[1:], "-q")
    assert ended.code == 0, ended.err
