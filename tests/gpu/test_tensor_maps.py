"""Clusters and tensor maps: from front matter to the launch, without a GPU."""

import ctypes
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import executing_support as support
import samples
from samples import BODY, FRONT, HERE, ROOT, config, needs_nvrtc, table, write_kernel
from tilewave.basics.validation import of_document
from tilewave.compiling import headers, nvrtc
from tilewave.gpu import launch, tensor_maps
from tilewave.gpu.device import CudaError
from tilewave.kernel import includes, result
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.job import Job
from tilewave.kernel.launches import LaunchPlan, MapPlan
from tilewave.pipeline import project
from tilewave.records import keys
from tilewave.theory.dtypes import SIZES

CASES = table("tensor_maps")

KERNEL = ROOT / "tests" / "tma" / "tiles_by_tma.cu"
SHAPE = {"m": 24, "n": 80, "k": 48}
MAPPED = FRONT.replace("[a, b, c, m", "[map, b, c, m")


def test_sizes_follow_from_the_operation_and_the_layout(tmp_path: Path) -> None:
    plan = support.choose(KERNEL, {"CLUSTER": 2}).plan(SHAPE, HERE["device"])
    # 80 columns are five tiles, rounded up to whole clusters of two.
    assert (plan.grid, plan.cluster) == ((6, 2, 1), (2, 1, 1))
    plain = {"dtype": "f32", "box": [16, 16], "swizzle": 0}
    assert {tensor_map.name: tensor_map.document() for tensor_map in plan.tensor_maps} == {
        "map_a": {"of": "a", "sizes": [48, 24], "pitch": 192, "l2": 128, **plain},
        "map_b": {"of": "b", "sizes": [80, 48], "pitch": 320, "l2": 256, **plain},
    }
    assert plan.exceeded_limit(HERE["device"]) == ""
    assert support.choose(KERNEL).plan(SHAPE, HERE["device"]).cluster is None  # of one block
    # By columns the rows are contiguous.
    front = f"{MAPPED}layouts: {{a: col}}\ntensor_maps: {{map: {{of: a, box: [TILE, 8]}}}}\n"
    (tensor_map,) = support.choose(write_kernel(tmp_path, front=front)).plan(SHAPE, {}).tensor_maps
    assert (tensor_map.sizes, tensor_map.pitches, tensor_map.box) == ((24, 48), (96,), (16, 8))


def mapped(folder: Path, more: str, top: str = "") -> Path:
    """A product with a map of scratch or of an operand."""
    front = f"{MAPPED}buffers: {{part: {{dtype: f16, size: 4096}}}}\n".replace("map, b, ", "map, ")
    return write_kernel(folder, front=f"{front}{top}tensor_maps: {{map: {{{more}}}}}\n")


@pytest.mark.parametrize("more, sizes, strides", CASES["sizes and strides"])
def test_sizes_and_strides(tmp_path, more, sizes, strides) -> None:
    plan = support.choose(mapped(tmp_path, more)).plan(SHAPE, {})
    (tensor_map,) = plan.tensor_maps
    shape = [*map(list, (tensor_map.sizes, tensor_map.pitches, tensor_map.steps))]
    assert shape == [sizes, strides, [1] * len(sizes)]
    assert tensor_map.dtype == ("f16" if "part" in more else "f32")
    assert of_document(LaunchPlan, json.loads(json.dumps(plan, default=vars))) == plan


@pytest.mark.parametrize("more, sentence", CASES["what CUDA cannot launch"])
def test_what_cuda_cannot_launch(tmp_path: Path, more: str, sentence: str) -> None:
    path = mapped(tmp_path, f"of: {'part' if 'sizes' in more else 'a'}, {more}")
    problem = support.choose(path).plan(SHAPE, {}).exceeded_limit(HERE["device"])
    assert problem.startswith(sentence) and bool(problem) == bool(sentence)


def test_the_pitch_is_a_requirement() -> None:
    (right,), (wrong,) = (plan_jobs("check", {}, f"64x64x{k}") for k in (24, 21))
    assert isinstance(right, Job) and wrong.status == result.UNSUPPORTED
    assert wrong.reason.startswith("map_a: the stride from row to row is 84 bytes")


def plan_jobs(stage: str, macros: dict[str, Any], shape: str = "64x64x64") -> list[Any]:
    block = {"kernels": [KERNEL.stem], "macros": macros or "defaults", "shapes": [shape]}
    loaded = project.load(config(block, kernel_folders=[str(KERNEL.parent)]), "test.yaml")
    compilations = samples.compiled(*loaded.plan.variants)
    return list(samples.planned(stage, loaded, compilations, HERE).values())


