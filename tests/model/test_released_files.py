"""Model files of released versions: read by every later one, and predicting as they did."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import omcal
from omcal import OCAL, OMCAL, Consensus

FILES = Path(__file__).parent / "files"
VERSIONS = ["0_2"]


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def expected(version):
    """New samples, and what the version that wrote the models said of them."""
    with np.load(FILES / f"expected_{version}.npz") as stored:
        return dict(stored)


def test_a_model_of_several_views_predicts_as_it_did(version, expected):
    model = omcal.load(FILES / f"model_{version}.omcal")
    assert type(model) is OMCAL
    assert_array_equal(model.predict(expected["new"]), expected["labels"])
    assert_allclose(model.transform(expected["new"]), expected["F"], rtol=1e-6, atol=1e-9)


def test_a_model_of_one_view_predicts_as_it_did(version, expected):
    model = omcal.load(FILES / f"single_{version}.omcal")
    assert type(model) is OCAL
    one_view = expected["new"][:, :5]
    assert_array_equal(model.predict(one_view), expected["single_labels"])
    assert_allclose(model.transform(one_view), expected["single_F"], rtol=1e-4, atol=1e-6)


def test_joined_runs_predict_as_they_did():
    with np.load(FILES / "expected_0_2.npz") as stored:
        new, labels, F = stored["new"], stored["joined_labels"], stored["joined_F"]
    model = omcal.load(FILES / "consensus_0_2.omcal")
    assert type(model) is Consensus
    views = {"links": new[:, :5], "Größe": new[:, 5:10], "c": new[:, 10:]}
    assert_array_equal(model.predict(views), labels)
    assert_allclose(model.transform(views), F, rtol=1e-4, atol=1e-6)


def test_parameters_and_fitted_state_are_those_of_the_file(version):
    model = omcal.load(FILES / f"model_{version}.omcal")
    assert (model.n_clusters, model.n_anchors, model.random_state) == (3, 16, 4)
    assert_array_equal(model.weighting, [1, 2, 1])
    assert model.views["links"] == slice(0, 5)
    assert model.views["Größe"] == [5, 6, 7, -6, -7]
    assert_array_equal(model.views["c"], np.arange(10, 15))
    assert model.view_names_ == ["links", "Größe", "c"]
    assert model.labels_.shape == (120,)
    assert model.converged_
    assert len(model.objective_) == model.n_iter_


def test_a_model_read_from_an_old_file_is_written_in_the_new_format(version, expected, tmp_path):
    omcal.load(FILES / f"model_{version}.omcal").save(tmp_path / "new.omcal")
    again = omcal.load(tmp_path / "new.omcal")
    assert_array_equal(again.predict(expected["new"]), expected["labels"])
