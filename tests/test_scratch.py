"""Scratch buffers of a product, the work of a probe, and architecture-specific targets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import executing_support as support
import samples
from samples import HERE, a_job, compiled, config, kernel_parts, write_kernel
from tilewave.basics.errors import UserError
from tilewave.compiling import nvrtc
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.launches import Scratch
from tilewave.pipeline import project
from tilewave.records import keys

# Two blocks share a tile of 16 x 16: each sums half of k, the second to arrive adds both halves.
SPLIT_FRONT, SPLIT_BODY = kernel_parts("split")


@pytest.fixture
def split(tmp_path: Path) -> Path:
    return write_kernel(tmp_path, "split", SPLIT_FRONT, SPLIT_BODY)


def test_a_product_over_scratch_is_right_and_without_findings(split: Path) -> None:
    done = support.right(split, "17x33x21")
    # 2 x 3 tiles: 2 * 256 * 6 floats, and a word a tile.
    scratch = done.job.launch.scratch
    assert scratch == (Scratch("halves", 12288, False), Scratch("arrived", 24, True))


def test_scratch_that_is_not_left_zero_is_wrong(split: Path) -> None:
    done = support.execute(split, "16x16x8", {"TIDY": 0})
    assert done.verdict == "wrong" and "scratch buffer arrived" in done.reason


def test_keys_without_scratch_and_work_are_what_they_were() -> None:
    job = a_job()
    plain = {
        "stage": "check", "method_version": 1, "code": "c", "provider": "nvrtc",
        "operation": "matmul", "entry": "a", "grid": [1, 1, 1], "block": [1, 1, 1],
        "shared_bytes": 0, "cluster": None, "arguments": [], "shape": {}, "dtypes": {},
        "layouts": {}, "probe": None, "seed": 1,
    }  # fmt: skip
    assert keys.key("c", job) == keys.digest(plain)
    more = replace(job.launch, scratch=(Scratch("x", 4, True),))
    scratch = [{"name": "x", "nbytes": 4, "zeroed": True}]
    assert keys.key("c", replace(job, launch=more)) == keys.digest({**plain, "scratch": scratch})


PROBE_FRONT, PROBE_BODY = kernel_parts("probe_with_work")


def planned(folder: Path, stage: str, front: str = PROBE_FRONT) -> Any:
    write_kernel(folder, "probe", front, PROBE_BODY)
    block = {"kernels": ["probe"], "operation": "probe", "time": True}
    loaded = project.load(config(block, kernel_folders=[str(folder)]), "test.yaml")
    return list(samples.planned(stage, loaded, compiled(*loaded.plan.variants), HERE).values())


def test_a_probe_that_says_its_work_is_timed(tmp_path: Path) -> None:
    (job,) = planned(tmp_path, "time")
    # 64 operations x 10 steps x 132 SMs; 16 bytes for each of 32 x 132 elements.
    assert job.work == {"flop": 84480.0, "byte": 67584.0}
    assert job.device == {"sms": 132} and job.baseline is False
    # A probe without work is not timed.
    front = "".join(line for line in PROBE_FRONT.splitlines(True) if not line.startswith("work"))
    assert planned(tmp_path, "time", front) == []


def test_work_must_be_known(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"work\.flop.*steps"):
        planned(tmp_path, "time", PROBE_FRONT.replace("64 * steps", "64 * rounds"))


def test_architecture_specific_targets(tmp_path: Path) -> None:
    path = write_kernel(tmp_path, "probe", PROBE_FRONT, PROBE_BODY)
    specific, plain = load_kernel(path), load_kernel(write_kernel(tmp_path, "sample"))
    for arch, expected in (("sm_90", "sm_90a"), ("sm_80", "sm_80"), ("sm_90a", "sm_90a")):
        assert nvrtc.target_of(specific, arch) == expected
        assert nvrtc.target_of(plain, arch) == arch
