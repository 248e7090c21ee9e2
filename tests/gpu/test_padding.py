"""Operands with padding: strides in front matter, poisoned memory between the elements."""

import ctypes
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import executing_support as support
from live_gpu import checked, live
from samples import FRONT, ROOT, a_job, needs_nvrtc, write_kernel
from tilewave.basics.errors import UserError
from tilewave.gpu.operands import move
from tilewave.gpu.session import Session
from tilewave.kernel import operations
from tilewave.kernel.trial import try_out
from tilewave.records import keys

FOLDER = ROOT / "tests" / "padded"
LEADING, BATCHED = FOLDER / "gemm_leading.cu", FOLDER / "batched_strided.cu"
TMA = ROOT / "tests" / "tma" / "tiles_by_tma.cu"

RIGHT: list[tuple[Path, str, dict[str, Any]]] = [
    (LEADING, "37x21x19", {}),
    (LEADING, "37x21x19", {"ORDER": "col"}),
    (LEADING, "16x16x16", {"REAL": "f64", "SUM": "f64"}),
    (LEADING, "37x21x19", {"REAL": "i8", "SUM": "i32"}),
    (BATCHED, "3x20x17x9", {}),
]
WRONG: list[tuple[Path, str, dict[str, Any], str]] = [
    (LEADING, "37x21x19", {"FAULT": "reads"}, "777 of 777 elements are wrong"),
    (LEADING, "37x21x19", {"FAULT": "writes"}, "wrote 37 elements of C's padding, the first at element 21"),
    (LEADING, "37x21x19", {"FAULT": "writes", "ORDER": "col"}, "wrote 21 elements of C's padding"),
    (BATCHED, "3x20x17x9", {"SKIPS": 1}, "wrote 7 elements of C's padding, the first at element 340"),
]  # fmt: skip


@needs_nvrtc
@pytest.mark.parametrize(("path", "shape", "macros"), RIGHT)
def test_right_kernels(path: Path, shape: str, macros: dict[str, Any]) -> None:
    support.right(path, shape, macros)


@needs_nvrtc
@pytest.mark.parametrize(("path", "shape", "macros", "reason"), WRONG)
def test_padding_is_not_the_kernels(path, shape, macros, reason) -> None:
    done = support.execute(path, shape, macros)
    assert done.verdict == "wrong" and reason in done.reason


def padded_tma(folder: Path) -> Path:
    """The product by TMA at sizes whose rows are no multiples of 16 bytes: their padding is."""
    path = folder / TMA.name
    strides = 'strides: {lda: "ceil(k / 4) * 4", ldb: "ceil(n / 4) * 4"}\n'
    path.write_text(TMA.read_text().replace("tensor_maps:\n", f"{strides}tensor_maps:\n"))
    return path


@needs_nvrtc
def test_a_tensor_map_follows_the_leading_dimension(tmp_path: Path) -> None:
    path, device = padded_tma(tmp_path), support.device("sm_90")
    shape = {"m": 33, "n": 21, "k": 19}
    a, b = support.choose(path).plan(shape, device).tensor_maps
    assert (a.sizes, a.pitches, b.sizes, b.pitches) == ((19, 33), (80,), (21, 19), (96,))
    assert support.choose(TMA).plan(shape, device).exceeded_limit(device)
    support.right(path, "33x21x19")


@live
@pytest.mark.parametrize("path,shape,macros,reason", [*((*case, "") for case in RIGHT), *WRONG])
def test_on_the_gpu(session, path, shape, macros, reason) -> None:
    checked(session, path, shape, macros, wrong=reason)


@live
def test_a_large_product_on_the_gpu(session: Session, tmp_path: Path) -> None:
    checked(session, LEADING, "1025x1023x511", {})
    checked(session, padded_tma(tmp_path), "1025x1023x511", {})


@live
def test_timed_beside_cublas_on_the_gpu(session: Session) -> None:
    from tilewave.gpu.timing import time_job

    work = replace(support.job(LEADING, "512x512x512"), stage="time", baseline=True)
    timed = time_job(session, work)
    assert timed.status == "ok", timed.reason
    assert {"duration_us", "baseline_us"} <= set(timed.samples)


