"""Limits of a launch: a case that exceeds one is *unsupported*, on the GPU and on the CPU."""

from dataclasses import replace
from pathlib import Path

import pytest

from samples import FRONT, needs_nvrtc, table, write_kernel
from tilewave.compiling import nvrtc
from tilewave.kernel import result
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.job import Job
from tilewave.kernel.launches import LaunchPlan, Step
from tilewave.kernel.result import Result
from tilewave.kernel.variants import variant
from tilewave.pipeline import jobs
from tilewave.pipeline.cases import Case
from tilewave.pipeline.config import Config
from tilewave.pipeline.resolving import resolve
from tilewave.pipeline.shapes import expand_shapes

CASES = table("kernel")

PLAIN = LaunchPlan((1, 1, 1), (1, 1, 1), 0, None, 1)
HERE = {"arch": 90, "shared_per_block_optin": 232448}
CONFIG = {"studies": {"one": {"plot": "correctness", "title": "-", "cases": [{"shapes": [1]}]}}}


@pytest.mark.parametrize("more, sentence", CASES["launches that exceed a limit"])
def test_geometry(more, sentence):
    assert replace(PLAIN, **more).exceeded_limit(HERE) == sentence


def test_without_a_device_its_architecture_says_what_a_block_may_have():
    plan = replace(PLAIN, shared_bytes=102400)
    problem = plan.exceeded_limit({"arch": 86})
    assert problem == "102400 bytes of shared memory exceed this device's 101376"
    assert plan.exceeded_limit({"arch": 87}) == plan.exceeded_limit({}) == ""


@pytest.mark.parametrize(
    ("block", "registers", "static", "sentence"), CASES["blocks of compiled code"]
)
def test_what_was_compiled(block, registers, static, sentence):
    plan = replace(PLAIN, block=block, shared_bytes=232000 if static == 1024 else 0)
    used = {"k": {"registers": registers, "static_shared_bytes": static}}
    assert plan.exceeded_code_limit(used, ["k"], HERE) == sentence


def test_each_of_several_launches():
    steps = [Step(name, (), (1, 1, 1), (1024, 1, 1), 0, None) for name in "ab"]
    plan = replace(PLAIN, series=tuple(steps))
    used = {"a": {"registers": 32}, "b": {"registers": 200}}
    problem = plan.exceeded_code_limit(used, ["a", "b"], HERE)
    assert problem.startswith("b: 200 registers in each of 32")


def planned(path: Path, stage: str, **entry: object) -> Job | Result:
    """Return a stage's job for the default variant at 64, compiled for sm_90 with these entries, or its refusal."""
    kernel = load_kernel(path)
    (shape,) = expand_shapes([64], ("m", "n", "k"), "here", "shapes")
    case = Case(variant(kernel, {}, "here", "macros"), shape)
    resolved = resolve(case, {"device": {}, "arch": 90})
    compiled = {"sm_90": {"status": result.OK, "code": "c", "cubin": "x.cubin", **entry}}
    return jobs.of_case(stage, resolved, compiled, "sm_90", Config.model_validate(CONFIG))


@pytest.mark.parametrize("stage", ["execute", "check", "time", "counters"])
@pytest.mark.parametrize(
    ("front", "reason"),
    [
        (FRONT.replace("[TILE, TILE]", "[1, 1, 65]"), "block z = 65 exceeds 64"),
        (FRONT.replace('["ceil(n / TILE)", ', "[1 << 40, "), f"grid x = {1 << 40} exceeds 2147483647"),
        (FRONT.replace("[TILE, TILE]", "[32, 32]"), "128 registers in each of 32 warps exceed"),
    ],
)  # fmt: skip
def test_executed_and_live_alike(tmp_path, stage, front, reason):
    used = {"resources": {"sample": {"registers": 128, "static_shared_bytes": 0}}}
    outcome = planned(write_kernel(tmp_path, front=front), stage, **used)
    assert not isinstance(outcome, Job) and outcome.status == result.UNSUPPORTED
    assert outcome.reason.startswith(reason)


@needs_nvrtc
@pytest.mark.parametrize(("size", "compiles"), [(32752, True), (32764, False)])
def test_the_compiler_refuses_too_many_bytes_of_arguments(tmp_path, size, compiles):
    body = f"struct Many {{ char all[{size}]; }};\n"
    body += 'extern "C" __global__ void NAME(Many many, int* a) { a[0] = many.all[3]; }\n'
    compiled = nvrtc.compile_kernel(load_kernel(write_kernel(tmp_path, body=body)), "sm_90", {})
    assert bool(compiled.cubin) is compiles
    assert compiles or "32764 bytes allowed" in compiled.message
