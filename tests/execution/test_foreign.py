"""Third-party kernels (tests/foreign): they are right, so a wrong result or a fault is the executor's."""

import numpy as np
import pytest

import executing_support as support
from samples import needs_nvrtc, table
from tilewave.execution.machine import codes as c

pytestmark = needs_nvrtc

PATHS = sorted(support.FOREIGN.glob("*.cu"))
PRODUCTS = table("ragged_products")["foreign"]
# sm_86 and sm_89 have nearly sm_80's instructions, so only kernels with the most instructions run there. On
# sm_80 only each kernel's first case runs.
VARIED = {
    "bf16_mma", "call_noinline", "dgemm_dmma", "hgemm_mma_swizzle_cpasync", "igemm_mma",
    "softmax_rows", "spill_registers", "warp_compact",
}  # fmt: skip


def cases():
    """Yield (path, shape or probe case, macros) of every kernel of the folder."""
    for path in PATHS:
        front = support.kernel(path).front
        if front.operation == "probe":
            yield from ((path, name, {}) for name in front.cases)
        else:
            yield from ((path, shape, macros) for shape, macros in PRODUCTS[path.stem])


def every(arch, names=None):
    """Return the parameters of each case, or of the first case of each named kernel."""
    chosen = [case for case in cases() if names is None or case[0].stem in names]
    if names is not None:
        chosen = list({path: (path, case, macros) for path, case, macros in chosen[::-1]}.values())
    return [pytest.param(*row, arch, id=f"{row[0].stem}-{row[1]}-{arch}") for row in chosen]


def executed(name, case):
    return support.execute(support.FOREIGN / f"{name}.cu", case)


def total(done, count, opcode):
    """Return the sum of a count over the instructions whose opcode begins so."""
    chosen = [instruction.opcode.startswith(opcode) for instruction in done.program.instructions]
    return int(np.sum(np.asarray(done.counts[count])[chosen]))


CASES = [*every("sm_80", {path.stem for path in PATHS}), *every("sm_90")]


@pytest.mark.parametrize(
    "path,case,macros,arch", [*CASES, *every("sm_86", VARIED), *every("sm_89", VARIED)]
)
def test_right(path, case, macros, arch):
    support.right(path, case, macros, arch)


def test_tensor_operations():
    """Warps, k steps and tiles give the number of matrix instructions."""
    done = executed("hgemm_mma_ptx", "64x128x96")
    assert total(done, "executed", "HMMA") == (64 // 16) * (128 // 8) * (96 // 16)
    assert total(done, "executed", "LDSM") == 2 * 4 * (96 // 32) * (4 + 4)
    done = executed("dgemm_dmma", "64x32x48")
    assert total(done, "executed", "DMMA") == (64 // 8) * (32 // 8) * (48 // 4)


def test_a_restored_register_may_be_undefined():
    rows = executed("spill_registers", "ramp").program.rows
    restores = rows[(rows[:, c.FAMILY] == c.LOAD) & (rows[:, c.OP] == c.LOCAL)]
    assert len(restores) and np.all(restores[:, c.DEAD] == -1)


def test_swizzle_has_no_conflicts_and_plain_rows_have():
    """ldmatrix reads eight rows of 16 bytes; 64 bytes apart, they lie in two groups of banks."""
    swizzled = executed("hgemm_mma_swizzle_cpasync", "128x256x160")
    assert total(swizzled, "shared_requests", "LDSM") > 0
    assert total(swizzled, "shared_conflicts", "LDSM") == 0
    plain = executed("hgemm_mma_ptx", "64x128x96")
    requests = total(plain, "shared_requests", "LDSM")
    assert total(plain, "shared_wavefronts", "LDSM") == 4 * 4 * requests


@pytest.mark.parametrize("place", ["plain", "padded", "swizzled"])
def test_transposition_conflicts(place):
    """50 x 70 words: 3 tiles of columns; without padding a column lies in one bank."""
    done = executed("transpose_tile", place)
    assert total(done, "shared_wavefronts", "STS") == 3 * 50
    assert total(done, "shared_wavefronts", "LDS") == 70 * (32 + 18 if place == "plain" else 2)


def test_float_functions():
    """exp, log and rsqrt equal numpy's; the kernel also checks itself."""
    done = executed("softmax_rows", "ragged")
    x = done.outputs["x"].reshape(16, 100).astype(np.float64)
    shifted = np.exp(x - x.max(axis=1, keepdims=True))
    wanted = shifted / shifted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(done.outputs["y"].reshape(16, 100), wanted, rtol=5e-6)
    logs = np.log(shifted.sum(axis=1)) + x.max(axis=1)
    np.testing.assert_allclose(done.outputs["logs"], logs, rtol=2e-6, atol=2e-6)
    wanted = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(done.outputs["scaled"].reshape(16, 100), wanted, atol=3e-6)
