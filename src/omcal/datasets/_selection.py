"""Choose views and labels among the variables of a file, and orient the views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse

from omcal.datasets._columns import (
    ALL_COLUMNS,
    FEATURE_TITLES,
    PRESENT_SUFFIX,
    VIEW_TITLES,
    VIEWS_NAMES,
    choose_ids,
    could_be_labels,
    group_columns,
    is_label_name,
    transposed_table,
)
from omcal.datasets._data import (
    MAX_WIDTH,
    ROW_NUMBERS,
    Contents,
    Matrix,
    MultiViewData,
    Variable,
    absent_rows,
    check_declared,
    is_known,
    text_array,
)
from omcal.machine.arrays import Array
from omcal.views.columns import listed, listed_shapes
from omcal.views.frames import Columns
from omcal.views.pair import DataError


@dataclass(frozen=True)
class Choice:
    """The options of the user for a file: views, labels, ids and orientation."""

    views: Sequence[str] | None = None
    labels: str | bool | None = None
    ids: str | bool | None = None
    transpose: bool = False


class NoViewError(DataError):
    """Raised where a file holds no view; it may still hold labels."""


def select(contents: Contents, path: Path, choice: Choice = Choice()) -> MultiViewData:  # noqa: B008
    """Build the data set: choose labels and views, and transpose views to samples in rows."""
    views, labels = choice.views, choice.labels
    is_table = contents.table
    contents = as_matrices(contents, choice)
    notes = list(contents.notes)
    vectors = label_vectors(contents)
    label_name = _choose_labels(contents, vectors, labels, notes)
    # The number of labels decides which axis of a matrix is the samples, even if labels=False.
    guide = label_name or _choose_labels(contents, vectors, None, [])
    n_labels = len(vectors[guide]) if guide else None

    matrices, default = _matrices(contents, label_name)
    if views is not None and (not views or not set(views) <= set(matrices)):
        raise DataError(f"views={list(views)} are not all in it; available: {listed(matrices)}.")
    chosen = default if views is None else list(dict.fromkeys(views))
    if not chosen:
        raise NoViewError(
            f"no view found among {listed(contents.variables)}; a view is a 2-D array of numbers. "
            + "; ".join(notes)
        )
    loaded = {name: matrix() if callable(matrix := matrices[name]) else matrix for name in chosen}
    if choice.transpose and not is_table:
        loaded = {name: _transposed(matrix) for name, matrix in loaded.items()}
        notes.append("transposed: the columns of the matrices are the samples")
    final = _samples_in_rows(loaded, n_labels, guide, fixed=choice.transpose)
    unused = [name for name in matrices if name not in chosen]
    if unused:
        notes.append(f"not taken as views: {listed(unused)}")
    values = vectors[label_name].copy() if label_name else None
    if values is not None and (n_unknown := int((~is_known(values)).sum())):
        have = "sample has" if n_unknown == 1 else "samples have"
        notes.append(f"{n_unknown} {have} no label in {label_name!r}")
    n = next(iter(final.values())).shape[0]
    ids = contents.ids
    if not is_table:
        others = {name: v for name, v in vectors.items() if name not in (*chosen, label_name)}
        fitting = {name: v for name, v in others.items() if len(v) == n}
        ids = choose_ids(fitting, choice.ids, ids)
    if ids is not None and len(ids.values) != n:
        raise DataError(f"{len(ids.values)} ids in {ids.name!r} for {n} samples.")
    feature_names = _feature_names(contents, final)
    names = {"view": list(final), "label": values, "id": None if ids is None else ids.values}
    _refuse_nul({**names, **{f"feature of {key!r}": v for key, v in (feature_names or {}).items()}})
    return MultiViewData(
        final,
        labels=values,
        name=path.name.split(".")[0] or path.name,
        source=f"{contents.format}, {path.name}",
        present=_present(contents, final),
        feature_names=feature_names,
        label_name=label_name,
        ids=None if ids is None else ids.values,
        id_name=None if ids is None else ROW_NUMBERS if ids.numbering else ids.name,
        notes=tuple(notes),
        scales={name: scale for name, scale in contents.scales.items() if name in final},
    )


def _refuse_nul(names: Mapping[str, Sequence[str] | Array | None]) -> None:
    """Refuse names with a NUL character, at which browsers and other programs cut them off."""
    for kind, texts in names.items():
        for text in [] if texts is None else np.asarray(texts).tolist():
            if isinstance(text, str) and "\0" in text:
                raise DataError(f"the {kind} {text!r} holds a NUL character; rename it.")


def as_matrices(contents: Contents, choice: Choice) -> Contents:
    """Return the contents with the columns of a table grouped into matrices."""
    if not contents.table:
        return contents
    if choice.transpose:
        return transposed_table(contents, choice.ids)
    return group_columns(contents, choice.views, choice.labels, choice.ids)


def view_names(contents: Contents, choice: Choice) -> list[str]:
    """Return the names of all variables that can be views."""
    grouped = as_matrices(contents, replace(choice, views=()))
    names = list(_matrices(grouped, None)[0])
    return names if not contents.table or ALL_COLUMNS in names else [*names, ALL_COLUMNS]


def label_vectors(contents: Contents) -> dict[str, Array]:
    """Return every variable with one value per sample as a 1-D array."""
    vectors = {}
    for name, value in contents.variables.items():
        vector = _as_vector(value)
        if vector is not None and len(vector):
            vectors[name] = vector
    return vectors


def _as_vector(value: Variable) -> Array | None:
    if isinstance(value, list):
        return _cell_vector(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufUST":
        return None
    vector: Array = value.reshape(-1) if value.ndim == 2 and 1 in value.shape else value
    if vector.ndim != 1:
        return None
    if vector.dtype.kind == "f" and np.isfinite(vector).all():
        # MATLAB keeps whole numbers as doubles.
        whole = (vector == np.round(vector)).all() and np.abs(vector).max(initial=0) < 2**53
        return vector.astype(np.int64) if whole else vector
    return vector


def _cell_vector(cell: list[Variable]) -> Array | None:
    """Return the labels in a MATLAB cell: a string per sample, or the same vector per view."""
    if cell and all(isinstance(item, str) for item in cell):
        return text_array(cell)
    vectors = [None if isinstance(item, str) else _as_vector(item) for item in cell]
    known = [vector for vector in vectors if vector is not None]
    if not known or len(known) < len(cell):
        return None
    return known[0] if all(np.array_equal(known[0], other) for other in known[1:]) else None


def _choose_labels(
    contents: Contents, vectors: dict[str, Array], labels: str | bool | None, notes: list[str]
) -> str | None:
    if labels is False:
        return None
    if isinstance(labels, str):
        if labels not in vectors:
            raise DataError(f"labels={labels!r} is not in it; available: {listed(vectors)}.")
        return labels
    views = _listed_views(contents)
    usual = [
        name
        for name, values in vectors.items()
        if is_label_name(name) and name not in views and could_be_labels(values)
    ]
    if usual and all(np.array_equal(vectors[usual[0]], vectors[name]) for name in usual[1:]):
        return usual[0]
    if labels:
        found = f"several could be: {listed(usual)}" if usual else f"available: {listed(vectors)}"
        raise DataError(f"no labels could be chosen; {found}. Pass labels='name'.")
    if usual:
        notes.append(f"several variables could be labels, none was taken: {listed(usual)}")
    return None


def _matrices(contents: Contents, label_name: str | None) -> tuple[dict[str, Variable], list[str]]:
    """Return all variables that can be views, and the names of the default views."""
    matrices: dict[str, Variable] = {}
    usual: list[str] = []
    default = contents.default_views or _listed_views(contents)
    for name, value in contents.variables.items():
        called_views = name.lower() in VIEWS_NAMES
        if name == label_name or (is_label_name(name) and name not in default):
            continue
        if isinstance(value, list):
            titles = _view_titles(contents, name, len(value))
            if value and all(_is_matrix(part) for part in value):
                matrices |= dict(zip(titles, value, strict=True))
                usual += titles if called_views else []
        elif _is_matrix(value):
            vector = isinstance(value, np.ndarray) and value.ndim == 2 and 1 in value.shape
            if called_views or name in default or not vector:
                matrices[name] = value
    return matrices, [name for name in default if name in matrices] or usual or list(matrices)


def _listed_views(contents: Contents) -> list[str]:
    """Return the matrices that the file itself lists as its views."""
    variables = contents.variables
    return _titles(contents, lambda titles: all(_is_matrix(variables.get(t)) for t in titles))


def _view_titles(contents: Contents, cell_name: str, n_views: int) -> list[str]:
    """Return the names of the views in a MATLAB cell."""
    if cell_name.lower() not in VIEWS_NAMES:
        return [f"{cell_name}{i}" for i in range(1, n_views + 1)]
    titles = _titles(contents, lambda titles: len(titles) == n_views)
    return titles or [f"view{i}" for i in range(1, n_views + 1)]


def _titles(contents: Contents, fit: Callable[[list[str]], bool]) -> list[str]:
    """Return the first list of distinct view names that `fit` accepts; empty if there is none."""
    for name, value in contents.variables.items():
        vector = _as_vector(value) if name.lower() in VIEW_TITLES else None
        titles = [] if vector is None else [str(title) for title in vector.tolist()]
        if titles and len(set(titles)) == len(titles) and fit(titles):
            return titles
    return []


def _is_matrix(value: Variable) -> bool:
    if callable(value) or sparse.issparse(value):
        return True
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in "biuf"
        and value.ndim >= 2
        and value.size > 0
    )


def _samples_in_rows(
    matrices: dict[str, Matrix], n_labels: int | None, label_name: str | None, *, fixed: bool
) -> dict[str, Matrix]:
    """Return every matrix with samples in rows, transposed if the number of labels requires it."""
    n = n_labels if n_labels is not None else _common_length(matrices)
    sides = [(matrix.shape[0] == n, matrix.shape[-1] == n) for matrix in matrices.values()]
    # A square view is oriented like the others; if all are square, rows are the samples.
    in_columns = (False, True) in sides and (True, False) not in sides
    oriented = {
        name: _orient(matrix, n, in_columns and not fixed, may_transpose=not fixed)
        for name, matrix in matrices.items()
    }
    misfits = {name: matrices[name] for name, view in oriented.items() if view is None}
    if misfits:
        fitting = [name for name in matrices if name not in misfits]
        choose = f"the views that have one, views=[{listed(fitting)}], or " if fitting else ""
        raise DataError(
            f"views without a side of {n} samples, the number of labels in {label_name!r}: "
            f"{listed_shapes(misfits)}; choose {choose}other labels=."
        )
    return {name: _tidy(view, name) for name, view in oriented.items() if view is not None}


def _orient(matrix: Matrix, n: int, in_columns: bool, *, may_transpose: bool) -> Matrix | None:
    rows, columns = matrix.shape[0] == n, matrix.shape[-1] == n
    if columns and may_transpose and (in_columns or not rows):
        return _transposed(matrix)
    if rows:
        return matrix
    return _from_triplets(matrix, n) if _are_triplets(matrix) else None


def _transposed(matrix: Matrix) -> Matrix:
    return np.moveaxis(matrix, -1, 0) if matrix.ndim > 2 else matrix.T


def _common_length(matrices: dict[str, Matrix]) -> int:
    """Return the number of samples if there are no labels: the number of rows of all views."""
    every = list(matrices.values())
    if len({matrix.shape[0] for matrix in every}) == 1:
        return int(every[0].shape[0])
    if all(_are_triplets(matrix) for matrix in every):
        return int(max(matrix[:, 0].max() for matrix in every))
    in_columns = len({matrix.shape[-1] for matrix in every}) == 1
    remedy = (
        "If their columns are the samples, pass transpose=True (--transpose); otherwise name"
        if in_columns
        else "Name"
    )
    raise DataError(
        f"the views have different numbers of samples: {listed_shapes(matrices)}. {remedy} "
        "the views that belong together with views=[...] (--views)."
    )


def _are_triplets(matrix: Matrix) -> bool:
    """Whether a matrix is a list of (row, column, value) triplets, counted from 1."""
    if sparse.issparse(matrix) or matrix.ndim != 2 or matrix.shape[1] != 3:
        return False
    places = matrix[:, :2]
    return bool((places == np.round(places)).all() and 1 <= places.min() <= places.max() < 2**53)


def _from_triplets(triplets: Array, n: int) -> Matrix | None:
    row, column = triplets[:, 0], triplets[:, 1]
    if row.max() > n or column.max() > MAX_WIDTH:
        return None
    check_declared(8 * n, triplets.nbytes, f"a list of triplets for {n} samples")
    index_type = sparse.get_index_dtype(maxval=max(n, int(column.max())))
    places = (row.astype(index_type) - 1, column.astype(index_type) - 1)
    # Triplets do not store the width; the last column with a value ends the matrix.
    shape = (n, int(column.max()))
    return sparse.coo_array((triplets[:, 2], places), shape=shape).tocsr()


def _tidy(view: Matrix, name: str) -> Matrix:
    """Return CSR, or a 2-D array in C order and native byte order; a memory map stays on disk."""
    if 0 in view.shape:
        raise DataError(f"view {name!r} is empty: its shape is {view.shape}.")
    if isinstance(view, Columns):
        return view
    if sparse.issparse(view):
        return sparse.csr_array(view)
    flat = view.reshape(view.shape[0], -1) if view.ndim > 2 else view
    if isinstance(view, np.memmap):
        return flat
    return np.require(flat, dtype=flat.dtype.newbyteorder("="), requirements=["C", "A", "W"])


def _present(contents: Contents, views: dict[str, Matrix]) -> dict[str, Array] | None:
    masks = {}
    for name, view in views.items():
        stored = contents.variables.get(name + PRESENT_SUFFIX)
        given = contents.present.get(name, stored)
        masks[name] = ~absent_rows(view) if given is None else np.ravel(given).astype(bool)
    return None if all(mask.all() for mask in masks.values()) else masks


def _feature_names(contents: Contents, views: dict[str, Matrix]) -> dict[str, Array] | None:
    names = {name: titles for name, titles in contents.feature_names.items() if name in views}
    for name, value in contents.variables.items():
        titles = _as_vector(value) if name.lower() in FEATURE_TITLES else None
        if titles is not None and titles.dtype.kind in "UST":
            names |= {view: titles for view, m in views.items() if m.shape[1] == len(titles)}
    return names or None
