"""Features of CUDA C++ in third-party kernels (tests/features), executed and compared with numpy."""

import numpy as np
import pytest

from opcodes import harness
from samples import ROOT, needs_nvrtc
from tilewave.basics.errors import Unsupported
from tilewave.execution.machine import program
from tilewave.execution.machine.printing import formatted
from tilewave.execution.places import Places, described

pytestmark = needs_nvrtc

FEATURES = ROOT / "tests" / "features"
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
N, BLOCK = 512, 256
NUMBERS = np.random.default_rng(1).integers(0, 1000, 4 * N).astype(np.int32)


def launched(file, entry, arch, *arrays, grid=2, block=BLOCK):
    cubin, text = harness.compiled(FEATURES / f"{file}.cu", arch)
    return harness.launched(cubin, entry, text, arrays, grid, block, seconds=60)


def result(file, entry, arch, given, count, **more):
    """Return the output array of a kernel with one input array."""
    out = np.zeros(count, np.int32)
    done = launched(file, entry, arch, given, out, **more)
    assert not done.faults, done.faults[0].message
    return out


def fault(file, entry, arch, **more):
    done = launched(file, entry, arch, NUMBERS[:N] % 64, np.zeros(N, np.int32), **more)
    assert done.faults
    return done.faults[0]


every = pytest.mark.parametrize("arch", ARCHITECTURES)
hopper = pytest.mark.parametrize("arch", ARCHITECTURES[1:])


@every
def test_groups(arch):
    a, warps = NUMBERS[:N], NUMBERS[:N].reshape(-1, 32)
    out = result("cooperation", "reduced", arch, a, 4 * N).reshape(N, 4)
    odd = (warps & 1).sum(1)
    assert (out[:, 0] == np.repeat(warps.sum(1), 32)).all()
    assert (out[:, 1] == np.repeat(a.reshape(-1, 8).max(1), 8)).all()
    assert (out[:, 2] == warps.cumsum(1).ravel()).all()
    assert (out[:, 3] == np.where(a & 1, np.repeat(odd, 32), -1)).all()
    same = (warps & 3)[:, :, None] == (warps & 3)[:, None, :]
    out = result("cooperation", "labeled", arch, a, 2 * N).reshape(N, 2)
    assert (out[:, 0] == same.sum(2).ravel()).all()
    assert (out[:, 1] == (same * warps[:, None, :]).sum(2).ravel()).all()
    halves = np.where(warps & 1, odd[:, None], 32 - odd[:, None])
    assert (result("cooperation", "split_in_two", arch, a, N) == halves.ravel()).all()
    assert (result("cooperation", "copied", arch, a, N) == a.reshape(2, -1)[:, ::-1].ravel()).all()


@hopper
def test_collectives_of_a_block(arch):
    out = result("blocks", "sorted", arch, NUMBERS[:512], 1024, grid=1, block=128)
    keys = np.sort(NUMBERS[:512])
    assert (out[:512] == keys).all() and (out[512:] == keys.cumsum() - keys).all()


@every
def test_barriers(arch):
    turned = NUMBERS[:N].reshape(2, -1)[:, ::-1].ravel()
    out = result("cooperation", "rounds", arch, NUMBERS[:N], 3 * N).reshape(N, 3)
    assert (out == turned[:, None] + np.arange(3)).all()
    out = result("cooperation", "copied_async", arch, NUMBERS, 4 * N).reshape(2, -1)
    assert (out == NUMBERS.reshape(2, -1)[:, ::-1]).all()
    stages = NUMBERS[: 6 * BLOCK].reshape(6, BLOCK)[:, ::-1]
    assert (result("cooperation", "staged", arch, NUMBERS, BLOCK, grid=1) == stages.sum(0)).all()
    for entry in ("counted", "uncounted"):
        out = result("cooperation", entry, arch, NUMBERS, 128, grid=1, block=128)
        assert (out == NUMBERS[:128][::-1]).all(), entry
    assert fault("cooperation", "not_waited", arch, grid=1).kind in ("race", "uninitialised read")


