"""Mean and standard deviation of records over the seeds of each setting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from omcal.experiments.paper import OVER_MEMORY, OVER_TIME
from omcal.experiments.plan import Cell, cell_key
from omcal.experiments.records import Record

NOT_RUN = "·"
_WORDS = {
    "timeout": OVER_TIME,
    "memory": OVER_MEMORY,
    "error": "error",
    "unavailable": "n/a",
}


@dataclass(frozen=True)
class Measured:
    """One metric of one setting: mean and spread over its runs, or why there is none."""

    mean: float | None = None
    spread: float | None = None  # ddof 1; None for a single run
    runs: int = 0
    word: str = NOT_RUN

    @classmethod
    def of(cls, values: list[float]) -> Measured:
        """Return mean and sample standard deviation.

        Examples
        --------
        >>> Measured.of([0.5, 1.5])
        Measured(mean=1.0, spread=0.7071067811865476, runs=2, word='')
        """
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return cls(float(np.mean(values)), spread, len(values), "")


@dataclass
class Summary:
    """Every record, found by its setting; of repeated cells the last one counts.

    `status` says of data sets whether they are there: see `contents.STATUS_WORDS`.
    """

    records: Iterable[Record]
    status: dict[str, str] = field(default_factory=dict)
    _by_setting: dict[str, dict[int, Record]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.records = list(self.records)
        # The status at the time of a run counts, also where the data are gone by now.
        self.status = self.status | {r["dataset"]: r["data_status"] for r in self.records}
        self._by_setting = {}
        for record in self.records:
            setting = cell_key({**record, "seed": None, "structure": None})
            seeds = self._by_setting.setdefault(setting, {})
            if _replaces(record, seeds.get(record["seed"])):
                seeds[record["seed"]] = record

    def runs(self, cell: Cell) -> list[Record]:
        """Return the records of all seeds of a cell's setting."""
        return list(self._by_setting.get(cell.settings_key, {}).values())

    def finished(self, cell: Cell) -> list[Record]:
        """Return the records with a result among `runs`, in the order of their seeds."""
        runs = [record for record in self.runs(cell) if record["status"] == "ok"]
        return sorted(runs, key=lambda record: record["seed"])

    def measure(self, cell: Cell, metric: str, *, one_seed: bool = False) -> Measured:
        """Return mean and spread of a metric, or of "seconds", over all seeds or the cell's own.

        Points of a curve have one seed; the one that tables share with it would else have more.
        """
        runs = [run for run in self.runs(cell) if not one_seed or run["seed"] == cell.seed]
        good = [record for record in runs if record["status"] == "ok"]
        over = [record for record in runs if record["status"] in ("timeout", "memory")]
        if over:
            return Measured(word=_WORDS[over[0]["status"]])
        if good:
            return Measured.of([_value(record, metric) for record in good])
        if runs:
            return Measured(word=_WORDS[runs[0]["status"]])
        return Measured(word=NOT_RUN if self.is_present(cell.dataset) else "absent")

    def is_present(self, dataset: str) -> bool:
        """Whether the data set was there, now or when its records were made."""
        return self.status.get(dataset, "absent") != "absent"

    def errors(self) -> list[Record]:
        """Return the records without a result, each setting once."""
        seen: dict[tuple[str, str, str], Record] = {}
        for runs in self._by_setting.values():
            for record in runs.values():
                if record["status"] != "ok":
                    seen.setdefault((record["dataset"], record["method"], record["status"]), record)
        return list(seen.values())


def _replaces(record: Record, earlier: Record | None) -> bool:
    """Whether a record counts instead of an earlier one of the same cell."""
    if earlier is None or earlier["file_print"] != record["file_print"]:
        return True
    # Of one cell with and without rows of its graph, prefer the record with rows.
    return _worth(record) >= _worth(earlier)


def _worth(record: Record) -> int:
    return 2 * int(record["status"] == "ok") + int("graph_rows" in record)


def _value(record: Record, metric: str) -> float:
    return float(record["seconds"] if metric == "seconds" else record["scores"][metric])
