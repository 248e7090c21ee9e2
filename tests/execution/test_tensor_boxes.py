"""Tensor maps of one to five dimensions, by value and by address, executed on the CPU and on a GPU."""

import math
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import executing_support as support
from live_gpu import checked, live
from samples import ROOT, needs_nvrtc
from tilewave.gpu.session import Session

FOLDER = ROOT / "tests" / "tma"
KERNEL = string.Template((FOLDER / "boxes.cu.in").read_text())
SIZES, BOX = (24, 5, 3, 2, 3), (8, 4, 2, 3, 2)
LOAD, STORE, THROUGH = range(3)
BEFORE = {LOAD: 4, STORE: 0, THROUGH: 0}

CASES = [
    *((rank, 1, way, way == STORE) for rank in range(1, 6) for way in (LOAD, STORE, THROUGH)),
    *((rank, 2, LOAD, True) for rank in range(2, 6)),
    *((rank, 3, STORE, False) for rank in (2, 5)),
    (5, 4, THROUGH, True),
]


@pytest.fixture(autouse=True)
def headers_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWAVE_INCLUDE", str(FOLDER))


def boxes(folder: Path, rank: int, step: int, way: int, pointer: bool, **more: Any) -> Path:
    """Write a kernel that copies n elements in boxes of so many dimensions."""
    sizes = [*map(str, SIZES[: rank - 1]), f"n / {math.prod(SIZES[: rank - 1])}"]
    before = [BEFORE[way], 0, 0, 0, 0]
    blocks = " * ".join(f"ceil(({of} + {at}) / {box})" for of, at, box in zip(sizes, before, BOX))
    about = {"box": list(BOX[:rank]), "sizes": sizes, **more}
    about.setdefault("element_strides", [1, *[step] * (rank - 1)])
    of = "b" if way == STORE else "a"
    path = folder / f"boxes_{rank}_{step}_{way}_{int(pointer)}.cu"
    facts = {"blocks": blocks, "of": of, "about": str(about)[1:-1], "outermost": sizes[-1]}
    facts |= {"rank": rank, "step": step, "way": way, "pointer": int(pointer)}
    path.write_text(KERNEL.substitute(facts, folder=FOLDER, name=path.stem))
    return path


def elements(rank: int) -> int:
    """Return the elements of an array with 7 in the outermost dimension; rows are multiples of 16 bytes."""
    return math.prod(SIZES[: rank - 1], start=7 if rank > 1 else 140)


@needs_nvrtc
@pytest.mark.parametrize(("rank", "step", "way", "pointer"), CASES)
def test_executed(tmp_path: Path, rank: int, step: int, way: int, pointer: bool) -> None:
    done = support.execute(boxes(tmp_path, rank, step, way, pointer), elements(rank))
    assert [fault.message for fault in done.faults] == []
    assert done.verdict == "correct", done.reason


@needs_nvrtc
def test_boxes_are_those_of_the_map(tmp_path: Path) -> None:
    """Element strides that the kernel ignores make its result wrong."""
    path = boxes(tmp_path, 3, 1, LOAD, False, element_strides=[1, 2, 1])
    done = support.execute(path, elements(3))
    assert done.verdict != "correct" or done.faults


@needs_nvrtc
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("#define RANK 3", "#define RANK 2", "by a tensor map of 3 dimensions"),
        ("    copy_boxes(", "((int*)map)[10] = 1;\n copy_boxes(", "or a changed one"),
        ("    copy_boxes(", "++map;\n copy_boxes(", "where there is none"),
    ],
)
def test_maps_that_are_not_what_the_copy_takes(tmp_path, old, new, message) -> None:
    path = boxes(tmp_path, 3, 1, LOAD, True)
    path.write_text(path.read_text().replace(old, new))
    (fault,) = support.execute(path, elements(3)).faults
    assert fault.kind == "invalid access" and message in fault.message


def beginning_at(folder: Path, way: int, along: int, across: int = 0, deep: int = 0) -> Path:
    """Return the kernel with another copy, which begins at these coordinates."""
    copy = {LOAD: "load(&map, box, &barrier, at)", STORE: "store(&map, box, at)"}[way]
    begin = (
        f"    int at[5] = {{{along}, {across}, {deep}}};\n"
        "    __shared__ alignas(128) float box[512]; __shared__ unsigned long long barrier;\n"
        '    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");\n'
        f"    {copy};\n"
    )
    path = boxes(folder, 3, 1, way, False)
    path.write_text(path.read_text().replace("    copy_boxes(", f"{begin}    copy_boxes("))
    return path


@needs_nvrtc
@pytest.mark.parametrize("axis", range(3))
def test_stores_do_not_begin_before_the_array(tmp_path: Path, axis: int) -> None:
    """The hardware ends such a kernel; a load of the same box is right (`CASES`)."""
    at = [0, 0, 0]
    at[axis] = -4
    (fault, *_) = support.execute(beginning_at(tmp_path, STORE, *at), elements(3)).faults
    assert fault.kind == "invalid access"
    assert f"at a negative coordinate (-4 in dimension {axis})" in fault.message


@needs_nvrtc
@pytest.mark.parametrize(("way", "along"), [(LOAD, -1), (LOAD, 2), (STORE, 1), (STORE, 5)])
def test_boxes_begin_at_multiples_of_16_bytes(tmp_path: Path, way: int, along: int) -> None:
    (fault, *_) = support.execute(beginning_at(tmp_path, way, along), elements(3)).faults
    assert fault.kind == "invalid access"
    assert f"begins {4 * along} bytes along a row of its array" in fault.message


@live
@pytest.mark.parametrize(("rank", "step", "way", "pointer"), CASES)
def test_on_the_gpu(tmp_path, session, rank, step, way, pointer) -> None:
    checked(session, boxes(tmp_path, rank, step, way, pointer), elements(rank))


@live
def test_timed_by_its_address_on_the_gpu(tmp_path: Path, session: Session) -> None:
    from tilewave.gpu.timing import time_job

    work = support.job(boxes(tmp_path, 3, 1, LOAD, True), elements(3))
    timed = time_job(session, replace(work, stage="time"))
    assert timed.status == "ok", timed.reason