@every
def test_atomics(arch):
    sums, wide = np.zeros(8, np.int32), np.zeros(2, np.uint64)
    assert not launched("cooperation", "references", arch, sums, wide).faults
    assert sums[:2].tolist() == [N * (N - 1) // 2, 2 * N] and sums[2:3].view(np.float32) == N
    assert (sums[3], sums[4], wide[0]) == (N, 255, N - 1)
    halves = np.zeros(4, np.uint16)
    assert not launched("cooperation", "halfwords", arch, halves).faults
    assert halves.tolist() == [3 * N // 4] * 4


@hopper
def test_atomics_of_several_words(arch):
    out = np.zeros(8, np.int64)
    done = launched("cooperation", "pairs", arch, out)
    assert not done.faults, done.faults[0].message
    sums = np.arange(N).reshape(2, -1).sum(1)
    assert out.tolist() == [N, sums.sum(), 7, 8, BLOCK, sums[0], BLOCK, sums[1]]
    floats, seen = np.zeros(12, np.float32), np.zeros(N, np.int32)
    assert not launched("cooperation", "vectors", arch, floats, seen).faults
    assert floats.tolist() == [N, sums.sum(), 0, 0, N, 2 * N, 3 * N, sums.sum(), N, 2 * N, 0, 0]
    assert seen.all()


@every
def test_calls(arch):
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    a = NUMBERS[:32]
    out = result("calls", "chosen", arch, a, 96, grid=1, block=32).reshape(32, 3)
    table = lambda x: x + 1, lambda x: 3 * x, fibonacci
    wanted = [[fibonacci(v & 7), table[v % 3](v & 7), 5 + v if v & 1 else 25] for v in a.tolist()]
    assert out.tolist() == wanted
    out = result("calls", "anywhere", arch, a, 32, grid=1, block=32)
    assert out.tolist() == [(v if v & 1 else 3) * (v & 7) for v in a.tolist()]
    refused = fault("calls", "allocated", arch, grid=1, block=32)
    assert refused.kind == "unsupported" and "malloc, which is not supported" in refused.message


@pytest.mark.parametrize("arch", ARCHITECTURES[:2])
def test_products_of_bits(arch):
    a = NUMBERS.view(np.uint32)[:64] * np.uint32(2654435761)
    rows = ((a.reshape(2, 8, 4, 1) >> np.arange(32, dtype=np.uint32)) & 1).reshape(2, 8, 128)
    products = (rows[0][:, None] ^ rows[1][None]).sum(2).reshape(8, 4, 2) + np.array([1, 2])
    out = result("values", "bits", arch, a, 64, grid=1, block=32)
    assert (out.reshape(8, 4, 2) == products).all()


@every
def test_values(arch):
    wanted = NUMBERS[:N].copy()
    wanted[402:] = 0
    out = np.zeros((128, 4), np.int32)
    # The array ends within a copy, which reads only to its end.
    given = "values", "ragged", arch, NUMBERS[:402], out
    assert not launched(*given, np.int32(402), grid=1, block=128).faults
    assert (out == wanted.reshape(128, 4)[::-1]).all()
    faults = launched(*given, np.int32(403), grid=1, block=128).faults
    assert "reads 12 bytes" in faults[0].message
    out = np.zeros((134, 64), np.uint32)  # 132 SMs run a block each
    assert not launched("values", "places", arch, out, grid=134, block=64).faults
    wanted = 1000 * (np.arange(134) % 132)[:, None] + np.arange(64) // 32
    assert (out == wanted).all()


@hopper
def test_fp8_in_fours(arch):
    a = np.arange(128, dtype=np.float32) / 8  # numbers of four digits that fp8 has
    a = a[np.isin(a * 8, [m << s for m in range(16) for s in range(4)])][:48].copy()
    out = np.zeros_like(a)
    assert not launched("values", "in_fours", arch, a, out, grid=1, block=len(a) // 4).faults
    assert (out == a).all()


@every
def test_printf(arch):
    a, out = NUMBERS[:N], np.zeros(N, np.int32)
    done = launched("ends", "prints", arch, a, out)
    assert not done.faults and done.prints == N + 1 and (out == 7).all()
    lines = list(done.printed)
    # The first warp's second call.
    assert lines.pop(32) == "all 4294967295 18446744073709551615 1.234568e+04 0.5 (nil)\n"
    for i, line in enumerate(lines):
        letter, wide = chr(65 + (i & 15)), (1 << 40) + i
        wanted = f"{i}:{a[i] / 2:5.2f}|{a[i]:<4d}|text {wide} {hex(i) if i else 0} {letter}%\n"
        assert line == wanted


@pytest.mark.parametrize(
    ("form", "data", "expected"),
    [
        ("%5d|%-5d|%05d|%+d", [1, 2, 3, 4], "    1|2    |00003|+4"),
        ("%u %hhd %hu", [2**32 - 1, 255, 65537], "4294967295 -1 1"),
        ("%*d %.*s", [4, 7, 2, 0, 99, 0], "   7 te"),
        ("%o %#o %X", [8, 8, 255], "10 010 FF"),
        ("100 %% %y", [], "100 % %y"),
        ("%a %.3e %p", [0, 0x3FF80000, 0, 0x40590000, 256, 0], "0x1.8p+0 1.000e+02 0x100"),
    ],
)
def test_formats(form, data, expected):
    arguments = np.array(data, np.int64).astype(np.uint32).tobytes()
    assert formatted(form, arguments, lambda at: "text") == expected


@every
def test_ends(arch):
    failure = fault("ends", "asserts", arch)
    assert failure.kind == "assertion failed"
    for part in ('`x < 50 && "too large"`', "int checked(int), line 12 of ", "ends.cu", "threads "):
        assert part in failure.message
    wrong = [i for i in range(32) if NUMBERS[i] % 64 >= 50]
    assert [thread["thread"][0] for thread in failure.threads] == wrong
    failure = fault("ends", "traps", arch)
    block, thread = divmod(np.flatnonzero(NUMBERS[:N] % 64 == 40)[0], BLOCK)
    assert failure.kind == "trap"
    assert failure.threads[0] == {"block": [block, 0, 0], "thread": [thread, 0, 0]}


def test_a_grid_that_is_not_cooperative_traps():
    cubin, text = harness.compiled(FEATURES / "cooperation.cu", "sm_90")
    instructions = program.load(cubin, "whole_grid", text).instructions
    places = Places(FEATURES / "cooperation.cu", "whole_grid", text)
    about = described(fault("cooperation", "whole_grid", "sm_90"), instructions, places)
    assert about["kind"] == "trap" and "grid.sync() needs a cooperative launch" in about["message"]


def test_an_instruction_of_newer_hardware_is_named():
    cubin, text = harness.compiled(FEATURES / "tensor_memory.cu", "sm_100a")
    with pytest.raises(Unsupported, match=r"UTCATOMSWS\.FIND_AND_SET"):
        program.load(cubin, "allocates", text)
