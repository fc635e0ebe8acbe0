"""Clustering of MuData and AnnData objects in place, in the manner of scanpy and muon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omcal.datasets._data import spread_rows
from omcal.model.estimators import OMCAL

_PREFERRED = "X_pca"


def omcal(
    data: Any,
    n_clusters: int = 8,
    *,
    use_rep: str | Sequence[str] | Mapping[str, str] | None = None,
    key_added: str = "omcal",
    copy: bool = False,
    **params: Any,
) -> Any:
    """Cluster the cells of a MuData object, its modalities being the views, or of an AnnData.

    Parameters
    ----------
    data : MuData or AnnData
        A cell may be absent from some modalities, but not from all.
    n_clusters : int, default=8
        Number of clusters.
    use_rep : optional
        What represents the cells: a key of `obsm`, or "X". For MuData a key for all modalities,
        or a mapping from the modalities to use to their keys. For AnnData one key, or a list of
        keys, each a view. By default ``obsm["X_pca"]`` where there is one, else ``X``.
    key_added : str, default="omcal"
        Name of what is written: labels in ``obs[key]`` (categorical), the soft indicator in
        ``obsm["X_" + key]``, and parameters, view weights and the course of the fit in
        ``uns[key]``.
    copy : bool, default=False
        Return a changed copy instead of changing `data`.
    **params
        Parameters of :class:`omcal.OMCAL`, such as ``weighting="agreement"``.

    Returns
    -------
    None, or the copy

    Raises
    ------
    ValueError
        Where a cell is in none of the modalities, or `use_rep` names what is not there.

    Examples
    --------
    Cluster, and colour a plot by the clusters::

        omcal.tl.omcal(mdata, n_clusters=12, random_state=0)
        scanpy.pl.embedding(mdata, basis="X_omcal", color="omcal")
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("omcal.tl needs pandas: pip install pandas.") from error
    if copy:
        data = data.copy()
    present = None
    if hasattr(data, "mod"):
        views, present = _modalities(data, use_rep)
    else:
        views = _parts(data, use_rep)
    model = OMCAL(n_clusters, **params).fit(views, present=present)
    names = [str(cluster) for cluster in range(n_clusters)]
    data.obs[key_added] = pd.Categorical.from_codes(model.labels_, categories=names)
    data.obsm[f"X_{key_added}"] = model.transform(views, present)
    data.uns[key_added] = _record(model)
    return data if copy else None


def _modalities(mdata: Any, use_rep: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A view of each modality, in the order of the cells of the whole, and which it has."""
    if isinstance(use_rep, Mapping):
        unknown = sorted(set(use_rep) - set(mdata.mod))
        if unknown or not use_rep:
            raise ValueError(
                f"use_rep={use_rep!r} names the modalities {unknown}, and there are "
                f"{list(mdata.mod)}; use some of these."
            )
        keys: dict[str, str | None] = {name: str(key) for name, key in use_rep.items()}
    elif use_rep is None or isinstance(use_rep, str):
        keys = dict.fromkeys(mdata.mod, use_rep)
    else:
        raise ValueError(
            f"use_rep={use_rep!r} is for AnnData; for MuData give one key, or a mapping from "
            "modalities to keys."
        )
    order = {name: mdata.mod[name].obs_names.get_indexer(mdata.obs_names) for name in keys}
    views = {
        name: spread_rows(_part(mdata.mod[name], key, name), order[name])
        for name, key in keys.items()
    }
    return views, {name: position >= 0 for name, position in order.items()}


def _parts(adata: Any, use_rep: Any) -> dict[str, Any]:
    """A view of each key of an AnnData object."""
    if isinstance(use_rep, Mapping):
        raise ValueError(f"use_rep={use_rep!r} is for MuData; give a key of obsm, or a list.")
    keys = [use_rep] if use_rep is None or isinstance(use_rep, str) else list(use_rep)
    if not keys:
        raise ValueError("use_rep is empty; give at least one key of obsm, or 'X'.")
    parts = {key or _default_key(adata): _part(adata, key, "data") for key in keys}
    if len(parts) < len(keys):
        raise ValueError(f"use_rep={use_rep!r} names a key twice; each is one view.")
    return parts


def _default_key(adata: Any) -> str:
    return _PREFERRED if _PREFERRED in adata.obsm else "X"


def _part(adata: Any, key: str | None, name: str) -> Any:
    """The cells as `key` represents them: an array or a sparse matrix."""
    key = key or _default_key(adata)
    if key != "X" and key not in adata.obsm:
        raise ValueError(f"use_rep: {name!r} has no obsm[{key!r}]; it has {list(adata.obsm)}.")
    part = adata.X if key == "X" else adata.obsm[key]
    if part is None:
        raise ValueError(f"use_rep: {name!r} has no X; give a key of obsm: {list(adata.obsm)}.")
    if hasattr(part, "to_memory"):  # a sparse matrix that is still in its file
        part = part.to_memory()
    return part.to_numpy() if hasattr(part, "to_numpy") else part


def _record(model: OMCAL) -> dict[str, Any]:
    """What h5ad and h5mu files can hold of a fit; parameters that are None are left out."""
    weights = model.view_weights_.tolist()
    return {
        "params": {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in model.get_params().items()
            if value is not None
        },
        "view_weights": dict(zip(model.view_names_, weights, strict=True)),
        "objective": np.array(model.objective_),
        "converged": model.converged_,
    }
