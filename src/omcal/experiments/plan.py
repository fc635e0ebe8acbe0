"""The paper's experiments: published values and settings of `paper.toml`, and the cells to run.

A cell is one fit: data set × method × parameters × seed.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from omcal.datasets import PAPER_DATASETS
from omcal.experiments.methods import plain_name

# Quick experiments come first, so that figures exist even if time runs out.
EXPERIMENTS = ("structure", "anchors", "grid", "transfer", "results", "singleview")

OVER_MEMORY, OVER_TIME, NOT_RUN = "OM", "---", "·"

_VALUE = re.compile(r"(-?\d+\.\d+)(?:\((\d+\.\d+)\))?")


@dataclass(frozen=True)
class Measured:
    """One metric of one setting, ours or published: mean and spread, or the reason for none."""

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
    parameters: dict[str, Any] = field(default_factory=dict)
    deterministic: bool = False  # uses no random numbers: one run is enough
    variant_of: str = ""  # for methods that the paper does not have: the row before it


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
        self.columns = [*self.metrics, "seconds"]
        self.datasets: list[str] = contents["datasets"]
        self.single_datasets: list[str] = contents["single_datasets"]
        self.run: dict[str, Any] = contents["run"]
        self.quick: dict[str, Any] = contents["quick"]
        self.reasons: dict[str, Any] = contents["reasons"]
        self.sizes: dict[str, dict[str, Any]] = contents["sizes"]
        self.published: dict[str, dict[str, list[str]]] = contents["published"]

    def rows(self, dataset: str) -> list[Row]:
        """Return the methods of the tables of a data set, in their order."""
        published = self.published[dataset].keys()
        rows = map(self.row, self.contents["method"])
        return [row for row in rows if published & {row.title, row.variant_of}]

    def row(self, title: str) -> Row:
        return Row(title, **self.contents["method"][title])

    def value(self, dataset: str, method: str, metric: str) -> Measured | None:
        """Return the printed value of a metric, or of "seconds"; None if there is none."""
        if method not in self.published[dataset]:
            return None
        return Measured.parse(self.published[dataset][method][self.columns.index(metric)])

    def omcal_parameters(self, dataset: str) -> dict[str, Any]:
        """Return the paper's m, beta and gamma as parameters of the estimator; m ≥ c."""
        printed = self.contents["parameters"].get(dataset)
        if printed is None:
            return {}
        m = printed.get("used_m", printed["m"])
        return {"n_anchors": m, "beta": printed["beta"], "gamma": printed["gamma"]}


@cache
def load_paper() -> Paper:
    """Read `paper.toml` of this package."""
    text = files("omcal.experiments").joinpath("paper.toml").read_text(encoding="utf-8")
    return Paper(tomllib.loads(text))


@dataclass(frozen=True)
class Cell:
    """One fit. Equal cells of different experiments are the same cell."""

    dataset: str
    method: str
    seed: int
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, record: dict[str, Any]) -> Cell:
        """Return the cell of a record."""
        return cls(**{name: record[name] for name in cls.__dataclass_fields__})

    @property
    def key(self) -> str:
        """Canonical text of the fields, the key of records.

        Examples
        --------
        >>> a = Cell("Coil", "omcal", 0, {"beta": 1, "gamma": 2})
        >>> a.key == Cell("Coil", "omcal", 0, {"gamma": 2.0, "beta": 1.0}).key
        True
        """
        numbers = {
            name: float(value) if isinstance(value, int | float) else value
            for name, value in self.parameters.items()
        }
        return json.dumps({**vars(self), "parameters": numbers}, sort_keys=True)

    @property
    def settings_key(self) -> str:
        """Key without the seed, shared by cells that differ only in the seed."""
        return replace(self, seed=-1).key

    def __str__(self) -> str:
        varied = ", ".join(f"{k}={self.parameters[k]:g}" for k in _VARIED if k in self.parameters)
        return f"{self.method} on {self.dataset}, seed {self.seed}" + (varied and f", {varied}")


_VARIED = ("n_anchors", "beta", "gamma")


