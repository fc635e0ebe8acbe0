"""Every method by the name it has in `omcal compare`, `omcal cluster --method` and `reproduce`."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from omcal import baselines
from omcal.model.consensus import Consensus
from omcal.model.estimators import OCAL, OMCAL


@dataclass(frozen=True)
class Method:
    """One method: its names, its class or what makes its estimator, and which data it takes."""

    name: str
    title: str  # as tables write it
    cls: Any
    multi_view: bool = True
    takes_absences: bool = False  # samples that are absent from some views
    takes_sparse: bool = True

    def make(self, n_clusters: int | None = None, **parameters: Any) -> Any:
        """An estimator that is not fitted yet."""
        if n_clusters is not None:
            parameters["n_clusters"] = n_clusters
        return self.cls(**parameters)


@cache
def methods() -> dict[str, Method]:
    """All methods by name, the paper's own first.

    Examples
    --------
    >>> list(methods())[:3]
    ['omcal', 'consensus', 'ocal']
    """
    own = [
        Method("omcal", "OMCAL", OMCAL, takes_absences=True),
        Method("consensus", "OMCAL, ten runs", _consensus, takes_absences=True),
        Method("ocal", "OCAL", OCAL, multi_view=False),
    ]
    others = [
        Method(
            *(name, entry.title, entry.cls, entry.multi_view),
            takes_sparse=entry.cls._takes_sparse,
        )
        for name, entry in baselines.METHODS.items()
    ]
    return {method.name: method for method in own + others}


def _consensus(n_clusters: int = 8, *, random_state: Any = None, **parameters: Any) -> Consensus:
    return Consensus(OMCAL(n_clusters, **parameters), random_state=random_state)


def find_method(name: str) -> Method:
    """The method of this name or title; neither case nor hyphens matter.

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
        raise ValueError(f"method {name!r} is unknown{meant}; there are {', '.join(known)}.")
    return known[found]


def plain_name(name: str) -> str:
    """A name without what may be spelled in several ways: case, spaces and hyphens."""
    return "".join(letter for letter in name.lower() if letter.isalnum())
