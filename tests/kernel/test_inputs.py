"""Inputs: statistics, pieces, and the same bits and products from the device code run on the CPU."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from samples import ROOT
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import conversion
from tilewave.kernel import inputs
from tilewave.theory.dtypes import DTYPES, E4M3, E5M2

SUPPORT = Path(inputs.__file__).parents[1] / "gpu" / "support.cu"


@pytest.fixture(scope="session")
def device_code(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("emulated")
    flags = "-O1 -std=c++17 -shared -fPIC -pthread -w -o emulated.so".split()
    emulator = ROOT / "tests" / "data" / "emulator.cpp"
    command = [compiler, *flags, f"-I{SUPPORT.parent}", str(emulator)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode and "_Float16" in done.stderr:
        pytest.skip("needs a g++ that knows _Float16")
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "emulated.so"))


REAL = ["f64", "f32", "tf32", "f16in32", "f16", "bf16", "e4m3", "e5m2"]


@pytest.mark.parametrize("dtype", [*REAL, "i32", "i8"])
def test_device_and_host_give_the_same_bits(device_code, dtype):
    count = 5003
    got = np.zeros(count, inputs.storage(dtype))
    fill = getattr(device_code, f"run_fill_{dtype}")
    fill(ctypes.c_void_p(got.ctypes.data), ctypes.c_uint64(count), 7, 2)
    assert got.tobytes() == inputs.uniform(7, 2, count, dtype).tobytes()


@pytest.mark.parametrize("dtype", REAL)
def test_values_are_uniform_and_zero_mean(dtype):
    values = inputs.to_float64(inputs.uniform(1, 0, 200_000, dtype), dtype)
    assert abs(values.mean()) < 5 * 3**-0.5 / np.sqrt(values.size)
    assert abs(values.std() - 3**-0.5) < 0.005
    assert np.abs(values).max() <= 1.0
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.01
    other = inputs.to_float64(inputs.uniform(1, 1, values.size, dtype), dtype)
    assert abs(np.corrcoef(values, other)[0, 1]) < 0.01


def test_bytes_are_uniform_from_minus_127_to_127():
    values, counts = np.unique(inputs.uniform(1, 0, 255 * 1000, "i8"), return_counts=True)
    assert list(values) == list(range(-127, 128))
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)
    # 2^16 products of the largest, doubled by alpha, and C's largest still fit in 32 bits.
    assert 2 * 127**2 * 2**16 + 2**23 < 2**31


def test_pieces_equal_the_whole():
    whole = inputs.uniform(3, 1, 1000, "f32")
    parts = [inputs.uniform(3, 1, 400, "f32"), inputs.uniform(3, 1, 600, "f32", start=400)]
    assert np.array_equal(whole, np.concatenate(parts))
    far = inputs.uniform(3, 1, 4, "f32", start=(1 << 32) - 2)
    assert np.array_equal(far[:2], inputs.uniform(3, 1, 2, "f32", start=(1 << 32) - 2))
    assert not np.array_equal(far[2:], whole[:2])  # the high word of the index counts


def test_tf32_keeps_ten_bits_and_bf16_is_nearest():
    tf32 = inputs.uniform(5, 0, 1000, "tf32")
    assert not np.any(tf32.view(np.uint32) & 0x1FFF)
    single = inputs.uniform(5, 0, 1000, "f32")
    assert np.all(np.abs(tf32 - single) <= np.abs(single) * 2.0**-11)
    bf16 = inputs.to_float64(inputs.uniform(5, 0, 1000, "bf16"), "bf16")
    assert np.all(np.abs(bf16 - single) <= np.abs(single) * 2.0**-8)


@pytest.mark.parametrize(("name", "code"), [("e4m3", c.T_E4M3), ("e5m2", c.T_E5M2)])
def test_fp8_is_what_the_gpu_makes_of_it(name, code):
    """The recorded conversions of a GPU agree on every pattern and on values between two."""
    kind = {"e4m3": E4M3, "e5m2": E5M2}[name]
    halves = np.array([conversion._from_fp8(np.uint32(i), code) for i in range(256)], np.uint16)
    np.testing.assert_array_equal(kind.numbers, halves.view(np.float16).astype(np.float64))
    finite = np.sort(kind.numbers[np.isfinite(kind.numbers)])
    middle = (finite[1:] + finite[:-1]) / 2
    others = [1e9, -1e9, np.inf, np.nan, -0.0]
    values = np.concatenate([finite, middle, middle * (1 + 1e-7), others])
    nearest = kind.nearest(values)
    assert list(nearest) == [conversion._to_fp8(np.float64(value), code) for value in values]


def test_unknown_dtype_lists_the_dtypes():
    with pytest.raises(ValueError, match="known: f64"):
        inputs.storage("f8")


@pytest.mark.parametrize("layouts", ["row row row", "col row row", "row col col", "col col row"])
@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "i8", "e4m3", "any"])
def test_reference_matmul(device_code, dtype, layouts):
    m, n, k, alpha, beta = 70, 131, 37, 0.75, -0.5
    orders = [{"row": "C", "col": "F"}[word] for word in layouts.split()]
    kinds = ["f32", "e5m2", "f16"] if dtype == "any" else [dtype] * 2 + ["f32"]
    if dtype == "i8":
        alpha, beta, kinds = 2.0, -1.0, ["i8", "i8", "i32"]
    matrices, buffers = [], []
    for kind, (rows, columns), order in zip(kinds, [(m, k), (k, n), (m, n)], orders, strict=True):
        buffers.append(inputs.uniform(1, len(buffers), rows * columns, kind))
        numbers = inputs.to_float64(buffers[-1], kind)
        matrices.append(numbers.reshape((rows, columns), order=order))
    a, b, c = matrices
    out = np.full(m * n, np.nan)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in [*buffers, out]]
    columns = [int(order == "F") for order in orders]
    types = [DTYPES[kind].support for kind in kinds]
    call = getattr(device_code, f"run_reference_{dtype}")
    call(*pointers, m, n, k, ctypes.c_double(alpha), ctypes.c_double(beta), *types, *columns)
    want = alpha * (a @ b) + beta * c
    allowed = {"atol": 0, "rtol": 0} if dtype == "i8" else {"atol": 1e-13, "rtol": 1e-7}
    np.testing.assert_allclose(out.reshape((m, n), order=orders[2]), want, **allowed)


def compared(device_code, got, want, dtype, allowed):
    """Return sums and counts of the two blocks that compare results with a reference."""
    sums, counts = np.zeros((2, 3)), np.zeros((2, 2), np.uint64)
    arrays = (got, want, sums, counts)
    given, reference, *out = (ctypes.c_void_p(array.ctypes.data) for array in arrays)
    limits, count = [ctypes.c_double(allowed)] * 2, ctypes.c_uint64(len(got))
    device_code.run_compare(given, reference, count, DTYPES[dtype].support, *limits, *out)
    return sums, counts


def test_compare_of_whole_numbers_sees_a_unit(device_code):
    got = inputs.uniform(1, 2, 3000, "i32")
    want = got.astype(np.float64)
    got[[17, 2500]] += np.array([1, -1], np.int32)
    sums, counts = compared(device_code, got, want, "i32", 0)
    assert counts[:, 0].sum() == 2 and counts[:, 1].min() == 17 and sums[:, 0].max() == 1


def test_compare_counts_nan_and_the_first_wrong(device_code):
    want = inputs.uniform(1, 0, 3000, "f64")
    got = want.astype(np.float32)
    got[[1500, 2000]] = np.nan
    got[700] += 0.25
    sums, counts = compared(device_code, got, want, "f32", 1e-6)
    assert counts[:, 0].sum() == 3 and counts[:, 1].min() == 700
    assert abs(sums[:, 0].max() - 0.25) < 1e-6
    assert abs(sums[:, 2].sum() - (want**2).sum()) < 1e-9


@pytest.mark.parametrize("changed", [0, 7, 8, 794, 795, 802, 803, 804])
def test_a_changed_byte_of_a_buffer_or_of_its_bands_is_seen(device_code, changed):
    left, right = np.full((2, 816), 0xFF, np.uint8)
    right[changed] = 1
    different = np.zeros(1, np.uint64)
    first, second, out = (ctypes.c_void_p(array.ctypes.data) for array in (left, right, different))
    device_code.run_differ(first, second, ctypes.c_uint64(804), out)
    assert different[0] == (changed < 804)
    different[0], sizes = 0, map(ctypes.c_uint64, (787, 8))
    device_code.run_broken(ctypes.c_void_p(right.ctypes.data + 8), *sizes, out)
    assert different[0] == (changed in (0, 7, 795, 802))
