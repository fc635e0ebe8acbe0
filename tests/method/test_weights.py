"""The table of weighting rules: a rule added to it works everywhere."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from omcal import OMCAL, Consensus
from omcal.datasets import make_multiview
from omcal.method.settings import start_weights
from omcal.method.weights import WEIGHTINGS, Weighting

MADE = make_multiview(150, n_clusters=3, n_views=3, noise=0.6, random_state=0)
WEIGHTS = np.array([0.7, 0.2, 0.1])


@pytest.fixture
def rule(monkeypatch):
    """A rule that is in the table for one test."""
    calls = []

    def first_counts_most(given):
        calls.append(given)
        return WEIGHTS[: len(given.H)] / WEIGHTS[: len(given.H)].sum()

    monkeypatch.setitem(WEIGHTINGS, "first", Weighting(first_counts_most, "the first counts most"))
    return calls


@pytest.mark.parametrize("device", ["cpu", pytest.param("tensors", marks=pytest.mark.torch)])
def test_a_new_rule_is_one_entry(rule, device):
    views = list(MADE.views.values())
    if device == "tensors":
        torch = pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
        views = [torch.from_numpy(view) for view in views]
    model = OMCAL(3, weighting="first", random_state=0).fit(views)
    assert_allclose(model.view_weights_, WEIGHTS)
    assert len(rule) == model.n_iter_
    joined = Consensus(OMCAL(3, weighting="first"), n_runs=2, random_state=0).fit(views)
    assert_allclose(joined.view_weights_, WEIGHTS)


def test_a_rule_that_is_not_in_the_table_is_refused():
    with pytest.raises(ValueError, match=r"weighting.*'distinct'.*Got 'first' instead"):
        OMCAL(3, weighting="first").fit(list(MADE.views.values()))


@pytest.mark.torch
def test_the_host_takes_the_step_of_a_rule_that_the_device_does_not_have(rule):
    pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
    from omcal.method.solver import Problem
    from omcal.places.gpu import weights

    for name in (*WEIGHTINGS, "fixed"):
        kind, alpha = start_weights(name, 3) if name != "fixed" else ("fixed", WEIGHTS)
        assert weights.serves(Problem(0.3, 0.1, kind, alpha, 5, 0.0)) == (name != "first")


@pytest.mark.process
def test_the_command_line_offers_a_new_rule():
    code = (
        "from omcal.method.weights import WEIGHTINGS, Weighting\n"
        "WEIGHTINGS['first'] = Weighting(lambda given: given.H[0], 'the first counts most')\n"
        "from omcal.cli import main\n"
        "main(['cluster', '--help'])\n"
    )
    command = [sys.executable, "-c", code]
    wide = {**os.environ, "COLUMNS": "1000"}
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=wide)
    assert "|".join([*WEIGHTINGS, "first"]) in found.stdout
    assert "first: the first counts most" in found.stdout
