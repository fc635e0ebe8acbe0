"""Soft membership, and samples that belong to no cluster."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from omcal import OCAL, OMCAL, Consensus, load
from omcal.datasets import load_digits_views, make_multiview

DATA = make_multiview(900, n_clusters=4, noise=0.8, random_state=0)
FIT, NEW = (
    {name: view[rows] for name, view in DATA.views.items()}
    for rows in (slice(0, 500), slice(500, 900))
)
MODELS = {
    "OMCAL": OMCAL(4, random_state=0, contamination=0.05),
    "float32": OMCAL(4, random_state=0, contamination=0.05),
    "Consensus": Consensus(OMCAL(4, contamination=0.05), n_runs=3, random_state=0),
}


@pytest.fixture(params=MODELS)
def fitted(request):
    kind = np.float32 if request.param == "float32" else np.float64
    fit, new = ({k: v.astype(kind) for k, v in views.items()} for views in (FIT, NEW))
    return clone(MODELS[request.param]).fit(fit), new


def test_probabilities_sum_to_one_and_agree_with_the_labels(fitted):
    model, new = fitted
    P, F = model.predict_proba(new), model.transform(new)
    assert P.shape == (400, 4) and (P >= 0).all()
    assert_allclose(P.sum(axis=1), 1, rtol=1e-6)
    decided = F.max(axis=1) > 0
    assert_array_equal(P.argmax(axis=1)[decided], model.predict(new)[decided])


def test_a_sample_without_any_tie_has_equal_probabilities(monkeypatch):
    model = OCAL(3, random_state=0).fit(FIT["view1"])
    monkeypatch.setattr(OCAL, "transform", lambda *_: np.array([[0.0, 0, 0], [0, 4, 0]]))
    assert_allclose(model.predict_proba(None), [[1 / 3] * 3, [0, 1, 0]])


def test_false_alarms_are_as_many_as_stated(fitted, tmp_path):
    model, new = fitted
    labels = model.predict(new, outliers=-1)
    strange = labels == -1
    assert 0.01 <= strange.mean() <= 0.12
    assert_array_equal(labels[~strange], model.predict(new)[~strange])
    assert_array_equal(strange, model.score_samples(new) < model.outlier_threshold_)
    model.save(tmp_path / "model.omcal")
    again = load(tmp_path / "model.omcal")
    assert_array_equal(again.predict(new, outliers=-1), labels)


@pytest.mark.slow
def test_strangers_are_told_from_digits():
    views = list(load_digits_views().views.values())
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(views[0]))
        known, held = order[:1200], order[1200:]
        model = OMCAL(10, random_state=0).fit([view[known] for view in views])
        seen = [view[held] for view in views]
        shuffled = [rng.permuted(view, axis=0) for view in seen]
        scores = [model.score_samples(some) for some in (seen, shuffled)]
        found.append(roc_auc_score(np.repeat([1, 0], len(held)), np.concatenate(scores)))
    assert np.mean(found) > 0.95, found


def test_outliers_cannot_have_the_label_of_a_cluster():
    model = OMCAL(4, random_state=0).fit(FIT)
    with pytest.raises(ValueError, match="outliers=3 must be a whole number that is not the label"):
        model.predict(NEW, outliers=3)
    for wrong in (-0.5, 4.5, np.nan, "none"):  # −0.5 became cluster 0
        with pytest.raises(ValueError, match=f"outliers={wrong!r} must be a whole number"):
            model.predict(NEW, outliers=wrong)
    strange = model.predict(FIT, outliers=-1) == -1
    assert strange.any()
    assert_array_equal(model.predict(FIT, outliers=4) == 4, strange)
    with pytest.raises(NotFittedError):
        OMCAL(4).predict(NEW, outliers=-1)


def test_without_scores_of_the_fit_there_are_no_outliers():
    model = OMCAL(4, random_state=0).fit(FIT)
    model.outlier_threshold_ = None
    with pytest.raises(ValueError, match="outliers needs the scores of the fit"):
        model.predict(NEW, outliers=-1)