def test_jobs_and_their_keys() -> None:
    """A job has the cluster and the maps, and they are part of its key."""
    (clustered,), (plain,) = (plan_jobs("execute", macros) for macros in ({"CLUSTER": 2}, {}))
    assert [jobs.launch.cluster for jobs in (clustered, plain)] == [(2, 1, 1), None]
    assert clustered.launch.tensor_maps[0].sizes == (64, 64)
    other = replace(clustered, launch=replace(clustered.launch, tensor_maps=()))
    assert len({plain.key, clustered.key, keys.key("c", other)}) == 3
    assert keys.key("c", clustered) == clustered.key


class Encoder:
    """A stand-in for cuTensorMapEncodeTiled that keeps the requests and writes a number into the map."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.calls: list[dict[str, Any]] = []

    def __call__(self, address_of_map: int, *given: Any) -> int:
        dtype, rank, address, sizes, pitches, box, steps, *chosen = given
        arrays = (sizes[:rank], pitches[: rank - 1], box[:rank], steps[:rank])
        request = {"aligned": address_of_map % 64 == 0, "address": address}
        request |= {"dtype": dtype, "chosen": chosen}
        self.calls.append(request | encoded(*map(list, arrays)))
        ctypes.c_uint64.from_address(address_of_map).value = len(self.calls)
        return self.code


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Encoder:
    pytest.importorskip("cuda.bindings.driver")
    fake = Encoder()
    function = tensor_maps.ENCODE(fake)
    monkeypatch.setattr(tensor_maps, "_encoder", lambda: function)
    return fake


def planned_map(dtype: str = "f16", name: str = "map", **more: Any) -> MapPlan:
    given = {"sizes": (72, 40), "box": (64, 32), "swizzle": 128, "l2": 256, **more}
    return MapPlan(name=name, of="a", dtype=dtype, **given)


def test_arguments_of_the_driver(encoder: Encoder) -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    tensor_maps.encode(planned_map(), 0x7000)
    (call,) = encoder.calls
    assert call.pop("chosen") == [
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ]
    dtype = driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16
    request = {"aligned": True, "dtype": dtype, "address": 0x7000}
    assert call == request | encoded([72, 40], [144], [64, 32], [1, 1])


def encoded(*given: list[int]) -> dict[str, list[int]]:
    return dict(zip(("sizes", "pitches", "box", "steps"), given, strict=True))


def test_fewest_and_most_dimensions(encoder: Encoder) -> None:
    more = {"sizes": (8, 2, 3, 4, 5), "box": (8, 2, 2, 2, 2), "element_strides": (1, 2, 1, 1, 4)}
    tensor_maps.encode(planned_map(**more, swizzle=0), 0x7000)
    tensor_maps.encode(planned_map(sizes=(64,), box=(64,)), 0x7000)
    whole = encoded([8, 2, 3, 4, 5], [16, 32, 96, 384], [8, 2, 2, 2, 2], [1, 2, 1, 1, 4])
    for call, expected in zip(encoder.calls, (whole, encoded([64], [], [64], [1]))):
        assert call.items() >= expected.items()


class Place:
    """A stand-in for the GPU's memory that keeps the data at its addresses."""

    def __init__(self) -> None:
        self.held: dict[int, bytes] = {}

    def new(self, name: str, nbytes: int, guarded: bool = True) -> Any:
        address = 256 * (len(self.held) + 1)
        self.held[address] = bytes(nbytes)

        def upload(data: Any) -> None:
            assert len(data.tobytes()) == nbytes
            self.held[address] = data.tobytes()

        return SimpleNamespace(pointer=address, upload=upload)


def test_a_map_for_each_buffer_by_value_or_address(encoder: Encoder) -> None:
    """The driver encodes one for each buffer, and a map that is passed by address is copied once."""
    place: Any = Place()
    maps = tensor_maps.Maps([planned_map(), planned_map(name="other")], place, {"other", "c"})
    first, again, second = (maps.of({"a": 0x1000 * number}) for number in (1, 1, 2))
    assert first.keys() == {"map", "other"}
    assert first["map"] is again["map"] and first["map"] is not second["map"]
    assert [call["address"] for call in encoder.calls] == [0x1000, 0x1000, 0x2000, 0x2000]
    copies = [maps.addresses({"a": 0x1000 * number}) for number in (1, 1, 2)]
    assert copies == [{"other": 256}, {"other": 256}, {"other": 512}]
    assert [data[0] for data in place.held.values()] == [2, 4]  # the encoder numbers its maps


