"""Any input as named views: this module chooses the adapter for each kind of input.

`NamedViews` are arrays by view name, with feature names and masks of the present samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array, Mask
from omcal.views.arrays import array_table
from omcal.views.columns import by_name, numbered
from omcal.views.dask_arrays import array_of_delayed, dask_table, is_delayed
from omcal.views.frames import Columns, frame_table, is_frame
from omcal.views.pair import Ids
from omcal.views.stored import is_stored, stored_table
from omcal.views.view import Table, View, is_dask

Home = Literal["any", "host", "memory"]
Split = Callable[[int, tuple[str, ...] | None], dict[str, slice | Array | None]]


@dataclass(frozen=True)
class AdaptedInput:
    """An input as views, before rows are paired and views are compared with a model."""

    views: dict[str, View | None]  # None: no sample has this view
    ids: dict[str, Ids]  # names of the rows, for views that have them
    table: Table | None  # the table, if the views are columns of one table
    by_name: bool  # whether the views were given by name


def adapt(X: Any, split: Split, home: Home = "any") -> AdaptedInput:
    """Convert any input to named views.

    If X is one table, `split` returns the columns of each view, from their number and names. `home`
    determines where views may stay: anywhere ("any"), not on devices ("host"), in memory only.
    """
    members = separate_views(X)
    if members is None:
        table = _open(X, "X", home)
        parts = split(table.width, table.names)
        taken: dict[str, View | None] = {part: table.take(part, at) for part, at in parts.items()}
        ids = {} if table.ids is None else dict.fromkeys(parts, table.ids)
        return AdaptedInput(taken, ids, table, by_name=False)
    _require_one_kind(members)
    opened = {
        name: None if member is None else _open(member, name, home)
        for name, member in members.items()
    }
    views = {name: table.take(name, None) if table else None for name, table in opened.items()}
    if isinstance(X, NamedViews):
        views = {name: _with_names(view, X) for name, view in views.items()}
    ids = {name: t.ids for name, t in opened.items() if t is not None and t.ids is not None}
    ids |= X.ids if isinstance(X, NamedViews) else {}
    return AdaptedInput(views, ids, None, by_name=isinstance(X, Mapping))


def _open(data: Any, name: str, home: Home) -> Table:
    """Open one 2-D input with the adapter for its kind."""
    data = array_of_delayed(data, name)
    if is_tensor(data):
        from omcal.views.tensors import on_host, tensor_table

        return tensor_table(data, name) if home == "any" else array_table(on_host(data), name)
    if is_dask(data) and home != "memory":
        return dask_table(data, name)
    if is_stored(data) and home != "memory":
        return stored_table(data, name)
    return frame_table(data, name) if is_frame(data) else array_table(data, name)


def _with_names(view: View | None, X: NamedViews) -> View | None:
    """Return the view with its feature names and presence from X."""
    if view is None:
        return None
    titles = X.feature_names.get(view.name)
    columns = view.columns if titles is None else tuple(map(str, titles))
    present = X.present.get(view.name, view.present)
    first = X.levels_from.get(view.name)
    return replace(view, columns=columns, present=present, levels_from=first)


def separate_views(X: Any) -> dict[str, Any] | None:
    """Return the separate views in X by name, or None if X is one table."""
    # scipy.sparse.dok_array is a dict, so test for sparse matrices first.
    if sparse.issparse(X) or is_frame(X):
        return None
    named: dict[str, Any] | None
    if isinstance(X, Mapping):
        named = by_name(X, "X")
    elif isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        words = len(X) > 0 and all(isinstance(item, str | bytes) for item in X)
        named = None if words else numbered(list(X))
    elif isinstance(X, list | tuple) and (not X or any(is_matrix(item) for item in X)):
        named = numbered(X)
    elif isinstance(X, Iterator):
        raise ValueError(f"X is a {type(X).__name__}, which can be read once; pass list(X).")
    else:
        return None
    if named == {}:
        raise ValueError("X holds no view; give at least one 2-D array.")
    return named


def is_tensor(data: Any) -> bool:
    """Whether this is a tensor of PyTorch, without importing PyTorch."""
    return any(
        base.__module__.split(".")[0] == "torch" and base.__name__ == "Tensor"
        for base in type(data).__mro__
    )


def is_matrix(item: Any) -> bool:
    """Whether this has two dimensions; a list of lists or of 1-D arrays is one table."""
    if isinstance(item, list | tuple):
        return bool(item) and is_delayed(item[0])  # blocks of rows
    return not is_delayed(item) and len(getattr(item, "shape", ())) == 2


def _require_one_kind(members: Mapping[str, Any]) -> None:
    """Refuse tensors together with other views."""
    tensors = {name: is_tensor(member) for name, member in members.items()}
    if any(tensors.values()) and not all(tensors.values()):
        name = next(name for name, found in tensors.items() if not found)
        raise ValueError(
            f"view {name!r} is a {type(members[name]).__name__} while others are tensors; "
            "give all views as tensors or none."
        )


class NamedViews(dict[str, Any]):
    """A dict of arrays by view name, with feature names and presence if they are known.

    `fit` and `predict` match features by these names. Indexing selects rows, so that scikit-learn
    can split the samples. `present` is False for samples that are absent from a view.

    Examples
    --------
    >>> import numpy as np
    >>> views = NamedViews({"a": np.eye(3)}, {"a": ["x", "y", "z"]})
    >>> views["a"].shape, views[[0, 2]]["a"].shape, views.shape
    ((3, 3), (2, 3), (3, 3))
    """

    def __init__(
        self,
        views: Mapping[str, Any],
        feature_names: Mapping[str, Iterable[str]] | None = None,
        present: Mapping[str, Mask] | None = None,
    ) -> None:
        super().__init__(views)
        self.feature_names = dict(feature_names or {})
        self.present = dict(present or {})
        self.levels_from: dict[str, int] = {}  # by view: the first feature that is a level
        self.tables: dict[str, Columns] = {}  # mixed tables from which views were encoded
        self.encoding: dict[str, dict[str, Any]] = {}  # of the columns of mixed tables
        self.ids: dict[str, Ids] = {}  # the names of the rows of a view
        if isinstance(views, NamedViews):
            self.tables, self.encoding = dict(views.tables), dict(views.encoding)
            self.ids, self.levels_from = dict(views.ids), dict(views.levels_from)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features of all views."""
        arrays = list(self.values())
        return int(arrays[0].shape[0]), sum(int(array.shape[1]) for array in arrays)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return super().__getitem__(key)
        rows = key[0] if isinstance(key, tuple) else key
        picked = NamedViews(self, self.feature_names)
        picked.update({name: array[rows] for name, array in self.items()})
        picked.present = {name: mask[rows] for name, mask in self.present.items()}
        picked.tables = {name: table[rows] for name, table in self.tables.items()}
        picked.ids = {}
        return picked

    def raw(self) -> NamedViews:
        """Return the views with mixed tables instead of the arrays encoded from them."""

        def others(members: Mapping[str, Any]) -> dict[str, Any]:
            return {name: m for name, m in members.items() if name not in self.tables}

        members = {name: self.tables.get(name, array) for name, array in self.items()}
        return NamedViews(members, others(self.feature_names), others(self.present))

    def renamed(self, names: Sequence[str]) -> NamedViews:
        """Return the views under other names, given in their order."""
        new = dict(zip(self, names, strict=True))

        def under(members: Mapping[str, Any]) -> dict[str, Any]:
            return {new[name]: members[name] for name in self if name in members}

        return NamedViews(under(self), under(self.feature_names), under(self.present))
