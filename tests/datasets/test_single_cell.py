"""Files in the layouts of anndata and mudata, written with h5py."""

import numpy as np
import pytest
from dataset_files import copy_to_zarr, put_observations, put_sparse, same_views
from scipy import sparse

from omcal.datasets import DataError, MultiViewData, describe, load_views, save_views

h5py = pytest.importorskip("h5py")

CELLS = [f"cell{i}" for i in range(8)]
TYPES = np.array(["T", "B", "T", "NK", "B", "T", "", "B"])


@pytest.fixture
def counts(rng):
    return sparse.random_array((8, 30), density=0.3, format="csr", random_state=rng)


def test_h5ad_takes_principal_components_and_what_was_measured(tmp_path, counts, rng):
    pca, protein = rng.normal(size=(8, 4)), rng.normal(size=(8, 3))
    with h5py.File(tmp_path / "data.h5ad", "w") as file:
        put_sparse(file, "X", counts)
        put_observations(file, CELLS, cell_type=TYPES, batch=np.arange(8) % 2)
        file["obsm/X_pca"], file["obsm/X_umap"] = pca, pca[:, :2]
        for j in range(3):
            file[f"obsm/protein/CD{j}"] = protein[:, j]
    data = load_views(tmp_path / "data.h5ad")
    assert list(data.views) == ["X_pca", "protein"]
    assert np.array_equal(data.views["X_pca"], pca)
    assert np.array_equal(data.views["protein"], protein)
    assert data.labels.tolist() == TYPES.tolist() and data.label_name == "cell_type"
    assert "1 sample has no label in 'cell_type'" in data.notes
    chosen = load_views(tmp_path / "data.h5ad", views=["X", "X_umap"], labels="batch")
    assert np.array_equal(chosen.views["X"].toarray(), counts.toarray())
    assert chosen.n_classes == 2
    candidates = {
        c["name"]: c["n_classes"] for c in describe(tmp_path / "data.h5ad")["label_candidates"]
    }
    assert candidates == {"cell_type": 3, "batch": 2}


@pytest.mark.parametrize("layout", ["csr", "csc", "dense"])
def test_h5ad_matrix(tmp_path, rng, layout):
    # A square matrix says only in its encoding whether it is stored by rows or by columns.
    for shape in ((8, 8), (8, 5)):
        counts = sparse.random_array(shape, density=0.3, format="csr", random_state=rng)
        path = tmp_path / f"data{shape[1]}.h5ad"
        with h5py.File(path, "w") as file:
            if layout == "dense":
                file["X"] = counts.toarray()
            else:
                put_sparse(file, "X", counts.asformat(layout))
            put_observations(file, CELLS)
        view = load_views(path).views["X"]
        assert sparse.issparse(view) == (layout != "dense")
        assert np.array_equal(view.toarray() if layout != "dense" else view, counts.toarray())


def test_h5ad_categories_of_older_files(tmp_path, counts):
    with h5py.File(tmp_path / "data.h5ad", "w") as file:
        put_sparse(file, "X", counts)
        put_observations(file, CELLS, celltype=np.arange(8) % 2)
        file["obs/__categories/celltype"] = np.array(["left", "right"], dtype=object)
    assert load_views(tmp_path / "data.h5ad").labels[:2].tolist() == ["left", "right"]


def write_h5mu(path, counts, pca, *, with_map=True):
    """Cells 0 to 7; rna has the cells 7, 5, 3, 1, 0 in this order, protein 0 to 3, atac all."""
    here = {"rna": [7, 5, 3, 1, 0], "protein": [0, 1, 2, 3], "atac": list(range(8))}
    with h5py.File(path, "w") as file:
        put_observations(file, CELLS, **{"rna:cell_type": TYPES})
        for name, cells in here.items():
            group = file.create_group(f"mod/{name}")
            put_observations(group, [CELLS[i] for i in cells])
            if name == "rna":
                group["X"], group["obsm/X_pca"] = np.ones((5, 30)), pca
            elif name == "protein":
                group["X"] = np.arange(12).reshape(4, 3)
            else:
                put_sparse(group, "X", counts)
            position = np.zeros(8, dtype=np.uint32)
            position[cells] = np.arange(len(cells)) + 1
            if with_map:
                file[f"obsmap/{name}"] = position
            elif name != "atac":
                file[f"obsm/{name}"] = position > 0


