"""One view of MSRCv1 and the reference results that were computed on it."""

import hashlib

import numpy as np
from scipy import sparse
from scipy.io import loadmat


def load_reference(shared, name):
    """The raw view and the stored arrays of `reference/{name}_MSRCv1.npz`."""
    stored = np.load(shared / "reference" / f"{name}_MSRCv1.npz")
    (view,) = stored["view_index"]
    views = loadmat(shared / "data" / "MSRCv1.mat")["X"].ravel()
    X = np.ascontiguousarray(views[view], dtype=np.float64)
    assert hashlib.sha256(X.tobytes()).hexdigest() == stored["view_sha256"][0]
    return X, stored


def stored_matrix(stored, name):
    """The sparse matrix `name` of a reference file, as a dense array."""
    parts = [stored[f"{name}_{part}"] for part in ("data", "indices", "indptr")]
    return sparse.csr_array(tuple(parts), shape=stored[f"{name}_shape"]).toarray()
