"""The recorded figures that ship with the project say which code they came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewave.cases import expand
from tilewave.compiling import cubin, nvrtc
from tilewave.config import check_folders, parse
from tilewave.kernels import find_kernels, source_digest
from tilewave.project import ROOT
from tilewave.records.recorded import Recorded, folders

SHIPPED = folders(ROOT / "resources" / "recorded")
LIMIT_MB = 20


def _variants() -> dict:
    import yaml

    config = parse(yaml.safe_load((ROOT / "config/config.yaml").read_text()), "config/config.yaml")
    kernels = find_kernels(check_folders(config, "config/config.yaml", ROOT))
    plan = expand(config, kernels, "config/config.yaml")
    return {r.case.variant.id: r.case.variant for r in plan.requests.values()}


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_environments_are_named(folder: Path) -> None:
    recorded = Recorded(folder)
    results = recorded.results()
    assert results
    for made in results:
        environment = recorded.environments[made["environment"]]
        assert environment["commit"], "a recorded figure must name its commit"
        assert not environment.get("dirty")


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
def test_small_enough(folder: Path) -> None:
    total = sum(path.stat().st_size for path in folder.iterdir())
    assert total < LIMIT_MB * 1024 * 1024


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda path: path.name)
@pytest.mark.skipif(bool(nvrtc.available()), reason="needs NVRTC")
def test_cubins_are_the_recorded_bytes(folder: Path) -> None:
    """Compiled here, without a GPU, every variant whose source was recorded has the same bytes."""
    recorded = Recorded(folder).compiled
    compared = 0
    for name, variant in _variants().items():
        for arch in ("sm_90",):
            old = recorded.get(f"{name}.{arch}")
            if not old or "sha256" not in old or variant.kernel.provider != "nvrtc":
                continue
            if old["source_sha256"] != source_digest(variant.kernel):
                continue  # the kernel has changed since: its figures are stale, and say so
            made = nvrtc.compile_kernel(variant.kernel, arch, variant.names)
            assert made.sha256 == old["sha256"], name
            assert made.cubin is not None
            assert cubin.code_digest(made.cubin) == old["code"], name
            compared += 1
    assert compared > 0