def test_h5mu_with_partly_missing_cells(tmp_path, counts, rng):
    pca = rng.normal(size=(5, 4))
    write_h5mu(tmp_path / "data.h5mu", counts, pca)
    data = load_views(tmp_path / "data.h5mu")
    assert list(data.views) == ["atac", "protein", "rna"]
    rna, protein = data.views["rna"], data.views["protein"]
    assert np.array_equal(rna[[7, 5, 3, 1, 0]], pca) and np.isnan(rna[[2, 4, 6]]).all()
    assert data.present["rna"].tolist() == [True, True, False, True, False, True, False, True]
    assert np.array_equal(protein[:4], np.arange(12).reshape(4, 3)) and np.isnan(protein[4:]).all()
    assert np.array_equal(data.views["atac"].toarray(), counts.toarray())
    assert data.present["atac"].all()
    assert data.label_name == "rna:cell_type" and data.labels.tolist() == TYPES.tolist()
    assert load_views(tmp_path / "data.h5mu", views=["rna/X"]).widths == (30,)


def test_h5mu_sparse_view_keeps_the_mask(tmp_path, counts):
    path = tmp_path / "data.h5mu"
    with h5py.File(path, "w") as file:
        put_observations(file, CELLS)
        group = file.create_group("mod/rna")
        put_observations(group, CELLS[:3], cell_type=TYPES[:3])
        put_sparse(group, "X", counts[:3])
        file["obsmap/rna"] = np.array([0, 0, 3, 2, 1, 0, 0, 0], dtype=np.uint32)
    data = load_views(path)
    assert np.array_equal(data.views["rna"][[4, 3, 2]].toarray(), counts[:3].toarray())
    assert data.views["rna"][[0, 1, 5, 6, 7]].nnz == 0
    assert data.present["rna"].tolist() == [False, False, True, True, True, False, False, False]
    assert data.labels.tolist() == ["", "", "T", "B", "T", "", "", ""]
    assert describe(path)["views"][0]["n_missing_rows"] == 5


@pytest.mark.slow
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore")  # zarr warns of strings, which others may not read
def test_zarr_folders_hold_the_same(tmp_path, counts, rng, zarr_format):
    zarr = pytest.importorskip("zarr")
    write_h5mu(tmp_path / "data.h5mu", counts, rng.normal(size=(5, 4)))
    with h5py.File(tmp_path / "one.h5ad", "w") as file:
        put_sparse(file, "X", counts.tocsc())
        put_observations(file, CELLS, cell_type=TYPES)
        file["obsm/protein/CD4"], file["layers/counts"] = np.arange(8.0), np.ones((8, 30))
    for name, kind in [("data.h5mu", "MuData"), ("one.h5ad", "AnnData")]:
        store = zarr.open_group(tmp_path / f"{name}.zarr", mode="w", zarr_format=zarr_format)
        with h5py.File(tmp_path / name) as file:
            copy_to_zarr(file, store)
        data, expected = load_views(tmp_path / f"{name}.zarr"), load_views(tmp_path / name)
        assert same_views(data, expected)
        assert data.labels.tolist() == expected.labels.tolist()
        assert describe(tmp_path / f"{name}.zarr")["format"] == f"{kind} (zarr)"
        if kind == "MuData":
            assert all((data.present[key] == expected.present[key]).all() for key in data.views)


def test_columns_with_gaps(tmp_path, counts):
    missing = np.arange(8) == 2
    with h5py.File(tmp_path / "data.h5ad", "w") as file:
        put_sparse(file, "X", counts)
        put_observations(file, CELLS)
        for name, values in {"y": np.arange(8) % 3, "label": TYPES.astype(object)}.items():
            file[f"obs/{name}/values"], file[f"obs/{name}/mask"] = values, missing
    assert np.isnan(load_views(tmp_path / "data.h5ad", labels="y").labels[2])
    text = load_views(tmp_path / "data.h5ad", labels="label")
    assert text.labels.tolist() == ["T", "B", "", "NK", "B", "T", "", "B"]
    assert text.n_classes == 3


