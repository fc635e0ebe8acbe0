"""During the fit: interruption, and scikit-learn's callbacks."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from omcal import OMCAL, Consensus, load
from omcal.datasets import make_multiview
from omcal.datasets.loading import read_labels

MADE = make_multiview(200, n_clusters=3, random_state=0)
OTHER = make_multiview(100, n_clusters=3, n_views=2, random_state=1)


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "step",
    [
        "preparation.read_views",
        "preparation.place_for",
        "estimators.best_of_starts",
        "estimators.doubts",
    ],
)
def test_an_interrupted_fit_changes_nothing(monkeypatch, step):
    model = OMCAL(3, random_state=0).fit(MADE.views)
    labels, before = model.predict(MADE.views), dict(vars(model))
    with monkeypatch.context() as patch:
        patch.setattr(f"omcal.model.{step}", interrupt)
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


@pytest.mark.parametrize("make", [OMCAL, lambda *a, **k: Consensus(OMCAL(*a, **k), n_runs=2)])
def test_without_a_tolerance_all_iterations_are_done(make):
    """At gamma = 0 the objective repeats bit by bit while labels still change."""
    with pytest.warns(ConvergenceWarning, match="max_iter=60"):
        model = make(3, gamma=0.0, beta=0.0, tol=0, max_iter=60, random_state=0).fit(MADE.views)
    assert (model.n_iter_, model.converged_) == (60, False)
    for run in getattr(model, "runs_", []):
        assert (run.solution.n_iter, run.solution.converged) == (60, False)


def test_ctrl_c_ends_the_iterations_with_what_was_reached(press):
    model = OMCAL(3, tol=0, random_state=0, n_init=3)
    press(iteration=5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(MADE.views)
    assert (model.n_iter_, model.converged_) == (5, False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        expected = OMCAL(3, tol=0, max_iter=5, random_state=0).fit(MADE.views)
    assert_array_equal(model.labels_, expected.labels_)
    assert_array_equal(model.predict(MADE.views), expected.predict(MADE.views))
    assert_array_equal(model.objective_, expected.objective_)


def test_ctrl_c_twice_ends_at_once_and_changes_nothing(press):
    model = OMCAL(3, random_state=0).fit(MADE.views)
    before = dict(vars(model))
    press(iteration=5, times=2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(OTHER.views)
    assert vars(model) == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupted_fit_goes_on_from_its_checkpoint(press, tmp_path):
    state = tmp_path / "state"
    whole = OMCAL(3, random_state=0).fit(MADE.views)
    model = OMCAL(3, random_state=0, checkpoint=state)
    press(iteration=5)
    with pytest.raises(KeyboardInterrupt):
        model.fit(MADE.views)
    assert state.exists()
    assert_array_equal(model.fit(MADE.views).labels_, whole.labels_)
    assert model.n_iter_ == whole.n_iter_ and not state.exists()


def test_ctrl_c_is_left_to_those_who_already_handle_it(press):
    pressed = []
    signal.signal(signal.SIGINT, lambda *_: pressed.append("here"))
    press(iteration=5)
    model = OMCAL(3, random_state=0).fit(MADE.views)
    assert pressed == ["here"] and model.n_iter_ > 5


def test_a_fit_in_a_thread_leaves_signals_alone():
    with ThreadPoolExecutor(1) as pool:
        model = pool.submit(OMCAL(3, random_state=0).fit, MADE.views).result()
    assert model.converged_


# The process sends itself the signal: from outside, the fit might have ended before it arrives.
PRESSING = """
import logging, os, signal
from omcal.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start it with none

class Press(logging.Handler):
    def emit(self, record):
        if "iteration 20:" in record.getMessage():
            os.kill(os.getpid(), signal.SIGINT)

logging.basicConfig(format="%(message)s")
logging.getLogger().handlers[0].setLevel(logging.WARNING)
logging.getLogger("omcal").addHandler(Press())
logging.getLogger("omcal").setLevel(logging.DEBUG)
main()
"""


@pytest.mark.long
@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX")
@pytest.mark.parametrize("runs", ["1", "3"])
def test_ctrl_c_on_the_command_line(tmp_path, runs):
    """The result so far is shown and written, and the code says that it was interrupted."""
    np.savez(tmp_path / "data.npz", **MADE.views)
    options = ["--clusters", "3", "--tol", "0", "--runs", runs, "--no-accelerate"]
    files = ["--out", str(tmp_path / "l.csv"), "--save-model", str(tmp_path / "m.omcal")]
    process = subprocess.run(
        [sys.executable, "-c", PRESSING, "cluster", str(tmp_path / "data.npz"), *options, *files],
        capture_output=True,
        text=True,
        timeout=120,
    )
    out, err = process.stdout, process.stderr
    assert process.returncode == 130
    assert "Interrupted after" in out
    last = err.splitlines()
    assert last[-1] == "omcal: interrupted" and "ending after this iteration" in last[0]
    assert sorted(os.listdir(tmp_path)) == ["data.npz", "l.csv", "m.omcal"]
    assert_array_equal(
        read_labels(tmp_path / "l.csv").labels.astype(int), load(tmp_path / "m.omcal").labels_
    )


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
    monkeypatch.setattr("omcal.places.base.solve", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(OTHER.views)
    assert recorder.seen[-1] == "teardown"
    assert vars(model) == before


def test_the_progress_bar_of_scikit_learn(with_callback, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    with_callback(ProgressBar()).fit(MADE.views)
    assert "OMCAL - fit" in capsys.readouterr().out
