"""Every kernel of the ladder on two architectures, some on three: right, free of faults, and the same product."""

import numpy as np
import pytest

import executing_support as support
from samples import ROOT, needs_nvrtc
from tilewave.kernel import operations, tolerance
from tilewave.kernel.inputs import to_float64
from tilewave.kernel.variants import choices, variant

pytestmark = needs_nvrtc

ARCHITECTURES = ("sm_80", "sm_89", "sm_90")  # sm_86 has the instructions of sm_80 and sm_89
# sm_89 has nearly sm_80's instructions: one kernel of each kind of arithmetic, besides those of test_foreign.
VARIED = {"hgemm_wmma", "matmul_dmma", "matmul_tiled"}

SHAPES = ("35x29x21", "40x24x20", "48x16x80", "136x40x24", "40x24x22")


def shape_for(chosen):
    """Return the first shape that the variant supports on any architecture."""
    for shape in SHAPES:
        named = support.shape_of(chosen, shape).resolve({})
        for arch in ARCHITECTURES:
            if not chosen.supports(named, support.device(arch)):
                return shape
    raise AssertionError(f"{chosen.id} takes none of {', '.join(SHAPES)}")


def ladder():
    """Yield (path, macros) of each variant."""
    for path in sorted((ROOT / "kernels").glob("*/*.cu")):
        kernel = support.kernel(path)
        if kernel.front.operation != "matmul":
            continue
        for chosen in choices(kernel, "each_dtype", path, "macros"):
            yield pytest.param(path, dict(chosen.macros), id=chosen.id)


@pytest.mark.parametrize(("path", "macros"), list(ladder()))
def test_every_architecture_gives_the_same_product(path, macros) -> None:
    chosen = variant(support.kernel(path), macros, path, "macros")
    shape = shape_for(chosen)
    named = support.shape_of(chosen, shape).resolve({})
    supported = [arch for arch in ARCHITECTURES if not chosen.supports(named, support.device(arch))]
    # Kernels with Hopper's instructions or clusters run only there; `make smoke` executes them.
    front = chosen.kernel.front
    if front.architecture_specific or (front.cluster and "sm_80" not in supported):
        assert supported == ["sm_90"]
        return
    assert {"sm_80", "sm_90"} <= set(supported)
    products = {}
    for arch in supported:
        if arch == "sm_89" and path.stem not in VARIED:
            continue
        done = support.right(path, shape, macros, arch)
        products[arch] = done
    first = products["sm_80"]
    matmul = operations.load("matmul")
    output = matmul.output(first.job, "c", *matmul.runs(first.job)[-1])
    # Two results of 16 bits may be rounded to neighbours. The reference is their mean.
    halves = first.outputs["c"].dtype.itemsize == 2
    for arch, done in products.items():
        reference = (wide(done) + wide(first)) / 2 if halves else wide(first)
        judged = tolerance.compare(output, wide(done), reference)
        assert judged.verdict == "correct", f"{arch} against the first: {judged.reason}"


def wide(done) -> np.ndarray:
    """Return the product of an execution as float64."""
    return to_float64(done.outputs["c"], done.job.dtypes["c"])
