"""The recorded values that ship with the project identify their code."""

import functools
import hashlib
from pathlib import Path
from typing import Any

import pytest

import executing_support as support
import keeping
from opcodes import harness, manifest
from samples import needs_nvrtc, shipped_plan
from tilewave.compiling import cubin, nvrtc, sass
from tilewave.execution.lanes import captured, layout
from tilewave.kernel import result
from tilewave.kernel.digests import host_code, source_digest
from tilewave.kernel.discovery import find_kernels
from tilewave.kernel.variants import choices
from tilewave.kernel.variants import variant as variant_of
from tilewave.pipeline import compiling
from tilewave.pipeline.project import ROOT
from tilewave.records.folder import folders
from tilewave.records.recorded import Recorded

SHIPPED = folders(ROOT / "resources" / "recorded")
LIMIT_MB = 4


@functools.cache
def _results(folder: Path) -> list[dict[str, Any]]:
    return Recorded(folder).results()


shipped = pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)


@shipped
def test_a_recording_names_its_commit_is_small_and_whole(folder: Path) -> None:
    """Checksums match, as ``sha256sum -c SHA256SUMS`` checks, and every cubin has its resources."""
    recorded, results = Recorded(folder), _results(folder)
    assert results
    for outcome in results:
        environment = recorded.environments[outcome.environment]
        assert environment["commit"], "a recorded value must name its commit"
        assert not environment.get("dirty")
    assert sum(path.stat().st_size for path in folder.iterdir()) < LIMIT_MB * 1024 * 1024
    listed = [line.split("  ") for line in (folder / "SHA256SUMS").read_text().splitlines()]
    files = sorted(path.name for path in folder.iterdir() if path.name != "SHA256SUMS")
    assert [name for _, name in listed] == files
    for checksum, name in listed:
        assert checksum == hashlib.sha256((folder / name).read_bytes()).hexdigest(), name
    assert recorded.damage == {}
    assert [name for name, entry in recorded.compiled.items() if entry.get("resources") == {}] == []


@shipped
@needs_nvrtc
def test_cubins_are_the_recorded_bytes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first variant of each kernel with the recorded source, and all that are compiled already, give the recorded
    bytes. Where NVRTC 13.0.88 writes another of a large kernel's PTX texts, code and listing are the recorded ones."""
    monkeypatch.setattr(keeping, "restored", lambda *of: False)
    recording = Recorded(folder)
    compared, firsts = 0, set()
    for name, variant in shipped_plan().variants.items():
        old = recording.compiled.get(f"{name}.sm_90")
        if not old or "sha256" not in old or variant.kernel.provider != "nvrtc":
            continue
        if old["source_sha256"] != source_digest(variant.kernel):
            continue  # the kernel has changed since, and its figures are stale
        if variant.kernel.name in firsts and not support.is_compiled(variant, "sm_90"):
            continue
        firsts.add(variant.kernel.name)
        cubin_path = support.compiled(variant, "sm_90").read_bytes()
        assert cubin.code_digest(cubin_path) == old["code"], name
        listed = recording.listing(old["key"])
        if listed and hashlib.sha256(cubin_path).hexdigest() != old["sha256"]:
            again = tmp_path / f"{name}.cubin"
            again.write_bytes(cubin_path)
            assert sass.as_text(again) == listed[0], name
        compared += 1
    assert compared > 0


@pytest.mark.parametrize("name", ["matmul_tiled", "hgemm_wgmma", "vector_add"])
@needs_nvrtc
def test_listings_are_nvdisasms(name: str) -> None:
    """The recorded listing of the same bytes is that of nvdisasm, and replaces it in tests."""
    cubin_file = support.compiled(support.choose(KERNELS[name].path), "sm_90")
    listing = keeping.recorded_listing(hashlib.sha256(cubin_file.read_bytes()).hexdigest())
    if listing is None:
        pytest.skip(f"{name} has changed since it was recorded")
    assert listing == sass.as_text(cubin_file)


KERNELS = find_kernels([ROOT / "kernels"])
H200 = ROOT / "resources" / "recorded" / "nvidia_h200"


def _of_the_same_source(recorded: Recorded, name: str) -> None:
    """Skip the test if the recorded variant has another source: its figures are stale."""
    old = recorded.compiled.get(f"{name}.sm_90")
    if old is None or old["source_sha256"] != source_digest(KERNELS[name.split("-")[0]]):
        pytest.skip(f"{name} has changed since it was recorded")


