"""The executor against an H200: every fixture of tests/support/opcodes must give the recorded bits.
The code is compiled here for the recorded architecture. MUFU may differ by what
`manifest` states, everything else by nothing, NaNs included."""

import functools
import hashlib
import io
import re
import subprocess

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from opcodes import harness, manifest
from opcodes.inputs import generate_inputs
from samples import needs_nvrtc
from tilewave.compiling import sass

pytestmark = [needs_nvrtc, pytest.mark.skipif(sass.disassembler() is None, reason="no nvdisasm")]

ARCH = "sm_90"
# The oldest and the newest: every condition on the architecture holds for exactly one of them.
ARCHITECTURES = ("sm_80", ARCH, "sm_120")
KERNELS = {name: kernel for name, kernel in manifest.kernels().items() if kernel.needs <= 90}
SECONDS = 60.0


@functools.cache
def recording():
    """Return description and arrays of the H200's results. A missing file is a failure."""
    assert harness.RECORDED.exists(), f"{harness.RECORDED} is missing: see opcodes/record.py"
    return harness.recorded()


def executed(kernel):
    """Return results of a kernel on this CPU, uint32 of shape (threads, results)."""
    cubin, text = harness.compiled(manifest.HERE / kernel.file, ARCH)
    out = np.full((kernel.threads, kernel.results), harness.POISON, np.uint32)
    done = harness.launched(
        cubin, kernel.name, text, [*generate_inputs(kernel), out, np.int32(kernel.threads)],
        kernel.threads // manifest.BLOCK, manifest.BLOCK,
        seconds=SECONDS, races=kernel.name not in manifest.RACES,
    )  # fmt: skip
    assert not done.faults, [(fault.kind, fault.message) for fault in done.faults[:3]]
    return out


EXACT = [n for n, kernel in KERNELS.items() if kernel.exact and n not in manifest.UNSUPPORTED]


@pytest.mark.parametrize("name", EXACT)
def test_bits(name):
    kernel = KERNELS[name]
    _, arrays = recording()
    wrong = harness.differences(kernel, executed(kernel), arrays)
    assert not wrong, "\n".join(
        f"result {k} of thread {i}: {actual:08x} for {expected:08x}"
        for k, i, actual, expected in wrong[:9]
    )


def numbers(words, form):
    """Return results of shape (threads, words) as float64; form: f16, bf16 (pairs), f32 or f64."""
    words = np.ascontiguousarray(words)
    if form == "f64":
        return words.view(np.float64)
    if form == "f16":
        return words.view(np.float16).astype(np.float64)
    if form == "bf16":
        return (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return words.view(np.float32).astype(np.float64)


def check_close(results, expected, form, allowed):
    """Check that numbers are within `allowed`; infinities must be equal, and NaNs at the same
    places.
    """
    actual, wanted = numbers(results, form), numbers(expected, form)
    finite = np.isfinite(wanted)
    same = (actual == wanted) | (np.isnan(actual) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        near = finite & (np.abs(actual - wanted) <= allowed)
    wrong = np.argwhere(~(same | near))
    assert not len(wrong), f"{len(wrong)} of {actual.size}, e.g. " + "; ".join(
        f"thread {i} number {k}: {actual[i, k]!r} for {wanted[i, k]!r}" for i, k in wrong[:4]
    )


@pytest.mark.parametrize("name", manifest.UNSUPPORTED)
def test_unsupported(name):
    kernel = KERNELS[name]
    with pytest.raises(AssertionError, match=f"unsupported.*{manifest.UNSUPPORTED[name]}"):
        executed(kernel)


@pytest.mark.parametrize("name", [n for n in KERNELS if n.startswith("mufu_")])
def test_approximations(name):
    kernel = KERNELS[name]
    _, arrays = recording()
    form = manifest.APPROXIMATE[name][0]
    relative, absolute = np.array(manifest.APPROXIMATE[name][1]).T
    expected = arrays[name].T
    sizes = np.abs(np.nan_to_num(numbers(expected, form), posinf=0, neginf=0))
    check_close(executed(kernel), expected, form, sizes * relative + absolute)


def test_recording_fits():
    """The recording has these kernels and inputs, and no result is missing."""
    about, arrays = recording()
    for name, kernel in KERNELS.items():
        assert arrays[name].shape == (kernel.results, kernel.kept), name
        data = b"".join(array.astype("<u4").tobytes() for array in generate_inputs(kernel))
        assert about["inputs"][name] == hashlib.sha256(data).hexdigest(), name
    assert "H200" in about["gpu"] and about["arch"] == ARCH


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_declared_counts(arch, tmp_path):
    """A kernel writes as many words as it declares: otherwise its code would contain a trap."""
    code, starts = b"", {}
    for path in manifest.files():
        for section in ELFFile(io.BytesIO(harness.cubin_of(path, arch))).iter_sections():
            if section.name.startswith(".text."):
                starts[len(code)] = f"{path.name}: {section.name}"
                code += section.data()
    # All in one call: nvdisasm takes longer to start than to read a file.
    (tmp_path / "code").write_bytes(code)
    command = [sass.disassembler(), "-ndf", "-b", arch.replace("sm_", "SM"), tmp_path / "code"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^\s*/\*([0-9a-f]+)\*/(.*);", text, re.M)
    assert len(lines) == len(code) // 16
    traps = [int(address, 16) for address, line in lines if "BPT.TRAP" in line]
    assert not traps, {starts[max(start for start in starts if start <= at)] for at in traps}
