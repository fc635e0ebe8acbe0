"""The rules that weight the views: one table, read by the solver, the estimators and the CLI.

A new rule is one entry of `WEIGHTINGS`. Without a kernel on a device, the host does the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the help of the command line reads the table, and loads no library
    from omcal.machine.arrays import Floats

_SHARPNESS = 50


class WeightInputs(NamedTuple):
    """The small matrices that a rule may use, of the V views that have a weight."""

    H: Floats  # (V, V): ⟨S_u, S_v⟩
    SZ: Floats  # (V,): ⟨S_v, Z⟩
    StF: Floats  # (V, m, c): S_vᵀ F
    FtF: Floats  # (c, c): Fᵀ F
    G: Floats  # (m, c)
    last: Floats | None  # the weights of the last update, if there was one


class Weighting(NamedTuple):
    """A rule: its function (None keeps the start weights) and one line of help."""

    update: Callable[[WeightInputs], Floats] | None
    help: str
    # Whether the weights depend on Z. If not, repeating the Z and alpha steps changes nothing.
    uses_z: bool = False


def adaptive_weights(given: WeightInputs) -> Floats:
    """Update alpha, Eq. 27: the mixture of the graphs nearest to Z."""
    from omcal.method.simplex import minimize_on_simplex

    return minimize_on_simplex(given.H, 2.0 * given.SZ, given.last)


def agreement_weights(given: WeightInputs) -> Floats:
    """Return weights in proportion to the agreement of each graph with the clustering."""
    return normalized(agreement(given.H, given.StF, given.FtF, given.G))


def distinct_weights(given: WeightInputs) -> Floats:
    """Return weights by agreement, divided by the number of copies of each graph."""
    return normalized(agreement(given.H, given.StF, given.FtF, given.G) / copies(given.H))


def agreement(H: Floats, StF: Floats, FtF: Floats, G: Floats) -> Floats:
    """Return the cosine between each graph and the clustering F Gᵀ, at least 0."""
    inner = StF.reshape(len(StF), -1) @ G.ravel()
    size = (H.diagonal() * FtF.trace()) ** 0.5
    cosine: Floats = inner / (size + (size == 0))
    return cosine.clip(min=0)


def copies(H: Floats) -> Floats:
    """Return the number of copies of each graph: 1 for a unique view, 2 for a view given twice.

    A graph with a cosine of .99 counts as .6 of a copy, one with .93 as .03.
    """
    import numpy as np

    size = np.sqrt(np.diag(H))
    norm = np.outer(size, size)
    cosine = np.divide(H, norm, out=np.eye(len(H)), where=norm > 0)
    return np.asarray((cosine**_SHARPNESS).sum(axis=1))


def normalized(values: Floats) -> Floats:
    """Return the values divided by their sum; equal values if the sum is 0."""
    filled: Floats = values + (values.sum() == 0)
    filled = filled / filled.sum()
    return filled


def uses_z(weighting: str) -> bool:
    """Whether a rule, or "fixed", takes the weights from the consensus graph Z."""
    return weighting in WEIGHTINGS and WEIGHTINGS[weighting].uses_z


WEIGHTINGS: dict[str, Weighting] = {
    "distinct": Weighting(distinct_weights, "as agreement, but copies of a view share one weight"),
    "agreement": Weighting(agreement_weights, "by the cosine of each graph with the clustering"),
    "adaptive": Weighting(adaptive_weights, "the paper's, Eq. 27", uses_z=True),
    "uniform": Weighting(None, "equal and fixed"),
}
