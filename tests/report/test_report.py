"""The HTML report: what it says."""

import base64
import hashlib
import json
import pickle
import re
import warnings
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import HDBSCAN
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness
from sklearn.metrics import silhouette_score

import omcal.report
from omcal import OCAL, OMCAL, Consensus
from omcal.cli import main
from omcal.datasets import make_multiview
from omcal.metrics import ari, evaluate
from omcal.model.files import load
from omcal.model.subset_fits import graphs_of
from omcal.report import write_report
from omcal.report.findings import Findings
from omcal.report.html import page, paragraph, put
from omcal.report.layout import mixed_clusters, model_layout, nearest_of, sample_layout
from omcal.select.parameters import tune_without_labels
from report_cases import (
    NASTY,
    SECTIONS,
    fit,
    large_report,
    make_data,
    payload_of,
    report_with_nasty_names,
)

# One of the views is noise, and the fit says so.
pytestmark = pytest.mark.filterwarnings("ignore:.*shows other groups")


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def model(data):
    return fit(data)


@pytest.fixture(scope="module")
def found(model, data):
    return Findings(model, graphs_of(model), data.labels)


@pytest.fixture(scope="module")
def path(data, tmp_path_factory):
    return report_with_nasty_names(data, tmp_path_factory.mktemp("report"))[0]


def sections_of(text):
    return re.findall(r'<section id="(\w+)"', text)


# what it says


def test_every_section_is_there(path):
    text = path.read_text(encoding="utf-8")
    assert sections_of(text) == SECTIONS
    assert re.findall(r'<a href="#(\w+)">', text.split("<main")[0]) == SECTIONS
    assert "$" not in re.sub(r"<script.*?</script>", "", text, flags=re.S)


