"""Describe the contents of a file or data set."""

from __future__ import annotations

import os
from typing import Any, Unpack

import numpy as np
from scipy import sparse

from omcal.datasets._columns import PRESENT_SUFFIX, is_label_name
from omcal.datasets._data import Contents, MultiViewData, count_classes, other_notes
from omcal.datasets._selection import label_vectors
from omcal.datasets.loading import LoadOptions, Paths, load_sources, read_sources
from omcal.machine.arrays import Array
from omcal.views.columns import listed
from omcal.views.missing import count_cells, lost_cells
from omcal.views.mixed import describe_columns
from omcal.views.pair import DataError
from omcal.views.stored import StoredArray, StoredTable
from omcal.views.view import View


def describe(data: Paths | MultiViewData, **options: Unpack[LoadOptions]) -> dict[str, Any]:
    """Describe a file, a folder, several files or folders, or a loaded data set.

    Parameters
    ----------
    data : path, list of paths, or MultiViewData
        Files, or a data set.
    **options
        As in `load_views`, for files: `id`, `join`, `transpose`, `header`, `views`, `labels`.

    Returns
    -------
    dict
        Plain Python values, as for JSON:

        * ``name``, ``format`` (None for loaded data), ``n_samples``, ``n_nowhere`` (samples that
          are absent from every view);
        * ``views``: for each its ``name``, ``shape``, ``dtype``, ``sparse``, ``density`` (of a
          sparse view), ``n_nan`` (single values) and ``n_missing_rows`` (absent samples);
        * ``columns``: for each column of a mixed table the ``view``, its ``name``, its ``kind``
          in words, and ``n_missing`` cells;
        * ``labels``: the name of the default labels, or None; ``ids``: likewise;
        * ``label_candidates``: ``name``, ``dtype`` and ``n_classes`` of each possible label vector;
        * ``notes``: choices that reading made, and columns that it left out;
        * ``problem``: why it cannot be loaded without options, or None.

    Raises
    ------
    DataError
        Where the file cannot be read at all.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> found = describe(make_multiview(60, n_views=2, missing=0.25, random_state=0))
    >>> found["n_samples"], [view["n_missing_rows"] for view in found["views"]]
    (60, [15, 15])
    """
    if unknown := options.keys() - LoadOptions.__annotations__.keys():
        raise TypeError(f"describe() has no option {listed(sorted(unknown))}; see load_views.")
    if isinstance(data, MultiViewData):
        labels = {} if data.labels is None else {data.label_name or "labels": data.labels}
        return _report(data, labels, None)
    own_file = isinstance(options.get("labels"), os.PathLike)
    sources = read_sources(data, options.get("header"))
    problem = None
    loaded = None
    try:
        loaded = load_sources(sources, **options)
    except DataError as error:
        problem = str(error)
    candidates: dict[str, Array] = {}
    for source in sources:
        for name, values in _candidates(source.contents, loaded).items():
            # With several files the name alone is ambiguous.
            candidates[name if len(sources) == 1 else f"{source.key}: {name}"] = values
    if loaded is not None and loaded.labels is not None and (own_file or len(sources) > 1):
        candidates = {str(loaded.label_name): loaded.labels, **candidates}
    formats = dict.fromkeys(source.contents.format for source in sources)
    found = _report(loaded, candidates, ", ".join(formats))
    name = " + ".join(dict.fromkeys(source.path.name for source in sources))
    return {**found, "name": name, "problem": problem}


def _report(
    data: MultiViewData | None, candidates: dict[str, Array], file_format: str | None
) -> dict[str, Any]:
    present = list(data.present.values()) if data and data.present else [np.True_]
    return {
        "name": data.name if data else "",
        "format": file_format,
        "n_samples": data.n_samples if data else None,
        "n_nowhere": int((~np.logical_or.reduce(present)).sum()) if data else None,
        "views": [_describe_view(data, name) for name in data.views] if data else [],
        "columns": describe_columns(data.views.encoding) if data else [],
        "labels": data.label_name if data and data.labels is not None else None,
        "ids": data.id_name if data and data.ids is not None else None,
        "label_candidates": [
            {"name": name, "dtype": str(values.dtype), "n_classes": count_classes(values)}
            for name, values in candidates.items()
        ],
        "notes": other_notes(data) if data else [],
        "problem": None,
    }


def _candidates(contents: Contents, data: MultiViewData | None) -> dict[str, Array]:
    """Return vectors with a name of labels, and vectors with a few repeated values."""
    found = {}
    for name, values in label_vectors(contents).items():
        if name.endswith(PRESENT_SUFFIX):
            continue
        stored = contents.variables[name]
        measured = isinstance(stored, np.ndarray) and stored.dtype.kind == "f"
        n_classes = count_classes(values)
        fits = data is None or len(values) == data.n_samples
        if is_label_name(name) or (fits and not measured and 2 <= n_classes <= len(values) // 2):
            found[name] = values
    return found


def _describe_view(data: MultiViewData, name: str) -> dict[str, Any]:
    array, titles = data.views[name], (data.feature_names or {}).get(name)
    is_sparse = sparse.issparse(array)
    # In blocks, because a memory-mapped view may be larger than memory.
    stored = StoredArray(StoredTable(array, name)) if isinstance(array, np.memmap) else array
    with np.errstate(invalid="ignore"):
        cells = count_cells(View(name, stored, present=(data.present or {}).get(name)))
    plan = data.views.encoding.get(name, {})
    return {
        "name": name,
        "shape": [int(size) for size in array.shape],
        "dtype": str(array.dtype),
        "sparse": is_sparse,
        "density": array.nnz / (array.shape[0] * array.shape[1]) if is_sparse else None,
        "n_nan": lost_cells(cells, plan, None if titles is None else tuple(titles)),
        "n_missing_rows": data.n_samples - cells.n,
    }
