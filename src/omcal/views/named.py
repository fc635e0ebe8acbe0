"""Arrays by view name that keep the names of their features and the samples they lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omcal.machine.arrays import Mask


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

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features of all views."""
        arrays = list(self.values())
        return int(arrays[0].shape[0]), sum(int(array.shape[1]) for array in arrays)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return super().__getitem__(key)
        rows = key[0] if isinstance(key, tuple) else key
        views = {name: array[rows] for name, array in self.items()}
        masks = {name: mask[rows] for name, mask in self.present.items()}
        return NamedViews(views, self.feature_names, masks, self.scales)

    def renamed(self, names: Sequence[str]) -> NamedViews:
        """Return the views under other names, given in their order."""
        new = dict(zip(self, names, strict=True))

        def under(members: Mapping[str, Any]) -> dict[str, Any]:
            return {new[name]: members[name] for name in self if name in members}

        titles, present, scales = self.feature_names, self.present, self.scales
        return NamedViews(under(self), under(titles), under(present), under(scales))
