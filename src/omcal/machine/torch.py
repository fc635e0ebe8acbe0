"""PyTorch, loaded when first used: it is in the extra "gpu" and takes seconds to import."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Tensor: TypeAlias = Any
Device: TypeAlias = Any


def __getattr__(name: str) -> Any:
    # Tools that inspect modules request special names; this must not load PyTorch, or need it.
    if name.startswith(("__", "pytest")):
        raise AttributeError(name)
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "computing on tensors and GPUs needs PyTorch: pip install torch."
        ) from error
    value = getattr(torch, name)
    globals()[name] = value  # later accesses find it directly
    return value


def torch_dtype(dtype: np.dtype) -> Any:
    """Return the PyTorch dtype of a NumPy dtype."""
    return __getattr__(dtype.name)


def numpy_dtype(dtype: Any) -> np.dtype:
    """Return the NumPy dtype of a PyTorch dtype."""
    return np.dtype(str(dtype).removeprefix("torch."))
