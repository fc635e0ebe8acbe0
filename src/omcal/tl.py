"""Clustering of MuData and AnnData objects in place, as in scanpy and muon."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from omcal.datasets._columns import scale_of_key
from omcal.datasets._data import Matrix, spread_rows
from omcal.machine.arrays import Mask
from omcal.machine.optional import require
from omcal.model.consensus import Consensus
from omcal.model.estimators import OMCAL
from omcal.model.files import load
from omcal.report.layout import model_layout
from omcal.views.frames import Columns, is_frame
from omcal.views.mixed import stacked

__all__ = ["model_of", "omcal", "views_of"]

_PREFERRED = "X_pca"

Keys = str | Sequence[str] | Mapping[str, str] | None
Source = tuple[Any, str | None, str | None]  # an AnnData object, its key and its layer


Data = TypeVar("Data")  # AnnData or MuData


def omcal(
    data: Data,
    n_clusters: int | Literal["auto"] | None = None,
    *,
    use_rep: Keys = None,
    layer: str | Mapping[str, str] | None = None,
    n_runs: int = 1,
    key_added: str = "omcal",
    keep_model: bool = False,
    save_model: str | os.PathLike[str] | None = None,
    copy: bool = False,
    **params: Any,
) -> Data | None:
    """Cluster the cells of a MuData object, its modalities being the views, or of an AnnData.

    Parameters
    ----------
    data : MuData or AnnData
        A cell may be absent from some modalities, but not from all.
    n_clusters : int or "auto"
        Number of clusters; "auto": the number that `omcal.select.n_clusters` suggests.
    use_rep : str, list or mapping, optional
        Representation of the cells; see `views_of`.
    layer : str or mapping, optional
        Layer to use instead of a representation; see `views_of`.
    n_runs : int, default=1
        Number of runs, each with other anchors, to combine by :class:`omcal.Consensus`; `omcal
        cluster` combines 10.
    key_added : str, default="omcal"
        Name of the results: labels in ``obs[key]`` (categorical), the soft indicator in
        ``obsm["X_" + key]``, a map in two dimensions (that of ``obsm["X_umap"]`` if there is
        one) in ``obsm["X_" + key + "_map"]``, and
        parameters, view weights and objective in ``uns[key]``. Several runs also give
        ``obs[key + "_certainty"]``, the share of runs that agree with each label, and
        ``uns[key]["stability"]``, the mean adjusted Rand index between the runs and the result.
    keep_model : bool, default=False
        Keep the model in ``uns[key]["model"]``, as an array of bytes that h5ad and h5mu files can
        hold; `model_of` gives it back.
    save_model : path, optional
        Write the model to this file, for `omcal.load` and `omcal predict`.
    copy : bool, default=False
        Return a changed copy instead of changing `data`.
    **params
        Parameters of :class:`omcal.OMCAL`, such as ``weighting="agreement"``. Where `scale` is not
        among them, components (keys of `obsm` that begin with ``X_``) keep the relation of their
        variances ("view"), as in `omcal cluster`; "auto" recognises the kind of other matrices,
        such as raw counts.

    Returns
    -------
    MuData, AnnData or None
        The changed copy where `copy` is True, else None.

    Raises
    ------
    ValueError
        If `n_clusters` is not given, a cell is in none of the modalities, or `use_rep` or `layer`
        is unknown.

    Examples
    --------
    >>> import anndata
    >>> import omcal
    >>> from omcal.datasets import make_multiview
    >>> rna, protein = make_multiview(120, n_clusters=3, n_views=2, random_state=0).views.values()
    >>> cells = anndata.AnnData(rna, obsm={"protein": protein})
    >>> omcal.tl.omcal(cells, n_clusters=3, use_rep=["X", "protein"], random_state=0)
    >>> cells.obs["omcal"].cat.categories.tolist(), cells.obsm["X_omcal"].shape
    (['0', '1', '2'], (120, 3))

    Cluster raw counts, colour a plot by the clusters, then ask the model::

        omcal.tl.omcal(mdata, n_clusters=12, layer="counts", keep_model=True, random_state=0)
        scanpy.pl.embedding(mdata, basis="X_omcal_map", color="omcal")
        model = omcal.tl.model_of(mdata)
        views, present = omcal.tl.views_of(mdata, layer="counts")
        print(model.explain_views(views, present=present))
        model.report("cells.html", views, present=present)
    """
    pd = require("pandas", "labels of cells")
    if n_clusters is None:
        raise ValueError(
            'n_clusters is not given; give the number of clusters, or n_clusters="auto" for the '
            "one that the data suggest."
        )
    if n_runs < 1:
        raise ValueError(f"n_runs={n_runs} must be at least 1.")
    cells: Any = data
    if copy:
        cells = cells.copy()
    views, present = views_of(cells, use_rep=use_rep, layer=layer)
    params.setdefault("scale", _scales(_sources(cells, use_rep, layer)))
    model: OMCAL | Consensus = OMCAL(n_clusters, **params)
    if n_runs > 1:
        model = Consensus(model, n_runs=n_runs, random_state=params.get("random_state"))
    model.fit(views, present=present)
    names = [str(cluster) for cluster in range(model.n_clusters_)]
    cells.obs[key_added] = pd.Categorical.from_codes(model.labels_, categories=names)
    if isinstance(model, Consensus):
        cells.obs[f"{key_added}_certainty"] = model.certainty_
    cells.obsm[f"X_{key_added}"] = model.transform(views, present)
    umap = cells.obsm.get("X_umap")
    cells.obsm[f"X_{key_added}_map"] = (
        model_layout(model._described, views, present=present)
        if umap is None or np.shape(umap)[1] != 2
        else np.array(umap, dtype=np.float64)
    )
    cells.uns[key_added] = _record(model)
    if keep_model:
        cells.uns[key_added]["model"] = _as_bytes(model)
    if save_model is not None:
        model.save(save_model)
    return cells if copy else None


def model_of(data: Any, key: str = "omcal") -> OMCAL | Consensus:
    """Return the model that ``omcal.tl.omcal(data, keep_model=True)`` kept.

    Parameters
    ----------
    data : MuData or AnnData
        Also one that was written to a file and read again.
    key : str, default="omcal"
        The `key_added` of the fit.

    Returns
    -------
    OMCAL or Consensus
        Fitted; its `predict`, `explain_views` and `report` take the result of `views_of`.

    Examples
    --------
    >>> import anndata
    >>> import omcal
    >>> from omcal.datasets import make_multiview
    >>> cells = anndata.AnnData(make_multiview(90, n_clusters=3, random_state=0).views["view1"])
    >>> omcal.tl.omcal(cells, n_clusters=3, keep_model=True, random_state=0)
    >>> omcal.tl.model_of(cells).view_names_
    ['X']
    """
    kept = data.uns[key].get("model") if key in data.uns else None
    if kept is None:
        raise ValueError(f"there is no model in uns[{key!r}]; fit with keep_model=True.")
    with tempfile.TemporaryDirectory(prefix="omcal-") as folder:
        path = Path(folder) / "kept.omcal"
        path.write_bytes(np.asarray(kept, dtype=np.uint8).tobytes())
        model = load(path)
    assert isinstance(model, OMCAL | Consensus)
    return model


def views_of(
    data: Any, *, use_rep: Keys = None, layer: str | Mapping[str, str] | None = None
) -> tuple[dict[str, Matrix], dict[str, Mask] | None]:
    """Return the views that a fit to `data` uses, and the cells in each of them.

    Parameters
    ----------
    data : MuData or AnnData
        The cells.
    use_rep : str, list or mapping, optional
        Representation of the cells: a key of `obsm`, or "X". For MuData a key for all modalities,
        or a mapping from the modalities to use to their keys. For AnnData one key, or a list of
        keys, each a view. By default ``obsm["X_pca"]`` where there is one, else ``X``.
    layer : str or mapping, optional
        A layer, such as "counts", instead. For MuData one that all modalities have, or a mapping
        from modalities to layers; the others are represented as `use_rep` says.

    Returns
    -------
    views : dict
        Name -> array or sparse matrix, in the order of ``data.obs_names``.
    present : dict or None
        Name -> boolean array; None for AnnData.

    Examples
    --------
    >>> import anndata
    >>> import numpy as np
    >>> import omcal
    >>> cells = anndata.AnnData(np.ones((5, 3)), obsm={"X_pca": np.ones((5, 2))})
    >>> views, present = omcal.tl.views_of(cells, use_rep=["X", "X_pca"])
    >>> {name: view.shape for name, view in views.items()}, present
    ({'X': (5, 3), 'X_pca': (5, 2)}, None)
    """
    sources = _sources(data, use_rep, layer)
    if not hasattr(data, "mod"):
        return {name: _matrix(*source, "data") for name, source in sources.items()}, None
    everyone = data.obs.index
    order = {name: cells.obs_names.get_indexer(everyone) for name, (cells, *_) in sources.items()}
    views = {
        name: spread_rows(_matrix(*source, name), order[name]) for name, source in sources.items()
    }
    return views, {name: position >= 0 for name, position in order.items()}


def _sources(data: Any, use_rep: Keys, layer: Any) -> dict[str, Source]:
    """Return the AnnData object, the key and the layer of each view."""
    if not hasattr(data, "mod"):
        return _keys_of(data, use_rep, layer)
    if isinstance(use_rep, Mapping):
        keys: dict[str, str | None] = _of_modalities(data, use_rep, "use_rep")
    elif use_rep is None or isinstance(use_rep, str):
        keys = dict.fromkeys(data.mod, use_rep)
    else:
        raise ValueError(
            f"use_rep={use_rep!r} is for AnnData; for MuData give one key, or a mapping from "
            "modalities to keys."
        )
    layers: dict[str, str | None] = dict.fromkeys(keys, layer if isinstance(layer, str) else None)
    if isinstance(layer, Mapping):
        layers |= _of_modalities(data, layer, "layer")
        keys = {**dict.fromkeys(layer), **keys} if isinstance(use_rep, Mapping) else keys
    return {name: (data.mod[name], key, layers[name]) for name, key in keys.items()}


def _of_modalities(mdata: Any, given: Mapping[str, str], parameter: str) -> dict[str, Any]:
    unknown = sorted(set(given) - set(mdata.mod))
    if unknown or not given:
        raise ValueError(
            f"{parameter}={given!r} names the modalities {unknown}, and there are "
            f"{list(mdata.mod)}; use some of these."
        )
    return {name: str(key) for name, key in given.items()}


def _keys_of(adata: Any, use_rep: Keys, layer: Any) -> dict[str, Source]:
    for parameter, given in (("use_rep", use_rep), ("layer", layer)):
        if isinstance(given, Mapping):
            raise ValueError(f"{parameter}={given!r} is for MuData; give one name.")
    keys = [use_rep] if use_rep is None or isinstance(use_rep, str) else list(use_rep)
    if not keys:
        raise ValueError("use_rep is empty; give at least one key of obsm, or 'X'.")
    found = {key or layer or _default_key(adata): (adata, key, layer) for key in keys}
    if len(found) < len(keys):
        raise ValueError(f"use_rep={use_rep!r} names a key twice; each is one view.")
    return found


def _default_key(adata: Any) -> str:
    return _PREFERRED if _PREFERRED in adata.obsm else "X"


def _matrix(adata: Any, key: str | None, layer: str | None, name: str) -> Any:
    """Return the matrix in `key` or `layer`: an array or a sparse matrix."""
    if layer is not None:
        if key not in (None, "X"):
            raise ValueError(
                f"use_rep={key!r} and layer={layer!r} are both for {name!r}; give one of them."
            )
        if layer not in adata.layers:
            raise ValueError(
                f"layer: {name!r} has no layers[{layer!r}]; it has {list(adata.layers)}."
            )
        return _in_memory(adata.layers[layer])
    key = key or _default_key(adata)
    if key != "X" and key not in adata.obsm:
        raise ValueError(f"use_rep: {name!r} has no obsm[{key!r}]; it has {list(adata.obsm)}.")
    part = adata.X if key == "X" else adata.obsm[key]
    if part is None:
        raise ValueError(f"use_rep: {name!r} has no X; give a key of obsm: {list(adata.obsm)}.")
    return _in_memory(part)


def _in_memory(part: Any) -> Any:
    if hasattr(part, "to_memory"):  # a sparse matrix that is still in its file
        part = part.to_memory()
    return stacked(Columns.of(part)) if is_frame(part) else part


def _scales(sources: dict[str, Source]) -> dict[str, str]:
    """Return the `scale` of the views that hold components."""
    keys = {n: "" if layer else key or _default_key(c) for n, (c, key, layer) in sources.items()}
    return {name: scale for name, key in keys.items() if (scale := scale_of_key(key))}


def _as_bytes(model: OMCAL | Consensus) -> np.ndarray:
    with tempfile.TemporaryDirectory(prefix="omcal-") as folder:
        path = Path(folder) / "kept.omcal"
        model.save(path)
        return np.frombuffer(path.read_bytes(), dtype=np.uint8)


def _record(model: OMCAL | Consensus) -> dict[str, Any]:
    """Return the parts of a fit that h5ad and h5mu files can hold; None is left out."""
    weights = model.view_weights_.tolist()
    params, stability = model.get_params(deep=False), {}
    if isinstance(model, Consensus):
        inner = params.pop("estimator").get_params()
        params = {**inner, **params}
        stability = {"stability": model.stability_}
    params["n_clusters"] = model.n_clusters_
    return {
        "params": {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in params.items()
            if value is not None
        },
        "view_weights": dict(zip(model.view_names_, weights, strict=True)),
        "objective": np.array(model.objective_),
        "converged": model.converged_,
        **stability,
    }
