"""Per-view scaling: fitted once, then folded into products with the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array, Floats
from omcal.machine.compiled import compiled_pays
from omcal.machine.threads import map_blocks
from omcal.method.moments import Moments
from omcal.method.row_steps import RowStep, damped, standard_rows, unit_rows, weighted
from omcal.views.kinds import ASKED, Kind, recognise, sample_of, typical_values
from omcal.views.view import Matrix, View, check_finite, count_nonfinite

Name = Literal["auto", "tfidf", "unit", "log", "standard", "feature", "sample", "view"]
SCALES = (*get_args(Name), None)
Scale = Name | None | Mapping[str, Any]

_BLOCK_ENTRIES = 1 << 18
_COMPILED_ENTRIES = 1 << 20  # the compiled loop makes no copy


@dataclass(frozen=True)
class Scaling:
    """x -> (row(weight · damped(x)) − center) · factor; steps that are None are skipped.

    `unit`, `weight`, `center` and `factor` have one float64 entry a feature.
    """

    row: RowStep | None = None  # "standard": z-score of each row; "unit": divided by its length
    center: Floats | None = None
    factor: Floats | None = None
    unit: Floats | None = None  # damped: log(1 + x / unit)
    weight: Floats | None = None
    kind: Kind = ASKED
    # Moments of the prepared features over the rows of the fit (for "tfidf": of their presence),
    # for comparison with later samples.
    mean: Floats | None = None
    variance: Floats | None = None

    @classmethod
    def fit(cls, view: View, scale: Scale) -> Scaling:
        """Read what `scale` needs from a view in memory, once; all of its values must be finite."""
        sample = sample_of(view) if needs_sample(scale, view.name) else None
        if sample is not None and any(count_nonfinite(sample)):
            check_finite(view)
        draft = ScalingPlan.of(view, scale, sample)
        if draft.looks:
            return draft.finish(moments(view, draft))
        check_finite(view)
        return draft.finish(None)

    @property
    def prepares(self) -> bool:
        """Whether rows are transformed before features are centred and weighted."""
        return self.row is not None or self.unit is not None or self.weight is not None

    def prepare(self, block: Matrix) -> Matrix:
        """Return the transformed rows; the block itself where no step transforms rows."""
        if self.unit is not None:
            block = damped(block, self.unit)
        if self.weight is not None:
            block = weighted(block, self.weight)
        if self.row is None:
            return block
        return unit_rows(block) if self.row == "unit" else standard_rows(block)

    def apply(self, block: Matrix, out: Array | None = None) -> Matrix:
        """Return a scaled copy of a block of rows in its own float type; a dense one in `out`."""
        block = self.prepare(block)
        if sparse.issparse(block):
            return block if self.factor is None else weighted(block, self.factor)
        if self.center is not None:
            center, rest = self.center_in(block.dtype)
            block = out = np.subtract(block, center, out=out)
            if rest.any():
                block -= rest
        if self.factor is not None:
            return np.multiply(block, self.factor.astype(block.dtype), out=out)
        if out is not None and out is not block:
            out[:] = block
        return block

    def center_in(self, dtype: np.dtype) -> tuple[Array, Array]:
        """Return the center in this type, and the remainder that the type cannot represent.

        The remainder matters if features are far from zero.
        """
        assert self.center is not None
        center = self.center.astype(dtype)
        return center, (self.center - center).astype(dtype)

    def undo(self, points: Array) -> Floats:
        """Return the prepared rows that `apply` maps to the points."""
        if self.factor is not None:
            there = self.factor > 0
            points = np.divide(points, self.factor, out=np.zeros_like(points), where=there)
        return points if self.center is None else points + self.center

    def middle(self, points: Array) -> Floats:
        """Return raw values in the middle of scaled points; a guess if rows are transformed."""
        prepared = self.undo(points.astype(np.float64)).mean(axis=0)
        if self.weight is not None:
            prepared = np.divide(prepared, self.weight)
        if self.unit is not None:
            prepared = np.copysign(np.expm1(np.abs(prepared)), prepared) * self.unit
        return np.asarray(prepared)

    def fold(self, W: Array, some: slice = slice(None)) -> tuple[Floats, Floats]:
        """Return (W', b) with apply(x)·W == prepare(x)·W' + b; W has a row per feature."""
        folded = W if self.factor is None else W * self.factor[some, None]
        shift = np.zeros(W.shape[1]) if self.center is None else -(self.center[some] @ folded)
        return folded, shift


@dataclass(frozen=True)
class ScalingPlan:
    """The part of a scaling that a sample of the rows determines; the rest needs all rows.

    The kinds of "auto" end with total variance 1, so that the weight of a view does not depend on
    its width.
    """

    steps: Scaling
    centred: bool
    sample: Matrix | None = None  # if the total variance is that of a sample
    levels_from: int | None = None  # the first of the features that are levels of categories
    presence: Floats | None = None  # facts from the known values, if missing cells are filled

    @classmethod
    def of(
        cls, view: View, scale: Scale, sample: Matrix | None, kind: Kind | None = None
    ) -> ScalingPlan:
        """Return the plan for a view, from sampled rows if `scale` or its kind needs them."""
        asked = scale_of(scale, view.name)
        levels_from = view.levels_from if asked == "auto" else None
        known = view.known
        if levels_from is not None:
            kind = Kind("standard", "categories, one-hot: each counts as about one number")
        elif asked == "auto" and known is not None and known.kind is not None:
            kind = known.kind
        elif kind is None:
            kind = recognise(sample) if asked == "auto" else Kind(asked)
        centred = not view.sparse
        if kind.name == "tfidf":
            assert sample is not None
            values = sample.data if sparse.issparse(sample) else sample
            whole = known.whole if known else bool((values == np.rint(values)).all())
            unit = np.ones(view.width) if whole else None
            presence = known.presence if known else None
            return cls(Scaling("unit", unit=unit, kind=kind), False, sample, presence=presence)
        if kind.name == "log":
            assert sample is not None
            return cls(Scaling(unit=typical_values(sample), kind=kind), centred)
        row: dict[Any, RowStep] = {"unit": "unit", "sample": "standard"}
        return cls(Scaling(row.get(kind.name), kind=kind), centred, levels_from=levels_from)

    @property
    def looks(self) -> bool:
        """Whether a scan of all rows is needed."""
        return self.steps.kind.name not in ("sample", None)

    @property
    def shared(self) -> ScalingPlan:
        """Return the plan without the data that only `finish` needs, for sending it to workers."""
        return replace(self, sample=None)

    def scan(self, block: Matrix, *, compiled: bool = False) -> Moments:
        """Return the statistics of some rows; statistics of other rows can be added."""
        if self.steps.kind.name == "tfidf":
            return Moments.of_presence(block)
        return Moments.of(self.steps.prepare(block), compiled=compiled)

    def finish(self, found: Moments | None) -> Scaling:
        """Return the scaling, from the statistics of all rows."""
        name = self.steps.kind.name
        if found is None:
            return self.steps
        if name == "tfidf":
            share = found.mean if self.presence is None else self.presence
            idf = np.log((1 + found.n) / (1 + np.rint(share * found.n))) + 1
            steps = self._balanced(replace(self.steps, weight=idf))
            return replace(steps, mean=share, variance=share * (1 - share))
        steps = replace(self.steps, mean=found.mean, variance=found.variance)
        if name in ("unit", "view"):
            return replace(steps, factor=_same(float(found.variance.sum()), len(found.mean)))
        factor = _inverse_deviation(found)
        if self.levels_from is not None:
            # If levels were standardised, a rare level would count more than a number.
            factor[self.levels_from :] = np.minimum(factor[self.levels_from :], 1.0)
            factor *= _same(float((factor**2 * found.variance).sum()), len(factor))
        elif name != "feature":
            factor = factor / np.sqrt(max(int(np.count_nonzero(factor)), 1))
        return replace(steps, center=found.mean if self.centred else None, factor=factor)

    def _balanced(self, steps: Scaling) -> Scaling:
        """Return the steps with one factor that gives the sample total variance 1."""
        rows = steps.prepare(self.sample)
        return replace(steps, factor=_same(float(Moments.of(rows).variance.sum()), rows.shape[1]))


def _same(total: float, width: int) -> Floats:
    return np.full(width, 1.0 / np.sqrt(total) if total > 0 else 1.0)


def _inverse_deviation(found: Moments) -> Floats:
    deviation = np.sqrt(found.variance)
    # Because of rounding, a constant feature x has a deviation of about eps·x.
    constant = deviation <= 1e-14 * np.abs(found.mean)
    return np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, deviation))


def moments(view: View, draft: ScalingPlan) -> Moments:
    """Return the statistics of a view in memory, scanned by blocks of rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = _seen(view, draft)
    if not np.isfinite(found.squares).all():
        check_finite(view)
        raise ValueError(
            f"view {view.name!r} holds values too large to be squared in float64; divide it by "
            "the largest of them."
        )
    return found


def _seen(view: View, draft: ScalingPlan) -> Moments:
    if view.sparse:
        return draft.scan(view.array if view.present is None else view.array[view.present])
    n, raw = view.array.shape[0], not draft.steps.prepares
    floating = view.array.dtype in (np.float32, np.float64)
    compiled = raw and floating and draft.steps.kind.name != "tfidf" and compiled_pays(n)
    size = max(1, (_COMPILED_ENTRIES if compiled else _BLOCK_ENTRIES) // view.width)

    def work(rows: slice) -> Moments:
        block = view.rows(rows)
        if view.present is not None:
            block = block[view.present[rows]]
        return draft.scan(block, compiled=compiled) if len(block) else Moments.none(view.width)

    return reduce(add, map_blocks(work, n, size))


def scale_of(scale: Scale, name: str) -> Any:
    """Return the `scale` of a view; "auto" for views that a mapping does not name."""
    return scale.get(name, "auto") if isinstance(scale, Mapping) else scale


def needs_sample(scale: Scale, name: str) -> bool:
    """Whether sampled rows must be read to choose the scaling."""
    return scale_of(scale, name) in ("auto", "tfidf", "log")


def check_scale(scale: Scale, names: tuple[str, ...]) -> None:
    """Raise an error if a mapping names an unknown view or an unknown scaling."""
    if not isinstance(scale, Mapping):
        return
    for name, asked in scale.items():
        if name not in names:
            raise ValueError(f"scale names the view {name!r}; the views are {list(names)}.")
        if isinstance(asked, Mapping) or asked not in SCALES:
            known = ", ".join(map(repr, SCALES))
            raise ValueError(f"scale={{{name!r}: {asked!r}}} is not known; use one of {known}.")
