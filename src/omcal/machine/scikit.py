"""The private parts of scikit-learn that omcal uses, imported in one place."""

from __future__ import annotations

from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

try:  # from version 1.9 on
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Older versions have nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "HasMethods", "Interval", "StrOptions", "with_callbacks"]