class Elements(HTMLParser):
    """The elements of a page with their attributes, as a browser sees them."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def test_nothing_in_it_comes_from_elsewhere(path):
    text = path.read_text(encoding="utf-8")
    elements = Elements(text)
    for tag, attributes in elements.found:
        for name, value in attributes.items():
            assert not name.startswith("on") and name != "style", (tag, name)
            if name in ("src", "href"):
                assert value.startswith(("#", "data:")), (tag, value)
    # Names are text everywhere, whatever they look like.
    assert "img" not in {tag for tag, _ in elements.found}
    assert sum(tag == "script" for tag, _ in elements.found) == 2
    assert any(NASTY in part for part in elements.texts)


def test_the_policy_allows_this_script_and_this_style_only(path):
    text = path.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", text, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}';" in policy


def test_embedded_data_hold_no_sign_of_html(path):
    text = path.read_text(encoding="utf-8")
    data = re.search(r'id="payload">(.*?)</script>', text, re.S)[1]
    assert not set("<>&\u2028\u2029") & set(data)
    assert payload_of(text)["arrays"]["names"][3] == f"{NASTY} 3"


def test_a_nul_in_a_name_does_not_reach_the_page():
    """HTML has no place for it, not even escaped."""
    text = page(
        title="a\0b",
        kind="",
        lead=paragraph("c\0"),
        sections=[],
        data={"names": ["d\0"]},
    )
    assert "\0" not in text and "a\N{REPLACEMENT CHARACTER}b" in text


def test_scores_and_table_are_those_of_the_labels(found, data, model):
    assert found.scores == evaluate(data.labels, model.labels_)
    _, order, counts = found.class_table
    assert counts.sum() == data.n_samples
    assert_array_equal(counts.sum(axis=1), np.bincount(model.labels_, minlength=4)[order])
    assert_array_equal(counts.sum(axis=0), np.bincount(data.labels))
    # What is in place is on the diagonal.
    assert np.trace(counts) / data.n_samples == found.scores["accuracy"]


@pytest.mark.slow
def test_without_classes_there_is_no_class_section(model, data, tmp_path):
    text = model.report(tmp_path / "r.html", data.views).read_text(encoding="utf-8")
    assert sections_of(text) == [name for name in SECTIONS if name != "classes"]
    assert "accuracy" not in text.split("<main")[0]


def test_doubtful_samples_are_those_between_clusters(found, model, data):
    F = model.transform(data.views)
    own = F[np.arange(len(F)), model.labels_]
    rest = F.copy()
    rest[np.arange(len(F)), model.labels_] = -1
    margin = np.clip((own - rest.max(axis=1).clip(0)) / F.sum(axis=1), 0, 1)
    np.testing.assert_allclose(found.evidence.certainty, margin, atol=1e-9)
    for c in range(4):
        members = np.flatnonzero(model.labels_ == c)
        listed = found.doubtful()[c]
        assert set(listed) <= set(members) and margin[listed[0]] == margin[members].min()
        assert found.evidence.second[listed[0]] == rest[listed[0]].argmax()
        assert margin[found.typical()[c][0]] >= margin[members].max() - 0.01


def test_a_noise_view_is_told_from_a_useful_one(found):
    views = {view.name: view for view in found.explanation.views}
    assert list(views) == ["view1", "view2", "noise1"]
    assert views["noise1"].alone < 0.2 < views["view1"].alone
    assert views["noise1"].without > 0.8


@pytest.mark.slow
def test_the_warnings_about_views_are_on_the_page(tmp_path):
    data = make_data()
    twins = {"first": data.views["view1"], "second": data.views["view1"].copy()}
    model = OMCAL(4, n_anchors=20, weighting="uniform", random_state=0)
    with pytest.warns(UserWarning, match="are the same"):
        model.fit(twins)
    text = model.report(tmp_path / "r.html").read_text(encoding="utf-8")
    doubts = text.split("What to doubt")[1].split("</ul>")[0]
    assert "<li>Views &#x27;first&#x27; and &#x27;second&#x27; are the same" in doubts
    assert doubts.count("are the same") == 1  # both the model and the effects of the views say so
    assert "No single view decides the result." in text


@pytest.mark.parametrize("options", [{}, {"feature_names": {"view1": "abc"}}])
def test_the_data_of_another_fit_are_refused(model, data, tmp_path, options):
    fewer = {name: X[:100] for name, X in data.views.items()}
    with pytest.raises(ValueError, match="X has 100 samples and the model was fitted to 240"):
        model.report(tmp_path / "r.html", fewer, **options)
    assert not (tmp_path / "r.html").exists()


@pytest.mark.slow
def test_views_that_share_no_two_samples(tmp_path):
    data = make_data()
    model = OMCAL(4, n_anchors=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(
            data.views, present={"view1": np.arange(240) < 120, "view2": np.arange(240) >= 120}
        )
    text = model.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "No two samples are in all views" in text


def summary_of(text):
    """The items of what to trust and of what to doubt."""
    return [
        [unescape(re.sub(r"<.*?>", "", item)) for item in re.findall(r"<li>(.*?)</li>", part)]
        for part in re.findall(r"<ul>(.*?)</ul>", text.split("<nav")[0], re.S)
    ]


@pytest.mark.slow
def test_the_summary_begins_with_trust_and_doubt(tmp_path):
    data = make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OMCAL(4, n_anchors=20, max_iter=2, tol=1e-12, random_state=0).fit(data.views)
    assert model.doubts_
    for path in (
        model.report(tmp_path / "r.html", data.views, data.labels),
        pickle.loads(pickle.dumps(model)).report(tmp_path / "copy.html", data.views),
    ):
        trusted, doubted = summary_of(path.read_text(encoding="utf-8"))
        assert "data without clusters reach" in trusted[0]
        for doubt in model.doubts_:
            (said,) = [text for text in doubted if text.lower().startswith(doubt.what.lower())]
            assert said.lower().endswith(f"{doubt.advice}.".lower())


@pytest.mark.slow
def test_classes_that_the_clusters_do_not_show_are_a_doubt(model, data, tmp_path):
    other = np.arange(240) % 8
    text = model.report(tmp_path / "r.html", y=other).read_text(encoding="utf-8")
    trusted, doubted = summary_of(text)
    assert not any("known class" in item for item in trusted)
    accuracy = evaluate(other, model.labels_)["accuracy"]
    assert any(f"Only {accuracy:.1%} of the samples" in item for item in doubted)


@pytest.mark.slow
def test_nothing_to_doubt_is_said(tmp_path):
    data = make_multiview(300, n_clusters=3, n_views=3, noise=0.9, random_state=0)
    model = OMCAL(3, n_anchors=15, random_state=0).fit(data.views)
    doubted = summary_of(model.report(tmp_path / "r.html").read_text(encoding="utf-8"))[1]
    known = [*model.doubts_, *model.explain_views().warnings]
    assert doubted and (len(known) > 0 or "Nothing was found to doubt" in doubted[0])


@pytest.mark.slow
def test_several_runs_in_one_report(tmp_path):
    data = make_multiview(240, n_clusters=4, n_views=2, noise=1.2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Consensus(OMCAL(4, n_anchors=20), n_runs=4, random_state=1).fit(data.views)
    text = write_report(model, tmp_path / "r.html", data.views).read_text(encoding="utf-8")
    assert text == model.report(tmp_path / "s.html", data.views).read_text(encoding="utf-8")
    arrays = payload_of(text)["arrays"]
    assert_array_equal(arrays["cluster"], model.labels_)
    np.testing.assert_allclose(arrays["certainty"] / 254, model.certainty_, atol=1 / 254)
    assert "share of the 4 runs" in text
    similar = [ari(run.labels, model.labels_) for run in model.runs_]
    assert "How the runs differ" in text
    assert f"by an ARI of {min(similar):.2f} to {max(similar):.2f}, " in text
    assert all(f">{value:.3f}</td>" in text for value in similar)
    assert "The run most like the result converged" in text
    assert "data without clusters reach" in text
    assert "from omcal import Consensus, OMCAL" in text
    code = re.search(r'<code id="code">(.*?)</code>', text, re.S)[1]
    again = {}
    exec(unescape(code).split("labels =")[0], again)
    assert again["model"].get_params() | {"estimator": None} == model.get_params() | {
        "estimator": None
    }
    # The next best cluster is never the own one, whatever the run calls its clusters.
    assert (arrays["second"] != arrays["cluster"]).all()
    decided = (arrays["decision"].reshape(2, -1).astype(float) - 127).sum(axis=0)
    assert (decided > 0).mean() > 0.6
    described = model.describe_clusters(data.views, top=1)
    assert described.cluster_sizes == tuple(np.bincount(model.labels_, minlength=4).tolist())


def code_of(text):
    return unescape(re.search(r'<code id="code">(.*?)</code>', text, re.S)[1])


@pytest.mark.slow
def test_the_snippet_lists_only_what_differs(model, data, tmp_path):
    text = model.report(tmp_path / "r.html").read_text(encoding="utf-8")
    call = "OMCAL(n_anchors=20, n_clusters=4, random_state=0, weighting='agreement')\n"
    assert f"model = {call}" in code_of(text)
    again = {}
    exec(code_of(text).split("labels =")[0], again)
    assert again["model"].get_params() == model.get_params()


@pytest.mark.slow
def test_the_map_can_be_coloured_by_columns(model, data, tmp_path):
    columns = {"age": np.linspace(20, 80, 240), "site": np.array(["x", "y", "z"] * 80)}
    columns["age"][7] = np.nan
    path = model.report(tmp_path / "r.html", data.views, columns=columns)
    found = payload_of(path.read_text(encoding="utf-8"))
    age, site = found["map"]["colours"][-2:]
    assert (age["title"], age["low"], age["high"]) == ("age", 20, 80)
    values = found["arrays"][age["array"]]
    assert (values[0], values[7], values[-1]) == (0, 255, 254)
    assert site["names"] == ["x", "y", "z"]
    assert_array_equal(found["arrays"][site["array"]], np.arange(240) % 3)


@pytest.mark.slow
def test_nearest_samples_are_near(model, data, tmp_path):
    text = model.report(tmp_path / "r.html", data.views).read_text(encoding="utf-8")
    found = payload_of(text)
    near = found["arrays"]["near"].reshape(240, 3, found["map"]["n_near"])
    for v, X in enumerate(data.views.values()):
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        away = np.linalg.norm(Z[:, None] - Z, axis=2)
        first = near[:, v, 0]
        there = np.flatnonzero(first < 240)
        assert len(there) > 200 and (first[there] != there).all()
        assert away[there, first[there]].mean() < 0.8 * away.mean()


# from what it is made


def pages(model, folder, *data):
    """The report without data, and that from these data."""
    kept = model.report(folder / "kept.html").read_text(encoding="utf-8")
    return kept, model.report(folder / "given.html", *data).read_text(encoding="utf-8")


def test_features_without_names_are_called_features(tmp_path):
    data = make_multiview(90, n_clusters=3, random_state=0)
    model = OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    text = model.report(tmp_path / "report.html", data.views).read_text(encoding="utf-8")
    assert len(re.findall(r"; (?:more|less) feature \d+ \(view", text)) == 3


def without_features(text):
    """What both pages have: data add the features, and the nearest samples by them."""
    start, end = text.index('<section id="features"'), text.index('<section id="views"')
    return text[:start] + text[end:]


def assert_same(kept, given):
    """The same page, but for what only data tell."""
    one, two = kept.split("<main")[1], without_features(given.split("<main")[1])
    note = re.search(r'<p class="quiet">The features of the clusters are not here.*?</p>', one)[0]
    one, two = (re.sub(r"<p>Samples that are .*?</p>", "", text, count=1) for text in (one, two))
    assert one.split("</main>")[0].replace(note, "").split() == two.split("</main>")[0].split()
    first, second = payload_of(kept)["arrays"], payload_of(given)["arrays"]
    for name in set(first) - {"near", "xy"}:
        assert_array_equal(first[name], second[name])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_model_alone_gives_the_page_that_the_data_give(data, tmp_path, dtype):
    views = {name: X.astype(dtype) for name, X in data.views.items()}
    model = OMCAL(4, n_anchors=20, n_init=2, random_state=0).fit(views)
    kept, given = pages(model, tmp_path, views)
    assert_same(kept, given)


@pytest.mark.slow
def test_samples_that_a_view_lacks_are_known_without_the_data(tmp_path):
    data = make_multiview(240, n_clusters=4, n_views=3, missing=0.2, random_state=0)
    model = OMCAL(4, n_anchors=20, random_state=0).fit(data.views)
    kept, given = pages(model, tmp_path, data.views)
    assert_same(kept, given)
    complete = np.all(list(data.present.values()), axis=0).sum()
    assert f"for {complete} samples" in kept
    lacking = data.present["view1"].sum()
    assert lacking < 240 and f'<td data-label="samples">{lacking}</td>' in kept


@pytest.mark.slow
def test_data_in_files_give_the_page_that_the_model_gives(data, tmp_path):
    stored = {}
    for name, X in data.views.items():
        X = X.copy()
        X[7] = np.nan if name == "view1" else X[7]
        np.save(tmp_path / f"{name}.npy", X)
        stored[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    model = OMCAL(4, n_anchors=20, random_state=0).fit({k: np.array(X) for k, X in stored.items()})
    kept, given = pages(model, tmp_path, stored)
    assert_same(kept, given)


@pytest.mark.slow
def test_a_model_without_graphs_asks_for_the_data(model, data, tmp_path, monkeypatch):
    model.save(tmp_path / "model.omcal")
    monkeypatch.setattr("omcal.places.memory.LARGEST_KEPT", 10)
    others = {
        "loaded": load(tmp_path / "model.omcal"),
        "unpickled": pickle.loads(pickle.dumps(model)),
        "out of core": clone(model).set_params(memory_limit="1 MiB").fit(data.views),
        "large": clone(model).fit(data.views),
    }
    for name, other in others.items():
        with pytest.raises(ValueError, match=r"kept no anchor graphs; pass X"):
            other.report(tmp_path / "r.html")
        with pytest.raises(ValueError, match=r"kept no anchor graphs; pass X"):
            other.explain_views()
        assert other.report(tmp_path / f"{name}.html", data.views).exists()
    assert not (tmp_path / "r.html").exists()


def test_another_fit_forgets_the_graphs(data):
    model = fit(data)
    assert model._graphs.n == 240
    model.set_params(memory_limit="1 MiB").fit(data.views)
    assert model._graphs is None


def test_present_without_data_is_refused(model, data, tmp_path):
    everyone = {name: np.ones(240, bool) for name in data.views}
    for ask in (lambda **o: model.report(tmp_path / "r.html", **o), model.explain_views):
        with pytest.raises(ValueError, match="present is for the samples of X; pass X"):
            ask(present=everyone)


def test_dask_is_refused(model, data, tmp_path):
    array = pytest.importorskip("dask.array", reason="the extra dask is not installed")
    lazy = {name: array.from_array(X) for name, X in data.views.items()}
    with pytest.raises(ValueError, match="X is in Dask"):
        model.report(tmp_path / "r.html", lazy)


def test_one_view(tmp_path):
    data = make_multiview(80, n_clusters=3, n_views=1, random_state=0)
    (X,) = data.views.values()
    model = OCAL(3, n_anchors=12, random_state=0).fit(X)
    text = model.report(tmp_path / "r.html", X).read_text(encoding="utf-8")
    assert "There is one view" in text and "clusters" in sections_of(text)


@pytest.mark.slow
def test_one_table_with_views(data, tmp_path):
    table = np.hstack(list(data.views.values()))
    model = OMCAL(4, views=[slice(0, 10), slice(10, 30)], random_state=0).fit(table)
    text = model.report(tmp_path / "r.html", table).read_text(encoding="utf-8")
    assert sections_of(text)[0] == "clusters"


@pytest.mark.slow
def test_the_same_report_twice(model, data, tmp_path):
    one, two = (model.report(tmp_path / f"{k}.html", data.views, data.labels) for k in "ab")
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": [0, 1]}, "y has shape"),
        ({"names": ["a"]}, "names has shape"),
        ({"columns": {"age": [1.0]}}, r"columns\['age'\] has shape"),
        ({"feature_names": {"view9": ["a"]}}, "the unknown view 'view9'"),
    ],
)
def test_bad_input(model, data, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        model.report(tmp_path / "r.html", data.views, **options)
    assert not (tmp_path / "r.html").exists()


def test_other_data_are_refused(model, data, tmp_path):
    with pytest.raises(ValueError, match=r"100 samples .* fitted to 240"):
        write_report(model, tmp_path / "r.html", {n: v[:100] for n, v in data.views.items()})


@pytest.mark.slow
def test_many_classes_are_listed_not_tabled(tmp_path):
    data = make_multiview(400, n_clusters=50, n_views=2, noise=0.2, random_state=0)
    model = OMCAL(50, n_anchors=70, init="random", max_iter=5, tol=1.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some clusters stay empty, which is part of the test
        model.fit(data.views)
    text = model.report(tmp_path / "r.html", data.views, data.labels).read_text(encoding="utf-8")
    assert "The most frequent of the 50 classes" in text
    empty = 50 - len(np.unique(model.labels_))
    assert empty and f"nly {50 - empty} of n_clusters=50 clusters hold samples" in text


@pytest.mark.slow
def test_large_data_are_sampled_and_this_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("omcal.report.findings.MAP_SAMPLES", 4000)
    data = make_multiview(20_000, n_clusters=10, n_views=2, n_features=4, random_state=0)
    model = OMCAL(10, n_anchors=25, max_iter=10, tol=1.0, random_state=0).fit(data.views)
    names = [f"a rather long name of sample number {i}" for i in range(data.n_samples)]
    report = model.report(tmp_path / "r.html", y=data.labels, names=names)
    text = report.read_text(encoding="utf-8")
    found = payload_of(text)
    arrays, count = found["arrays"], found["map"]["n"]
    assert 4000 <= count <= 4100 and found["map"]["n_all"] == 20_000
    assert f"{count:,} of 20,000 samples are drawn" in text
    assert_array_equal(arrays["cluster"], model.labels_[arrays["sample"]])
    assert arrays["names"][7] == names[arrays["sample"][7]]
    assert "Each view left out, and each view alone, for 5,000 samples" in text


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "most"),
    [(10_000, 1_000_000), pytest.param(70_000, 4_200_000, marks=pytest.mark.long)],
)
def test_files_have_room_for_all_samples(n, most):
    report = large_report(n)
    found = payload_of(report.read_text(encoding="utf-8"))
    assert report.stat().st_size < most
    assert found["map"]["n"] == n and found["arrays"]["names"][7] == f"000007-{7 * 7919 % n:x}"
    assert found["map"]["n_near"] >= 1
    near = found["arrays"]["near"].astype(int)
    if "near_high" in found["arrays"]:
        near += found["arrays"]["near_high"].astype(int) << 16
    assert near.max() == n - 1 or near.max() == n


def spread_and_gap(xy, groups):
    """Mean distance to the middle of the own group, and the least between two middles."""
    names = np.unique(groups)
    centres = np.array([xy[groups == g].mean(axis=0) for g in names])
    spread = np.linalg.norm(xy - centres[np.searchsorted(names, groups)], axis=1).mean()
    apart = np.linalg.norm(centres[:, None] - centres, axis=2)[np.triu_indices(len(names), 1)]
    return spread, apart.min()


def test_the_layout_keeps_what_belongs_together():
    groups = np.repeat(np.arange(4), 50)
    xy = sample_layout(np.eye(4)[groups], np.random.RandomState(0))
    spread, apart = spread_and_gap(xy, groups)
    assert apart > 2 * spread


NOISE = {
    "gaussian": lambda rng, d: rng.normal(size=(300, d)),
    "uniform": lambda rng, d: rng.uniform(size=(300, d)),
    "counts": lambda rng, d: rng.poisson(3.0, size=(300, d)).astype(float),
    "heavy": lambda rng, d: rng.standard_t(3, size=(300, d)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", NOISE)
def test_the_map_of_noise_has_no_islands(kind):
    rng = np.random.RandomState(0)
    views = [NOISE[kind](rng, d) for d in (10, 20)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OMCAL(4, random_state=0).fit(views)
    xy = model_layout(model, views)
    assert silhouette_score(xy, model.labels_) < 0.15
    assert set(HDBSCAN(min_cluster_size=30, copy=True).fit_predict(xy)) <= {-1, 0}


@pytest.mark.parametrize("d", [3, 5, 10])
def test_the_density_of_noise_falls_from_the_middle(d):
    """HDBSCAN takes the random ridges of an even density for islands."""
    points = np.random.RandomState(d).uniform(size=(500, d))
    xy = sample_layout(points, np.random.RandomState(0))
    assert set(HDBSCAN(min_cluster_size=25, copy=True).fit_predict(xy)) == {-1}


def test_the_nearest_sample_is_found():
    rng = np.random.RandomState(0)
    points = rng.normal(size=(1000, 6)).astype(np.float32)
    others = rng.normal(size=(500, 6)).astype(np.float32)
    apart = np.linalg.norm(others[:, None] - points, axis=2)
    assert_array_equal(nearest_of(points, others), apart.argmin(axis=1))


@pytest.mark.slow
def test_the_map_does_not_know_the_clusters(data, model):
    other = clone(model).fit(data.views)
    other.labels_ = np.random.RandomState(0).permutation(other.labels_)
    assert np.array_equal(model_layout(model, data.views), model_layout(other, data.views))


@pytest.mark.slow
def test_clusters_that_the_map_mixes_are_said(data, model, tmp_path):
    labels = np.asarray(model.labels_)
    xy = np.column_stack([np.cos(labels), np.sin(labels)])
    xy += np.random.default_rng(0).normal(scale=0.01, size=xy.shape)
    assert mixed_clusters(xy, labels) == []
    some = labels > 0
    xy[some] = np.random.default_rng(1).random((some.sum(), 2)) / 10
    assert mixed_clusters(xy, labels) == [1, 2, 3]
    path = write_report(model, tmp_path / "report.html", data.views, positions=xy)
    assert "On the map clusters 1, 2, 3 are mixed with others" in path.read_text(encoding="utf-8")
    assert mixed_clusters(np.zeros((1, 2)), np.zeros(1, int)) == []


@pytest.mark.slow
def test_the_map_of_digits_is_trustworthy():
    X = load_digits().data[:600]
    model = OMCAL(10, random_state=0).fit(X)
    assert trustworthiness(X, model_layout(model, X), n_neighbors=10) > 0.96


def test_samples_beyond_those_laid_out_lie_among_their_like(monkeypatch):
    monkeypatch.setattr("omcal.report.layout._LAID_OUT", 60)
    data = make_multiview(400, n_clusters=4, n_views=2, noise=0.3, random_state=0)
    model = OMCAL(4, n_anchors=20, random_state=0).fit(data.views)
    for X in (None, data.views):
        xy = model_layout(model, X)
        assert xy.shape == (400, 2) and xy.min() >= 0 and xy.max() <= 1
        spread, apart = spread_and_gap(xy, model.labels_)
        assert apart > 1.5 * spread


@pytest.mark.slow
def test_absent_samples_and_sparse_views_have_places():
    data = make_multiview(120, n_clusters=3, n_views=2, random_state=0)
    first, second = data.views.values()
    second = np.where(np.arange(120)[:, None] < 20, np.nan, second)
    model = OMCAL(3, n_anchors=12, random_state=0).fit([first, second])
    assert np.isfinite(model_layout(model, [first, second])).all()
    counts = sparse.csr_array(np.random.RandomState(0).poisson(0.3, size=(120, 80)).astype(float))
    model = OMCAL(3, n_anchors=12, random_state=0).fit([first, counts])
    assert np.isfinite(model_layout(model, [first, counts])).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_layout_of_few(n):
    assert sample_layout(np.ones((n, 3)), np.random.RandomState(0)).shape == (n, 2)


@pytest.mark.slow
def test_names_of_clusters_are_everywhere(data, tmp_path):
    model = fit(data)
    model.cluster_names_ = [f"<{c}>" for c in range(model.n_clusters_)]
    text = write_report(model, tmp_path / "report.html", data.views).read_text(encoding="utf-8")
    titles = [f"cluster {c}: <{c}>" for c in range(model.n_clusters_)]
    assert payload_of(text)["map"]["colours"][0]["names"] == titles
    legend = re.search(r'<ul id="legend".*?</ul>', text, flags=re.S)[0]
    assert all(f"<span>{escape(title)}</span>" in legend for title in titles)


@pytest.mark.slow
def test_the_least_typical_samples_are_listed(data, tmp_path):
    """They are those with the lowest scores of `score_samples`."""
    model = fit(data)
    text = write_report(model, tmp_path / "report.html", data.views).read_text(encoding="utf-8")
    part = text[text.index("<h3>Least typical samples</h3>") :]
    part = part[: part.index("</section>")]
    listed = [int(i) for i in re.findall(r'data-sample="(\d+)"', part)]
    assert listed == np.argsort(model.score_samples(data.views), kind="stable")[:12].tolist()


def test_text_is_escaped():
    assert "&lt;img" in put(NASTY) and not set("<>\"'") & set(put(NASTY))
    text = page(title=NASTY, kind="k", lead=paragraph(NASTY), sections=[], data={"a": NASTY})
    assert "<img" not in text


# the command line


@pytest.fixture
def file(data, tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, **data.views, y=data.labels)
    return path


def run(*words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return end.value.code


@pytest.mark.slow
def test_cluster_writes_a_report(file, tmp_path, capsys):
    target = tmp_path / "out.html"
    assert run("cluster", file, "--clusters", 4, "--report", target, "--scale", "none") == 0
    assert f"Report: {target}" in capsys.readouterr().out
    text = target.read_text(encoding="utf-8")
    at = SECTIONS.index("convergence")
    assert sections_of(text) == [*SECTIONS[:at], "runs", *SECTIONS[at:]]  # by itself it joins ten
    assert f"omcal cluster {file} --clusters 4 --seed 0 --scale none" in text


@pytest.mark.parametrize("method", ["concat-kmeans", "smc", "fsmsc"])
def test_cluster_with_another_method(file, capsys, method):
    assert run("cluster", file, "--clusters", 4, "--method", method, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["method"] == method and sum(result["cluster_sizes"]) == 240
    assert result["scores"]["accuracy"] > 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "amlg"], "'amlg' is unknown (did you mean amgl?)"),
        (["--method", "smc", "--beta", "1"], "--beta is for OMCAL"),
        (["--method", "smc", "--report", "x.html"], "--report is for OMCAL"),
        (["--report", "nowhere/x.html"], "there is no folder nowhere"),
    ],
)
def test_what_cluster_refuses(file, capsys, words, message):
    assert run("cluster", file, "--clusters", 4, *words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_tune_ranks_and_never_reads_labels(data, tmp_path, capsys):
    results = []
    for labels in (data.labels, np.zeros(240, dtype=int)):
        np.savez(tmp_path / "data.npz", **data.views, y=labels)
        words = ["--scale", "auto", "--gamma", "0.1,1e5", "--weighting", "distinct"]
        words += ["--anchors-per-cluster", "3", "--fits", 2]
        assert run("tune", tmp_path / "data.npz", "--clusters", 4, "--json", *words) == 0
        results.append(json.loads(capsys.readouterr().out))
    assert results[0]["trials"] == results[1]["trials"]
    best, worst = results[0]["trials"]
    assert (best["rank"], best["gamma"], worst["gamma"]) == (1, 0.1, 1e5)
    assert best["stability"] > worst["stability"] and results[0]["labels_used"] is False


@pytest.mark.slow
def test_tune_shows_the_next_command(file, capsys):
    assert run("tune", file, "--clusters", 4, "--beta", "0.3", "--gamma", "0.1", "--fits", 2) == 0
    assert f"Next: omcal cluster {file} --clusters 4 --scale" in capsys.readouterr().out


def test_a_setting_that_cannot_be_fitted_comes_last(data):
    trials = tune_without_labels(data.views, 4, {"beta": [1e6, 0.3]}, n_fits=2)
    assert [t.parameters["beta"] for t in trials] == [0.3, 1e6]
    assert "beta" in trials[1].error and np.isnan(trials[1].stability)


@pytest.mark.parametrize("options", [{"n_fits": 1}, {"fraction": 0.0}, {"fraction": 1.5}])
def test_tune_refuses(data, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        tune_without_labels(data.views, 4, {"beta": [0.3]}, **options)


def _luminance(colour):
    """Relative luminance of #rrggbb (WCAG)."""
    rgb = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.03928, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [
        0.2126,
        0.7152,
        0.0722,
    ]


def _contrast(one, other):
    dark, light = sorted([_luminance(one), _luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_numbers_are_readable_on_every_colour():
    """A number has an outline, so it is read against that, whatever colour lies behind."""
    folder = Path(omcal.report.__file__).parent
    style = (folder / "style.css").read_text(encoding="utf-8")
    inks, cards = (re.findall(rf"--{name}: (#[0-9a-f]{{6}})", style) for name in ("ink", "card"))
    assert len(inks) == len(cards) == 3  # light, dark, dark by the browser's setting
    assert all(_contrast(*pair) >= 4.5 for pair in zip(inks, cards, strict=True))
    script = (folder / "map.js").read_text(encoding="utf-8")
    assert 'strokeStyle = css("--card"); context.strokeText(labels[c]' in script
    assert 'fillStyle = css("--ink"); context.fillText(labels[c]' in script
    (number,) = re.findall(r"text\.number \{ fill: #fff; stroke: (#[0-9a-f]{6})", style)
    assert _contrast("#ffffff", number) >= 4.5
