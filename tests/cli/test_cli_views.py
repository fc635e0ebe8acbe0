"""`omcal explain` and `omcal cluster --clusters auto`."""

import json

import numpy as np
import pytest

from omcal import OMCAL
from omcal.datasets import make_multiview


@pytest.fixture(scope="module")
def data():
    return make_multiview(240, n_clusters=3, noise=0.3, n_noise_views=1, random_state=0)


@pytest.fixture
def file(data, tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, **data.views, y=data.labels)
    return path


def test_explain_says_what_the_model_says(omcal, file, data):
    ended = omcal("explain", file, "--clusters", 3, "--resamples", 1, "--runs", 1, "--json")
    assert ended.code == 0
    result = json.loads(ended.out)
    with pytest.warns(UserWarning, match="view 'noise1' shows other groups"):
        model = OMCAL(n_clusters=3, random_state=0).fit(data.views)
    expected = model.explain_views(data.views, n_resamples=1).to_dict()
    assert {name: result[name] for name in expected} == json.loads(json.dumps(expected))


def test_explain_prints_a_table_and_warnings(omcal, file):
    some = ("--views", "view1,noise1")  # another good view would bear the first one out
    words = ("--clusters", 3, "--weighting", "uniform", "--resamples", 1, *some)
    ended = omcal("explain", file, *words)
    assert "ARI without it" in ended.out and "noise1" in ended.out
    assert "Warning: view 'view1' alone gives the same result" in ended.out


@pytest.mark.slow
def test_explain_draws(omcal, file, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    picture = tmp_path / "views.png"
    omcal("explain", file, "--clusters", 3, "--resamples", 0, "--plot", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--views", "view1"], "one view"),
        (["--resamples", "-1"], "--resamples"),
        (["--plot", "absent/views.png"], "absent"),
    ],
)
def test_explain_refuses(omcal, file, more, message):
    ended = omcal("explain", file, "--clusters", 3, *more)
    assert ended.code == 2 and message in ended.err


@pytest.mark.slow
def test_a_given_number_is_not_suggested(omcal, file):
    assert json.loads(omcal("cluster", file, "--clusters", 4, "--json").out)["suggestion"] is None


@pytest.mark.slow
def test_auto_works_with_other_methods(omcal, file):
    ended = omcal("cluster", file, "--clusters", "auto", "--method", "concat-kmeans", "--json")
    assert json.loads(ended.out)["parameters"]["n_clusters"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clusters", "many"], "--clusters 'many' must be a whole number, or auto"),
        (["--clusters", "auto", "--dry-run"], "give --clusters N"),
    ],
)
def test_auto_refuses(omcal, file, arguments, message):
    ended = omcal("cluster", file, *arguments)
    assert ended.code == 2 and message in ended.err
