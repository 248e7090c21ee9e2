"""Arguments in the widths of the compiled kernel, and structs with the layout of C++."""

import ctypes
import json
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fake_machine import Machine
from samples import a_job, kernel_parts, needs_nvrtc, table, write_kernel
from tilewave.__main__ import main
from tilewave.compiling import nvrtc
from tilewave.execution.buffers import packed
from tilewave.gpu import launch
from tilewave.gpu.device import CudaError
from tilewave.kernel import arguments
from tilewave.kernel.arguments import StructLayout
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.launches import Typed
from tilewave.kernel.variants import Variant, choices

NAMES = ("a", "map", "m", "alpha", "beta")
HALVES = {"a": "f16", "c": "f16", "accumulate": "f32"}
PLAIN = (8, 128, 4, 4, 4)

FRONT, BODY = kernel_parts("widths")


def job(dtypes=None, names=NAMES, **shape):
    return a_job(arguments=names, dtypes=dtypes or HALVES, shape=shape or {"m": 70_000})


def numbers(sizes, dtypes=None, alpha=0.75, beta=-0.5, **shape):
    given = arguments.values(job(dtypes, **shape), {"a"}, {"map"}, alpha, beta, sizes)
    assert [name for name, _ in given] == list(NAMES) and given[0][1] is given[1][1] is None
    return [number for _, number in given[2:]]


def test_numbers_have_the_kernels_width():
    assert [value.dtype for value in numbers(None)] == ["int32", "float32", "float32"]
    values = numbers((8, 128, 8, 2, 8))
    assert [value.dtype for value in values] == ["int64", "float16", "float64"]
    assert values == [70_000, 0.75, -0.5]
    values = numbers((8, 128, 4, 8, 4), {"a": "i8", "c": "i32", "accumulate": "i32"}, 2.0, -1.0)
    assert [value.dtype for value in values] == ["int32", "int64", "int32"]
    assert values[1:] == [2, -1]
    doubles = dict.fromkeys(HALVES, "f64")
    assert [value.dtype for value in numbers(None, doubles)] == ["int32", "float64", "float64"]


def test_two_bytes_are_bf16_where_c_is():
    _, alpha, beta = numbers((8, 128, 4, 2, 2), HALVES | {"c": "bf16"})
    assert (int(alpha), int(beta)) == (0x3F40, 0xBF00)


def test_a_number_that_does_not_fit():
    assert numbers(PLAIN, m=(1 << 32) - 1)[0].tobytes() == b"\xff" * 4  # of an unsigned
    with pytest.raises(ValueError, match=r"argument m: 4294967296 does not fit"):
        numbers(PLAIN, m=1 << 32)
    assert numbers((8, 128, 8, 4, 4), m=1 << 32)[0] == 1 << 32


MISTAKES = [
    ((8, 128, 4, 4), ["takes 4 arguments (8, 128, 4, 4 bytes)", "5 (a, map, m, alpha, beta)"]),
    ((), ["takes 0 arguments,", "gives 5 (a, map, m, alpha, beta)"]),
    ((4, 128, 4, 4, 4), ["argument 1: the kernel takes 4 bytes", "a: a buffer's address, 8 bytes"]),
    ((8, 16, 4, 4, 4), ["argument 2: ", "16 bytes", "map: a tensor map, 8 or 128 bytes"]),
    ((8, 128, 12, 4, 4), ["argument 3: ", "m: a whole number, 1 or 2 or 4 or 8 bytes"]),
    ((8, 128, 4, 4, 16), ["argument 5: ", "beta: a number, 2 or 4 or 8 bytes"]),
]


@pytest.mark.parametrize(("sizes", "parts"), MISTAKES)
def test_wrong_sizes_are_reported_on_the_gpu_too(sizes, parts):
    pytest.importorskip("cuda.bindings.driver")
    with pytest.raises(CudaError) as live:
        launch.values(job(), {"a"}, {"map"}, 1.0, 0.0, sizes)
    assert live.value.status == "failed to launch"
    assert all(part in str(live.value) for part in parts)


def test_an_execution_says_the_same():
    the_job, buffers = a_job(arguments=("a", "m"), shape={"m": 3}), {"a": np.zeros(4, "f4")}
    assert packed(Machine(), the_job, buffers, 1.0, 0.0, (8, 8))[1].dtype == "int64"
    with pytest.raises(ValueError, match="the kernel takes 3 arguments"):
        packed(Machine(), the_job, buffers, 1.0, 0.0, (8, 4, 4))
    with pytest.raises(ValueError, match="argument 'b' is none of a, alpha, beta, m"):
        packed(Machine(), a_job(arguments=("b",), shape={"m": 3}), buffers, 1.0, 0.0)


