"""Real views, and the reference results that were computed on those of MSRCv1."""

import hashlib

import numpy as np
from scipy import sparse
from scipy.io import loadmat


def load_reference(shared, name):
    """The raw views and the stored arrays of `reference/{name}_MSRCv1.npz`."""
    stored = np.load(shared / "reference" / f"{name}_MSRCv1.npz")
    cells = loadmat(shared / "data" / "MSRCv1.mat")["X"].ravel()
    views = [np.ascontiguousarray(cells[i], dtype=np.float64) for i in stored["view_index"]]
    for view, digest in zip(views, stored["view_sha256"], strict=True):
        assert hashlib.sha256(view.tobytes()).hexdigest() == digest
    return views, stored


def stored_matrix(stored, name):
    """The sparse matrix `name` of a reference file, as a dense array."""
    parts = [stored[f"{name}_{part}"] for part in ("data", "indices", "indptr")]
    return sparse.csr_array(tuple(parts), shape=stored[f"{name}_shape"]).toarray()


def load_coil(shared):
    """Views and classes; samples are columns in the file."""
    stored = loadmat(shared / "data" / "Coil.mat")
    return [np.float64(view).T for view in stored["X"].ravel()], stored["Y"].ravel()


def load_wiki(shared):
    """Views and classes."""
    stored = loadmat(shared / "data" / "Wiki.mat")
    return [np.float64(view) for view in stored["X"].ravel()], stored["Y"].ravel()
