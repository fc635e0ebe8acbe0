"""Clustering of MuData and AnnData objects in place."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import omcal
from omcal import OMCAL, Consensus
from omcal.datasets import load_views, make_multiview
from omcal.metrics import evaluate

pd = pytest.importorskip("pandas")

MADE = make_multiview(120, n_clusters=3, n_views=2, random_state=0)
RNA, PROTEIN = MADE.views.values()
CELLS = [f"cell{i}" for i in range(120)]
COUNTS = sparse.csr_array(np.maximum(RNA, 0))


class Cells:
    """The parts of AnnData and MuData that are used, in plain Python."""

    def __init__(self, X=None, names=CELLS, obsm=None, mod=None, layers=None):
        self.X = X
        self.layers = dict(layers or {})
        self.obs = pd.DataFrame(index=pd.Index(names))
        self.obsm = dict(obsm or {})
        self.uns = {}
        if mod is not None:
            self.mod = mod

    @property
    def obs_names(self):
        return self.obs.index

    def copy(self):
        twin = Cells(self.X, self.obs_names, self.obsm, getattr(self, "mod", None), self.layers)
        twin.obs = self.obs.copy()
        return twin


class Kinds:
    """How to make objects: stand-ins, or the real ones."""

    @staticmethod
    def plain(X, names, obsm=None, layers=None):
        return Cells(X, names, obsm, layers=layers)

    @staticmethod
    def together(**modalities):
        names = pd.Index([])
        for modality in modalities.values():
            names = names.union(modality.obs_names, sort=False)
        return Cells(names=names, mod=modalities)


class RealKinds:
    @staticmethod
    def plain(X, names, obsm=None, layers=None):
        import anndata

        obs = pd.DataFrame(index=pd.Index(names))
        return anndata.AnnData(X, obs=obs, obsm=obsm, layers=layers)

    @staticmethod
    def together(**modalities):
        import mudata

        return mudata.MuData(modalities)


@pytest.fixture(params=["stand-ins", "anndata and mudata"])
def kinds(request):
    if request.param == "stand-ins":
        return Kinds
    pytest.importorskip("anndata", reason="the extra omics is not installed")
    pytest.importorskip("mudata", reason="the extra omics is not installed")
    return RealKinds


# anndata, mudata and scanpy warn of their own future.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def mdata(kinds):
    """RNA as counts and components, protein in another order of the cells."""
    turned = np.arange(120)[::-1]
    return kinds.together(
        rna=kinds.plain(COUNTS, CELLS, {"X_pca": RNA}),
        protein=kinds.plain(PROTEIN[turned], [CELLS[i] for i in turned]),
    )


def in_order_of(data):
    """The views of `data` made by hand, in the order of its cells."""
    order = [CELLS.index(name) for name in data.obs_names]
    return {"rna": RNA[order], "protein": PROTEIN[order]}, MADE.labels[order]


def test_labels_indicator_and_record_are_written(mdata):
    assert omcal.tl.omcal(mdata, n_clusters=3, random_state=0) is None
    views, classes = in_order_of(mdata)
    model = OMCAL(3, scale={"rna": "view"}, random_state=0)
    model.fit({name: views[name] for name in mdata.mod})
    labels = mdata.obs["omcal"]
    assert isinstance(labels.dtype, pd.CategoricalDtype)
    assert list(labels.cat.categories) == ["0", "1", "2"]
    assert_array_equal(labels.astype(int), model.labels_)
    assert evaluate(classes, labels.astype(int))["accuracy"] > 0.95
    assert_allclose(mdata.obsm["X_omcal"], model.transform(views), atol=1e-12)
    record = mdata.uns["omcal"]
    assert record["params"]["n_clusters"] == 3 and record["params"]["beta"] == model.beta
    expected = dict(zip(model.view_names_, model.view_weights_.tolist(), strict=True))
    assert record["view_weights"] == expected
    assert record["converged"] == model.converged_


def test_another_key_another_representation_and_a_copy(mdata):
    twin = omcal.tl.omcal(
        mdata,
        n_clusters=3,
        use_rep={"rna": "X"},
        key_added="rna_counts",
        copy=True,
        weighting="uniform",
        random_state=0,
    )
    assert "rna_counts" not in mdata.obs and "rna_counts" in twin.obs
    assert list(twin.uns["rna_counts"]["view_weights"]) == ["rna"]
    order = [CELLS.index(name) for name in twin.obs_names]
    model = OMCAL(3, weighting="uniform", random_state=0).fit([COUNTS[order]])
    assert_array_equal(twin.obs["rna_counts"].astype(int), model.labels_)


def test_one_key_for_all_modalities(mdata):
    omcal.tl.omcal(mdata, n_clusters=3, use_rep="X", random_state=0)
    views, _ = in_order_of(mdata)
    order = [CELLS.index(name) for name in mdata.obs_names]
    made = {"rna": COUNTS[order], "protein": views["protein"]}
    model = OMCAL(3, random_state=0).fit({name: made[name] for name in mdata.mod})
    assert_array_equal(mdata.obs["omcal"].astype(int), model.labels_)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_cells_that_lack_a_modality(kinds, form):
    rna, protein = form(np.maximum(RNA, 0)), PROTEIN
    mdata = kinds.together(
        rna=kinds.plain(rna[:110], CELLS[:110]), protein=kinds.plain(protein[4:], CELLS[4:])
    )
    omcal.tl.omcal(mdata, n_clusters=3, random_state=0)
    order = np.array([CELLS.index(name) for name in mdata.obs_names])
    present = {"rna": order < 110, "protein": order >= 4}
    views = {"rna": rna[order], "protein": protein[order]}
    model = OMCAL(3, random_state=0).fit(
        {name: views[name] for name in mdata.mod}, present={n: present[n] for n in mdata.mod}
    )
    assert_array_equal(mdata.obs["omcal"].astype(int), model.labels_)
    assert evaluate(MADE.labels[order], model.labels_)["accuracy"] > 0.9
    assert_allclose(mdata.obsm["X_omcal"], model.transform(views, present), atol=1e-12)


def test_cells_in_none_of_the_modalities_are_counted(kinds):
    only = kinds.together(rna=kinds.plain(RNA, CELLS), protein=kinds.plain(PROTEIN[9:], CELLS[9:]))
    with pytest.raises(ValueError, match=r"^9 sample.* absent from every view"):
        omcal.tl.omcal(only, n_clusters=3, use_rep={"protein": "X"})
    assert "omcal" not in only.obs
    omcal.tl.omcal(only, n_clusters=3, use_rep={"rna": "X"}, random_state=0)
    assert only.obs["omcal"].notna().all()


@pytest.mark.slow
def test_anndata(kinds):
    frame = pd.DataFrame(PROTEIN, index=CELLS, columns=[f"CD{j}" for j in range(10)])
    adata = kinds.plain(COUNTS, CELLS, {"X_pca": RNA, "protein": frame})
    omcal.tl.omcal(adata, n_clusters=3, random_state=0)
    model = OMCAL(3, scale="view", random_state=0).fit({"X_pca": RNA})
    assert_array_equal(adata.obs["omcal"].astype(int), model.labels_)
    omcal.tl.omcal(adata, 3, use_rep=["X_pca", "protein"], key_added="both", random_state=0)
    model = OMCAL(3, scale={"view1": "view"}, random_state=0).fit([RNA, PROTEIN])
    assert_array_equal(adata.obs["both"].astype(int), model.labels_)
    assert list(adata.uns["both"]["view_weights"]) == ["X_pca", "protein"]
    omcal.tl.omcal(kinds.plain(COUNTS, CELLS), n_clusters=3, random_state=0)


@pytest.mark.parametrize(
    ("use_rep", "message"),
    [
        ("X_lsi", r"has no obsm\['X_lsi'\]"),
        ({"atac": "X"}, r"\['atac'\].*\['rna', 'protein'\]"),
        ({}, "use some of these"),
        (["X"], "for AnnData"),
    ],
)
def test_bad_representations_of_mudata(mdata, use_rep, message):
    with pytest.raises(ValueError, match=message):
        omcal.tl.omcal(mdata, n_clusters=3, use_rep=use_rep)


@pytest.mark.parametrize(
    ("use_rep", "message"),
    [("X_lsi", "X_lsi"), ({"rna": "X"}, "for MuData"), ([], "empty"), (["X", "X"], "twice")],
)
def test_bad_representations_of_anndata(kinds, use_rep, message):
    with pytest.raises(ValueError, match=message):
        omcal.tl.omcal(kinds.plain(COUNTS, CELLS), n_clusters=3, use_rep=use_rep)


def test_without_x(kinds):
    with pytest.raises(ValueError, match="has no X"):
        omcal.tl.omcal(kinds.plain(None, CELLS), n_clusters=3)


@pytest.mark.long
@pytest.mark.process
def test_without_pandas_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['pandas'] = None; import omcal.tl; "
        "omcal.tl.omcal(None, n_clusters=3)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install pandas" in done.stderr


def raw_counts(seed=0, n_types=3, n_genes=1500):
    """Counts of cells of a few types, mostly zero, each cell with another depth."""
    rng = np.random.default_rng(seed)
    programs = np.tile(rng.gamma(0.3, 1.0, size=n_genes), (n_types, 1))
    for program in programs:
        program[rng.choice(n_genes, 60, replace=False)] += rng.gamma(2.0, 2.0, size=60)
    types = np.arange(120) % n_types
    depth = rng.lognormal(np.log(1200), 0.35, size=120)
    rates = programs[types] / programs.sum(axis=1)[types][:, None] * depth[:, None]
    return sparse.csr_array(rng.poisson(rates).astype(np.float32)), types


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_raw_counts_in_a_layer(kinds, seed):
    counts, types = raw_counts(seed)
    adata = kinds.plain(np.ones(counts.shape), CELLS, {"X_pca": RNA}, {"counts": counts})
    omcal.tl.omcal(adata, 3, layer="counts", random_state=0)
    assert evaluate(types, adata.obs["omcal"].astype(int))["ari"] >= 0.95
    assert list(adata.uns["omcal"]["view_weights"]) == ["counts"]
    mdata = kinds.together(rna=adata, protein=kinds.plain(PROTEIN, CELLS))
    views, present = omcal.tl.views_of(mdata, layer={"rna": "counts"})
    assert sparse.issparse(views["rna"]) and views["rna"].shape == counts.shape
    assert set(views) == set(present) == {"rna", "protein"}
    omcal.tl.omcal(mdata, 3, use_rep={"protein": "X"}, layer={"rna": "counts"}, random_state=0)
    assert set(mdata.uns["omcal"]["view_weights"]) == {"rna", "protein"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"layer": "raw"}, r"has no layers\['raw'\]; it has \['counts'\]"),
        ({"layer": "counts", "use_rep": "X_pca"}, "are both for 'data'; give one of them"),
        ({"layer": {"rna": "counts"}}, "is for MuData"),
    ],
)
def test_bad_layers(kinds, more, message):
    adata = kinds.plain(COUNTS, CELLS, {"X_pca": RNA}, {"counts": COUNTS})
    with pytest.raises(ValueError, match=message):
        omcal.tl.omcal(adata, 3, **more)


@pytest.mark.slow
def test_without_a_number_of_clusters(mdata):
    with pytest.raises(ValueError, match=r'n_clusters is not given; .*n_clusters="auto"'):
        omcal.tl.omcal(mdata)
    omcal.tl.omcal(mdata, "auto", random_state=0)
    assert len(mdata.obs["omcal"].cat.categories) == 3


@pytest.mark.slow
def test_the_model_is_kept_or_saved_on_request(mdata, tmp_path):
    omcal.tl.omcal(mdata, 3, random_state=0)
    with pytest.raises(ValueError, match=r"no model in uns\['omcal'\]; fit with keep_model=True"):
        omcal.tl.model_of(mdata)
    path = tmp_path / "cells.omcal"
    omcal.tl.omcal(mdata, 3, keep_model=True, save_model=path, random_state=0)
    model = omcal.tl.model_of(mdata)
    views, present = omcal.tl.views_of(mdata)
    labels = mdata.obs["omcal"].astype(int).to_numpy()
    for kept in (model, omcal.load(path)):
        assert evaluate(labels, kept.predict(views, present=present))["ari"] > 0.95
    explained = model.explain_views(views, present=present, n_resamples=0)
    assert [view.name for view in explained.views] == list(mdata.mod)
    report = tmp_path / "cells.html"
    model.report(report, views, present=present)
    assert "protein" in report.read_text()


def test_the_map_has_two_dimensions_and_shows_the_clusters(mdata):
    omcal.tl.omcal(mdata, 3, random_state=0)
    places = np.asarray(mdata.obsm["X_omcal_map"])
    assert places.shape == (120, 2) and np.isfinite(places).all()
    labels = mdata.obs["omcal"].astype(int).to_numpy()
    centres = np.array([places[labels == c].mean(axis=0) for c in range(3)])
    nearest = np.linalg.norm(places[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == labels).mean() > 0.9


def test_round_trip_through_h5mu_with_missing_cells(tmp_path):
    """Read, clustered, written, read: by mudata and by the readers of omcal."""
    pytest.importorskip("mudata", reason="the extra omics is not installed")
    import mudata

    whole = RealKinds.together(
        rna=RealKinds.plain(COUNTS[:110], CELLS[:110], {"X_pca": RNA[:110]}),
        protein=RealKinds.plain(PROTEIN[4:], CELLS[4:]),
    )
    whole.write(tmp_path / "cells.h5mu")
    mdata = mudata.read(tmp_path / "cells.h5mu")
    omcal.tl.omcal(mdata, n_clusters=3, keep_model=True, random_state=0)
    mdata.write(tmp_path / "clustered.h5mu")
    again = mudata.read(tmp_path / "clustered.h5mu")
    assert_array_equal(again.obs["omcal"].astype(int), mdata.obs["omcal"].astype(int))
    assert list(again.obs["omcal"].cat.categories) == ["0", "1", "2"]
    assert_allclose(again.obsm["X_omcal"], mdata.obsm["X_omcal"])
    assert again.uns["omcal"]["params"]["n_clusters"] == 3
    views, present = omcal.tl.views_of(again)
    predicted = omcal.tl.model_of(again).predict(views, present=present)
    assert evaluate(again.obs["omcal"].astype(int), predicted)["ari"] > 0.95
    weights = {name: float(w) for name, w in again.uns["omcal"]["view_weights"].items()}
    assert weights == mdata.uns["omcal"]["view_weights"]
    data = load_views(tmp_path / "clustered.h5mu", labels="omcal")
    assert data.n_samples == 120 and set(data.views) == {"rna", "protein"}
    assert_array_equal(data.labels.astype(int), mdata.obs["omcal"].astype(int))
    lacking = {name: int((~here).sum()) for name, here in data.present.items()}
    assert lacking == {"rna": 10, "protein": 4}
    # The file and the object are the same data, so that both ways give the same clusters.
    assert data.scales == {"rna": "view"}
    by_file = OMCAL(3, scale=data.scales, random_state=0).fit(
        {name: data.views[name] for name in mdata.mod}, present=data.present
    )
    assert_array_equal(by_file.labels_, data.labels.astype(int))


def test_cells_that_are_still_in_their_file(tmp_path):
    anndata = pytest.importorskip("anndata", reason="the extra omics is not installed")
    expected = OMCAL(3, random_state=0).fit([COUNTS]).labels_
    for name, X in {"sparse": COUNTS, "dense": COUNTS.toarray()}.items():
        RealKinds.plain(X, CELLS).write_h5ad(tmp_path / f"{name}.h5ad")
        backed = anndata.read_h5ad(tmp_path / f"{name}.h5ad", backed="r")
        omcal.tl.omcal(backed, n_clusters=3, random_state=0)
        assert evaluate(expected, backed.obs["omcal"].astype(int))["accuracy"] > 0.95
        backed.file.close()


@pytest.fixture
def scanpy():
    library = pytest.importorskip("scanpy", reason="scanpy is not installed")
    import matplotlib as mpl

    mpl.use("Agg")
    return library


def test_scanpy_colours_a_plot_by_the_clusters(tmp_path, scanpy):
    adata = RealKinds.plain(COUNTS, CELLS, {"X_pca": RNA})
    omcal.tl.omcal(adata, n_clusters=3, random_state=0)
    figure = scanpy.pl.embedding(adata, basis="X_pca", color="omcal", return_fig=True, show=False)
    figure.savefig(tmp_path / "cells.png")
    assert len(adata.uns["omcal_colors"]) == 3


def test_scanpy_colours_a_plot_of_mudata_with_missing_cells(scanpy):
    mdata = RealKinds.together(
        rna=RealKinds.plain(COUNTS[:110], CELLS[:110]),
        protein=RealKinds.plain(PROTEIN[4:], CELLS[4:]),
    )
    omcal.tl.omcal(mdata, n_clusters=3, random_state=0)
    figure = scanpy.pl.embedding(
        mdata, basis="X_omcal_map", color="omcal", return_fig=True, show=False
    )
    shown = sum(len(points.get_offsets()) for points in figure.axes[0].collections)
    assert shown >= 120 and len(mdata.uns["omcal_colors"]) == 3


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scanpy_from_raw_counts_to_the_plot(scanpy, seed):
    """The calls of a usual analysis, around ours."""
    counts, types = raw_counts(seed)
    adata = RealKinds.plain(sparse.csr_matrix(counts), CELLS)  # what scanpy works on
    adata.layers["counts"] = adata.X.copy()
    scanpy.pp.normalize_total(adata)
    scanpy.pp.log1p(adata)
    scanpy.pp.pca(adata, n_comps=10)
    for key, more in {"of_counts": {"layer": "counts"}, "of_pca": {}}.items():
        omcal.tl.omcal(adata, 3, key_added=key, random_state=0, **more)
        assert evaluate(types, adata.obs[key].astype(int))["ari"] >= 0.95
        scanpy.pl.embedding(adata, basis=f"X_{key}_map", color=key, show=False)
    scanpy.tl.rank_genes_groups(adata, "of_counts", method="t-test")
    assert set(adata.uns["rank_genes_groups"]["names"].dtype.names) == {"0", "1", "2"}


def test_muon_plots_and_weighs_beside_ours():
    muon = pytest.importorskip("muon", reason="muon is not installed")
    import matplotlib as mpl

    mpl.use("Agg")
    counts, types = raw_counts()
    protein = np.random.default_rng(1).normal(size=(3, 10))[types] * 4 + PROTEIN * 0.1
    mdata = muon.MuData(
        {"rna": RealKinds.plain(counts, CELLS), "protein": RealKinds.plain(protein, CELLS)}
    )
    muon.pp.filter_obs(mdata, mdata.obs_names[:110])
    omcal.tl.omcal(mdata, 3, use_rep="X", random_state=0)
    order = [CELLS.index(name) for name in mdata.obs_names]
    assert evaluate(types[order], mdata.obs["omcal"].astype(int))["ari"] >= 0.95
    muon.pl.embedding(mdata, basis="X_omcal_map", color="omcal", show=False)
    assert len(mdata.uns["omcal_colors"]) == 3


@pytest.mark.slow
def test_several_runs_say_how_far_they_agree(mdata, tmp_path):
    omcal.tl.omcal(mdata, n_clusters=3, n_runs=4, keep_model=True, random_state=0)
    views, _ = in_order_of(mdata)
    model = Consensus(OMCAL(3, scale={"rna": "view"}), n_runs=4, random_state=0)
    model.fit({name: views[name] for name in mdata.mod})
    assert_array_equal(mdata.obs["omcal"].astype(int), model.labels_)
    assert_allclose(mdata.obs["omcal_certainty"], model.certainty_)
    record = mdata.uns["omcal"]
    assert record["stability"] == pytest.approx(model.stability_)
    assert record["params"]["n_runs"] == 4 and record["params"]["n_clusters"] == 3
    assert record["params"]["random_state"] == 0
    kept = omcal.tl.model_of(mdata)
    assert isinstance(kept, Consensus) and kept.n_runs == 4
    omcal.tl.omcal(mdata, n_clusters=3, key_added="one", random_state=0)
    assert "one_certainty" not in mdata.obs and "stability" not in mdata.uns["one"]


def test_n_runs_must_be_positive(mdata):
    with pytest.raises(ValueError, match=r"n_runs=0 must be at least 1"):
        omcal.tl.omcal(mdata, n_clusters=3, n_runs=0)


def test_a_frame_of_numbers_and_categories(kinds):
    frame = pd.DataFrame({"CD3": PROTEIN[:, 0], "tissue": np.array(list("abc"))[MADE.labels]})
    frame.index = CELLS
    adata = kinds.plain(COUNTS, CELLS, {"X_pca": RNA, "about": frame})
    omcal.tl.omcal(adata, 3, use_rep=["X_pca", "about"], random_state=0)
    assert list(adata.uns["omcal"]["view_weights"]) == ["X_pca", "about"]
