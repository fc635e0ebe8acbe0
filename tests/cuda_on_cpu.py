"""The kernels in CUDA C++ without a GPU: compiled for the CPU, where they take tensors too."""

import ctypes
import re
import subprocess
import tempfile
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from unittest import mock

from omcal.places.gpu import cuda, kernel_steps, nvrtc

HEADER = Path(__file__).with_suffix(".h")
FOLDER = tempfile.TemporaryDirectory(prefix="omcal-kernels-")
NUMBERS = count()
# What a CPU compiler does not know.
TRANSLATED = {
    r"extern __shared__ unsigned char memory\[\];": (
        "unsigned char* const memory = on_cpu::shared_memory();"
    ),
    r'asm\("mma[^"]*f64.*?\);': "on_cpu::multiply(sums, a, b);",
    r'asm\("mma.*?\);': "on_cpu::multiply(sums, a, b0, b1);",
    r'asm\("cvt.*?\);': "wide = on_cpu::from_half(x);",
    r'extern "C" __global__': "static",
}


def translated(name, constants):
    """A kernel as a C++ program with a function `launch` that takes its arguments."""
    text = nvrtc.source(name)
    parameters = re.search(rf"\) {name}\((.*?)\)\s*{{", text, re.DOTALL)[1]
    names = ", ".join(re.findall(r"(\w+)\s*(?:,|$)", parameters.strip() + ","))
    for pattern, meaning in TRANSLATED.items():
        text = re.sub(pattern, meaning, text, flags=re.DOTALL)
    defined = "".join(f"#define {key} {value}\n" for key, value in constants.items())
    return (
        f'#include "{HEADER.name}"\n{defined}{text}\nextern "C" void launch('
        f"int blocks, int runs, int threads, size_t bytes, {parameters}) {{\n"
        f"    on_cpu::launch(blocks, runs, threads, bytes, [=] {{ {name}({names}); }});\n}}\n"
    )


def run_compiler(*arguments):
    # A GPU takes numbers at multiples of their size only.
    checks = ["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"]
    subprocess.run(["g++", "-Og", "-std=c++17", "-w", "-fPIC", *checks, *arguments], check=True)


@cache
def folder():
    """Folder of all programs, with the header, which is compiled once."""
    header = Path(FOLDER.name) / HEADER.name
    header.write_bytes(HEADER.read_bytes())
    run_compiler("-x", "c++-header", str(header), "-o", f"{header}.gch")
    return header.parent


@cache
def compiled(name, device, **constants):
    program = folder() / f"{name}{next(NUMBERS)}.cpp"
    program.write_text(translated(name, constants), encoding="utf-8")
    library = program.with_suffix(".so")
    run_compiler("-shared", str(program), "-o", str(library))
    launch = ctypes.CDLL(str(library)).launch

    def call(blocks, threads, shared_bytes, *arguments):
        size = (*blocks, threads, ctypes.c_size_t(shared_bytes))
        launch(*size, *map(nvrtc._as_c, arguments))

    call.bound = lambda *given: partial(call, *given)
    return call


@contextmanager
def kernels_on_cpu():
    """Kernels run on the CPU, by two small processors."""
    with (
        mock.patch.object(nvrtc, "compiled", compiled),
        mock.patch.object(nvrtc, "available", return_value=True),
        mock.patch.object(nvrtc, "processors", return_value=2),
        mock.patch.object(nvrtc, "room", return_value=227 << 10),
        mock.patch.object(kernel_steps, "_THREADS", 64),
        mock.patch.object(cuda, "_WARPS", (2, 1)),
    ):
        yield
