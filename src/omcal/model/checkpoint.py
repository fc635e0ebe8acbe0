"""The small state of a fit on disk, and a fit that goes on from it."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.method.rows import AbstractRows, Array, Assignment, Sums

SAVED_EVERY = 5  # sweeps
_NEGLIGIBLE = 1e-20
_DECISIVE = {
    "n_clusters",
    "n_neighbors",
    "beta",
    "gamma",
    "scale",
    "weighting",
    "init",
    "n_init",
    "accelerate",
    "random_state",
}

Step = tuple[Array, Array, Array]  # alpha, P, R


class Checkpoint:
    """The sweeps of a fit so far: what each was given and what it returned.

    The solver does the rest from these alone, so a fit that starts again with them comes to where
    it was without a pass over the rows. Nothing in it has n entries.

    Parameters
    ----------
    path : str or path-like
        Where it is kept; written whole or not at all.
    data : mapping
        What describes the data, as JSON can hold it.
    parameters : mapping
        Those of the estimator; the ones that decide how the fit goes must be the same when the
        checkpoint is used again, as must the data.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        data: Mapping[str, Any],
        parameters: Mapping[str, Any],
    ) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise ValueError(
                f"checkpoint={str(path)!r} lies in no folder; create {str(self.path.parent)!r}."
            )
        decisive = {k: _text(v) for k, v in parameters.items() if k in _DECISIVE}
        self._identity = json.loads(json.dumps({**data, **decisive}))
        self.anchors: list[NDArray] = []
        self.steps: list[Step] = []
        self.sums: list[Sums] = []
        self.StS: Array | None = None
        self._random_state: Any = ()
        if self.path.exists():
            self._load()

    @property
    def resumes(self) -> bool:
        return self.StS is not None

    def follow(
        self, rows: AbstractRows, anchors: list[NDArray], random_state: np.random.RandomState
    ) -> AbstractRows:
        """Rows whose sweeps are recorded, and which know those that already are.

        The random numbers that come after the anchors are recorded too, or set as they were.
        """
        if self.resumes:
            random_state.set_state(self._random_state)
        else:
            self._random_state = random_state.get_state(legacy=True)
            self.anchors = anchors
        return RecordedRows(rows, self)

    def save(self) -> None:
        kind, key, position, has_gauss, gauss = self._random_state
        state = {"kind": kind, "position": position, "has_gauss": has_gauss, "gauss": gauss}
        header = {"identity": self._identity, "random_state": state}
        arrays = {
            "header": np.array(json.dumps(header)),
            "random_key": key,
            "StS": self.StS,
            **{f"anchors{v}": anchors for v, anchors in enumerate(self.anchors)},
            **{name: np.stack(values) for name, values in self._columns().items()},
        }
        with _replacing(self.path) as file:
            np.savez(file, **arrays)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def _columns(self) -> dict[str, list[Array]]:
        columns = {
            name: [step[i] for step in self.steps] for i, name in enumerate(("alpha", "P", "R"))
        }
        for name in ("StF", "FtF", "FoldtF"):
            columns[name] = [getattr(sums, name) for sums in self.sums]
        return columns

    def _load(self) -> None:
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            header = json.loads(str(arrays["header"]))
            state = header["random_state"]
            self._random_state = (
                state["kind"],
                arrays["random_key"],
                state["position"],
                state["has_gauss"],
                state["gauss"],
            )
            identity = header["identity"]
            views = range(sum(name.startswith("anchors") for name in arrays))
            self.anchors = [arrays[f"anchors{v}"] for v in views]
            self.steps = list(zip(*(arrays[name] for name in ("alpha", "P", "R")), strict=True))
            names = ("StF", "FtF", "FoldtF")
            self.sums = [Sums(*s) for s in zip(*(arrays[name] for name in names), strict=True)]
            self.StS = arrays["StS"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is not a checkpoint, or is damaged ({error}); "
                "delete it, or choose another path."
            ) from error
        self._require_identity(identity)

    def _require_identity(self, found: Mapping[str, Any]) -> None:
        names = sorted(set(found) | set(self._identity))
        differing = [
            f"{name}: {found.get(name)} there, {self._identity.get(name)} here"
            for name in names
            if found.get(name) != self._identity.get(name)
        ]
        if differing:
            raise ValueError(
                f"checkpoint={str(self.path)!r} belongs to another fit ({'; '.join(differing)}); "
                "delete it, or choose another path."
            )


class RecordedRows(AbstractRows):
    """Rows that answer from the checkpoint what it knows, and record there what they do."""

    def __init__(self, rows: AbstractRows, checkpoint: Checkpoint) -> None:
        self._rows = rows
        self._checkpoint = checkpoint
        self._position = 0
        self._pending: list[Step] = []  # known sweeps that F has not seen

    def gram(self) -> Array:
        StS = self._rows.gram()
        known = self._checkpoint.StS
        if known is not None and not np.allclose(StS, known, rtol=1e-5, atol=1e-8 * known.max()):
            raise ValueError(
                f"checkpoint={str(self._checkpoint.path)!r} was made from other data; delete it, "
                "or choose another path."
            )
        self._checkpoint.StS = StS
        return StS

    def sweep(self, alpha: Array, P: Array, R: Array) -> Sums:
        record, at = self._checkpoint, self._position
        self._position += 1
        if at < len(record.steps):
            self._pending.append(record.steps[at])
            return record.sums[at]
        self._catch_up()
        sums = self._rows.sweep(alpha, P, R)
        record.steps.append((alpha, P, R))
        record.sums.append(sums)
        if self._position % SAVED_EVERY == 0:
            record.save()
        return sums

    def assign(self, alpha: Array, P: Array, R: Array, G: Array) -> Assignment:
        self._catch_up()
        return self._rows.assign(alpha, P, R, G)

    def _catch_up(self) -> None:
        for step in influential(self._pending):
            self._rows.sweep(*step)
        self._pending.clear()


def influential(steps: list[Step]) -> list[Step]:
    """The last steps, of which the F of the last still knows something; the first from F = 0.

    A step passes a difference in F on by no more than the norm of its R, which is below
    γ / (1+γ): at γ = 0.1 eighteen steps suffice.
    """
    share, first = 1.0, len(steps)
    while first > 0 and share > _NEGLIGIBLE:
        first -= 1
        share *= float(np.linalg.norm(steps[first][2], 2))
    if first == len(steps):
        return []
    alpha, P, R = steps[first]
    return [(alpha, P, np.zeros_like(R)), *steps[first + 1 :]]


def _text(value: Any) -> str:
    """A parameter in a few words that tell it from others."""
    if isinstance(value, str | int | float | None):
        return str(value)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return type(value).__name__
    return f"array {array.shape} {zlib.crc32(array.tobytes()):08x}"


@contextmanager
def _replacing(path: Path) -> Iterator[Any]:
    """A file that takes the place of `path` when the block ends well, and vanishes otherwise."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
