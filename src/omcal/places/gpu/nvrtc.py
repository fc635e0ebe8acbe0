"""Kernels in CUDA C++, compiled when first used by the compiler that comes with PyTorch.

PyTorch has torch.cuda._compile_kernel, but only since 2.8, as a private function, and with the same
two libraries by ctypes. torch.utils.cpp_extension needs a CUDA toolkit and a C++ compiler on the
machine. When the former is public, it can replace this file.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from omcal.machine import torch
from omcal.machine.torch import Device

Blocks = tuple[int, int]  # of a launch: per run, and the number of runs

_MAX_DYNAMIC_SHARED_BYTES = 8  # number of this kernel attribute in the driver
_NO_CONTEXT = 201  # error of the driver in a thread that has not used PyTorch yet

# The kernels convert half precision themselves.
HALVES = {"torch.float16": 1, "torch.bfloat16": 2}
TYPES = {
    "torch.float32": "float",
    "torch.float64": "double",
    "torch.float16": "unsigned short",
    "torch.bfloat16": "unsigned short",
    "torch.uint8": "unsigned char",
    "torch.int16": "short",
    "torch.int32": "int",
}


@cache
def available(device: Device) -> bool:
    """Whether kernels can be compiled for this device and run there."""
    if device.type != "cuda" or torch.version.cuda is None:
        return False
    try:
        _compiler(), _driver()
    except OSError:
        return False
    return True


@cache
def processors(device: Device) -> int:
    """Return the number of multiprocessors."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@cache
def room(device: Device) -> int:
    """Return the bytes of shared memory available to a block of threads."""
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)


def source(name: str) -> str:
    """Return the source of a kernel, with its includes."""
    folder = files(__package__)
    text = folder.joinpath(f"{name}.cu").read_text(encoding="utf-8")
    return re.sub(
        r'#include "(.*)"\n', lambda found: folder.joinpath(found[1]).read_text("utf-8"), text
    )


@cache
def compiled(name: str, device: Device, **constants: Any) -> Kernel:
    """Return the kernel of this name, compiled with the constants."""
    return Kernel(source(name), name, constants, device)


class Kernel:
    """A compiled kernel on one device."""

    def __init__(
        self, source: str, name: str, constants: Mapping[str, Any], device: Device
    ) -> None:
        self._device = device
        self._function = function = ctypes.c_void_p()
        self._module = module = ctypes.c_void_p()
        program = _compile(source, constants, torch.cuda.get_device_capability(device))
        driver, size = _driver(), ctypes.c_int(room(device))
        with torch.cuda.device(device):
            torch.cuda.current_stream(device).synchronize()  # creates the context of this thread
            _check(driver.cuModuleLoadData(ctypes.byref(module), program))
            _check(driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
            _check(driver.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED_BYTES, size))

    def __call__(self, blocks: Blocks, threads: int, shared_bytes: int, *arguments: Any) -> None:
        """Launch the kernel on the current stream; None is a null pointer.

        `shared_bytes` is the dynamic shared memory of a block.
        """
        self.bound(blocks, threads, shared_bytes, *arguments)()

    def bound(
        self, blocks: Blocks, threads: int, shared_bytes: int, *arguments: Any
    ) -> Callable[[], None]:
        """Return a function that launches the kernel with the arguments."""
        values = [_as_c(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        run, stream_of = _driver().cuLaunchKernel, torch._C._cuda_getCurrentRawStream
        function, device = self._function, self._device.index
        shape = (*blocks, 1, threads, 1, 1, shared_bytes)

        def launch(kept: Any = (arguments, values)) -> None:
            # torch.cuda.current_stream takes as long as the launch.
            error = run(function, *shape, stream_of(device), pointers, None)
            if error == _NO_CONTEXT:
                torch.cuda.current_stream(device).synchronize()  # creates a context
                error = run(function, *shape, stream_of(device), pointers, None)
            _check(error)

        return launch


def _as_c(argument: Any) -> Any:
    if isinstance(argument, int):  # first, as most are numbers
        return ctypes.c_int(argument)
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    return ctypes.c_void_p(None if argument is None else argument.data_ptr())


def _compile(source: str, constants: Mapping[str, Any], capability: tuple[int, int]) -> bytes:
    """Return machine code for GPUs of this compute capability, kept for other processes."""
    options = ["--gpu-architecture=sm_{}{}".format(*capability)]
    options += [f"-D{name}={value}" for name, value in constants.items()]
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_compiler().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    given = repr((source, options, major.value, minor.value, torch.version.cuda))
    kept = _folder() / f"{sha256(given.encode()).hexdigest()}.cubin"
    with suppress(OSError):
        return kept.read_bytes()
    program = _compiled_now(source, options)
    with suppress(OSError):  # without a writable folder the next process compiles it again
        kept.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=kept.parent, delete=False) as part:
            part.write(program)
        os.replace(part.name, kept)
    return program


def _folder() -> Path:
    """Return the folder of compiled kernels: $OMCAL_CACHE_DIR, or the user's cache folder."""
    given = os.environ.get("OMCAL_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "omcal"
    return (Path(given) if given else user) / "kernels"


def _compiled_now(source: str, options: Sequence[str]) -> bytes:
    compiler, program, size = _compiler(), ctypes.c_void_p(), ctypes.c_size_t()
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    _check(
        compiler.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None
        )
    )
    try:
        failed = compiler.nvrtcCompileProgram(program, len(options), given)
        kind = "ProgramLog" if failed else "CUBIN"
        _check(getattr(compiler, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)))
        output = ctypes.create_string_buffer(size.value)
        _check(getattr(compiler, f"nvrtcGet{kind}")(program, output))
    finally:
        compiler.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise RuntimeError(f"a kernel does not compile:\n{output.value.decode()}")
    return output.raw


@cache
def _compiler() -> Any:
    """Return NVRTC from the system's search path or from PyTorch's packages."""
    major = torch.version.cuda.split(".")[0]
    name = f"nvrtc64_{major}0_0.dll" if sys.platform == "win32" else f"libnvrtc.so.{major}"
    try:
        return ctypes.CDLL(name)
    except OSError:
        packages = find_spec("nvidia")
        for folder in packages.submodule_search_locations or [] if packages else []:
            for library in Path(folder).rglob(name):
                # NVRTC loads its built-ins by name, which works if they are already loaded.
                for part in library.parent.glob("libnvrtc-builtins.so.*"):
                    ctypes.CDLL(str(part))
                return ctypes.CDLL(str(library))
        raise


@cache
def _driver() -> Any:
    driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    pointer, number = ctypes.c_void_p, ctypes.c_uint
    driver.cuLaunchKernel.argtypes = [pointer, *(7 * [number]), *(3 * [pointer])]
    return driver


def _check(error: int) -> None:
    if error:
        raise RuntimeError(f"a kernel of omcal failed with CUDA error {error}.")
