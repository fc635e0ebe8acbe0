"""All methods by their names in `omcal compare`, `omcal cluster --method` and `reproduce`."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from typing import Any

from omcal.baselines import METHODS, Method
from omcal.machine.arrays import Seed
from omcal.model.consensus import Consensus
from omcal.model.estimators import OCAL, OMCAL


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
        Method("OMCAL, one run", OMCAL, name="omcal", takes_absent=True),
        Method("OMCAL, 10 runs", _consensus, name="consensus", takes_absent=True),
        Method("OCAL", OCAL, name="ocal", multi_view=False),
    ]
    others = [
        replace(entry, name=name, takes_absent=entry.cls._takes_absent)
        for name, entry in METHODS.items()
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
