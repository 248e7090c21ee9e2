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
# sm_89 has nearly sm_80's: of each kind of arithmetic one, beside those that test_foreign executes there.
VARIED = {"hgemm_wmma", "matmul_dmma", "matmul_tiled"}

SHAPES = ("35x29x21", "40x24x20", "48x16x80", "136x40x24", "40x24x22")


def shape_for(chosen):
    """The first shape that the variant takes on an architecture at least."""
    for shape in SHAPES:
        named = support.shape_of(chosen, shape).resolve({})
        for arch in ARCHITECTURES:
            if not chosen.supports(named, support.device(arch)):
                return shape
    raise AssertionError(f"{chosen.id} takes none of {', '.join(SHAPES)}")


def ladder():
    """(path, macros) of each variant."""
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
    some = [arch for arch in ARCHITECTURES if not chosen.supports(named, support.device(arch))]
    # What needs Hopper's own instructions, or clusters, runs nowhere else: `make smoke` executes it. One block is no cluster.
    front = chosen.kernel.front
    if front.architecture_specific or (front.cluster and "sm_80" not in some):
        assert some == ["sm_90"]
        return
    assert {"sm_80", "sm_90"} <= set(some)
    products = {}
    for arch in some:
        if arch == "sm_89" and path.stem not in VARIED:
            continue
        done = support.right(path, shape, macros, arch)
        products[arch] = done
    first = products["sm_80"]
    matmul = operations.load("matmul")
    output = matmul.output(first.job, "c", *matmul.runs(first.job)[-1])
    # Results of 16 bits are rounded here and there: of two neighbours neither is the reference, but what lies between them.
    halves = first.outputs["c"].dtype.itemsize == 2
    for arch, done in products.items():
        reference = (wide(done) + wide(first)) / 2 if halves else wide(first)
        judged = tolerance.compare(output, wide(done), reference)
        assert judged.verdict == "correct", f"{arch} against the first: {judged.reason}"


def wide(done) -> np.ndarray:
    """The product of an execution."""
    return to_float64(done.outputs["c"], done.job.dtypes["c"])
