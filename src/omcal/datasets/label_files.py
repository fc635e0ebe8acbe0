"""Labels in a file of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from omcal.datasets._contents import Contents, reading
from omcal.datasets._data import DataError, MultiViewData, is_known
from omcal.datasets._ids import as_text, choose_ids
from omcal.datasets._names import is_label_name, listed
from omcal.datasets._selection import ROW_NUMBERS, label_vectors
from omcal.machine.arrays import Array


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
        return len(self.labels)


def label_column(
    contents: Contents, labels: str | bool | None = None, ids: str | bool | None = None
) -> LabelColumn:
    """The labels in a file without views: the column named so, or the only one besides the ids."""
    vectors = label_vectors(contents)
    found = choose_ids(vectors, ids, contents.ids)
    used = {found.name if found else None, "" if found else None}
    others = [name for name in vectors if name not in used]
    if isinstance(labels, str):
        if labels not in vectors:
            raise DataError(f"labels={labels!r} is not in it; there is {listed(vectors)}.")
        names = [labels]
    else:
        names = [name for name in others if is_label_name(name) or name.lower() == "cluster"]
        names = names or others
    if len(names) != 1:
        raise DataError(
            f"it has no column that is plainly the labels among {listed(vectors)}; call it label."
        )
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
    """The data set with the labels of a file: by their ids, by their order where it has none."""
    with reading(path, contents.format):
        # The ids may be called otherwise here than in the data.
        known = ids if isinstance(ids, str) and ids in contents.variables else None
        found = label_column(contents, None, known)
        if found.ids is None or data.ids is None:
            if found.n_samples != data.n_samples:
                raise DataError(
                    f"it has {found.n_samples} labels for {data.n_samples} samples, and there are "
                    "no ids in both to join them by; name their column with id= (--id)."
                )
            labels, note = found.labels, f"labels of {path.name} joined by position"
        else:
            labels, note = _by_id(data.ids, found, path)
    unknown = int((~is_known(labels)).sum())
    more = (f"{unknown} samples have no label in {path.name}",) if unknown else ()
    return replace(
        data, labels=labels, label_name=found.label_name, notes=(*data.notes, note, *more)
    )


def _by_id(ids: Array, found: LabelColumn, path: Path) -> tuple[Array, str]:
    row = {name: i for i, name in enumerate(as_text(np.asarray(found.ids)).tolist())}
    place = np.array([row.get(name, -1) for name in ids.tolist()], dtype=np.intp)
    matched = int((place >= 0).sum())
    if not matched:
        raise DataError(
            f"none of its ids ({listed(list(row)[:3])}) is one of the data "
            f"({listed(ids[:3].tolist())}); name their column with id= (--id)."
        )
    labels = found.labels
    if matched < len(ids):
        text = labels.dtype.kind in "UST"
        unknown = "" if text else np.nan
        labels = np.where(
            place >= 0, labels[place] if text else labels[place].astype(float), unknown
        )
    else:
        labels = labels[place]
    note = f"labels of {path.name} joined by id: {matched} of {len(ids)} samples, "
    return labels, note + f"{found.n_samples - matched} labels of others"
