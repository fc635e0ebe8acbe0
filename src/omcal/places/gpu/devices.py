"""Devices: resolve names, set precision, send arrays, record CUDA graphs, explain full memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.memory import format_bytes
from omcal.machine.process import ProcessSetting
from omcal.machine.torch import Device, Tensor, torch_dtype

_RECORDING = Lock()  # one thread at a time
_ALIGNED = 16  # bytes


class MissingDeviceError(ValueError, RuntimeError):
    """The machine lacks a device that PyTorch supports."""


def resolve_device(device: Any) -> Device:
    """Resolve "cpu", "cuda", "cuda:1" or "mps" to an existing device."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(_unknown(device)) from error
    if found.type == "cuda":
        return _cuda_device(device, found)
    if found.type == "mps" and not torch.backends.mps.is_available():
        raise MissingDeviceError(
            f"device={device!r} needs an Apple GPU, and PyTorch finds none here; use device='cpu'."
        )
    if found.type not in ("cpu", "mps"):
        raise ValueError(_unknown(device))
    return found


def _unknown(device: Any) -> str:
    return (
        f"device={device!r} is not known; use 'cpu', 'cuda', 'cuda:1' (the second GPU), "
        "'cuda:0,cuda:1' (both) or 'mps'."
    )


def _cuda_device(given: Any, device: Device) -> Device:
    if not torch.cuda.is_available():
        reason = (
            "this PyTorch was built without CUDA"
            if torch.version.cuda is None
            else "PyTorch finds no usable NVIDIA GPU or driver"
        )
        raise MissingDeviceError(
            f"device={given!r} needs CUDA, but {reason}; use device='cpu' or install a CUDA "
            "build of PyTorch."
        )
    index = torch.cuda.current_device() if device.index is None else device.index
    count = torch.cuda.device_count()
    if index >= count:
        raise MissingDeviceError(
            f"device={given!r} does not exist: PyTorch sees {count} GPU(s), "
            f"'cuda:0' to 'cuda:{count - 1}'."
        )
    return torch.device("cuda", index)


def wide_type(device: Device) -> Any:
    """Return the type of sums: float64, or float32 on Apple GPUs, which lack float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def block_entries(device: Device) -> int:
    """Return the entries per block: enough to fill a GPU, few enough for the cache of a CPU."""
    return 1 << 18 if device.type == "cpu" else 1 << 24


@contextmanager
def working_on(device: Device) -> Iterator[None]:
    """Disable gradients and TF32, and make this the current device, in the block."""
    current = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with torch.no_grad(), _TRUE_FLOAT32.held(), current:
        yield


def send(arrays: Sequence[Array], device: Device) -> list[Tensor]:
    """Copy small arrays to the device in one transfer."""
    sizes = [-(-array.nbytes // _ALIGNED) * _ALIGNED for array in arrays]
    packed_matrices = np.empty(sum(sizes), dtype=np.uint8)
    starts = np.cumsum([0, *sizes])[:-1].tolist()
    for array, start in zip(arrays, starts, strict=True):
        flat = np.ascontiguousarray(array).reshape(-1)
        packed_matrices[start : start + array.nbytes] = flat.view(np.uint8)
    there = torch.from_numpy(packed_matrices).to(device)
    return [
        there[start : start + array.nbytes].view(torch_dtype(array.dtype)).view(array.shape)
        for array, start in zip(arrays, starts, strict=True)
    ]


class Repeated:
    """Call a function that launches the same kernels each time and never waits for the device.

    On a GPU the second call is recorded as a CUDA graph, and later calls replay it: launching
    kernels of a few microseconds one by one takes longer than running them. The first call is not
    recorded, so that nothing is loaded or compiled during the recording.
    """

    def __init__(self, work: Callable[[], None], device: Device) -> None:
        self._work, self._device, self._warm = work, device, False
        self._recording: Any = None

    def __call__(self) -> None:
        if self._recording is None and self._warm and self._device.type == "cuda":
            self._recording = self._record()
        if self._recording is not None:
            self._recording.replay()
            return
        self._warm = True
        self._work()

    def _record(self) -> Any:
        stream = _recording_stream(self._device)
        recording = torch.cuda.CUDAGraph()
        with _RECORDING, _no_garbage_collected(), torch.cuda.stream(stream):
            recording.capture_begin(capture_error_mode="thread_local")
            try:
                self._work()
            finally:
                recording.capture_end()
        return recording


@cache
def stream_beside(device: Device) -> Any:
    """Return the stream for transfers that run beside the work."""
    return torch.cuda.Stream(device)


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Disable garbage collection in the block: it could free another recording."""
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()


@cache
def _recording_stream(device: Device) -> Any:
    """Return the one stream for recordings: libraries keep a workspace per stream."""
    return torch.cuda.Stream(device)


def _precision_switches() -> list[tuple[Any, str, Any]]:
    """Return the precision settings of this PyTorch: (object, attribute, exact value)."""
    cuda = torch.backends.cuda.matmul
    if not hasattr(cuda, "fp32_precision"):  # before PyTorch 2.9
        return [(cuda, "allow_tf32", False)]
    return [
        (cuda, "fp32_precision", "ieee"),
        (torch.backends.mkldnn.matmul, "fp32_precision", "ieee"),
    ]


def _read_precision() -> list[Any]:
    return [getattr(switch, name) for switch, name, _ in _precision_switches()]


def _set_precision(values: list[Any] | None = None) -> None:
    for i, (switch, name, exact) in enumerate(_precision_switches()):
        setattr(switch, name, exact if values is None else values[i])


# Distances lose half of their digits in TF32, so it is always off here.
_TRUE_FLOAT32 = ProcessSetting(_read_precision, _set_precision, _set_precision)


@contextmanager
def explaining_out_of_memory(device: Device, n: int, row_bytes: int) -> Iterator[None]:
    """Convert an out-of-memory error to one with the need, the free memory and remedies."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        free, total = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        free += unused
        raise MemoryError(
            f"{device} is out of memory: graphs and indicator of {n} samples need about "
            f"{format_bytes(n * row_bytes)} beside the data, and {format_bytes(free)} of "
            f"{format_bytes(total)} are free. Pass the views as NumPy arrays, which are sent in "
            f"blocks and never stay there; spread the rows over several GPUs, at most about "
            f"{int(0.8 * free / row_bytes)} samples on one with so much free, as in "
            "device='cuda:0,cuda:1'; lower n_neighbors; or use device='cpu'."
        ) from error
