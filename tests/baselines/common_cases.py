"""The baselines, what is particular to some of them, and the data on which all are tested."""

import re
import warnings
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from omcal import baselines
from omcal.baselines import (
    BKM,
    ECPCS,
    FNMTF,
    FSMSC,
    MCGC,
    MLAN,
    MVSCHFD,
    SLMVGC,
    SMC,
    SMCAGC,
    SMCOCL,
    NMFClustering,
    UOMvSC,
)

METHODS = [method.cls(3) for method in baselines.METHODS.values()]
VARIANTS = [
    MLAN(3, weights="compound", normalize="sample"),
    MCGC(3, consensus="mean", local=False),
    MVSCHFD(3, weights="unsquared", suffix="stale"),
    UOMvSC(3, lam=0.0),
    UOMvSC(3, lam=1.0),
    UOMvSC(3, y_update="jacobi", align=False),
    SLMVGC(3, z_solver="alm10"),
    SMC(3, filter_order=0, alpha=1e-6),
    SMCAGC(3, n_anchors=15),
    SMCOCL(3, normalize_codes=False),
    SMCOCL(3, n_anchors=3),
    BKM(3, weighted=True),
    ECPCS(3, consensus="hc"),
]
ALL = METHODS + VARIANTS
_TAKES_VIEWS = tuple(method.cls for method in baselines.METHODS.values() if method.multi_view)


def takes_views(method):
    return isinstance(method, _TAKES_VIEWS)


def scales_samples(method):
    """Whether each sample is standardised by itself: its offset and scale mean nothing."""
    by_sample = isinstance(method, FSMSC | SMC | SMCAGC | SMCOCL)
    return by_sample or getattr(method, "normalize", None) == "sample"


def fits_values(method):
    """Whether the values themselves are fitted, not the differences between samples."""
    return isinstance(method, NMFClustering | BKM | FNMTF)


def depends_on_luck(method, data):
    """Whether few anchors, drawn at random, can miss a cluster or hardly tell two apart."""
    return isinstance(method, SMC | SMCOCL) and (data == "blocks" or method.n_anchors == 3)


def anchors_within(method, n, least=1):
    """The method with as many anchors as it has, but from `least` to n, where it has any."""
    if getattr(method, "n_anchors", None) is None:
        return method
    return clone(method).set_params(n_anchors=min(max(method.n_anchors, least), n))


def positive_only(method):
    return method.__sklearn_tags__().input_tags.positive_only


@cache
def name(method):
    """Return the text of a method without its number of clusters; each is in many parameters."""
    return re.sub(r"n_clusters=3(, )?|, n_clusters=3", "", re.sub(r"\s+", " ", str(method)))


def marks(method):
    """Variants are long: each differs from its method in one step, which has its own tests."""
    return [pytest.mark.long] if any(method is variant for variant in VARIANTS) else []


def each(methods, *, every=1):
    """Cases of these methods; all but each third or so, by `every`, are long."""
    params = [
        pytest.param(
            method, marks=[pytest.mark.long] if m % every else marks(method), id=name(method)
        )
        for m, method in enumerate(methods)
    ]
    return pytest.mark.parametrize("method", params)


def of(*classes, among=ALL):
    return [method for method in among if isinstance(method, classes)]


def seeded(method, **parameters):
    return clone(method).set_params(random_state=0, **parameters)


def given(method, views):
    """The views as the method takes them: all features side by side where it takes one view."""
    if takes_views(method):
        return views
    if any(map(sparse.issparse, views)):
        return sparse.csr_array(sparse.hstack(views))
    return np.hstack(views)


def along_a_line(spread):
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), [30, 20, 25])
    shift = spread * y[:, None]
    return [rng.randn(75, 4) + 8 * shift, rng.randn(75, 3) - 10 * shift], y


def on_axes(spread):
    """A cluster shows also after each sample is standardised."""
    rng = np.random.RandomState(0)
    y = rng.permutation(np.repeat(np.arange(3), [30, 20, 25]))
    return [rng.randn(75, width) + 10 * spread * np.eye(3, width)[y] for width in (6, 4)], y


def in_blocks(spread):
    """Non-negative; each cluster has features of its own."""
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), [30, 20, 25])
    X = 2.0 * (y[:, None] == np.repeat(np.arange(3), [5, 6, 4])) + rng.rand(75, 15) / spread
    return [X[:, ::2], X[:, 1::2]], y


DATA = {"line": along_a_line, "axes": on_axes, "blocks": in_blocks}


def shows_clusters(method, data):
    """Whether the method can see what separates the clusters of these data."""
    if scales_samples(method) and data == "line":
        return False
    return data == "blocks" or not fits_values(method)


def clear_data(methods, *, luck=False, one=False):
    """Cases (method, X, y) of clusters that the method finds; with `luck`, that it may miss.

    With `one`, all but one of the data are long.
    """
    params = [
        pytest.param(
            method,
            *DATA[data](spread=1),
            id=f"{name(method)}-{data}",
            marks=[pytest.mark.long] if one and turn else marks(method),
        )
        for method in methods
        for turn, data in enumerate(
            data
            for data in DATA
            if shows_clusters(method, data) and (luck or not depends_on_luck(method, data))
        )
    ]
    return pytest.mark.parametrize(("method", "X", "y"), params)


def unclear_data(methods):
    """Cases (method, X) of clusters that overlap: all that happens shows in the result."""
    params = [
        pytest.param(method, make(spread=0.2)[0], id=name(method), marks=marks(method))
        for method in methods
        for make in [in_blocks if fits_values(method) else on_axes]
    ]
    return pytest.mark.parametrize(("method", "X"), params)


def swept(model, sweeps):
    """The end of the sweeps of a co-clustering, and whether they converged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        p = model._swept(sweeps)
    end = {"q": model.feature_labels_, "S": model.block_means_, "objective": model.objective_}
    return SimpleNamespace(p=p, converged=not caught, **end)
