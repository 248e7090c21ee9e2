"""Arguments that are structs by value: laid out as C++ lays them out, on the GPU and executed alike."""

import ctypes
import json
import random
from pathlib import Path

import numpy as np
import pytest

from samples import a_job, needs_nvrtc, write_kernel
from tilewave.__main__ import main
from tilewave.basics.errors import UserError
from tilewave.gpu import launch
from tilewave.kernel import arguments
from tilewave.kernel.arguments import StructLayout
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.job import Job
from tilewave.kernel.launches import Typed
from tilewave.kernel.trial import try_out
from tilewave.kernel.variants import choices

SHAPE = {"m": 33, "n": 40, "k": 17}
DTYPES = dict.fromkeys(("a", "b", "c", "accumulate"), "f32")

FRONT = """\
title: A product whose parameters are structs
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {SIDE: [16]}
block: [SIDE, SIDE]
grid: ["ceil(n / SIDE)", "ceil(m / SIDE)"]
arguments: [[[m, n], {i64: k}], [], [c, [a, b], {f64: alpha}, beta], SIDE]
"""
BODY = """\
struct Sizes { struct { int m, n; } c; long long k; };
struct Nothing {};
struct Product { float* c; struct { const float *a, *b; } of; double alpha; float beta; };
extern "C" __global__ void NAME(Sizes size, Nothing, const __grid_constant__ Product of, int side)
{
    const int x = blockIdx.x * side + threadIdx.x, y = blockIdx.y * side + threadIdx.y;
    if (x >= size.c.n || y >= size.c.m) return;
    float sum = 0;
    for (int i = 0; i < size.k; ++i) sum += of.of.a[y * size.k + i] * of.of.b[i * size.c.n + x];
    float* c = of.c + y * size.c.n + x;
    *c = float(of.alpha) * sum + (of.beta == 0 ? 0 : of.beta * *c);
}
"""


def a_struct(members):
    made = a_job(arguments=(members,), shape=SHAPE, dtypes=DTYPES)
    (found,) = arguments.values(made, {"a", "b"}, {"map"}, 0.75, -0.5)
    assert isinstance(found, StructLayout)
    return found


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
        found = a_struct(members)
        assert found.size == kind.itemsize
        assert [at for at, _ in found.members] == list(places(kind))


def test_a_tensor_map_is_aligned_and_an_empty_struct_has_a_byte():
    assert a_struct(()) == StructLayout(1, ())
    assert a_struct(("map", ())) == StructLayout(192, ((0, ("map", None)),))
    assert a_struct(("m", "map")).size == 192


def test_a_number_has_its_type():
    made = a_struct((Typed("i64", "m"), Typed("f16", "alpha"), Typed("f64", 3), "beta"))
    found = [(value.dtype, value) for _, (_, value) in made.members]
    assert found == [("int64", 33), ("float16", 0.75), ("float64", 3.0), ("float32", -0.5)]


@pytest.mark.parametrize(
    ("members", "size", "told"),
    [
        ((Typed("i8", 300),), None, "argument 300: 300 does not fit into the 1 bytes"),
        ((Typed("i64", 1.5),), None, r"argument \{i64: 1.5\} is 1.5, no whole number"),
        ((Typed("i64", "a"),), None, r"argument 1: \{i64: a\} is no number"),
        (("m", "n", "k"), 16, r"takes 16 bytes, and front matter gives \[m, n, k\]: a struct, 12"),
        ("m", 12, "takes 12 bytes, and front matter gives m: a whole number"),
    ],
)
def test_a_struct_that_is_not_the_kernels(members, size, told):
    job = a_job(arguments=(members,), shape=SHAPE, dtypes=DTYPES)
    with pytest.raises(ValueError, match=told):
        arguments.values(job, {"a", "b"}, (), 1.0, 0.0, size and [size])


def test_a_live_launch_gets_the_same_bytes():
    pytest.importorskip("cuda.bindings.driver")
    job = a_job(arguments=(("m", "a", ("map", ())), "n"), shape=SHAPE, dtypes=DTYPES)
    given = (ctypes.c_uint64 * 16)(7)
    values = launch.values(job, {"a"}, {"map"}, 1.0, 0.0, [256, 4])
    made = launch.pack(values, {"a": 0x1000}, {"map": given})
    places = (ctypes.c_void_p * 2).from_address(made.address)
    data = np.frombuffer(ctypes.string_at(places[0], 256), np.uint64)
    assert [data[0], data[1], data[8], data[9:].any()] == [33, 0x1000, 7, False]


def test_a_job_comes_back_from_json(tmp_path: Path):
    job = a_job(arguments=(("m", (), Typed("i64", "k")), "a"), shape=SHAPE)
    assert Job.of_document(json.loads(json.dumps(job, default=vars))) == job


@needs_nvrtc
def test_a_kernel_of_structs_is_executed(tmp_path: Path, capsys):
    path = write_kernel(tmp_path, "mine", FRONT, BODY)
    assert main(["execute", str(path), "--shape", "33x40x17"]) == 0
    assert "mine@33x40x17: correct" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[m, n]", "[m, nn]", "arguments: found 'nn' (did you mean 'n'?)"),
        ("{i64: k}", "{i65: k}", "or {TYPE: VALUE} of i8, i16"),
        ("{i64: k}", "{i64: [k]}", "or {TYPE: VALUE}"),
        ("{f64: alpha}", "{f64: SIDE / none}", "arguments.2: found 'none'"),
        ("beta], SIDE]", "beta], {i64: SIDE}]", "or {TYPE: VALUE}"),
    ],
)
def test_a_member_that_is_nothing(tmp_path: Path, old, new, told):
    assert old in FRONT
    with pytest.raises(UserError) as error:
        kernel = load_kernel(write_kernel(tmp_path, "mine", FRONT.replace(old, new), BODY))
        try_out(next(choices(kernel, "defaults", kernel.path, "macros")))
    assert told in str(error.value)
