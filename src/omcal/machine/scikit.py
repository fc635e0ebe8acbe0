"""The private parts of scikit-learn that omcal uses, imported in one place."""

from __future__ import annotations

from collections.abc import KeysView, Mapping
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from omcal.machine.declaring import Declared, Methods, Range, Words

try:  # from version 1.9 on
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Empty base class for versions of scikit-learn without callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method unchanged."""
        return method


def scikit_constraints(parameters: Mapping[str, Declared]) -> dict[str, list[Any]]:
    """Return the constraints of declared parameters as scikit-learn checks them."""
    return {name: list(map(_constraint, one.constraint)) for name, one in parameters.items()}


def _constraint(given: Any) -> Any:
    match given:
        case Range(kind, least, most, closed):
            return Interval(kind, least, most, closed=closed)
        case Words(words):
            return StrOptions(words if isinstance(words, KeysView) else set(words))
        case Methods(names):
            return HasMethods(list(names))
    return given


__all__ = ["CallbackSupportMixin", "scikit_constraints", "with_callbacks"]
