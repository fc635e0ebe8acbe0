"""`n_clusters="auto"`: everywhere a number of clusters can be given."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import omcal
from omcal import OCAL, OMCAL, Consensus
from omcal.datasets import make_multiview
from omcal.metrics import ari


@pytest.fixture(scope="module")
def data():
    return make_multiview(160, n_clusters=4, noise=0.3, random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        OMCAL("auto", random_state=0),
        OCAL("auto", random_state=0),
        Consensus(OMCAL("auto"), n_runs=2, random_state=0),
    ],
    ids=["OMCAL", "OCAL", "Consensus"],
)
def test_auto_finds_the_number(model, data, tmp_path):
    X = np.hstack(list(data.views.values())) if isinstance(model, OCAL) else data.views
    fitted = clone(model).fit(X)
    assert fitted.n_clusters_ == 4 == len(fitted.cluster_names_)
    assert fitted.n_clusters == "auto"  # a fit changes no parameter
    assert fitted.selection_.suggestion == 4
    assert ari(data.labels, fitted.labels_) == 1
    fitted.save(tmp_path / "model.omcal")
    read = omcal.load(tmp_path / "model.omcal")
    assert (read.n_clusters, read.n_clusters_) == ("auto", 4)
    np.testing.assert_array_equal(read.predict(X), fitted.predict(X))
    assert fitted.transform(X).shape == (160, 4)
    assert len(fitted.get_feature_names_out()) == 4


@pytest.mark.slow
def test_auto_in_a_pipeline(data):
    X = np.hstack(list(data.views.values()))
    pipeline = make_pipeline(StandardScaler(), OMCAL(random_state=0))
    pipeline.set_params(omcal__n_clusters="auto")
    labels = clone(pipeline).fit_predict(X)
    assert ari(data.labels, labels) == 1


@pytest.mark.slow
def test_auto_is_said_aloud(data, caplog):
    with caplog.at_level(logging.INFO, logger="omcal"):
        OMCAL("auto", random_state=0).fit(data.views)
    assert "4 clusters" in caplog.text


def test_a_given_number_selects_nothing(data):
    fitted = OMCAL(3, random_state=0).fit(data.views)
    assert (fitted.n_clusters_, fitted.selection_) == (3, None)


def test_other_words_are_refused(data):
    with pytest.raises(ValueError, match="n_clusters"):
        OMCAL("many").fit(data.views)


def test_no_estimate_without_a_number():
    with pytest.raises(ValueError, match="give a number"):
        OMCAL("auto").estimate(1000, [10])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:view .view1. lacks:UserWarning")
def test_auto_with_missing_cells_and_absent_samples(data):
    views = {name: view.copy() for name, view in data.views.items()}
    first, second, *_ = views.values()
    first[::7, 0] = np.nan
    second[3] = np.nan  # absent from the view
    assert OMCAL("auto", random_state=0).fit(views).n_clusters_ == 4


@pytest.mark.slow
def test_warm_start_keeps_the_number(data):
    model = OMCAL("auto", random_state=0, warm_start=True).fit(data.views)
    chosen = model.selection_
    assert model.fit(data.views).selection_ is chosen
