"""Some random programs of `python tests/support/fuzzing_programs.py 1000 0`, and its past findings."""

import numpy as np
import pytest

import fuzzing_programs as fuzzing
from tilewave.compiling import nvrtc

pytestmark = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available() or "NVRTC")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_random_programs(arch):
    assert not fuzzing.difference(fuzzing.written(5), arch, 5)


def the_smaller(first, second):
    """Return the minimum; of zeros the negative one."""
    return np.where((first == 0) & (second == 0) & np.signbit(first), first, np.fmin(second, first))


PAIR = """__half2 a = bits<__half2>(b0), b = bits<__half2>(b1);
__half2 r = __hfma2(b, __halves2half2(-__high2half(a), __low2half(a)), b);
x0 = __low2half(r); x1 = __high2half(r);"""


def lower_of_pair(v):
    a, b = (v[name].view(np.float16).reshape(-1, 2).astype(float) for name in ("b0", "b1"))
    return (b[:, 0] * -a[:, 1] + b[:, 0]).astype(np.float16)


FINDINGS = {
    # LEA takes -R: where R is 0 nothing is borrowed
    "c0 = (u64)p2 - ((u64)c0 + (u64)c0);": ("sm_90", lambda v: v["p2"] - 2 * v["c0"]),
    # IMAD.WIDE adds a negative number of 64 bits
    "d0 = ((u64)(d0 != 0) << 11) - d0;": (
        "sm_90",
        lambda v: (v["d0"] != 0).astype(np.uint64) * np.uint64(2048) - v["d0"],
    ),
    # FSEL chooses half of a double, which nvdisasm prints as QNAN
    "z0 = y0 > 1 ? bits<f64>(0x7FF0000000000000ull) : z0;": (
        "sm_90",
        lambda v: np.where(v["y0"] > 1, np.inf, v["z0"]),
    ),
    # I2F.U64 has the upper half of its literal
    "y0 = __ull2float_rn(1ull << 63);": ("sm_90", lambda v: np.full(128, np.float32(2.0**63))),
    # VHMNMX of three
    "x0 = __hmin(__hmin(x0, x1), __float2half_rn(2));": (
        "sm_90",
        lambda v: the_smaller(the_smaller(v["x0"], v["x1"]), np.full(128, np.float16(2))),
    ),
    # HFMA2 exchanges an operand's halves, and turns the sign of one
    PAIR: ("sm_90", lower_of_pair),
    # half a register of constants on sm_80 is printed with a blank
    "x0 = p4 + x1;": ("sm_80", lambda v: v["p4"] + v["x1"]),
    # UIMNMX.U64, UFRND
    "d0 += min(p3, (u64)p1);": ("sm_120", lambda v: v["d0"] + np.minimum(v["p3"], v["p1"])),
    "y0 += rintf(p5);": ("sm_120", lambda v: v["y0"] + np.rint(v["p5"])),
}


@pytest.mark.parametrize("text", FINDINGS)
def test_findings_of_random_programs(text):
    arch, value = FINDINGS[text]
    name = text.splitlines()[-1][:2]
    written = fuzzing.Writer(0).program(text)
    with np.errstate(all="ignore"):
        want = value(fuzzing.inputs(written, 3))
    assert np.all(fuzzing.same(fuzzing.executed(written, arch, 3)[name], want))


def test_code_that_the_assembler_did_not_optimise():
    """R1 has the top of the stack."""
    text = "i32 n[4] = {1, 2, 3, 4}; n[b0 & 3] = a0; a1 = n[b1 & 3];"
    written = fuzzing.Writer(0).program(text)
    given = fuzzing.inputs(written, 0)
    table = np.tile(np.arange(1, 5, dtype=np.int32)[:, None], fuzzing.THREADS)
    table[given["b0"] & 3, np.arange(fuzzing.THREADS)] = given["a0"]
    want = table[given["b1"] & 3, np.arange(fuzzing.THREADS)]
    assert fuzzing.executed(written, "sm_90", 0, fuzzing.PLAIN)["a1"].tolist() == want.tolist()
