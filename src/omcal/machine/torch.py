"""PyTorch, loaded when first used: it comes with the extra "gpu" and takes seconds to import."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Tensor: TypeAlias = Any
Device: TypeAlias = Any


def __getattr__(name: str) -> Any:
    # Tools that look through modules ask for names of their own; that must not load PyTorch, nor
    # fail where it is absent.
    if name.startswith(("__", "pytest")):
        raise AttributeError(name)
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "computing on tensors and GPUs needs PyTorch: pip install torch."
        ) from error
    value = getattr(torch, name)
    globals()[name] = value  # found directly from now on
    return value


def torch_dtype(dtype: np.dtype) -> Any:
    """Return the PyTorch dtype of a NumPy dtype."""
    return __getattr__(dtype.name)


def numpy_dtype(dtype: Any) -> np.dtype:
    """Return the NumPy dtype of a PyTorch dtype."""
    return np.dtype(str(dtype).removeprefix("torch."))
