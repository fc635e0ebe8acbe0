"""Load views from files of any format."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from omcal.datasets._data import ROW_NUMBERS, Contents, MultiViewData, encoded, reading
from omcal.datasets._selection import Choice, select
from omcal.datasets.joining import (
    LabelColumn,
    Part,
    Source,
    add_labels,
    label_column,
    renamed,
    select_parts,
)
from omcal.datasets.joining import join as join_parts
from omcal.datasets.readers import find_format, tables_in
from omcal.datasets.readers.table_files import one_column_header
from omcal.views.frames import Columns
from omcal.views.like import TableLike
from omcal.views.pair import DataError, Ids, as_text, is_whole, require_unique
from omcal.views.view import column_names, is_arrow

OnePath: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = OnePath | Sequence[OnePath] | Mapping[str, OnePath]


class LoadOptions(TypedDict, total=False):
    """Options of `load_views`."""

    views: Sequence[str] | None
    labels: str | bool | os.PathLike[str] | None
    id: str | bool | None
    join: Literal["outer", "inner"]
    transpose: bool
    header: bool | None


def load_views(
    path: Paths,
    *,
    views: Sequence[str] | None = None,
    labels: str | bool | os.PathLike[str] | None = None,
    id: str | bool | None = None,
    join: Literal["outer", "inner"] = "outer",
    transpose: bool = False,
    header: bool | None = None,
) -> MultiViewData:
    """Load the views, and the labels if there are any, from one or several files or folders.

    The content determines the format, not the name.

    ===========================  ==================================================================
    format                       views
    ===========================  ==================================================================
    MATLAB 5 to 7.3 (.mat)       the members of a cell called X, fea, data or views, else every
                                 matrix; a matrix of (row, column, value) triplets is sparse
    NumPy (.npz, .npy, folder)   every matrix; CSR as data, indices, indptr and shape; a single
                                 .npy and a folder of them are memory-mapped
    CSV, Parquet, Excel          the numeric columns, by the prefix of their names (``v1_mean``);
                                 in Parquet also each column of lists; each sheet of a workbook
    HDF5, zarr                   every matrix; CSR as in NumPy files
    AnnData, MuData (.h5ad,      each modality: obsm/X_pca where there is one, else X; of AnnData
    .h5mu, zarr)                 also what else is in obsm, unless called ``X_...``
    idx (MNIST), folder of them  the images as rows of pixels
    ===========================  ==================================================================

    Samples are in rows, unless the number of labels proves that they are in columns, or `transpose`
    is True. A list of names called view_names determines the views and their order. Parts called
    train and test are concatenated in this order if they cannot be views of the same samples. A row
    of NaN marks an absent sample. Nothing is scaled, and nothing is ever unpickled.

    Several files, the tables of a folder, and the sheets of a workbook are joined by their ids. A
    file with one view gives it its own name.

    Parameters
    ----------
    path : str or path-like, or a list of them, or a dict
        A file, or a folder of .npy files, idx files, zarr arrays or tables. The keys of a dict name
        the files; a single view in a file gets this name.
    views : list of str, optional
        The views to take, by name; `describe` lists the names. Default: see the table.
    labels : str, bool or Path, optional
        The name of the labels. True: it is an error if there are none. False: no labels. A
        `pathlib.Path`: a separate file of labels, joined by id. By default the variable with a
        usual name of labels (Y, gt, gnd, label, class, cell_type ...), if there is one.
    id : str or bool, optional
        The name of the column of ids. True: it is an error if there are none. False: no ids; a
        column of ids or row numbers is then a feature like others. By default a column of distinct
        whole numbers or texts with a usual name (id, index, barcode, sample_id ...), or the
        barcodes of AnnData and MuData.
    join : {"outer", "inner"}, default="outer"
        With several files: "outer" keeps all samples, "inner" those that are in every file.
    transpose : bool, default=False
        Whether the samples are in the columns.
    header : bool, optional
        Whether the first row of CSV and Excel tables has the names of the columns; by default the
        cells decide.

    Returns
    -------
    MultiViewData
        The views by name, with labels, ids, names of features and notes where there are any.

    Raises
    ------
    DataError
        If a file is damaged, has an unknown format, or lacks a requested variable.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.savez(folder / "small.npz", shape=np.eye(4), colour=np.ones((4, 2)), y=[0, 0, 1, 1])
    >>> data = load_views(folder / "small.npz")
    >>> list(data.views), data.labels.tolist()
    (['shape', 'colour'], [0, 0, 1, 1])
    >>> _ = (folder / "image.csv").write_text("id,a,b\\nx,1,2\\ny,3,4\\n")
    >>> _ = (folder / "text.csv").write_text("id,c\\ny,5\\nz,6\\n")
    >>> data = load_views([folder / "image.csv", folder / "text.csv"])
    >>> data.ids.tolist(), data.present["text"].tolist()
    (['x', 'y', 'z'], [False, True, True])
    """
    sources = read_sources(path, header)
    return load_sources(
        sources, views=views, labels=labels, id=id, join=join, transpose=transpose, header=header
    )


def load_sources(sources: Sequence[Source], **options: Unpack[LoadOptions]) -> MultiViewData:
    """Build the data set of `load_views` from file contents."""
    labels, ids = options.get("labels"), options.get("id")
    own_file = Path(labels) if isinstance(labels, os.PathLike) else None
    named = False if own_file is not None else labels
    if not (named is None or isinstance(named, str | bool)):
        raise DataError(f"labels={labels!r} is not understood; give a name, a Path or a bool.")
    views = options.get("views")
    if isinstance(views, str):
        raise DataError(f"views={views!r} is one word; pass a list of view names.")
    choice = Choice(views, named, ids, options.get("transpose", False))
    data = encoded(combine(sources, choice, options.get("join", "outer")))
    if own_file is not None:
        data = add_labels(data, own_file, read_labels(own_file, options.get("header"), ids))
    return data


def combine(sources: Sequence[Source], choice: Choice, how: str) -> MultiViewData:
    """Return the data set of one source, or of several joined."""
    if how not in ("outer", "inner"):
        raise DataError(f"join={how!r} must be 'outer' or 'inner'.")
    if len(sources) == 1 and not sources[0].named:
        (source,) = sources
        with reading(source.path, source.contents.format):
            return without_numbering(select(source.contents, source.path, choice))
    parts = select_parts(sources, choice)
    only = next(iter(parts.values()), None)
    if len(sources) == 1 and isinstance(only, MultiViewData):
        return without_numbering(only)
    data = join_parts(parts, how)
    order = [name for name in choice.views or () if name in data.views]
    views = {name: data.views[name] for name in (*order, *data.views)}
    return replace(data, views=views)


def without_numbering(data: MultiViewData) -> MultiViewData:
    """Return the data set without ids that merely number the rows."""
    return replace(data, ids=None, id_name=None) if data.id_name == ROW_NUMBERS else data


def read_sources(paths: Paths, header: bool | None = None) -> list[Source]:
    """Read the contents of files, one source per file or table."""
    if isinstance(paths, Mapping):
        return [
            replace(only_source(Path(path), header), key=str(name), named=True)
            for name, path in paths.items()
        ]
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not listed:
        raise DataError("no file is named; give at least one.")
    sources = [source for path in listed for source in _sources(Path(path), header)]
    keys = [source.key for source in sources]
    for i, source in enumerate(sources):
        if keys.count(source.key) > 1:  # a/data.csv and b/data.csv
            sources[i] = replace(source, key=f"{source.path.resolve().parent.name}_{source.key}")
    keys = [source.key for source in sources]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise DataError(f"several files or tables are called {twice}; rename one, or pass it once.")
    return sources


def read_labels(
    path: Path, header: bool | None = None, ids: str | bool | None = None
) -> LabelColumn:
    """Read a file of labels: a table with a header, one label per line, or an array."""
    with reading(path, "a file of labels"):
        if header is None and find_format(path).name == "CSV":
            header = one_column_header(path)
    contents = only_source(path, header).contents
    with reading(path, contents.format):
        # The column of ids may have another name than in the data.
        known = ids if isinstance(ids, str) and ids in contents.variables else None
        return label_column(contents, None, known)


def only_source(path: Path, header: bool | None = None) -> Source:
    """Read a file that holds one table."""
    sources = _sources(path, header)
    if len(sources) > 1:
        names = [source.key for source in sources]
        raise DataError(
            f"{path}: it holds several tables: {names}; put one into a file of its own."
        )
    return sources[0]


def _sources(path: Path, header: bool | None) -> list[Source]:
    with reading(path, "a data file"):
        files = tables_in(path)
        if files:
            return [source for file in files for source in _sources(file, header)]
        found = find_format(path)
        if header is not None and not found.has_header:
            raise DataError(f"it is a file of kind {found.name}; header= is for CSV and Excel.")
    with reading(path, found.name):
        options: dict[str, Any] = {"header": header} if found.has_header else {}
        tables = found.read(path, **options)
    if isinstance(tables, Contents) or len(tables) == 1:
        only = tables if isinstance(tables, Contents) else next(iter(tables.values()))
        tables = {path.stem: only}
    return [Source(name, path, contents) for name, contents in tables.items()]


def join_views(
    tables: Mapping[str, TableLike | str | os.PathLike[str] | MultiViewData],
    on: str | None = None,
    *,
    how: Literal["outer", "inner"] = "outer",
    labels: str | bool | None = None,
) -> MultiViewData:
    """Join tables of the same samples by their ids; each table holds one view or more.

    Parameters
    ----------
    tables : dict
        Name -> data frame (pandas, polars or pyarrow), path of a file, or `MultiViewData`. A table
        with one view gives it this name; one without views may give the labels.
    on : str, optional
        The column of ids in every table. By default a named index of a pandas frame, the ids of a
        data set, a column of distinct values with a usual name, or an index without a name. An
        index of row numbers is used only if another table has other ids.
    how : {"outer", "inner"}, default="outer"
        "outer": all samples, absent from tables that lack them. "inner": those in every table.
    labels : str or bool, optional
        The column of labels; by default one with a usual name.

    Returns
    -------
    MultiViewData
        The samples in the order of the first table, followed by those of later tables. The notes
        have the number of matched samples.

    Raises
    ------
    DataError
        If ids repeat, are missing, or match in no other table.

    Examples
    --------
    >>> import pandas as pd
    >>> image = pd.DataFrame({"id": ["x", "y"], "a": [1.0, 3.0], "b": [2.0, 4.0]})
    >>> text = pd.DataFrame({"id": ["z", "y"], "c": [6.0, 5.0], "label": ["new", "old"]})
    >>> data = join_views({"image": image, "text": text}, on="id")
    >>> data.ids.tolist(), data.labels.tolist(), data.present["text"].tolist()
    (['x', 'y', 'z'], ['', 'old', 'new'], [False, True, True])
    >>> data.notes[-1]
    "joined by 'id': 3 samples, 1 in every table; image has 2, text 2"
    """
    if not isinstance(tables, Mapping) or not tables:
        raise DataError("tables must be a dict, name -> table, with at least one table.")
    if how not in ("outer", "inner"):
        raise DataError(f"how={how!r} must be 'outer' or 'inner'.")
    choice = Choice(labels=labels, ids=on)
    parts: dict[str, Part] = {}
    frames: list[Source] = []
    for name, table in tables.items():
        key = str(name)
        if isinstance(table, MultiViewData):
            parts[key] = renamed(table, key)
        elif isinstance(table, str | os.PathLike):
            sources = read_sources(table)
            if len(sources) > 1:
                parts[key] = combine(sources, choice, how)
            else:
                frames.append(replace(sources[0], key=key))
        else:
            frames.append(Source(key, Path(key), _frame_contents(table, key, on)))
    parts |= select_parts(frames, choice)
    return encoded(join_parts({str(n): parts[str(n)] for n in tables if str(n) in parts}, how))


def _frame_contents(table: Any, key: str, on: str | None) -> Contents:
    """Return the columns of a data frame and its index."""
    if column_names(table) is None:  # refuses columns of the same name
        raise DataError(
            f"table {key!r} is a {type(table).__name__}; give a data frame, a path, or "
            "MultiViewData."
        )
    if is_arrow(table):
        from omcal.datasets.readers.table_files import arrow_contents

        return arrow_contents(table, "data frame")
    columns = dict(Columns.of(table).values)
    index: Any = getattr(table, "index", None)
    ids = None
    if hasattr(index, "get_indexer"):
        values = index.to_numpy()
        if on is None and index.name is None:
            columns = {"": values if is_whole(values) else as_text(values), **columns}
        elif on is None or (index.name == on and on not in columns):
            ids = Ids(str(index.name), as_text(values))
            require_unique(ids.values, f"the index of table {key!r}")
    return Contents("data frame", columns, table=True, ids=ids)
