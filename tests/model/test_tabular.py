"""Results as tables: in notebooks, and as data frames without tuples."""

import re
from html import unescape

import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from omcal import OMCAL, Consensus, load
from omcal.datasets import make_multiview


@pytest.fixture(scope="module")
def data():
    return make_multiview(90, n_clusters=3, n_views=2, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return OMCAL(3, n_anchors=12, random_state=0).fit(data.views)


def plain(frame):
    """Whether each cell is one number, one text or nothing."""
    return not frame.map(lambda cell: isinstance(cell, tuple | list | dict)).to_numpy().any()


def test_the_frame_of_an_explanation_has_plain_cells(model):
    found = model.explain_views(n_resamples=2, random_state=0)
    frame = found.to_frame()
    assert plain(frame) and frame["name"].tolist() == ["view1", "view2"]
    view = found.views[1]
    row = frame.iloc[1]
    assert (row["weight_low"], row["weight_high"]) == view.weight_range
    assert tuple(row[[f"agreement_by_cluster_{c}" for c in range(3)]]) == view.agreement_by_cluster
    bare = model.explain_views(n_resamples=0).to_frame()
    assert bare["weight_low"].isna().all() and list(bare.columns[:3]) == list(frame.columns[:3])


def test_the_frame_of_a_description_has_plain_cells(model, data):
    found = model.describe_clusters(data.views, top=2)
    frame = found.to_frame()
    assert plain(frame) and len(frame) == len(found.features)
    bins = [f"inside_{k}" for k in range(len(found.features[0].inside))]
    assert tuple(frame.loc[0, bins]) == found.features[0].inside
    pd.testing.assert_series_equal(
        frame["effect"], pd.Series([f.effect for f in found.features], name="effect")
    )


def cells(html):
    return [unescape(text) for text in re.findall(r"<t[dh]>(.*?)</t[dh]>", html)]


def test_notebooks_show_the_table_that_is_printed(model, data):
    named = {"a <b>": data.views["view1"], "second": data.views["view2"]}
    fitted = OMCAL(3, n_anchors=12, random_state=0).fit(named)
    for found in (fitted.explain_views(n_resamples=0), fitted.describe_clusters(named, top=1)):
        html = found._repr_html_()
        assert "<b>" not in html and "a <b>" in cells(html)
        for word in cells(html):
            assert word in str(found)
        for remark in found.remarks():
            assert f"<p>{remark}</p>" in unescape(html)


def test_notebooks_show_estimates(model):
    found = model.estimate(10_000, [20, 30])
    html = found._repr_html_()
    assert cells(html)[:3] == ["stage", "part", "memory"]
    for line in (str(found).split("\n")[0], str(found).split("\n")[-1]):
        assert f"<p>{line}</p>" in unescape(html)


def test_a_table_without_rows_is_not_shown(model, data):
    html = model.drift(data.views)._repr_html_()
    assert "nothing has moved" in html and "<table>" not in html


def test_notebooks_show_diagnostics(model, data, tmp_path):
    assert model.doubts_ == [] and "Nothing" in model.doubts_._repr_html_()
    with pytest.warns(ConvergenceWarning):
        short = OMCAL(3, n_anchors=12, max_iter=1, tol=0.0, random_state=0).fit(data.views)
    short.save(tmp_path / "short.omcal")
    joined = Consensus(short, n_runs=2, random_state=0)
    with pytest.warns(ConvergenceWarning):
        joined.fit(data.views)
    for fitted in (short, joined, load(tmp_path / "short.omcal")):
        found = fitted.doubts_
        html = found._repr_html_()
        texts = [text for doubt in found for text in (doubt.what, doubt.advice)]
        assert found and cells(html)[2:] == texts
