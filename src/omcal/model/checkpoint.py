"""Save the small state of a fit to a file, and continue a fit from it."""

from __future__ import annotations

import json
import math
import os
import warnings
import zlib
from collections.abc import Mapping
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from omcal.machine.archive import Archive, ArchiveError, write_archive
from omcal.machine.arrays import Array, Floats
from omcal.machine.files import open_regular, require_replaceable
from omcal.method.rows import AbstractRows, Assignment, Sums

FORMAT = "omcal checkpoint"
SAVED_EVERY = 5  # sweeps
_NEGLIGIBLE = 1e-20
_DECISIVE = {
    "n_clusters",
    "n_neighbors",
    "beta",
    "gamma",
    "scale",
    "anchors",
    "weighting",
    "init",
    "n_init",
    "accelerate",
    "random_state",
}

Step = tuple[Floats, Floats, Floats]  # alpha, P, R
_PARTS = ("alpha", "P", "R", "StF", "FtF", "FoldtF")  # of a sweep: its step and its sums


class OtherFitError(ValueError):
    """A valid checkpoint that belongs to another fit."""


class Checkpoint:
    """Arguments and results of the sweeps of a fit so far, in a file.

    The solver needs nothing else: a fit that starts with them reaches the same state without
    passes over the rows. Nothing in the file has n entries. Only a fit with the same data, as
    described by JSON values, and the same decisive parameters may use it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        data: Mapping[str, Any],
        parameters: Mapping[str, Any],
    ) -> None:
        self.path: Path = Path(path)
        if not self.path.parent.is_dir():
            raise ValueError(
                f"checkpoint={str(path)!r} lies in no folder; create {str(self.path.parent)!r}."
            )
        try:
            require_replaceable(path)
        except OSError as error:
            raise ValueError(
                f"checkpoint={str(path)!r} cannot be written ({error.strerror}); choose another "
                "path."
            ) from error
        decisive = {k: describe_value(v) for k, v in parameters.items() if k in _DECISIVE}
        self._identity = json.loads(json.dumps({**data, **decisive}))
        self.anchors: list[Array] = []
        self.sweeps: list[tuple[Floats, ...]] = []  # parts of each sweep
        self.StS: Floats | None = None
        self._random_state: Any = ()
        self.writes = True  # True for one of the processes that share a fit
        self._warned = False
        if self.path.exists():
            self._load()

    @property
    def resumes(self) -> bool:
        return self.StS is not None

    def follow(
        self, rows: AbstractRows, anchors: list[Array], random_state: np.random.RandomState
    ) -> AbstractRows:
        """Return rows that record their sweeps, and answer recorded sweeps from the file.

        The state of the random numbers after the choice of anchors is recorded or restored, too.
        """
        if self.resumes:
            random_state.set_state(self._random_state)
        else:
            self._random_state = random_state.get_state(legacy=True)
            self.anchors = anchors
        return RecordedRows(rows, self)

    def save(self) -> None:
        """Write the file; if that fails, warn, and keep the last file."""
        kind, key, position, has_gauss, gauss = self._random_state
        header = {
            "format": FORMAT,
            "identity": self._identity,
            "n_sweeps": len(self.sweeps),
            "random_state": [kind, position, has_gauss, gauss],
        }
        columns = zip(*self.sweeps, strict=True)
        arrays = {
            "random_key": key,
            "StS": self.StS,
            **{f"anchors.{v}": anchors for v, anchors in enumerate(self.anchors)},
            **{name: np.stack(values) for name, values in zip(_PARTS, columns, strict=True)},
        }
        try:
            write_archive(self.path, header, arrays)
        except OSError as error:
            if not self._warned:
                warnings.warn(
                    f"checkpoint={str(self.path)!r} cannot be written ({error.strerror}); the fit "
                    "continues without it.",
                    UserWarning,
                    stacklevel=2,
                )
            self._warned = True

    def remove(self) -> None:
        if self.writes:
            self.path.unlink(missing_ok=True)

    def _load(self) -> None:
        with open_regular(self.path) as stream:
            try:
                with Archive.open(stream, "checkpoint") as archive:
                    self._read(archive)
            except OtherFitError:
                raise
            # Parsers may fail on damaged bytes with any exception.
            except Exception as error:
                reason = " ".join(str(error).split())[:200] or type(error).__name__
                raise ValueError(
                    f"checkpoint={str(self.path)!r} is not a checkpoint, or is damaged ({reason}); "
                    "delete it, or choose another path."
                ) from error

    def _read(self, archive: Archive) -> None:
        """Read all members of the archive; their shapes follow from those of this fit."""
        header = archive.header
        if header.get("format") != FORMAT:
            raise ArchiveError("this archive is not a checkpoint.")
        self._require_identity(dict(header["identity"]))
        widths, m = self._identity["n_features"], self._identity["n_anchors"]
        V, c, n = len(widths), int(self._identity["n_clusters"]), header["n_sweeps"]
        if type(n) is not int or n < 1:
            raise ArchiveError(f"n_sweeps={n!r:.80} is not a number of sweeps.")
        kind, position, has_gauss, gauss = header["random_state"]
        sound = kind == "MT19937" and type(position) is int and 0 <= position <= 624
        if not sound or has_gauss not in (0, 1) or not math.isfinite(gauss):
            raise ArchiveError("the state of its random numbers is not valid.")
        key = archive.take("random_key", (624,), "u")
        self._random_state = (kind, key, position, int(has_gauss), float(gauss))
        self.anchors = [archive.take(f"anchors.{v}", (m, width)) for v, width in enumerate(widths)]
        shapes = (V,), (m, c), (c, c), (V, m, c), (c, c), (c, c)
        parts = [
            archive.take(*of, "f") for of in zip(_PARTS, [(n, *s) for s in shapes], strict=True)
        ]
        self.sweeps = list(zip(*parts, strict=True))
        self.StS = archive.take("StS", (V, V, m, m))

    def _require_identity(self, found: Mapping[str, Any]) -> None:
        names = sorted(set(found) | set(self._identity))
        differing = [
            f"{name}: {found.get(name)!s:.80} in it, {self._identity.get(name)!s:.80} here"
            for name in names
            if found.get(name) != self._identity.get(name)
        ]
        if differing:
            raise OtherFitError(
                f"checkpoint={str(self.path)!r} belongs to another fit "
                f"({'; '.join(differing):.600}); delete it, or choose another path."
            )


class RecordedRows(AbstractRows):
    """Rows that answer sweeps from a checkpoint, or do them and record them there."""

    def __init__(self, rows: AbstractRows, checkpoint: Checkpoint) -> None:
        self._rows = rows
        self._checkpoint = checkpoint
        self._position = 0
        self._pending: list[Step] = []  # recorded sweeps that were not applied to F

    def gram(self) -> Floats:
        StS = self._rows.gram()
        known = self._checkpoint.StS
        if known is not None and not np.allclose(StS, known, rtol=1e-5, atol=1e-8 * known.max()):
            raise ValueError(
                f"checkpoint={str(self._checkpoint.path)!r} was made from other data; delete it, "
                "or choose another path."
            )
        self._checkpoint.StS = StS
        return StS

    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Sums:
        record, at = self._checkpoint, self._position
        self._position += 1
        if at < len(record.sweeps):
            alpha, P, R, *known = record.sweeps[at]
            self._pending.append((alpha, P, R))
            return Sums(*known)
        self._catch_up()
        sums = self._rows.sweep(alpha, P, R)
        record.sweeps.append((alpha, P, R, sums.StF, sums.FtF, sums.FoldtF))
        if self._position % SAVED_EVERY == 0 and record.writes:
            record.save()
        return sums

    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        self._catch_up()
        return self._rows.assign(alpha, P, R, G, runner_up=runner_up)

    def _catch_up(self) -> None:
        for step in influential(self._pending):
            self._rows.sweep(*step)
        self._pending.clear()


def influential(steps: list[Step]) -> list[Step]:
    """Return the last steps, on which the final F depends; the first one starts from F = 0.

    A step multiplies a difference in F by at most the norm of its R, which is below γ / (1+γ): at
    γ = 0.1 eighteen steps are enough.
    """
    share, first = 1.0, len(steps)
    while first > 0 and share > _NEGLIGIBLE:
        first -= 1
        share *= float(np.linalg.norm(steps[first][2], 2))
    if first == len(steps):
        return []
    alpha, P, R = steps[first]
    return [(alpha, P, np.zeros_like(R)), *steps[first + 1 :]]


def describe_value(value: Any) -> str:
    """Return a parameter as a short text; different values have different texts."""
    if isinstance(value, str | Number | None):
        return str(value)
    if isinstance(value, Mapping):
        named = sorted(value.items(), key=lambda item: str(item[0]))
        return ", ".join(f"{name}: {describe_value(one)}" for name, one in named)
    if isinstance(value, list | tuple) and any(np.ndim(item) == 2 for item in value):
        return ", ".join(map(describe_value, value))
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return type(value).__name__
    return f"array {array.shape} {zlib.crc32(array.tobytes()):08x}"
