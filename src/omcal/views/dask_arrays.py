"""Adapter: arrays, data frames and delayed blocks of Dask, as arrays with chunks of whole rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from omcal.views.view import Table, View, column_names, require_numeric


def dask_table(data: Any, name: str) -> Table:
    """Open a Dask array or data frame as a table that stays on its cluster.

    Its row chunks are known and none is empty; each has all columns.
    """
    names = column_names(data)
    if hasattr(data, "to_dask_array"):
        require_numeric(data.dtypes, name)
        data = data.to_dask_array(lengths=True)
    require_numeric([data.dtype], name)
    if isinstance(data._meta, np.ma.MaskedArray):
        raise ValueError(
            f"view {name!r} is a masked array of Dask; fill it: da.ma.filled(array, np.nan)."
        )
    if np.isnan(data.shape[0]):
        data = data.compute_chunk_sizes()
    rows = tuple(size for size in data.chunks[0] if size)
    return Table.of(View(name, data.rechunk({0: rows or (0,), 1: -1}), names))


def array_of_delayed(data: Any, name: str) -> Any:
    """Return delayed blocks of rows, whose shapes are unknown, as a Dask array; else the data."""
    blocks = data if isinstance(data, list | tuple) else [data]
    if not blocks or not is_delayed(blocks[0]):
        return data
    import dask
    import dask.array as da

    # Only the blocks themselves know their shapes.
    found = dask.compute(*(dask.delayed(_shape_and_type)(block) for block in blocks))
    widths = {shape[1:] for shape, _ in found}
    if len(widths) > 1 or len(next(iter(widths))) != 1:
        shapes = ", ".join(str(shape) for shape, _ in found[:8])
        raise ValueError(
            f"view {name!r}: its blocks have the shapes {shapes}; each must be 2-D with the same "
            "number of features."
        )
    dtype = np.result_type(*(dtype for _, dtype in found))
    arrays = [
        da.from_delayed(dask.delayed(np.asarray)(block, dtype), shape=shape, dtype=dtype)
        for block, (shape, _) in zip(blocks, found, strict=True)
    ]
    return da.concatenate(arrays)


def is_delayed(item: Any) -> bool:
    """Whether this is a delayed value of Dask."""
    return type(item).__module__ == "dask.delayed"


def _shape_and_type(block: Any) -> tuple[tuple[int, ...], np.dtype]:
    array = np.asarray(block)
    return array.shape, array.dtype
