"""`--scale`: one word for all views, words for single views, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omcal.cli.options import names

if TYPE_CHECKING:
    from omcal.datasets import MultiViewData


def with_scales(parameters: Mapping[str, Any], data: MultiViewData) -> dict[str, Any]:
    """Return the parameters of OMCAL with `scale` as it takes it, for the views of `data`.

    Without a word for a view, or with "auto", the source of the data decides where it says what
    the view holds (`MultiViewData.scales`).
    """
    whole, single = parse_scale(parameters.get("scale", "auto"))
    unknown = [view for view in single if view not in data.views]
    if unknown:
        available = ", ".join(map(repr, data.views))
        raise ValueError(f"--scale names the view {unknown[0]!r}; available: {available}.")
    others = data.scales if whole == "auto" else {}
    words = {view: single.get(view, others.get(view, whole)) for view in data.views}
    scales = {view: None if word == "none" else word for view, word in words.items()}
    same = len(set(scales.values())) == 1
    return {**parameters, "scale": next(iter(scales.values())) if same else scales}


def parse_scale(text: str) -> tuple[str, dict[str, str]]:
    """Return the word for all views, and those for single views by name.

    Examples
    --------
    >>> parse_scale("log")
    ('log', {})
    >>> parse_scale("standard,rna=log,image=none")
    ('standard', {'rna': 'log', 'image': 'none'})
    """
    from omcal.method.scaling import SCALES

    allowed = ["none" if scale is None else scale for scale in SCALES]
    found: dict[str, str] = {}
    for part in names(text) or []:
        view, _, word = part.rpartition("=")
        if word not in allowed:
            raise ValueError(f"--scale {word!r} is unknown; use one of {', '.join(allowed)}.")
        if view in found:
            what = f"names the view {view!r} twice" if view else "has two words for all views"
            raise ValueError(f"--scale {text!r} {what}; give one, or VIEW=WORD.")
        found[view] = word
    return found.pop("", "auto"), found