@dataclass(frozen=True)
class Plan:
    """The extent of a run: the whole paper, or a quick part of it.

    `only` holds names of experiments, data sets and methods; a kind without names is not limited.
    """

    paper: Paper
    seeds: int
    quick: bool = False
    only: frozenset[str] = frozenset()

    def cells(self) -> list[Cell]:
        """Return every cell once, ordered by seed, so that an early stop leaves no gaps."""
        wanted: dict[str, Cell] = {}
        for seed in range(self.seeds):
            for experiment in EXPERIMENTS:
                if self._allows(EXPERIMENTS, experiment):
                    for cell in getattr(self, experiment)(seed):
                        wanted.setdefault(cell.key, cell)
        return [
            cell
            for cell in wanted.values()
            if self._allows(PAPER_DATASETS, cell.dataset)
            and self._allows(self._methods(), cell.method)
        ]

    def results(self, seed: int) -> Iterator[Cell]:
        """Yield the cells of nine data sets and nine methods."""
        yield from self._table_cells(self.paper.datasets, seed)

    def singleview(self, seed: int) -> Iterator[Cell]:
        """Yield the cells of the single-view table: three data sets, eight methods."""
        yield from self._table_cells(self.paper.single_datasets, seed)

    def _table_cells(self, datasets: list[str], seed: int) -> Iterator[Cell]:
        for dataset in datasets:
            for row in self.paper.rows(dataset):
                if seed == 0 or not row.deterministic:
                    yield self.table_cell(dataset, row, seed)

    @property
    def varied(self) -> dict[str, list[float]]:
        """Values of beta, of gamma, and of the anchors beyond c, for the sensitivity study."""
        values: dict[str, Any] = self.paper.contents["sensitivity"]
        return self.paper.quick if self.quick else values

    def grid(self, seed: int) -> Iterator[Cell]:
        """Yield OMCAL over beta × gamma, with one seed."""
        if seed == 0:
            for dataset in self.paper.contents["sensitivity"]["datasets"]:
                for beta in self.varied["beta"]:
                    for gamma in self.varied["gamma"]:
                        yield self.omcal_cell(dataset, beta=beta, gamma=gamma)

    def anchors(self, seed: int) -> Iterator[Cell]:
        """Yield OMCAL over the number of anchors, from c to c + 150, with one seed."""
        if seed == 0:
            for dataset in self.paper.contents["sensitivity"]["datasets"]:
                c = self.paper.sizes[dataset]["clusters"]
                for extra in self.varied["extra_anchors"]:
                    yield self.omcal_cell(dataset, n_anchors=c + extra)

    def structure(self, seed: int) -> Iterator[Cell]:
        """Yield the cells whose consensus graphs are drawn."""
        if seed == 0:
            for dataset in self.paper.contents["structure"]["datasets"]:
                yield self.omcal_cell(dataset)

    def transfer(self, seed: int) -> Iterator[Cell]:
        """Yield SMC and its two variants."""
        for dataset in self.paper.contents["transfer"]["datasets"]:
            for method in self.paper.contents["transfer"]["methods"]:
                yield Cell(dataset, method, seed)

    def table_cell(self, dataset: str, row: Row, seed: int) -> Cell:
        """Return a cell of a table: OMCAL with the paper's parameters, others with their own."""
        published = self.paper.omcal_parameters(dataset) if row.name == "omcal" else {}
        return Cell(dataset, row.name, seed, row.parameters | published)

    def omcal_cell(self, dataset: str, **varied: float) -> Cell:
        """Return OMCAL with the paper's parameters, some of them replaced, seed 0."""
        cell = self.table_cell(dataset, self.paper.row("OMCAL"), 0)
        return replace(cell, parameters=cell.parameters | varied)

    def _allows(self, kind: Iterable[str], name: str) -> bool:
        named = self.only & set(kind)
        return not named or name in named

    def _methods(self) -> set[str]:
        names = {entry["name"] for entry in self.paper.contents["method"].values()}
        return names | set(self.paper.contents["transfer"]["methods"])

    def limited_to(self, names: Iterable[str]) -> Plan:
        """Return the plan limited to named experiments, data sets and methods; case is ignored."""
        known = [*EXPERIMENTS, *PAPER_DATASETS, *sorted(self._methods())]
        spelled = {plain_name(name): name for name in known}
        for name in names:
            if plain_name(name) not in spelled:
                raise ValueError(f"--only {name!r} is unknown; use some of {', '.join(known)}.")
        return replace(self, only=frozenset(spelled[plain_name(name)] for name in names))
