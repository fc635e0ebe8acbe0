"""The features that make a cluster."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from omcal import OCAL, OMCAL, Consensus
from omcal.cli import main
from omcal.datasets import make_multiview
from omcal.model.feature_effects import N_BINS


@pytest.fixture(scope="module")
def data():
    return make_multiview(240, n_clusters=4, n_views=2, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return OMCAL(4, n_anchors=20, random_state=0).fit(data.views)


@pytest.fixture(scope="module")
def terms():
    """Counts of 30 terms in 120 documents; a topic has ten terms of its own."""
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1, 2], 40)
    rates = np.full((3, 30), 0.05)
    for topic in range(3):
        rates[topic, 10 * topic : 10 * topic + 10] = 2.0
    names = [f"term{j}" for j in range(30)]
    return rng.poisson(rates[y]), y, names


def test_other_rows_than_those_of_the_fit_are_noticed(model, data, tmp_path):
    """A table that was sorted after the fit was described by the labels of other rows."""
    order = np.random.default_rng(0).permutation(240)
    moved = {name: view[order] for name, view in data.views.items()}
    joined = Consensus(OMCAL(4), n_runs=2, random_state=0).fit(data.views)
    for fitted in (model, joined):
        with pytest.warns(UserWarning, match="or in another order; pass the X of fit"):
            fitted.describe_clusters(moved)
        with pytest.warns(UserWarning, match="in another order"):
            fitted.report(tmp_path / "report.html", moved)
        assert fitted.describe_clusters(data.views).features


def test_every_number_is_that_of_the_values(model, data):
    found = model.describe_clusters(data.views, top=3)
    assert len(found.features) == 4 * 2 * 3
    for f in found.features:
        x = data.views[f.view][:, int(f.feature)]
        inside = model.labels_ == f.cluster
        here, there = x[inside], x[~inside]
        assert_allclose(f.effect, (here.mean() - there.mean()) / x.std(), rtol=1e-9)
        assert_allclose([f.mean, f.mean_elsewhere], [here.mean(), there.mean()], rtol=1e-9)
        above = [(part > x.mean()).mean() for part in (here, there)]
        assert_allclose([f.share, f.share_elsewhere], above, rtol=1e-12)
        edges = np.linspace(f.low, f.high, N_BINS + 1)
        counts = np.histogram(np.clip(here, f.low, f.high), edges)[0] / len(here)
        assert_allclose(f.inside, counts, atol=1e-12)
        assert_allclose([sum(f.inside), sum(f.outside)], 1)


def test_the_largest_effects_are_chosen(model, data):
    found = model.describe_clusters(data.views, top=2)
    for name, X in data.views.items():
        for cluster in range(4):
            inside = model.labels_ == cluster
            effects = (X[inside].mean(axis=0) - X[~inside].mean(axis=0)) / X.std(axis=0)
            best = np.argsort(-np.abs(effects))[:2]
            assert [int(f.feature) for f in found.of(cluster, name)] == best.tolist()


def test_typical_samples_are_nearest_to_the_mean(model, data):
    found = model.describe_clusters(data.views)
    for name, X in data.views.items():
        Z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
        for cluster in range(4):
            members = np.flatnonzero(model.labels_ == cluster)
            away = np.linalg.norm(Z[members] - Z[members].mean(axis=0), axis=1)
            expected = members[np.argsort(away, kind="stable")[:5]].tolist()
            assert list(found.typical[name][cluster]) == expected


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_terms_of_a_topic(terms, form):
    counts, y, names = terms
    views = {"words": form(counts.astype(float))}
    model = OMCAL(3, n_anchors=12, scale=None, random_state=0).fit(views)
    found = model.describe_clusters(views, feature_names={"words": names}, top=5)
    assert found.amounts == ("words",) and found.named == ("words",)
    for cluster in range(3):
        topic = np.bincount(y[model.labels_ == cluster]).argmax()
        inside = model.labels_ == cluster
        for f in found.of(cluster):
            term = int(f.feature.removeprefix("term"))
            if f.effect > 0:
                assert term // 10 == topic
            assert_allclose(f.share, (counts[inside, term] > 0).mean())
            assert_allclose(f.share_elsewhere, (counts[~inside, term] > 0).mean())
            assert_allclose(f.mean, counts[inside, term].mean())


def test_long_documents_do_not_make_a_cluster_of_their_own_words(terms):
    counts, _, names = terms
    long = counts * np.where(np.arange(120) % 2, 10, 1)[:, None]
    views = {"words": sparse.csr_array(long.astype(float))}
    model = OMCAL(3, n_anchors=12, scale="tfidf", random_state=0).fit(views)
    found = model.describe_clusters(views, feature_names={"words": names}, top=3)
    shares = 1e3 * long / long.sum(axis=1, keepdims=True)
    for f in found.features:
        inside, x = model.labels_ == f.cluster, np.log1p(shares[:, names.index(f.feature)])
        assert_allclose(f.effect, (x[inside].mean() - x[~inside].mean()) / x.std(), rtol=1e-6)


def test_sparse_and_dense_say_the_same(terms):
    counts, _, _ = terms
    dense = {"words": counts.astype(float)}
    model = OMCAL(3, n_anchors=12, scale=None, random_state=0).fit(dense)
    one = model.describe_clusters(dense).to_dict()
    two = model.describe_clusters({"words": sparse.csr_array(dense["words"])}).to_dict()
    for a, b in zip(one["features"], two["features"], strict=True):
        assert a["feature"] == b["feature"]
        assert_allclose(a["effect"], b["effect"], rtol=1e-9)
        assert_allclose(a["inside"], b["inside"], atol=1e-12)
    assert one["typical"] == two["typical"]


def test_absent_samples_do_not_count():
    data = make_multiview(240, n_clusters=4, n_views=2, missing=0.3, random_state=0)
    model = OMCAL(4, n_anchors=20, random_state=0).fit(data.views)
    found = model.describe_clusters(data.views, top=1)
    for f in found.features:
        there = data.present[f.view]
        x, inside = data.views[f.view][there, int(f.feature)], model.labels_[there] == f.cluster
        expected = (x[inside].mean() - x[~inside].mean()) / x.std()
        assert_allclose(f.effect, expected, rtol=1e-9)
    for name, clusters in found.typical.items():
        assert all(data.present[name][list(samples)].all() for samples in clusters)


def test_blocks_change_nothing(model, data, tmp_path, monkeypatch):
    whole = model.describe_clusters(data.views).to_dict()
    monkeypatch.setattr("omcal.model.feature_effects._BLOCK_ENTRIES", 300)
    stored = {}
    for name, X in data.views.items():
        np.save(tmp_path / f"{name}.npy", X)
        stored[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    pieces = model.describe_clusters(stored).to_dict()
    for a, b in zip(whole["features"], pieces["features"], strict=True):
        assert_allclose(a.pop("effect"), b.pop("effect"), rtol=1e-9)
        assert_allclose(a.pop("inside"), b.pop("inside"))
        assert (a["feature"], a["cluster"], a["view"]) == (b["feature"], b["cluster"], b["view"])
    assert whole["typical"] == pieces["typical"]


def test_names_of_data_frames(data):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    X = data.views["view1"]
    frame = pd.DataFrame(X, columns=[f"a_{j}" for j in range(X.shape[1])])
    frame["b_0"], frame["b_1"] = X[:, 1], X[:, 0]
    for model, names in (
        (OMCAL(4, n_anchors=20, views="prefix_", random_state=0), ("a", "b")),
        (OCAL(4, n_anchors=20, random_state=0), ("X",)),
    ):
        found = model.fit(frame).describe_clusters(frame, top=1)
        assert found.named == names
        assert {f.feature for f in found.features} <= set(frame.columns)
    separate = {"first": frame, "second": X}
    found = OMCAL(4, n_anchors=20, random_state=0).fit(separate).describe_clusters(separate)
    assert found.named == ("first",)
    table = found.to_frame()
    assert len(table) == len(found.features) and {"effect", "share"} <= set(table.columns)


def test_the_text_names_what_it_shows(model, data):
    text = str(model.describe_clusters(data.views, top=1))
    assert text.splitlines()[0].split() == [
        *("cluster", "view", "feature", "effect", "here", "elsewhere")
    ]
    assert "standard deviations" in text and "typical in view1, by cluster" in text


def test_a_constant_feature_and_an_empty_cluster(data):
    X = np.column_stack([data.views["view1"], np.full(240, 1e6)])
    model = OMCAL(4, n_anchors=20, random_state=0).fit({"v": X})
    model.labels_ = np.where(model.labels_ == 3, 2, model.labels_)
    found = model.describe_clusters({"v": X}, top=X.shape[1])
    assert found.of(3) == [] and found.typical["v"][3] == ()
    assert str(X.shape[1] - 1) not in {f.feature for f in found.features}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "top=0 must be an integer of at least 1"),
        ({"feature_names": {"nowhere": ["a"]}}, "the unknown view 'nowhere'"),
        ({"feature_names": {"view1": ["a"]}}, r"has 1 names for \d+ features"),
    ],
)
def test_bad_input(model, data, options, message):
    with pytest.raises(ValueError, match=message):
        model.describe_clusters(data.views, **options)


def test_other_data_are_refused(model, data):
    with pytest.raises(ValueError, match=r"100 samples .* fitted to 240"):
        model.describe_clusters({name: X[:100] for name, X in data.views.items()})


@pytest.mark.slow
def test_the_command_line(data, tmp_path, capsys):
    path = tmp_path / "data.npz"
    np.savez(path, **data.views)
    words = ["explain", str(path), "--clusters", "4", "--resamples", "0", "--clusters-table"]
    for extra in ([], ["--json"]):
        with pytest.raises(SystemExit) as end:
            main([*words, *extra])
        assert end.value.code == 0
        out = capsys.readouterr().out
        if extra:
            result = json.loads(out)["clusters"]
            assert len(result["features"]) == 4 * 2 * 5
            assert list(result["typical"]) == ["view1", "view2"]
        else:
            assert "What makes each cluster" in out and "typical in view1" in out