def _counted(recorded: Recorded) -> dict[str, dict[str, float]]:
    """Return the figures of each case with recorded counters, by metric."""
    return {
        outcome.case: {figure["metric"]: figure["value"] for figure in outcome.figures}
        for outcome in _results(recorded.folder)
        if outcome.stage == "counters" and outcome.status == result.OK
    }


@pytest.fixture(scope="module")
def h200() -> Recorded:
    if H200 not in SHIPPED:
        pytest.skip("no figures of an NVIDIA H200")
    return Recorded(H200)


def test_shared_accesses_cost_and_are_drawn_as_the_front_matter_says(h200: Recorded) -> None:
    """Wavefronts and conflicts of every access pattern are exactly those of the rule, counted and drawn."""
    kernel, counted = KERNELS["shared_access"], _counted(h200)
    expected, measured, drawn = {}, {}, {}
    for name, probe in kernel.front.cases.items():
        chosen = variant_of(kernel, probe.macros, kernel.path, f"cases.{name}")
        _of_the_same_source(h200, chosen.id)
        case = f"{chosen.id}@{name}"
        metrics = ("wavefronts", "bank_conflicts")
        expected[case] = [probe.expect[metric] for metric in metrics]
        measured[case] = [counted.get(case, {}).get(metric) for metric in metrics]
        rows = [row for row in h200.access_rows if row["case"] == case]
        of_probe = [row for row in rows if row["opcode"].startswith(str(probe.instruction))]
        for diagram in captured.diagrams(of_probe, lambda address: ("shared_access.cu", address)):
            laid = layout.laid_out(diagram.layout.access)
            drawn[case] = [laid.wavefronts, laid.wavefronts - laid.transactions]
    assert len(expected) == 28 and measured == expected == drawn


DECIDED = {
    "matmul_tiled-realf64@256x256x256": {
        "wavefronts_shared_LDS": 1_572_864,
        "wavefronts_shared_excess": 0,
    },
    "hgemm_wmma_staged@2048x2048x2048": {
        "wavefronts_shared_LDGSTS": 5_898_240,
        "wavefronts_shared_ideal_LDGSTS": 1_572_864,
        "wavefronts_shared_LDSM": 4_194_304,
        "counted_tensor_flops": 17_179_869_184,
    },
}
"""Counts that follow from code and launch alone: every run has the same."""


@pytest.mark.parametrize("case", DECIDED)
def test_counts_that_the_launch_decides(h200: Recorded, case: str) -> None:
    _of_the_same_source(h200, case.split("@")[0])
    assert DECIDED[case].items() <= _counted(h200)[case].items()


HOST_VARIANTS = {
    variant.id: kernel
    for kernel in KERNELS.values()
    if kernel.provider == "cpu"
    for variant in choices(kernel, "product", kernel.path, "macros")
}


@pytest.mark.parametrize("name", sorted(HOST_VARIANTS))
def test_host_code_is_the_recorded_code(h200: Recorded, name: str) -> None:
    """The key of a host kernel is that of its recorded values, in every version of Python."""
    _of_the_same_source(h200, name)
    assert host_code(HOST_VARIANTS[name]) == h200.compiled[f"{name}.sm_90"]["code"]


@needs_nvrtc
def test_listings_of_the_tests_kernels_are_nvdisasms() -> None:
    compared = 0
    for path in sorted((ROOT / "tests" / "faults").glob("*.cu"))[:3]:
        cubin_path = support.compiled(support.choose(path), "sm_90")
        listing = keeping.kept_listing(keeping.digest_of(cubin_path.read_bytes()))
        compared += listing is not None
        assert listing in (None, sass.as_text(cubin_path)), path.name
    assert compared, "make them again: tests/support/keeping.py"


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_cubins_of_the_tests_kernels_are_nvrtcs(arch: str) -> None:
    newest = "hgemm_wgmma_late", {"TYPE": "bf16"}
    name, macros = newest if arch == "sm_90" else ("hgemm_mma", {})
    task = compiling.Task(support.choose(ROOT / "kernels" / "ladder" / f"{name}.cu", macros), arch)
    assert task.key in keeping.compilations(), "make them again: tests/support/keeping.py"
    done = nvrtc.compile_kernel(task.variant.kernel, task.arch, task.variant.names)
    assert cubin.code_digest(done.cubin or b"") == cubin.code_digest(keeping.kept(task.key) or b"")
    files = sorted(manifest.HERE.glob("*.cu"))
    fixtures = ((of, keeping.kept(harness.key_of(of, arch))) for of in files)
    fixture, kept = next(of for of in fixtures if of[1])
    new = keeping.bare(harness.compiled_now(fixture, arch))
    assert kept == new, "make them again: tests/support/keeping.py"
