"""Arrays by view name that keep the names of their features and the samples they lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omcal.machine.arrays import Mask
from omcal.views.frames import Columns
from omcal.views.pair import Ids


class NamedViews(dict[str, Any]):
    """A dict of arrays by view name, with feature names and presence where they are known.

    `fit` and `predict` compare features by these names. Rows are taken as of an array, so that
    scikit-learn can split the samples. `present` is False where a sample is absent from a view.

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
        self.levels_from: dict[str, int] = {}  # the first feature that is a level of a category
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
        """Return the views with mixed tables in the place of the arrays encoded from them."""

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
