"""List the data sets of the paper: published sizes, file names, and preparation."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize as unit_rows

from omcal.datasets._data import Contents, MultiViewData, reading
from omcal.datasets._selection import Choice, select
from omcal.datasets.loading import only_source
from omcal.views.pair import DataError

Prepare = Callable[[MultiViewData, Contents], MultiViewData]

TDT2_TERMS = 36771
SCOTUS_SAMPLES = 6400
REUTERS_WIDTHS = (21531, 24892, 34251, 15506, 11547)


def _prepare_tdt2(data: MultiViewData, contents: Contents) -> MultiViewData:
    """Keep classes 11 to 30; a file without labels stores them after the terms."""
    terms = sparse.csr_array(next(iter(data.views.values())))
    if data.labels is not None:
        labels = data.labels
    elif terms.shape[1] > TDT2_TERMS:
        labels = terms[:, [TDT2_TERMS]].toarray().ravel().astype(np.int64)
    else:
        raise DataError(f"it has no labels and only {terms.shape[1]} columns.")
    kept = labels >= 11
    return replace(
        data, views={"terms": terms[kept, :TDT2_TERMS]}, labels=labels[kept], label_name="class"
    )


def _prepare_scotus(data: MultiViewData, contents: Contents) -> MultiViewData:
    """Keep the earliest opinions and the terms that occur in them."""
    counts, names = data.views["X"], data.feature_names
    dates = contents.variables.get("date")
    if dates is None or data.labels is None or len(dates) != data.n_samples:
        raise DataError("it has no 'date' for every sample, by which the earliest are taken.")
    earliest = np.argsort(dates, kind="stable")[:SCOTUS_SAMPLES]
    counts = counts[earliest]
    occurring = np.bincount(counts.indices, minlength=counts.shape[1]) > 0
    return replace(
        data,
        views={"terms": counts[:, occurring]},
        labels=data.labels[earliest],
        feature_names={"terms": names["X"][occurring]} if names else None,
    )


def _prepare_silhouettes(data: MultiViewData, contents: Contents) -> MultiViewData:
    """Resample silhouettes from 28×28 to 16×16 pixels."""
    images = next(iter(data.views.values()))
    if images.shape[1] != 28 * 28:
        raise DataError(f"its images have {images.shape[1]} pixels and not 28×28.")
    # The mean by area: 28 pixels of four parts are 16 pixels of seven parts.
    shrink = np.kron(np.eye(16), np.full(7, 1 / 7)) @ np.kron(np.eye(28), np.ones((4, 1)))
    small = shrink @ images.reshape(-1, 28, 28).astype(np.float64) @ shrink.T
    return replace(data, views={"silhouette": small.reshape(len(images), -1)})


def _prepare_bytes(data: MultiViewData, contents: Contents) -> MultiViewData:
    """Scale grey values from 0..255 to 0..1."""
    return replace(
        data, views={name: view.astype(np.float32) / 255 for name, view in data.views.items()}
    )


def _prepare_reuters_triplets(data: MultiViewData, contents: Contents) -> MultiViewData:
    """Set the published widths, because triplets do not store them."""
    if len(data.views) != len(REUTERS_WIDTHS) or any(
        width > published for width, published in zip(data.widths, REUTERS_WIDTHS, strict=True)
    ):
        raise DataError(f"its views have the widths {data.widths}, wider than those published.")
    views = {}
    for (name, view), width in zip(data.views.items(), REUTERS_WIDTHS, strict=True):
        widened = view.copy()
        widened.resize((data.n_samples, width))
        views[name] = widened
    return replace(data, views=views)


@dataclass(frozen=True)
class Source:
    """A file that holds a data set of the paper, or a substitute for it."""

    file: str
    status: str = "exact"
    prepare: Prepare | None = None
    remark: str = ""


@dataclass(frozen=True)
class PaperDataset:
    """Published sizes of a data set, and the files that may hold it, in order of preference."""

    name: str
    n_samples: int
    n_clusters: int
    widths: tuple[int, ...]
    sources: tuple[Source, ...]

    def find(self, folder: str | os.PathLike[str]) -> tuple[Source, Path] | None:
        """Return the first source whose file is in the folder; the case of names is ignored."""
        if not Path(folder).is_dir():
            return None
        present = {path.name.lower(): path for path in sorted(Path(folder).iterdir())}
        found = ((source, present.get(source.file.lower())) for source in self.sources)
        return next(((source, path) for source, path in found if path), None)

    def status(self, folder: str | os.PathLike[str]) -> str:
        """Return the kind of the file in the folder: "exact", "subset", "rebuilt" or "absent"."""
        found = self.find(folder)
        return found[0].status if found else "absent"


# Number of samples and of clusters, and the width of each view, as published.
_SIZES = {
    "Coil": (1440, 20, (30, 19, 30)),
    "Wiki": (2866, 10, (128, 10)),
    "USPS": (9298, 10, (30, 9, 30)),
    "Reuters": (18758, 6, REUTERS_WIDTHS),
    "NoisyMNIST": (30000, 10, (784, 784)),
    "XMedia": (40000, 200, (4096, 300)),
    "Cifar10": (50000, 10, (512, 2048, 1024)),
    "Cifar100": (50000, 100, (512, 2048, 1024)),
    "Mnist": (60000, 10, (342, 1024, 64)),
    "TDT2": (1938, 20, (TDT2_TERMS,)),
    "Scotus": (SCOTUS_SAMPLES, 13, (126405,)),
    "Caltech101": (8641, 101, (256,)),
}
_ORIGINALS = {name: Source(f"{name}.mat") for name in _SIZES}
_ORIGINALS["TDT2"] = Source("TDT2.mat", "exact", _prepare_tdt2, "classes 11 to 30; term counts")
_SUBSTITUTES = {
    "USPS": Source(
        "USPS_views_derived.npz",
        "rebuilt",
        remark="IsoProjection, LDA and NPE of the pixels; the LDA view was made with the labels, "
        "so scores on it do not measure quality",
    ),
    "Reuters": Source(
        "Reuters600.mat", "subset", _prepare_reuters_triplets, "600 of the documents"
    ),
    "NoisyMNIST": Source(
        "NoisyMNIST_derived_30000_0.npz",
        "rebuilt",
        _prepare_bytes,
        "made from MNIST by the published recipe; divided by 255",
    ),
    "Scotus": Source(
        "SCOTUS_counts.npz",
        "rebuilt",
        _prepare_scotus,
        "term counts of the 6400 earliest opinions; 112214 terms instead of 126405",
    ),
    "Caltech101": Source(
        "caltech101_silhouettes_28.mat",
        "rebuilt",
        _prepare_silhouettes,
        "8671 silhouettes instead of 8641, from 28×28 to 16×16 pixels by area averaging",
    ),
}


#: The data sets of the paper by name: their sizes as published, and the files that hold them.
PAPER_DATASETS = {
    name: PaperDataset(
        name, *sizes, tuple(s[name] for s in (_ORIGINALS, _SUBSTITUTES) if name in s)
    )
    for name, sizes in _SIZES.items()
}


def load_paper_dataset(
    name: str,
    folder: str | os.PathLike[str],
    *,
    unit_length: bool = False,
    strict: bool = True,
) -> MultiViewData:
    """Load a data set of the paper from a folder with its file.

    Parameters
    ----------
    name : str
        A key of `PAPER_DATASETS`, in any case: Coil, Wiki, USPS, Reuters, NoisyMNIST, XMedia,
        Cifar10, Cifar100, Mnist, TDT2, Scotus, Caltech101.
    folder : str or path-like
        The folder of the files. `PAPER_DATASETS[name].sources` has the file names, and
        `PAPER_DATASETS[name].status(folder)` tells which kind of file is there.
    unit_length : bool, default=False
        Divide every row of every view by its Euclidean length; rows of zeros stay.
    strict : bool, default=True
        Whether to refuse a file that should be the original but does not have the published sizes.

    Returns
    -------
    MultiViewData
        Its `notes` describe the differences from the published data, if there are any.

    Examples
    --------
    >>> PAPER_DATASETS["Coil"].widths
    (30, 19, 30)
    >>> load_paper_dataset("Coil", ".")
    Traceback (most recent call last):
    omcal.views.pair.DataError: Coil (1440 samples, 20 clusters, widths 30, 19, 30) is not ...
    """
    by_name = {key.lower(): dataset for key, dataset in PAPER_DATASETS.items()}
    if name.lower() not in by_name:
        raise DataError(f"name={name!r} is not in the paper; use one of {list(PAPER_DATASETS)}.")
    dataset = by_name[name.lower()]
    found = dataset.find(folder)
    if found is None:
        widths = ", ".join(str(width) for width in dataset.widths)
        files = " or ".join(source.file for source in dataset.sources)
        raise DataError(
            f"{dataset.name} ({dataset.n_samples} samples, {dataset.n_clusters} clusters, widths "
            f"{widths}) is not in {str(folder)!r}; put {files} there (a .mat file has the views in "
            "a cell X, the labels in Y)."
        )
    source, path = found
    contents = only_source(path).contents
    with reading(path, contents.format):
        data = select(contents, path, Choice(ids=False))
        data = source.prepare(data, contents) if source.prepare else data
        if data.labels is None:
            raise DataError("it has no labels.")
        here = (data.n_samples, data.n_classes, data.widths)
        published = (dataset.n_samples, dataset.n_clusters, dataset.widths)
        if strict and source.status == "exact" and here != published:
            raise DataError(
                f"it has samples, clusters and widths {here}, and {dataset.name} was published "
                f"with {published}; use the original file, or pass strict=False."
            )
    views = data.views
    if unit_length:
        views = {key: unit_rows(view) for key, view in views.items()}
    remarks = (f"{source.status}: {source.remark}",) if source.remark else (source.status,)
    return replace(data, name=dataset.name, views=views, notes=remarks + data.notes)