@pytest.mark.parametrize("dtype", SIZES)
def test_every_dtype_has_a_map(dtype: str, encoder: Encoder) -> None:
    """The driver's type has the element's size, by the number in its name."""
    driver = pytest.importorskip("cuda.bindings.driver")
    tensor_maps.encode(planned_map(dtype), 0)
    name = driver.CUtensorMapDataType(encoder.calls[0]["dtype"]).name
    assert int("".join(sign for sign in name if sign.isdigit())) == 8 * SIZES[dtype]


def test_every_swizzle_and_promotion(encoder: Encoder) -> None:
    """The driver counts the choices in the order of their sizes."""
    for place, (swizzle, l2) in enumerate(zip((0, 32, 64, 128), (256, 128, 64, 0))):
        tensor_maps.encode(planned_map(swizzle=swizzle, l2=l2), 0)
        assert encoder.calls[-1]["chosen"][1:3] == [place, 3 - place]


def test_a_map_is_an_argument_by_value(encoder: Encoder) -> None:
    (planned,) = plan_jobs("check", {})
    pointers = {"a": 0x1000, "b": 0x2000, "c": 0x3000}
    maps = tensor_maps.Maps(planned.launch.tensor_maps).of(pointers)
    packed = launch.pack(launch.values(planned, pointers, maps, 1.0, 0.0), pointers, maps)
    addresses = (ctypes.c_void_p * 8).from_address(packed.address)
    assert addresses[0] % 64 == addresses[1] % 64 == 0
    values = [ctypes.c_uint64.from_address(addresses[index]).value for index in range(3)]
    assert values == [1, 2, 0x3000]  # the encoder numbers its maps
    with pytest.raises(CudaError, match="map_a"):
        launch.values(planned, pointers, {}, 1.0, 0.0)


def test_the_function_of_the_driver_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    encoder = Encoder()
    function = tensor_maps.ENCODE(encoder)
    address = ctypes.cast(function, ctypes.c_void_p).value
    addresses = {b"cuTensorMapEncodeTiled": address}

    def resolve(name: bytes, version: int, flags: int) -> tuple[Any, Any, Any]:
        return driver.CUresult.CUDA_SUCCESS, addresses[name] if version == 12000 else 0, None

    monkeypatch.setattr(driver, "cuGetProcAddress", resolve)
    tensor_maps._encoder.cache_clear()
    try:
        tensor_maps.encode(planned_map(), 0x7000)
        assert encoder.calls[0]["address"] == 0x7000
        addresses[b"cuTensorMapEncodeTiled"] = 0
        tensor_maps._encoder.cache_clear()
        with pytest.raises(CudaError, match="tensor maps need a driver of CUDA 12"):
            tensor_maps.encode(planned_map(), 0x7000)
    finally:
        tensor_maps._encoder.cache_clear()


def test_a_map_that_the_driver_refuses(encoder: Encoder) -> None:
    encoder.code = 1
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_VALUE") as error:
        tensor_maps.encode(planned_map(), 0)
    assert error.value.status == "failed to launch"


@needs_nvrtc
@pytest.mark.parametrize("toolkit", [True, False])
def test_cuda_h_with_and_without_a_toolkit(toolkit: bool, monkeypatch, tmp_path: Path) -> None:
    """A map's type is as the PTX ISA has it: 128 bytes, 64-byte aligned."""
    if not toolkit:
        monkeypatch.setattr(headers, "folders", lambda: ())
    check = 'static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) == 64, "map");\n'
    plain = write_kernel(tmp_path, body=f"#include <cuda.h>\n{check}{BODY}")
    defines = {"REAL": "f64", "CLUSTER": 2}
    for path, macros in ((KERNEL, defines), (KERNEL, {"TILE": 32}), (plain, {})):
        kernel = load_kernel(path)
        done = nvrtc.compile_kernel(kernel, "sm_90", support.choose(path, macros).names)
        assert done.cubin, done.message
        assert "cuda.h" in headers.toolkit(kernel.text, kernel.headers).texts


def test_a_cuda_h_of_the_kernel_has_priority(tmp_path: Path) -> None:
    (tmp_path / "cuda.h").write_text("// mine\n")
    text = "#include <cuda.h>\n"
    kernel_headers = includes.kernel_headers(text, tmp_path)
    assert kernel_headers == {"cuda.h": "// mine\n"}
    assert headers.toolkit(text, kernel_headers).texts == {}
    assert includes.kernel_headers(text, tmp_path / "other") == {}
