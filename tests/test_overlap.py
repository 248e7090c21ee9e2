"""Launches that overlap: they wait for the one before, and a kernel that does not is not launched so."""

from __future__ import annotations

import re

import pytest

import executing_support as support
from samples import FRONT, ROOT, write_kernel
from test_launch_limits import planned
from tilewave.compiling import sass
from tilewave.kernels import load_kernel
from tilewave.records import keys, model
from tilewave.variants import variant

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


@pytest.mark.parametrize(
    ("name", "macros"),
    [
        *OVERLAPPING.items(),
    ],
)
def test_it_waits_before_it_touches_memory_and_is_right(
    name: str, macros: dict[str, object]
) -> None:
    chosen = support.choose(KERNELS / f"{name}.cu", {**macros, "OVERLAP": 1})
    listing = sass.of_cubin(support.compiled(chosen, "sm_90"))
    assert set(sass.functions_with(listing, "ACQBULK")) == set(chosen.kernel.entries)
    launches: dict[str, list[str]] = {}
    for one in sass.parse(listing):
        launches.setdefault(one.function, []).append(one.opcode)
    for code in launches.values():
        waits = code.index("ACQBULK")
        assert code.index("PREEXIT") < waits  # else the next launch begins no sooner than without
        assert not any(GLOBAL.match(one) for one in code[:waits])
        assert any(GLOBAL.match(one) for one in code[waits:])
    support.right(KERNELS / f"{name}.cu", "136x72x264", {**macros, "OVERLAP": 1})


@pytest.mark.parametrize("stage", ["execute", "check", "time", "counters"])
def test_a_kernel_that_never_waits_is_unsupported(tmp_path, stage) -> None:
    path = write_kernel(tmp_path, front=PROGRAMMATIC)
    two = {"symbols": {"first": "_first", "second": "_second"}}
    refused = [
        ("sample", planned(path, stage, **found)) for found in ({"waiting": []}, {"waits": False})
    ]
    refused += [
        ("second", planned(path, stage, waiting=["_first"], **two))
    ]  # each launch by itself
    for name, made in refused:
        assert made.result is not None and made.result["status"] == model.UNSUPPORTED
        assert f"{name} never waits" in made.result["reason"]
        assert "griddepcontrol.wait" in made.result["reason"]
    waiting = planned(path, stage, waiting=["sample"]).job
    plain = planned(write_kernel(tmp_path, "plain"), stage, waiting=[]).job
    assert waiting is not None and waiting.launch.programmatic
    assert plain is not None and not plain.launch.programmatic


def test_older_gpus_have_no_such_launch(tmp_path) -> None:
    made = variant(load_kernel(write_kernel(tmp_path, front=PROGRAMMATIC)), {}, "here", "macros")
    shape = {"m": 64, "n": 64, "k": 64}
    assert "compute capability 9.0" in made.supports(shape, {"arch": 80})
    assert not made.supports(shape, {"arch": 90})


@pytest.mark.parametrize(("blocks", "refused"), [(1, False), (2, True)])
def test_older_gpus_have_clusters_of_one_block(tmp_path, blocks: int, refused: bool) -> None:
    front = FRONT.rstrip("\n") + f"\ncluster: [{blocks}]\n"
    made = variant(load_kernel(write_kernel(tmp_path, front=front)), {}, "here", "macros")
    why = made.supports({"m": 64, "n": 64, "k": 64}, {"arch": 80})
    assert ("compute capability 9.0" in why) == refused


def test_it_is_part_of_a_measurement_and_of_no_other_key(tmp_path) -> None:
    plain = planned(write_kernel(tmp_path, "plain"), "time", waiting=["plain"]).job
    early = planned(
        write_kernel(tmp_path, "plain", front=PROGRAMMATIC), "time", waiting=["plain"]
    ).job
    assert keys.key("code", plain) != keys.key("code", early)