@needs_nvrtc
@pytest.mark.parametrize(("parameters", "problem"), table("kernel")["parameters of a cubin"])
def test_sizes_come_from_the_cubin(parameters, problem, tmp_path: Path, capsys):
    body = BODY.replace("PARAMETERS", parameters)
    body = body.replace("float sum", "int k = k_.numbers[0]; float sum") if "k_" in body else body
    path = write_kernel(tmp_path, "mine", FRONT, body)
    main(["execute", "--budget", "0", str(path), "--shape", "33x40x17", "--json"])
    output = json.loads(capsys.readouterr().out)
    assert output["status"] == ("failed to launch" if problem else "ok")
    assert problem in output["reason"]
    assert output["verdict"] == ("not checked" if problem else "correct")


@pytest.fixture
def foreign(tmp_path):
    front, body = kernel_parts("stranger")
    return lambda old="", new="": write_kernel(tmp_path, "mine", front.replace(old, new), body)


def default(path: Path) -> Variant:
    return next(choices(load_kernel(path), "defaults", path, "macros"))


@needs_nvrtc
@pytest.mark.parametrize("parts", ["stranger", "structs"])
def test_leading_dimensions_numbers_null_and_structs_are_arguments(tmp_path, capsys, parts):
    path = write_kernel(tmp_path, "mine", *kernel_parts(parts))
    assert main(["execute", "--budget", "0", str(path), "--shape", "33x40x20"]) == 0
    assert "mine@33x40x20: correct" in capsys.readouterr().out


def test_expressions_become_numbers_in_the_job(foreign):
    chosen, shape = default(foreign()), {"m": 2, "n": 3, "k": 5}
    given = chosen.arguments(shape, {})
    assert given[:11] == tuple(chosen.kernel.front.arguments[:11])
    assert given[11:] == (10, 32, None, 1.0, 7, True)
    assert default(foreign("2 * SIDE", "SIDE / 32")).arguments(shape, {})[12] == 0.5
    of_device = default(foreign("2 * SIDE", "2 * sms"))
    assert of_device.unknown_device({}) == "sms"
    assert of_device.arguments(shape, {"sms": 132})[12] == 264


