"""One entry for every kind of file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from omcal.datasets._contents import Contents, reading
from omcal.datasets._data import MultiViewData
from omcal.datasets._selection import select
from omcal.datasets.readers import READERS, find_format


def read_contents(path: Path) -> Contents:
    """Everything in a file, under the names that it has there."""
    with reading(path, "a data file"):
        kind = find_format(path)
    with reading(path, kind):
        return READERS[kind](path)


def load_views(
    path: str | os.PathLike[str],
    *,
    views: Sequence[str] | None = None,
    labels: str | bool | None = None,
) -> MultiViewData:
    """Load the views, and the labels where there are any, from a file or folder.

    The format is found from the content, not from the name.

    ===========================  ==================================================================
    format                       views
    ===========================  ==================================================================
    MATLAB 5 to 7.3 (.mat)       the members of a cell called X, fea, data or views, else every
                                 matrix; a matrix of (row, column, value) triplets is sparse
    NumPy (.npz, .npy, folder)   every matrix; CSR as data, indices, indptr and shape; a single
                                 .npy and a folder of them are memory-mapped
    CSV, Parquet                 the numeric columns, by the prefix of their names (``v1_mean``);
                                 in Parquet also each column of lists
    HDF5, zarr                   every matrix; CSR as in NumPy files
    AnnData, MuData (.h5ad,      each modality: obsm/X_pca where there is one, else X; of AnnData
    .h5mu, zarr)                 also what else is in obsm, unless it is called X_...
    idx (MNIST), folder of them  the images as rows of pixels
    ===========================  ==================================================================

    Which side of a matrix is the samples is decided by the number of labels, and without labels
    by the side on which all views agree. A list of names called view_names says which matrices
    are the views, and their order. Parts called train and test are put together, in this
    order. A row that is NaN throughout means that the sample is absent from the view. Nothing is
    scaled, and nothing is ever unpickled.

    Parameters
    ----------
    path : str or path-like
        A file, or a folder of .npy files, idx files or zarr arrays.
    views : list of str, optional
        The views to take, by name; `describe` lists the names. Default: see the table.
    labels : str or bool, optional
        The name of the labels; True to insist on some; False for none. By default the variable
        with a usual name for labels (Y, gt, gnd, label, class, cell_type ...) where there is one,
        else none.

    Returns
    -------
    MultiViewData

    Raises
    ------
    DataError
        Where the file is damaged, of an unknown format, or does not hold what was asked for.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "small.npz"
    >>> np.savez(path, shape=np.eye(4), colour=np.ones((4, 2)), y=[0, 0, 1, 1])
    >>> data = load_views(path)
    >>> list(data.views), data.labels.tolist()
    (['shape', 'colour'], [0, 0, 1, 1])
    """
    path = Path(path)
    contents = read_contents(path)
    with reading(path, contents.format):
        return select(contents, path, views, labels)