@pytest.mark.parametrize("gathering", [True, False])
@pytest.mark.parametrize("batch", [1, 3])
def test_rows_are_copied_on_the_gpu(monkeypatch, gathering, batch) -> None:
    """A stand-in for the driver copies host memory."""
    driver = pytest.importorskip("cuda.bindings.driver")
    shape, strides = {"batch": batch, "m": 5, "n": 2, "k": 3}, {"lda": 4, "stride_a": 23}
    name = "batched_matmul" if batch > 1 else "matmul"
    work = a_job(operation=name, shape=shape, dtypes={"a": "f32"}, strides=strides)
    placed = operations.load(name).padded(work, "a")
    assert placed is not None
    values = np.arange(placed.elements, dtype=np.float32)
    memory = placed.put(values)
    dense, padded = values.copy(), memory.copy()
    (dense if gathering else padded).view(np.uint8).fill(0xFF)

    def copy(request: Any, stream: int) -> tuple[Any]:
        for row in range(request.Height):
            source = int(request.srcDevice) + row * request.srcPitch
            target = int(request.dstDevice) + row * request.dstPitch
            ctypes.memmove(target, source, request.WidthInBytes)
        return (driver.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(driver, "cuMemcpy2DAsync", copy)
    about: Any = {"gpu": SimpleNamespace(handle=0)}
    held = [SimpleNamespace(pointer=data.ctypes.data, **about) for data in (dense, padded)]
    move(work, "a", *held, gathering=gathering)
    assert np.array_equal(dense, values)
    assert np.array_equal(padded.view(np.uint32), memory.view(np.uint32))


def test_inputs_are_those_without_padding() -> None:
    matmul = operations.load("matmul")
    plain = a_job(shape={"m": 3, "n": 4, "k": 5}, dtypes=dict.fromkeys(("a", "b", "c"), "f32"))
    padded = replace(plain, strides={"lda": 8})
    given = matmul.inputs(padded)
    assert all(np.array_equal(data, given[name]) for name, data in matmul.inputs(plain).items())
    memory = matmul.in_memory(padded, "a", given["a"])
    assert matmul.stored(padded, "a") == (np.dtype(np.float32), 24) and memory.size == 24
    assert matmul.streamed(padded, "a") == matmul.streamed(plain, "a")
    assert matmul.stored(plain, "a")[1] == matmul.stored(padded, "c")[1] + 3 == 15
    assert keys.key("c", plain) != keys.key("c", padded)


def test_numbers_of_front_matter(tmp_path: Path) -> None:
    chosen = support.choose(BATCHED)
    try_out(chosen)
    shape = {"batch": 3, "m": 20, "n": 17, "k": 9}
    assert chosen.strides(shape) == {"lda": 10, "stride_a": 205, "ldb": 17, "stride_c": 347}
    assert chosen.arguments(shape, {})[:9] == ("a", 10, 205, "b", 17, 153, "c", 17, 347)
    plain = write_kernel(tmp_path, front=FRONT.replace("m, n, k", "lda, ldb, 'ldc * 2'"))
    assert support.choose(plain).strides(shape) == {}
    assert support.choose(plain).arguments(shape, {})[3:6] == (9, 17, 34)
    user_defined = plain.parent / "own.cu"
    user_defined.write_text(plain.read_text().replace("tile:", "let: {lda: 2 * k}\ntile:"))
    assert support.choose(user_defined).arguments(shape, {})[3] == 18


def test_padding_is_for_kernels_that_are_compiled(tmp_path: Path) -> None:
    front = "title: x\noperation: matmul\ndtypes: {a: f32, b: f32, c: f32, accumulate: f32}\n"
    path = tmp_path / "host.py"
    path.write_text(f'"""---\n{front}strides: {{lda: "k + 1"}}\n---"""\n')
    with pytest.raises(UserError, match="only a kernel that NVRTC compiles"):
        try_out(support.choose(path))
