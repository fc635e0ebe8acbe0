"""Published values and settings of the experiments, read from `paper.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

OVER_MEMORY, OVER_TIME, NOT_RUN = "OM", "---", "·"

_VALUE = re.compile(r"(-?\d+\.\d+)(?:\((\d+\.\d+)\))?")


@dataclass(frozen=True)
class Measured:
    """One metric of one setting, ours or published: mean and spread, or why there is none."""

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

    @classmethod
    def parse(cls, text: str) -> Measured:
        """Read a published value: "0.594(0.015)", "9.653", "OM" or "---".

        Examples
        --------
        >>> Measured.parse("0.594(0.015)").spread, Measured.parse("OM").word
        (0.015, 'OM')
        """
        if text in (OVER_MEMORY, OVER_TIME):
            return cls(word=text)
        match = _VALUE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no published value; use 0.594(0.015), 9.653, OM or ---.")
        return cls(float(match[1]), None if match[2] is None else float(match[2]))


@dataclass(frozen=True)
class Row:
    """A method as a row of a table: its name in the registry and its fixed parameters."""

    title: str
    name: str
    parameters: dict[str, Any]
    published: bool
    deterministic: bool  # uses no random numbers: one run tells all


class Paper:
    """The contents of `paper.toml`.

    Examples
    --------
    >>> paper = load_paper()
    >>> paper.value("Wiki", "OMCAL", "ACC").mean
    0.594
    >>> paper.value("TDT2", "OCAL", "seconds").mean
    7.766
    """

    def __init__(self, contents: dict[str, Any]) -> None:
        self.contents = contents
        self.metrics: list[str] = contents["metrics"]
        self.datasets: list[str] = contents["datasets"]
        self.single_datasets: list[str] = contents["single_datasets"]
        self.run: dict[str, Any] = contents["run"]
        self.quick: dict[str, Any] = contents["quick"]
        self.reasons: dict[str, Any] = contents["reasons"]

    def rows(self, single: bool) -> list[Row]:
        """Return the methods of the multi-view or the single-view tables, in their order."""
        titles = list(self.contents["single_methods" if single else "methods"])
        for title, entry in self.contents["method"].items():
            if entry.get("after") in titles:
                titles.insert(titles.index(entry["after"]) + 1, title)
        return [self.row(title) for title in titles]

    def row(self, title: str) -> Row:
        entry = self.contents["method"][title]
        published = not entry.get("unpublished", False)
        return Row(
            title,
            entry["name"],
            dict(entry.get("parameters", {})),
            published,
            entry.get("deterministic", False),
        )

    def size(self, dataset: str) -> dict[str, Any]:
        """Return samples, clusters and features as published."""
        sizes = {**self.contents["sizes"], **self.contents["single_sizes"]}
        return dict(sizes[dataset])

    def value(self, dataset: str, method: str, metric: str) -> Measured | None:
        """Return the printed value of a metric or of "seconds"; None if there is none."""
        if not self.row(method).published:
            return None
        return Measured.parse(self._printed(dataset, method, metric))

    def _printed(self, dataset: str, method: str, metric: str) -> str:
        c = self.contents
        if dataset in self.single_datasets:
            columns = [*self.metrics, "seconds"]
            return str(c["single_results"][dataset][method][columns.index(metric)])
        if metric == "seconds":
            return str(c["seconds"][dataset][c["methods"].index(method)])
        return str(c["results"][metric][method][self.datasets.index(dataset)])

    def omcal_parameters(self, dataset: str) -> dict[str, Any]:
        """Return the paper's m, beta and gamma as parameters of the estimator; m ≥ c."""
        printed = self.contents["parameters"].get(dataset)
        if printed is None:
            return {}
        m = printed.get("used_m", printed["m"])
        return {
            "n_anchors": m,
            "beta": float(printed["beta"]),
            "gamma": float(printed["gamma"]),
        }

    def figure_datasets(self, figure: str) -> Iterator[tuple[str, bool]]:
        """Yield the data sets of a figure, and whether the paper has them."""
        entry = self.contents[figure]
        yield from ((name, True) for name in entry["datasets"])
        yield from ((name, False) for name in entry.get("added", []))


@cache
def load_paper() -> Paper:
    """Read `paper.toml` of this package."""
    text = files("omcal.experiments").joinpath("paper.toml").read_text(encoding="utf-8")
    return Paper(tomllib.loads(text))
