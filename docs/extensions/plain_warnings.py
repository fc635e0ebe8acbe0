"""Warnings in the output of tutorials: kind and message, without the folder of the build."""

import warnings
from typing import Any


def reset(gallery_conf: dict[str, Any], script: str) -> None:
    """Set the format of warnings; Sphinx-Gallery calls this before each script."""
    warnings.formatwarning = _text


def _text(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    return f"{category.__name__}: {message}\n"
