"""Data frames as views: the names of their columns, and the index that says which row is which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def column_names(array: Any) -> tuple[str, ...] | None:
    """The names of the columns of a data frame; None for what has none."""
    if is_arrow(array):  # whose `columns` are the data
        return tuple(map(str, array.schema.names))
    return tuple(map(str, array.columns)) if hasattr(array, "columns") else None


def is_arrow(array: Any) -> bool:
    """Whether this is a table or record batch of pyarrow; does not import pyarrow."""
    return type(array).__module__.partition(".")[0] == "pyarrow" and hasattr(array, "schema")


def arrow_values(table: Any, name: str) -> NDArray[Any]:
    """The columns of an Arrow table side by side; a null is NaN."""
    columns = [np.asarray(table.column(j)) for j in range(table.num_columns)]
    for title, column in zip(table.schema.names, columns, strict=True):
        if column.dtype.kind not in "biuf":
            kind = table.schema.field(title).type
            raise ValueError(
                f"view {name!r}: column {title!r} holds {kind}; a view must be numeric."
            )
    return np.column_stack(columns) if columns else np.empty(table.shape)


def refuse_words(frame: Any, name: str) -> None:
    """Raise where a column of a pandas frame holds no numbers, nor what can be read as such."""
    for place, title in enumerate(frame.columns if hasattr(frame, "iloc") else ()):
        values = np.asarray(frame.iloc[:, place])
        try:
            values.astype(np.float64)
            numbers = values.dtype.kind in "biufO"  # dates can be turned into numbers, too
        except (TypeError, ValueError):
            numbers = False
        if not numbers:
            raise ValueError(
                f"view {name!r}: column {str(title)!r} holds no numbers; leave it out, or make "
                "columns of zeros and ones of its words (pandas.get_dummies)."
            )


def align(named: Mapping[str, Any], present: Any = None) -> dict[str, Any]:
    """The views with their data frames in the order of the first one, by their indices.

    Frames that are merely numbered from 0 pair by position, like arrays, unless another frame has
    the same numbers in another order.
    """
    indices = {name: array.index for name, array in named.items() if _has_index(array)}
    labelled = [name for name, index in indices.items() if not _is_numbering(index)]
    if not labelled or _all_equal(indices.values()):
        return dict(named)
    numbered = [name for name in indices if name not in labelled]
    group = [
        name
        for name in indices
        if name in labelled or _same_set(indices[name], indices[labelled[0]])
    ]
    _require_same_sets({name: indices[name] for name in group})
    if _all_equal(indices[name] for name in group):
        return dict(named)
    loose = [name for name, array in named.items() if array is not None and name not in group]
    if loose:
        why = "is numbered otherwise" if loose[0] in numbered else "has no index"
        raise ValueError(
            f"the data frames {_listed(group)} have the same index in different orders, and view "
            f"{loose[0]!r} {why}, so that its rows cannot be told; bring the frames into one order "
            "with .loc[...], or give every view the index."
        )
    if present is not None:
        raise ValueError(
            f"the data frames {_listed(group)} have the same index in different orders, and "
            "present= does not say in which it is; bring the frames into one order with .loc[...]."
        )
    wanted = indices[group[0]]
    return {
        name: array.iloc[_places(indices[name], wanted)] if name in group else array
        for name, array in named.items()
    }


def _has_index(array: Any) -> bool:
    return hasattr(array, "columns") and hasattr(getattr(array, "index", None), "get_indexer")


def _is_numbering(index: Any) -> bool:
    """Whether this is pandas' own numbering, 0 to n - 1, which says nothing about the samples."""
    return type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)


def _all_equal(indices: Any) -> bool:
    first, *others = indices
    return all(first.equals(other) for other in others)


def _places(index: Any, wanted: Any) -> NDArray[np.intp]:
    return np.asarray(index.get_indexer(wanted))


def _same_set(one: Any, other: Any) -> bool:
    return (
        len(one) == len(other)
        and bool(one.is_unique and other.is_unique)
        and bool((_places(one, other) >= 0).all())
    )


def _require_same_sets(indices: dict[str, Any]) -> None:
    first, *others = indices
    for name in others:
        mine, its = indices[first], indices[name]
        if mine.equals(its) or _same_set(mine, its):
            continue
        for view, index in ((first, mine), (name, its)):
            if not index.is_unique:
                twice = index[index.duplicated()][0]
                raise ValueError(
                    f"the data frames {first!r} and {name!r} have different indices, and that of "
                    f"{view!r} has {twice!r} more than once; give each sample a name of its own, "
                    "or pair the rows by position: .reset_index(drop=True)."
                )
        both = int((_places(mine, its) >= 0).sum())
        raise ValueError(
            f"the data frames {first!r} and {name!r} have different indices: {both} samples are in "
            f"both, {len(mine) - both} only in {first!r}, {len(its) - both} only in {name!r}. "
            "omcal.datasets.join_views keeps them all; .loc[...] picks those in both; "
            ".reset_index(drop=True) pairs the rows by position."
        )


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names))
