"""Sweep what only hardware knows: MUFU over whole mantissas, tensor-core sums over many operands.

    PYTHONPATH=workflow python tests/opcodes/sweep.py FOLDER

writes five files `mufu_*.npz` and `tensor.npz` (under 16 MiB each): per function and range the
results' second differences, which compress well (`values` turns them back), and the results of the
mma fixtures with more threads. They are for fitting a model of the hardware, not for the tests:
nothing of it is kept in the repository.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opcodes import harness
from tilewave.compiling import nvrtc

# Name -> file, PTX instruction, ranges of operands: first word, how many, distance.
MANTISSA = 1 << 23
SWEEPS = {
    "rcp": ("a", "rcp.approx.ftz.f32", [(0x3F800000, MANTISSA, 1)]),
    "lg2": (
        "a",
        "lg2.approx.ftz.f32",
        [
            (0x3F800000, MANTISSA, 1),
            (0x3F000000, MANTISSA, 1),
            (0x40000000, 1 << 21, 4),
            (0x47800000, 1 << 21, 4),
        ],
    ),
    "rsq": ("b", "rsqrt.approx.ftz.f32", [(0x3F800000, 2 * MANTISSA, 1)]),
    "sqrt": ("c", "sqrt.approx.ftz.f32", [(0x3F800000, 2 * MANTISSA, 1)]),
    "ex2": (
        "d",
        "ex2.approx.ftz.f32",
        [
            (0x3F800000, MANTISSA, 1),
            (0x3F000000, 1 << 22, 2),
            (0xBF800000, 1 << 22, 2),
            (0x42000000, 1 << 20, 1),
        ],
    ),
    "tanh": ("d", "tanh.approx.f32", [(0x3C000000, 10 << 19, 16)]),
    "sin": (
        "e",
        "sin.approx.ftz.f32",
        [
            (0x3F800000, MANTISSA, 1),
            (0x40000000, 1 << 21, 4),
            (0x3E000000, 1 << 20, 16),
            (0xBF800000, 1 << 20, 8),
        ],
    ),
    "cos": (
        "e",
        "cos.approx.ftz.f32",
        [
            (0x3F800000, MANTISSA, 1),
            (0x40000000, 1 << 21, 4),
            (0x3E000000, 1 << 20, 16),
            (0xBF800000, 1 << 20, 8),
        ],
    ),
    "rcp64h": ("d", "rcp.approx.ftz.f64", [(0x3FF00000, 1 << 20, 1)]),
    "rsq64h": ("d", "rsqrt.approx.ftz.f64", [(0x3FF00000, 1 << 21, 1)]),
}
TENSOR_THREADS = 4096
SINGLE = """
extern "C" __global__ void sweep(unsigned first, unsigned step, unsigned* out) {{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float r;
    asm("{0} %0, %1;" : "=f"(r) : "f"(__uint_as_float(first + i * step)));
    out[i] = __float_as_uint(r);
}}
"""
DOUBLE = """
extern "C" __global__ void sweep(unsigned first, unsigned step, unsigned* out) {{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    double r;
    asm("{0} %0, %1;" : "=d"(r) : "d"(__hiloint2double(first + i * step, 0)));
    out[i] = __double2hiint(r);
}}
"""
OUTSIDE = -128


def squeezed(results: np.ndarray, name: str) -> dict[str, np.ndarray]:
    """Second differences as bytes; those that are too large for a byte stand apart."""
    second = np.diff(results.astype(np.int64), 2)
    large = np.abs(second) > 127
    small = np.where(large, OUTSIDE, second).astype(np.int8)
    start = results[:2].astype(np.int64)
    return {name: small, f"{name}.start": start, f"{name}.large": second[large]}


def values(file: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """The results of a range as uint32, from what `main` wrote."""
    start, second = file[f"{name}.start"], file[name].astype(np.int64)
    second[second == OUTSIDE] = file[f"{name}.large"]
    first = np.concatenate([start[1:] - start[:1], second]).cumsum()
    return np.concatenate([start[:1], first]).cumsum().astype(np.uint32)


def launch(card: harness.Card, image: bytes, first: int, count: int, step: int) -> np.ndarray:
    from cuda.bindings import driver

    from tilewave.gpu import launch as launching
    from tilewave.gpu.device import ok

    module = launching.Module(image)
    out = np.empty(count, np.uint32)
    place = ok(driver.cuMemAlloc(out.nbytes))
    numbers = [ctypes.c_uint32(first), ctypes.c_uint32(step), launching.pointer(int(place))]
    config = launching.configuration(card.gpu, (count // 256, 1, 1), (256, 1, 1))
    launching.enqueue(config, module.function("sweep"), launching.Arguments(numbers))
    card.gpu.sync()
    ok(driver.cuMemcpyDtoH(out.ctypes.data, place, out.nbytes))
    driver.cuMemFree(place)
    module.close()
    return out


def compiled(ptx: str, arch: str) -> bytes:
    text = (DOUBLE if ptx.endswith("f64") else SINGLE).format(ptx)
    done = nvrtc.compile_kernel(harness.Source(Path("/sweep.cu"), text), arch, {})
    if done.cubin is None:
        raise RuntimeError(done.log)
    return done.cubin


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    card = harness.Card()
    files: dict[str, dict[str, np.ndarray]] = {}
    for name, (file, ptx, ranges) in SWEEPS.items():
        image = compiled(ptx, card.gpu.arch)
        for first, count, step in ranges:
            results = launch(card, image, first, count, step)
            files.setdefault(file, {}).update(squeezed(results, f"{name} {first:08x} {step}"))
    tensor = {}
    image = harness.compile_file(harness.files()[0].with_name("tensor.cu"), card.gpu.arch).cubin
    for kernel in harness.kernels().values():
        if kernel.name.startswith("mma_") and kernel.rounded and kernel.needs <= 90:
            inputs = list(harness.generate_inputs(kernel, TENSOR_THREADS))
            tensor[kernel.name] = card.run(
                image, kernel.name, inputs, kernel.results, TENSOR_THREADS
            )
    for name, arrays in {
        **{f"mufu_{key}": one for key, one in files.items()},
        "tensor": tensor,
    }.items():
        np.savez_compressed(folder / f"{name}.npz", **arrays)
        print(f"{name}.npz", (folder / f"{name}.npz").stat().st_size, flush=True)


if __name__ == "__main__":
    main()
