"""During the fit: interruption, and scikit-learn's callbacks."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from omcal import OMCAL
from omcal.datasets import make_multiview

MADE = make_multiview(200, n_clusters=3, random_state=0)
OTHER = make_multiview(100, n_clusters=3, n_views=2, random_state=1)


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["read_views", "place", "solve", "_progress"])
def test_an_interrupted_fit_changes_nothing(monkeypatch, step):
    model = OMCAL(3, random_state=0).fit(MADE.views)
    labels, before = model.predict(MADE.views), dict(vars(model))
    with monkeypatch.context() as patch:
        patch.setattr(f"omcal.clusterer.{step}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(OTHER.views)
        new = clone(model)
        with pytest.raises(KeyboardInterrupt):
            new.fit(OTHER.views)
    assert list(vars(model)) == list(before)
    assert all(value is before[name] for name, value in vars(model).items())
    assert_array_equal(model.predict(MADE.views), labels)
    with pytest.raises(NotFittedError):
        new.predict(OTHER.views)


def test_a_fit_that_fails_late_changes_nothing():
    model = OMCAL(3, random_state=0).fit(MADE.views)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="beta=1e"):
        model.set_params(beta=1e9).fit(OTHER.views)
    assert vars(model) == before | {"beta": 1e9}


ENDLESS = """
import sys
from omcal import OMCAL
from omcal.datasets import make_multiview
data = make_multiview(2000, n_clusters=3, random_state=0)
model = OMCAL(3, max_iter=10**9, tol=0, random_state=0, verbose=2)
try:
    model.fit(data.views)
except KeyboardInterrupt:
    print("attributes:", [name for name in vars(model) if name.endswith("_")])
"""


def interrupted(command, waits_for, stream):
    """Run a command, interrupt it when a line of its output holds a word, and return its end."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        for line in getattr(process, stream):
            if waits_for in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX")
def test_ctrl_c_in_python():
    code, out, _ = interrupted([sys.executable, "-c", ENDLESS], "iteration 20:", "stderr")
    assert code == 0
    assert out == "attributes: []\n"


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX")
def test_ctrl_c_on_the_command_line(tmp_path):
    np.savez(tmp_path / "data.npz", **MADE.views)
    command = "from omcal.cli import main; import logging; logging.basicConfig(level=10); main()"
    options = ["--clusters", "3", "--max-iter", "1000000000", "--tol", "0"]
    files = ["--out", str(tmp_path / "l.csv"), "--save-model", str(tmp_path / "m.omcal")]
    code, out, err = interrupted(
        [sys.executable, "-c", command, "cluster", str(tmp_path / "data.npz"), *options, *files],
        "iteration 20:",
        "stderr",
    )
    assert (code, out) == (130, "")
    last = [line for line in err.splitlines() if not line.startswith(("DEBUG", "INFO"))]
    assert last == ["omcal: interrupted"]
    assert os.listdir(tmp_path) == ["data.npz"]


class Recorder:
    """A callback that writes down what it is told, and may ask to stop."""

    def __init__(self, stop_at=None):
        self.seen = []
        self.stop_at = stop_at

    def setup(self, estimator, context):
        self.seen.append("setup")

    def teardown(self, estimator, context):
        self.seen.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.seen.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        assert X is MADE.views or X is OTHER.views
        self.seen.append(f"end {context.task_name}")
        if context.task_name == "fit":
            self.labels = fitted_estimator.predict(X)
        return self.stop_at == (context.task_name, context.task_id)


@pytest.fixture
def with_callback():
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    return lambda callback, **params: OMCAL(3, random_state=0, **params).set_callbacks(callback)


def test_callbacks_see_starts_and_iterations(with_callback):
    recorder = Recorder()
    model = with_callback(recorder, n_init=2).fit(MADE.views)
    assert recorder.seen[:4] == ["setup", "begin fit", "begin start", "begin iteration"]
    assert recorder.seen[-3:] == ["end start", "end fit", "teardown"]
    assert recorder.seen.count("end start") == 2
    begun, ended = (recorder.seen.count(f"{word} iteration") for word in ("begin", "end"))
    assert begun == ended > model.n_iter_
    assert_array_equal(recorder.labels, model.predict(MADE.views))
    assert_array_equal(model.labels_, OMCAL(3, n_init=2, random_state=0).fit(MADE.views).labels_)


def test_a_callback_can_stop_the_iterations(with_callback):
    model = with_callback(Recorder(stop_at=("iteration", 4)), tol=0).fit(MADE.views)
    assert model.n_iter_ == 5
    assert not model.converged_


def test_a_callback_can_stop_the_starts(with_callback):
    recorder = Recorder(stop_at=("start", 1))
    with_callback(recorder, n_init=5).fit(MADE.views)
    assert recorder.seen.count("begin start") == 2


def test_callbacks_are_torn_down_after_a_failure(with_callback, monkeypatch):
    recorder = Recorder()
    model = with_callback(recorder).fit(MADE.views)
    before = dict(vars(model))
    monkeypatch.setattr("omcal.clusterer.solve", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(OTHER.views)
    assert recorder.seen[-1] == "teardown"
    assert vars(model) == before


def test_the_progress_bar_of_scikit_learn(with_callback, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    with_callback(ProgressBar()).fit(MADE.views)
    assert "OMCAL - fit" in capsys.readouterr().out
