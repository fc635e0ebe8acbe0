"""Files in the layouts of other programs, written for the tests."""

import gzip

import numpy as np
import pytest
from scipy import io, sparse


def write_mat5(path, views, labels=None, *, turned=False, names=("X", "Y"), compress=True):
    """A cell of views as MATLAB saves it; `turned` puts the samples in columns."""
    cell = np.empty((1, len(views)), dtype=object)
    for i, view in enumerate(views):
        oriented = view.T if turned else view
        cell[0, i] = oriented.tocsc() if sparse.issparse(oriented) else oriented
    variables = {names[0]: cell}
    if labels is not None:
        variables[names[1]] = np.asarray(labels, dtype=float)[:, None]
    io.savemat(path, variables, do_compression=compress, appendmat=False)


def write_mat73(path, views, labels=None, *, turned=False):
    """The same as HDF5 with references, as MATLAB 7.3 saves it."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        references = file.create_group("#refs#")
        cell = file.create_dataset("X", (len(views), 1), dtype=h5py.ref_dtype)
        cell.attrs["MATLAB_class"] = np.bytes_("cell")
        for i, view in enumerate(views):
            oriented = view.T if turned else view
            name = chr(ord("a") + i)
            if sparse.issparse(oriented):
                csc = oriented.tocsc()
                group = references.create_group(name)
                group.attrs["MATLAB_class"] = np.bytes_("double")
                group.attrs["MATLAB_sparse"] = np.uint64(csc.shape[0])
                group["data"], group["ir"], group["jc"] = csc.data, csc.indices, csc.indptr
            else:
                references[name] = oriented.T
                references[name].attrs["MATLAB_class"] = np.bytes_("double")
            cell[i, 0] = references[name].ref
        if labels is not None:
            file["Y"] = np.asarray(labels, dtype=float)[None, :]
            file["Y"].attrs["MATLAB_class"] = np.bytes_("double")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def write_idx(path, array, *, packed=True):
    """An array of bytes in the layout of MNIST."""
    array = np.asarray(array, dtype=np.uint8)
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    content = header + array.tobytes()
    path.write_bytes(gzip.compress(content) if packed else content)


def put_sparse(parent, name, matrix):
    """A sparse matrix as anndata stores it."""
    group = parent.create_group(name)
    group.attrs["shape"] = matrix.shape
    group.attrs["encoding-type"] = f"{matrix.format}_matrix"
    for part in ("data", "indices", "indptr"):
        group[part] = getattr(matrix, part)


def put_observations(parent, names, **columns):
    """The table of observations; text columns become categories."""
    table = parent.create_group("obs")
    table["_index"] = np.array(names, dtype=object)
    for name, column in columns.items():
        column = np.asarray(column)
        if column.dtype.kind == "U":
            known = np.unique(column[column != ""])
            group = table.create_group(name)
            codes = np.searchsorted(known, column).astype(np.int8)
            group["codes"] = np.where(column == "", -1, codes).astype(np.int8)
            group["categories"] = known.astype(object)
        else:
            table[name] = column
    parent.create_group("var")


def copy_to_zarr(source, target):
    """The groups, arrays and attributes of an HDF5 group in a zarr group."""
    for key, value in source.attrs.items():
        target.attrs[key] = value.tolist() if isinstance(value, np.ndarray) else value
    # A list, because h5py is locked while it iterates, and zarr's thread may have to wait for it.
    for name, item in list(source.items()):
        if hasattr(item, "items"):
            copy_to_zarr(item, target.create_group(name))
        elif item.dtype == object:
            strings = item.asstr()[()]
            target.create_array(name, shape=strings.shape, dtype=str)[:] = strings.astype(str)
        else:
            target.create_array(name, data=item[()])


def same_views(one, other):
    """Whether two data sets hold the same views under the same names."""
    return list(one.views) == list(other.views) and all(
        np.array_equal(to_dense(one.views[name]), to_dense(other.views[name]), equal_nan=True)
        for name in one.views
    )


def to_dense(view):
    return view.toarray() if sparse.issparse(view) else np.asarray(view, dtype=float)
