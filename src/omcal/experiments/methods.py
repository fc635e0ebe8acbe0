"""All methods by their names in `omcal compare`, `omcal cluster --method` and `reproduce`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from omcal import baselines
from omcal.baselines._base import Baseline
from omcal.machine.arrays import Seed
from omcal.model.base import FittedModel
from omcal.model.consensus import Consensus
from omcal.model.estimators import OCAL, OMCAL


@dataclass(frozen=True)
class Method:
    """One method: its names, the class or function of its estimator, and the data it supports.

    Attributes
    ----------
    name : str
        Name in commands and in `compare`.
    title : str
        Name in tables.
    cls : callable
        The class, or a function, that makes its estimator from parameters.
    multi_view : bool
        Whether it takes several views.
    takes_absent : bool
        Whether samples may be absent from some views.
    takes_sparse : bool
        Whether views may be sparse.

    Examples
    --------
    >>> from omcal.experiments import find_method
    >>> method = find_method("SMC-OCL")
    >>> method.name, method.multi_view, type(method.make(3)).__name__
    ('smc-ocl', True, 'SMCOCL')
    """

    name: str
    title: str
    cls: Callable[..., FittedModel | Baseline]
    multi_view: bool = True
    takes_absent: bool = False
    takes_sparse: bool = True

    def make(self, n_clusters: int | None = None, **parameters: Any) -> FittedModel | Baseline:
        """Return an estimator that is not fitted.

        Parameters
        ----------
        n_clusters : int, optional
            Number of clusters; by default that of the class.
        **parameters
            Other parameters of the class.

        Returns
        -------
        estimator
            Of the class of the method.
        """
        if n_clusters is not None:
            parameters["n_clusters"] = n_clusters
        return self.cls(**parameters)


@cache
def methods() -> dict[str, Method]:
    """Return all methods by name, the paper's own first.

    Returns
    -------
    dict
        Name -> `Method`.

    Examples
    --------
    >>> list(methods())[:3]
    ['omcal', 'consensus', 'ocal']
    """
    own = [
        Method("omcal", "OMCAL, one run", OMCAL, takes_absent=True),
        Method("consensus", "OMCAL, 10 runs", _consensus, takes_absent=True),
        Method("ocal", "OCAL", OCAL, multi_view=False),
    ]
    others = [
        Method(
            *(name, entry.title, entry.cls, entry.multi_view),
            takes_absent=entry.cls._takes_absent,
        )
        for name, entry in baselines.METHODS.items()
    ]
    return {method.name: method for method in own + others}


def _consensus(
    n_clusters: int = 8, *, n_runs: int = 10, random_state: Seed = None, **parameters: Any
) -> Consensus:
    return Consensus(OMCAL(n_clusters, **parameters), n_runs=n_runs, random_state=random_state)


def find_method(name: str) -> Method:
    """Return the method of this name or title; case and hyphens do not matter.

    Parameters
    ----------
    name : str
        Name as in `methods`, or title as in tables.

    Returns
    -------
    Method
        The method.

    Raises
    ------
    ValueError
        If there is no such method; the message names the most similar one.

    Examples
    --------
    >>> find_method("MVSC-HFD").name, find_method("Smc_Ocl").name
    ('mvschfd', 'smc-ocl')
    """
    known = methods()
    spelled = {plain_name(word): m.name for m in known.values() for word in (m.title, m.name)}
    found = spelled.get(plain_name(name))
    if found is None:
        near = get_close_matches(plain_name(name), spelled, n=1)
        meant = f" (did you mean {spelled[near[0]]}?)" if near else ""
        raise ValueError(f"method {name!r} is unknown{meant}; available: {', '.join(known)}.")
    return known[found]


def plain_name(name: str) -> str:
    """Return a name in lower case, without spaces and hyphens."""
    return "".join(letter for letter in name.lower() if letter.isalnum())