@needs_nvrtc
def test_a_live_kernel_knows_its_sizes(tmp_path: Path, monkeypatch):
    """The cubin is read beside the driver's module, without the driver."""
    pytest.importorskip("cuda.bindings.driver")
    parameters = "size_t m, int n, int k, __half alpha, float beta"
    path = write_kernel(tmp_path, "mine", FRONT, BODY.replace("PARAMETERS", parameters))
    compiled = nvrtc.compile_kernel(load_kernel(path), "sm_90", {})
    (tmp_path / "mine.cubin").write_bytes(compiled.cubin)
    launched = []
    stand_ins = {
        "Module": lambda image: SimpleNamespace(image=image, function=lambda entry: entry),
        "allow_shared": lambda function, size: None,
        "configuration": lambda *given: "a launch",
        "handle": lambda function: function,
        "enqueue": lambda *given: launched.append(given),
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(launch, name, stand_in)
    shape, dtypes = {"m": 3, "n": 5, "k": 7}, dict.fromkeys(("a", "b", "c", "accumulate"), "f32")
    about = {"arguments": Machine.names, "shape": shape, "dtypes": dtypes}
    plain = a_job(entry="mine", cubin=str(tmp_path / "mine.cubin"), **about)
    kernel = launch.NvrtcKernel(None, plain)
    # Another set of buffers and another alpha: the first launch keeps its own.
    for first, alpha in ((1, 0.75), (11, 0.5), (21, 0.5)):
        kernel.prepare({"a": first, "b": 2, "c": 3}, alpha, -0.5)()
    assert {function for _, function, _ in launched} == {"mine"}
    pointers = [(ctypes.c_void_p * 8).from_address(packed.address) for *_, packed in launched]
    assert ctypes.c_int64.from_address(pointers[0][3]).value == 3
    values = [ctypes.c_uint64.from_address(addresses[0]).value for addresses in pointers]
    assert values == [1, 11, 21]
    alphas = [ctypes.string_at(addresses[6], 2) for addresses in pointers]
    assert alphas == [np.float16(alpha).tobytes() for alpha in (0.75, 0.5, 0.5)]
    short = launch.NvrtcKernel(None, replace(plain, arguments=Machine.names[:7]))
    with pytest.raises(CudaError, match="the kernel takes 8 arguments"):
        short.prepare({"a": 1, "b": 2, "c": 3})


SIZES = {"m": 33, "n": 40, "k": 17}
DTYPES = dict.fromkeys(("a", "b", "c", "accumulate"), "f32")


def a_struct(members):
    the_job = a_job(arguments=(members,), shape=SIZES, dtypes=DTYPES)
    (layout,) = arguments.values(the_job, {"a", "b"}, {"map"}, 0.75, -0.5)
    assert isinstance(layout, StructLayout)
    return layout


def test_members_lie_where_numpy_puts_those_of_c():
    kinds = {f"{kind}{8 * size}": f"{kind}{size}" for kind in "if" for size in (2, 4, 8)}
    kinds["i8"] = "i1"
    draw = random.Random(0)

    def drawn(depth: int = 0):
        members, fields = [], []
        for number in range(draw.randint(1, 5)):
            if depth < 2 and draw.random() < 0.3:
                member, kind = drawn(depth + 1)
            else:
                name = draw.choice([*kinds, "a", "m"])
                member = Typed(name, number) if name in kinds else name
                kind = {"a": "u8", "m": "i4"}.get(name) or kinds[name]
            members.append(member)
            fields.append((f"field{number}", kind))
        return tuple(members), np.dtype(fields, align=True)

    def places(kind, start=0):
        for name in kind.names:
            inner, at = kind.fields[name][:2]
            yield from places(inner, start + at) if inner.names else [start + at]

    for _ in range(200):
        members, kind = drawn()
        layout = a_struct(members)
        assert layout.size == kind.itemsize
        assert [at for at, _ in layout.members] == list(places(kind))


def test_a_tensor_map_is_aligned_and_an_empty_struct_has_a_byte():
    assert a_struct(()) == StructLayout(1, ())
    assert a_struct(("map", ())) == StructLayout(192, ((0, ("map", None)),))
    assert a_struct(("m", "map")).size == 192
    # cuda.h of CUDA 13 aligns maps to 128 bytes: the compiled kernel's size decides.
    a_pair = a_job(arguments=(("m", "map"),), shape=SIZES, dtypes=DTYPES)
    for size, start in ((192, 64), (256, 128)):
        (layout,) = arguments.values(a_pair, {"a", "b"}, {"map"}, 1.0, 0.0, [size])
        assert (layout.size, layout.members[1][0]) == (size, start)
    with pytest.raises(ValueError, match="a struct, 192 bytes"):
        arguments.values(a_pair, {"a", "b"}, {"map"}, 1.0, 0.0, [200])


def test_a_number_has_its_type():
    layout = a_struct((Typed("i64", "m"), Typed("f16", "alpha"), Typed("f64", 3), "beta"))
    typed = [(value.dtype, value) for _, (_, value) in layout.members]
    assert typed == [("int64", 33), ("float16", 0.75), ("float64", 3.0), ("float32", -0.5)]


@pytest.mark.parametrize(
    ("members", "size", "message"),
    [
        ((Typed("i8", 300),), None, "argument 300: 300 does not fit into the 1 bytes"),
        ((Typed("i64", 1.5),), None, r"argument \{i64: 1.5\} is 1.5, no whole number"),
        ((Typed("i64", "a"),), None, r"argument 1: \{i64: a\} is no number"),
        (("m", "n", "k"), 16, r"takes 16 bytes, and front matter gives \[m, n, k\]: a struct, 12"),
        ("m", 12, "takes 12 bytes, and front matter gives m: a whole number"),
    ],
)
def test_a_struct_that_is_not_the_kernels(members, size, message):
    job = a_job(arguments=(members,), shape=SIZES, dtypes=DTYPES)
    with pytest.raises(ValueError, match=message):
        arguments.values(job, {"a", "b"}, (), 1.0, 0.0, size and [size])


def test_a_live_launch_gets_a_struct():
    pytest.importorskip("cuda.bindings.driver")
    job = a_job(arguments=(("m", "a", ("map", ())), "n"), shape=SIZES, dtypes=DTYPES)
    given = (ctypes.c_uint64 * 16)(7)
    values = launch.values(job, {"a"}, {"map"}, 1.0, 0.0, [256, 4])
    packed_arguments = launch.pack(values, {"a": 0x1000}, {"map": given})
    places = (ctypes.c_void_p * 2).from_address(packed_arguments.address)
    data = np.frombuffer(ctypes.string_at(places[0], 256), np.uint64)
    assert [data[0], data[1], data[8], data[9:].any()] == [33, 0x1000, 7, False]
