"""Data of an experiment: the paper's folder, or a data set given by the user."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from omcal.datasets import PAPER_DATASETS, MultiViewData, load_paper_dataset
from omcal.experiments.methods import Method
from omcal.experiments.paper import load_paper
from omcal.machine.arrays import Array

_BLOCK = 1 << 22


class Source(Protocol):
    """Data sets by name; sent to the process of each cell."""

    def prints(self) -> dict[str, str]:
        """Return a checksum of each available data set."""

    def load(self, name: str) -> MultiViewData: ...

    def model(self, method: Method, **parameters: Any) -> Any:
        """Return the estimator to compare."""

    def status(self, name: str, outcome: dict[str, Any]) -> str:
        """Return the kind of the data in one word, for the record of a cell."""


@dataclass(frozen=True)
class PaperData:
    """The data sets of the paper, in a folder."""

    folder: Path

    def prints(self) -> dict[str, str]:
        found = {name: dataset.find(self.folder) for name, dataset in PAPER_DATASETS.items()}
        return {name: _print_of_file(source[1]) for name, source in found.items() if source}

    def load(self, name: str) -> MultiViewData:
        unit_length = load_paper().size(name).get("unit_length", False)
        data = load_paper_dataset(name, self.folder, unit_length=unit_length, strict=False)
        if data.labels is None or data.n_classes is None:
            raise ValueError(f"{name} has no classes to compare the clusters with.")
        return data

    def model(self, method: Method, **parameters: Any) -> Any:
        """Return the estimator with the paper's settings, if it has some."""
        return getattr(method.cls, "paper", method.make)(**parameters)

    def status(self, name: str, outcome: dict[str, Any]) -> str:
        """Return the kind in the registry, or "differs" if the sizes are not the published ones."""
        dataset, here = PAPER_DATASETS[name], outcome.get("data")
        status = dataset.status(self.folder)
        if status == "exact" and here is not None:
            published = [dataset.n_samples, dataset.n_clusters, list(dataset.widths)]
            if published != [here["samples"], here["clusters"], here["features"]]:
                return "differs"
        return status


@dataclass(frozen=True)
class GivenData:
    """One data set in memory."""

    data: MultiViewData

    def prints(self) -> dict[str, str]:
        return {self.data.name: _print_of(_parts(self.data))}

    def load(self, name: str) -> MultiViewData:
        return self.data

    def model(self, method: Method, **parameters: Any) -> Any:
        return method.make(**parameters)

    def status(self, name: str, outcome: dict[str, Any]) -> str:
        return "given"


def _parts(data: MultiViewData) -> Iterator[memoryview]:
    """Yield everything that a fit or a score depends on, as bytes."""
    for name, view in data.views.items():
        yield memoryview(name.encode())
        arrays = [view]
        if sparse.issparse(view):
            arrays = [view.indptr, view.indices, view.data]
        yield from (_bytes(array) for array in arrays)
    if data.labels is not None:
        yield _bytes(data.labels.astype(str))
    for mask in (data.present or {}).values():
        yield _bytes(mask)


def _bytes(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _print_of(parts: Iterable[bytes | memoryview]) -> str:
    """Return the size and checksum of all parts together."""
    checksum, size = 0, 0
    for part in parts:
        checksum, size = zlib.crc32(part, checksum), size + len(part)
    return f"{size}-{checksum:08x}"


def _print_of_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return _print_of(iter(lambda: stream.read(_BLOCK), b""))
    except OSError:  # the records of its cells have the error
        return "unreadable"
