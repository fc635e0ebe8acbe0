"""Arrays by view name that keep the names of their features and the samples they lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omcal.machine.arrays import Mask
from omcal.views.pair import Ids
from omcal.views.typed import Columns

CATEGORIES = ":categories"  # behind the name of the view that the numbers of a table form


class NamedViews(dict[str, Any]):
    """A dict of arrays by view name, with feature names and presence where they are known.

    `fit` and `predict` compare features by these names. Rows are taken as of an array, so that
    scikit-learn can split the samples.

    Parameters
    ----------
    views : mapping
        Name -> 2-D array.
    feature_names : mapping, optional
        View -> the names of its features.
    present : mapping, optional
        View -> boolean array, False where a sample is absent.
    scales : mapping, optional
        View -> the scaling that ``scale="auto"`` takes, for views whose kind is known.

    Attributes
    ----------
    tables : dict
        Name -> the columns of a mixed table from which views were encoded.
    encoding : dict
        Name -> how each column of a mixed table was encoded; see `omcal.views.mixed`.
    ids : dict
        View -> the names of its rows.

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
        scales: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(views)
        self.feature_names = dict(feature_names or {})
        self.present = dict(present or {})
        self.scales = dict(scales or {})
        self.tables: dict[str, Columns] = {}
        self.encoding: dict[str, dict[str, Any]] = {}
        self.ids: dict[str, Ids] = {}
        if isinstance(views, NamedViews):
            self.tables, self.encoding = dict(views.tables), dict(views.encoding)
            self.ids, self.scales = dict(views.ids), {**views.scales, **self.scales}

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
        """Return the views with mixed tables in the place of the views encoded from them."""
        if not self.tables:
            return self
        places = {name: name.removesuffix(CATEGORIES) for name in self}
        own = [name for name, table in places.items() if table not in self.tables]

        def kept(members: Mapping[str, Any]) -> dict[str, Any]:
            return {name: members[name] for name in own if name in members}

        names = dict.fromkeys(table if table in self.tables else n for n, table in places.items())
        members = {name: self.tables[name] if name in self.tables else self[name] for name in names}
        titles, present, scales = self.feature_names, self.present, self.scales
        return NamedViews(members, kept(titles), kept(present), kept(scales))

    def renamed(self, names: Sequence[str]) -> NamedViews:
        """Return the views under other names, given in their order."""
        new = dict(zip(self, names, strict=True))

        def under(members: Mapping[str, Any]) -> dict[str, Any]:
            return {new[name]: members[name] for name in self if name in members}

        titles, present, scales = self.feature_names, self.present, self.scales
        return NamedViews(under(self), under(titles), under(present), under(scales))