@pytest.mark.filterwarnings("ignore")  # anndata and mudata warn of their own future
def test_files_of_anndata_and_mudata_themselves(tmp_path, rng):
    anndata = pytest.importorskip("anndata", reason="the extra omics is not installed")
    mudata = pytest.importorskip("mudata", reason="the extra omics is not installed")
    pd = pytest.importorskip("pandas")
    counts = sparse.random_array((8, 30), density=0.3, format="csc", random_state=rng)
    protein = pd.DataFrame(rng.normal(size=(8, 3)), index=CELLS, columns=["CD3", "CD4", "CD8"])
    types = pd.Categorical([name or None for name in TYPES])
    cells = anndata.AnnData(
        sparse.csc_matrix(counts),
        obs=pd.DataFrame({"cell_type": types}, index=CELLS),
        obsm={"protein": protein, "X_umap": np.zeros((8, 2))},
        layers={"spliced": np.ones((8, 30))},
    )
    cells.write_h5ad(tmp_path / "one.h5ad", compression="gzip")
    cells.write_zarr(tmp_path / "one.zarr")
    both = mudata.MuData({"rna": cells[[7, 5, 3]].copy(), "atac": cells[:6].copy()})
    both.write(tmp_path / "both.h5mu")
    both.write_zarr(tmp_path / "both.zarr")
    for name in ("one.h5ad", "one.zarr"):
        data = load_views(tmp_path / name)
        assert list(data.views) == ["X", "protein"] and data.labels.tolist() == TYPES.tolist()
        assert np.array_equal(data.views["X"].toarray(), counts.toarray())
        assert np.array_equal(data.views["protein"], protein)
    row = [CELLS.index(name) for name in both.obs_names]
    for name in ("both.h5mu", "both.zarr"):
        data = load_views(tmp_path / name)
        assert data.present["rna"].tolist() == [i in (7, 5, 3) for i in row]
        assert data.present["atac"].tolist() == [i < 6 for i in row]
        here = data.present["rna"]
        expected = counts.toarray()[np.array(row)[here]]
        assert np.array_equal(data.views["rna"].toarray()[here], expected)


@pytest.mark.filterwarnings("ignore")  # anndata warns of its own future
def test_anndata_reads_what_is_written(tmp_path, counts, rng):
    anndata = pytest.importorskip("anndata", reason="the extra omics is not installed")
    here = np.arange(8) != 5
    made = MultiViewData(
        {"rna": counts, "protein": rng.normal(size=(8, 3)).astype(np.float32)},
        labels=TYPES,
        present={"rna": here},
    )
    save_views(tmp_path / "data.h5ad", made)
    cells = anndata.read_h5ad(tmp_path / "data.h5ad")
    assert cells.shape == (8, 0) and list(cells.obs_names) == list("01234567")
    assert cells.obs["labels"].astype(object).fillna("").tolist() == TYPES.tolist()
    assert cells.obs["labels"].dtype == "category"
    assert cells.obs["rna.present"].tolist() == here.tolist()
    assert np.array_equal(cells.obsm["rna"].toarray(), counts.toarray())
    assert np.array_equal(cells.obsm["protein"], made.views["protein"])
    cells.write_h5ad(tmp_path / "again.h5ad")
    again = load_views(tmp_path / "again.h5ad", views=["rna", "protein"])
    assert same_views(again, made) and again.labels.tolist() == TYPES.tolist()
    assert np.array_equal(again.present["rna"], here)
    titles = np.array([f"gene{j}" for j in range(30)])
    save_views(tmp_path / "one.h5ad", MultiViewData({"X": counts}, feature_names={"X": titles}))
    cells = anndata.read_h5ad(tmp_path / "one.h5ad")
    assert cells.shape == (8, 30) and list(cells.var_names) == titles.tolist()


def test_h5mu_by_masks_only(tmp_path, counts, rng):
    pca = rng.normal(size=(5, 4))
    write_h5mu(tmp_path / "data.h5mu", counts, pca, with_map=False)
    data = load_views(tmp_path / "data.h5mu")
    assert np.array_equal(data.views["rna"][[0, 1, 3, 5, 7]], pca)
    assert data.present["atac"].all()


@pytest.mark.parametrize(
    ("place", "wrong", "message"),
    [
        ("obsmap/rna", np.full(8, 9, dtype=np.uint32), "map of the cells of modality 'rna'"),
        ("obsmap/rna", np.zeros(3, dtype=np.uint32), "does not say which"),
        ("obs/rna:cell_type/codes", np.full(8, 7, dtype=np.int8), "outside its 3 categories"),
        ("mod/rna/obsm/X_pca", np.zeros((2, 4)), "fewer rows"),
        ("mod/atac/X/indices", np.full(72, 31, dtype=np.int32), "entries outside"),
    ],
)
def test_contradictions_are_named(tmp_path, counts, place, wrong, message):
    path = tmp_path / "data.h5mu"
    write_h5mu(path, counts, np.zeros((5, 4)))
    with h5py.File(path, "r+") as file:
        del file[place]
        file[place] = wrong
    with pytest.raises(DataError, match=message):
        load_views(path)
