"""Launches that overlap: each waits for the one before it. A kernel that never waits is unsupported."""

import re

import pytest
from test_launch_limits import planned

import executing_support as support
from samples import FRONT, ROOT, write_kernel
from tilewave.compiling import sass
from tilewave.kernel import result
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.variants import variant
from tilewave.records import keys

KERNELS = ROOT / "kernels" / "ladder"
OVERLAPPING = {
    "matmul_wgmma_fit": {"WARPGROUPS": 1, "TILE_N": 64},
    "matmul_wgmma_split": {"SPLITS": 2},
    "matmul_wgmma_even": {},
    # Of these other tests compile the same variants.
    "matmul_wgmma_turns": {"TYPE": "tf32"},
    "hgemm_wgmma_late": {},
    "matmul_dmma_teams": {"SPLITS": 2},
    "matmul_wgmma_two_launches": {},
}
GLOBAL = re.compile(r"\b(?:LD|ST|ATOM|RED|LDGSTS|UTMALDG|UTMASTG|UBLKCP|LDG|STG|ATOMG)\b")
PROGRAMMATIC = FRONT.rstrip("\n") + "\nprogrammatic: 1\n"


@pytest.mark.parametrize(("name", "macros"), OVERLAPPING.items())
def test_it_waits_before_it_touches_memory_and_is_right(name, macros) -> None:
    chosen = support.choose(KERNELS / f"{name}.cu", {**macros, "OVERLAP": 1})
    listing = sass.of_cubin(support.compiled(chosen, "sm_90"))
    assert set(sass.functions_with(listing, "ACQBULK")) == set(chosen.kernel.entries)
    launches: dict[str, list[str]] = {}
    for instruction in sass.parse(listing):
        launches.setdefault(instruction.function, []).append(instruction.opcode)
    for code in launches.values():
        waits = code.index("ACQBULK")
        assert code.index("PREEXIT") < waits  # else the next launch begins no sooner than without
        assert not any(GLOBAL.match(opcode) for opcode in code[:waits])
        assert any(GLOBAL.match(opcode) for opcode in code[waits:])
    support.right(KERNELS / f"{name}.cu", "136x72x264", {**macros, "OVERLAP": 1})


@pytest.mark.parametrize("stage", ["execute", "check", "time", "counters"])
def test_a_kernel_that_never_waits_is_unsupported(tmp_path, stage) -> None:
    path = write_kernel(tmp_path, front=PROGRAMMATIC)
    two = {"symbols": {"first": "_first", "second": "_second"}}
    for name, entry in (
        ("sample", {"waiting": []}),
        ("second", {"waiting": ["_first"], **two}),  # each launch by itself
    ):
        outcome = planned(path, stage, **entry)
        assert outcome.status == result.UNSUPPORTED
        assert f"{name} never waits" in outcome.reason and "griddepcontrol.wait" in outcome.reason
    waiting = planned(path, stage, waiting=["sample"])
    plain = planned(write_kernel(tmp_path), stage, waiting=["sample"])
    assert waiting.launch.programmatic and not plain.launch.programmatic
    if stage == "time":
        assert keys.key("code", plain) != keys.key("code", waiting)


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ("programmatic: 1", True), ("cluster: [1]", False), ("cluster: [2]", True),
        ("tensor_maps: {map: {of: a, box: [16, 16]}}", True),
    ],
)  # fmt: skip
def test_older_gpus_have_no_such_launch_no_clusters_and_no_maps(tmp_path, more, refused) -> None:
    front = FRONT.replace("[a, b, c, m", "[map, b, c, m") if "map" in more else FRONT
    path = write_kernel(tmp_path, front=f"{front}{more}\n")
    chosen = variant(load_kernel(path), {}, "", "macros")
    shape = {"m": 64, "n": 64, "k": 64}
    assert ("compute capability 9.0" in chosen.supports(shape, {"arch": 80})) == refused
    assert not chosen.supports(shape, {"arch": 90})


def test_only_a_gpu_runs_a_cooperative_launch(tmp_path) -> None:
    plain = planned(write_kernel(tmp_path), "time")
    path = write_kernel(tmp_path, front=FRONT.rstrip("\n") + "\ncooperative: true\n")
    refused = planned(path, "execute")
    assert refused.status == result.UNSUPPORTED and "grid.sync()" in refused.reason
    job = planned(path, "time")
    assert job.launch.cooperative and keys.key("code", plain) != keys.key("code", job)
