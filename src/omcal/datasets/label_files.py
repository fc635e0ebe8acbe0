"""Read labels from a file of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from omcal.datasets._contents import Contents, reading
from omcal.datasets._data import ROW_NUMBERS, MultiViewData, as_member, is_known, spread_labels
from omcal.datasets._ids import choose_ids, seems_id
from omcal.datasets._names import is_label_name
from omcal.datasets._selection import label_vectors
from omcal.machine.arrays import Array
from omcal.views.columns import listed
from omcal.views.pair import DataError, pair

NUMBERED = "sample"  # the column in which files of clusters number samples without ids


@dataclass(frozen=True)
class LabelColumn:
    """Labels, and the ids of their samples where the file has them."""

    labels: Array
    label_name: str
    ids: Array | None
    id_name: str | None
    notes: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        """Number of labels."""
        return len(self.labels)

    def by_position(self) -> LabelColumn:
        """Return the labels ordered by sample number where the ids are numbers of samples.

        Files of clusters number the samples from 0 in a column "sample" where they have no ids.
        """
        numbers = np.arange(self.n_samples).astype(str)
        if self.ids is None or self.id_name != NUMBERED or set(self.ids) != set(numbers):
            return self
        order = np.argsort(self.ids.astype(int))
        return replace(self, labels=self.labels[order], ids=None, id_name=None)


def label_column(
    contents: Contents, labels: str | bool | None = None, ids: str | bool | None = None
) -> LabelColumn:
    """Return the labels in a file: the column named so, or the only one besides the ids."""
    vectors = label_vectors(contents)
    found = choose_ids(vectors, ids, contents.ids)
    repeated = [name for name, values in vectors.items() if seems_id(name, values)]
    if found is None and ids is None and repeated:  # raises, and names the ids that repeat
        found = choose_ids(vectors, repeated[0])
    used = {found.name, ""} if found else set()
    others = [name for name in vectors if name not in used]
    if isinstance(labels, str):
        if labels not in vectors:
            raise DataError(f"labels={labels!r} is not in it; available: {listed(vectors)}.")
        names = [labels]
    else:
        names = [name for name in others if is_label_name(name) or name.lower() == "cluster"]
        names = names or others
    if len(names) != 1:
        shapes = [getattr(value, "shape", None) for value in contents.variables.values()]
        held = listed(vectors) if vectors else f"arrays of shape {shapes}"
        raise DataError(f"it has no column that is plainly the labels: {held}; call it label.")
    return LabelColumn(
        vectors[names[0]],
        names[0],
        None if found is None else found.values,
        None if found is None else ROW_NUMBERS if found.numbering else found.name,
        contents.notes,
    )


def add_labels(
    data: MultiViewData, path: Path, contents: Contents, ids: str | bool | None
) -> MultiViewData:
    """Return the data set with the labels of a file: by ids, by order where one has none."""
    with reading(path, contents.format):
        # The id column may have another name than in the data.
        known = ids if isinstance(ids, str) and ids in contents.variables else None
        found = label_column(contents, None, known)
        if data.ids is None or found.ids is None or not set(found.ids) & set(data.ids):
            found = found.by_position()
        pairing = pair([as_member("the data", data), as_member("the labels", found)], "outer")
    place = pairing.rows["the labels"]  # the samples of the data are the first
    labels = found.labels if place is None else spread_labels(found.labels, place[: data.n_samples])
    note = f"labels of {path.name} joined by position"
    if data.ids is not None and found.ids is not None:
        others = pairing.n - data.n_samples
        matched = f"{found.n_samples - others} of {data.n_samples} samples"
        note = f"labels of {path.name} joined by id: {matched}, {others} labels of others"
    unknown = int((~is_known(labels)).sum())
    more = (f"{unknown} samples have no label in {path.name}",) if unknown else ()
    return replace(
        data, labels=labels, label_name=found.label_name, notes=(*data.notes, note, *more)
    )
