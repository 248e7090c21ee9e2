"""Operations: work, references, tolerances and verdicts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import samples
from samples import ROOT, a_job, config
from tilewave.basics.errors import UserError
from tilewave.kernel import inputs, operations
from tilewave.kernel.job import Job, Probe, ProbeBuffer
from tilewave.kernel.operations import matmul, probe
from tilewave.kernel.tolerance import Judgement
from tilewave.pipeline import project, tables
from tilewave.pipeline.resolving import resolve
from tilewave.theory.dtypes import E4M3

F32 = {"a": "f32", "b": "f32", "c": "f32", "accumulate": "f32"}
HALVES = dict.fromkeys(("a", "b", "c", "accumulate"), "f16")
NAMES = ("matmul", "vector_add", "reverse", "probe")
MATMUL, VECTOR_ADD, REVERSE, PROBE = map(operations.load, NAMES)


def test_load_lists_what_exists() -> None:
    assert {"matmul", "vector_add", "reverse", "probe"} <= set(operations.names())
    with pytest.raises(UserError, match=r"kernels/x.cu: operation is 'matmull'.*'matmul'"):
        operations.load("matmull", Path("kernels/x.cu"))


def test_work_of_a_matrix_product() -> None:
    shape = {"m": 8192, "n": 128, "k": 8192}
    halves = {"a": "f16", "b": "f16", "c": "f16", "accumulate": "f32"}
    work = MATMUL.work(shape, halves)
    assert work.flops == 2 * 8192 * 128 * 8192
    assert work.flops / work.bytes == pytest.approx(124.1, abs=0.05)
    assert MATMUL.work(shape, halves, beta=1).bytes - work.bytes == 2 * 8192 * 128
    assert VECTOR_ADD.work({"n": 10}, F32) == (10, 120)
    assert REVERSE.work({"n": 10}, {"d": "i32"}) == (0, 80)


def chain(k: int, dtype: Any, step: int, truncate: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of k products, rounded (or cut off) to dtype every ``step``, and the exact sums."""
    a, b = np.random.default_rng(7).uniform(-1, 1, (2, k, 4000)).astype(np.float16).astype(float)
    total, exact = np.zeros(4000, dtype), np.zeros(4000)
    for j in range(0, k, step):
        part = (a[j : j + step] * b[j : j + step]).sum(axis=0)
        exact += part
        wide = total.astype(np.float64) + part
        total = wide.astype(dtype)
        if truncate:
            over = np.abs(total.astype(np.float64)) > np.abs(wide)
            total[over] = np.nextafter(total[over], dtype(0))
    return total.astype(np.float64), exact


def within(bound: Any, sums: np.ndarray, exact: np.ndarray, forgotten: np.ndarray) -> None:
    """Check that sums are within the bound, and that sums without a step everywhere are not."""
    error = np.abs(sums - exact)
    assert (error <= bound.absolute + bound.relative_out * np.abs(exact)).all()
    limit = bound.frobenius * np.linalg.norm(exact)
    assert np.linalg.norm(error) <= limit < np.linalg.norm(forgotten)


MIXED = {"a": "f16", "c": "f32", "accumulate": "f32"}


@pytest.mark.parametrize("k", [16, 1024])
@pytest.mark.parametrize(
    ("dtypes", "dtype", "step", "truncate", "tensor_cores"),
    [
        (F32, np.float32, 1, False, None),
        (HALVES, np.float16, 16, False, None),
        (HALVES, np.float16, 16, False, True),
        (HALVES, np.float16, 1, False, False),
        (MIXED, np.float32, 8, True, None),
        (MIXED, np.float32, 1, False, False),
    ],
)
def test_tolerance_of_simulated_sums(dtypes, dtype, step, truncate, tensor_cores, k) -> None:
    sums, exact = chain(k, dtype, step, truncate)
    forgotten = np.random.default_rng(3).normal(0, np.sqrt(16) / 3, exact.size)  # 16 products
    within(matmul.tolerance(dtypes, k, tensor_cores=tensor_cores), sums, exact, forgotten)


def exponents(numbers: np.ndarray, least: int) -> np.ndarray:
    """Return exponents as the tensor cores see them; that of a zero is below all others."""
    return np.where(numbers == 0, -10_000, np.maximum(np.frexp(numbers)[1] - 1, least))


def fp8_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return sums of products by the rule of `tilewave.execution.machine.fp8`, in f64 and by matrices."""
    total = np.zeros((len(a), b.shape[1]))
    for first in range(0, b.shape[0], 32):
        x = E4M3.numbers[a[:, first : first + 32]][:, None]
        y = E4M3.numbers[b[first : first + 32]].T[None]
        most = (exponents(x, -6) + exponents(y, -6)).max(axis=2)
        unit = np.ldexp(1.0, np.maximum(np.maximum(most, exponents(total, -126)), -900) - 13)
        terms = np.concatenate([x * y, total[..., None]], axis=2)
        total = np.trunc(terms / unit[..., None]).sum(axis=2) * unit
        least = np.ldexp(1.0, np.maximum(np.frexp(total)[1] - 1, -126) - 13)
        total = np.trunc(total / least) * least
    return total


@pytest.mark.parametrize("k", [32, 2048])
@pytest.mark.parametrize(("sum_", "chunk"), [("f22", 1 << 20), ("f32", matmul.PROMOTED)])
def test_tolerance_of_fp8(sum_: str, chunk: int, k: int) -> None:
    """The tolerance covers sums of the tensor cores, whole or in parts that are added in f32."""
    rows = 24
    a, b = (inputs.uniform(5, stream, rows * k, "e4m3") for stream in range(2))
    a, b = a.reshape(rows, k), b.reshape(k, rows)
    sums = np.zeros((rows, rows), np.float32)
    for first in range(0, k, chunk):
        part = slice(first, first + chunk)
        sums += fp8_sums(a[:, part], b[part]).astype(np.float32)
    exact = E4M3.numbers[a] @ E4M3.numbers[b]
    bound = matmul.tolerance({"a": "e4m3", "b": "e4m3", "c": "f32", "accumulate": sum_}, k)
    forgotten = E4M3.numbers[a[:, :32]] @ E4M3.numbers[b[:32]]  # one instruction's products
    within(bound, sums, exact, forgotten)


def test_fma_units_round_each_product() -> None:
    """FMA units round f16 sums at each k, so errors exceed the tolerance of tensor cores with k / 16 roundings."""
    sums, exact = chain(4096, np.float16, 1)
    fma, sixteen = (matmul.tolerance(HALVES, 4096, tensor_cores=way) for way in (False, True))
    assert sixteen.absolute < np.abs(sums - exact).max() <= fma.absolute
    assert matmul.tolerance(HALVES, 4096) == sixteen
    # Products that tensor cores cannot multiply are rounded the same way everywhere.
    assert matmul.tolerance(F32, 64, tensor_cores=True) == matmul.tolerance(F32, 64)


def test_tolerance_follows_alpha_dtypes_and_k() -> None:
    bound = matmul.tolerance(F32, 512)
    assert matmul.tolerance(F32, 512, alpha=2).absolute == pytest.approx(2 * bound.absolute)
    assert matmul.tolerance(F32, 1024).absolute > bound.absolute
    assert matmul.tolerance(dict.fromkeys(F32, "f64"), 512).absolute < 1e-7 * bound.absolute
    stored = matmul.tolerance({"a": "bf16", "c": "bf16", "accumulate": "f32"}, 512)
    assert stored.relative_out >= 2**-8
    assert not {"e4m3", "f22", "u8"} & {*MATMUL.allowed_dtypes("c", {"accumulate": "f32"})}
    with pytest.raises(KeyError):
        matmul.tolerance({"a": "f8", "c": "f8", "accumulate": "f8"}, 16)


def test_large_numbers_of_a_sum_have_many_bits_and_every_order_gives_the_same() -> None:
    job = a_job(operation="reduction", shape={"n": 129}, dtypes={"x": "f32", "total": "f32"})
    x = operations.load("reduction").of_kind(job, inputs.LARGE)["x"]
    assert np.cumsum(x)[-1] == np.cumsum(x[::-1])[-1] == np.sum(x, dtype=np.float64)
    assert np.any(x.view(np.uint32) & 0xFFFF) and np.abs(x).max() > 1e35


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("i32", -100, 100), ("u8", 0, 1), ("i64", -100, 100)]
)
def test_sums_of_whole_numbers(dtype: str, low: int, high: int) -> None:
    job = a_job(operation="reduction", shape={"n": 200}, dtypes={"x": dtype, "total": dtype})
    x = operations.load("reduction").inputs(job)["x"]
    assert (x.min(), x.max()) == pytest.approx((low, high), abs=2) and np.mean(x == 0) < 0.6


@pytest.mark.parametrize(("arguments", "target"), [(["d", "n"], "d"), (["a", "b", "n"], "b")])
@pytest.mark.parametrize("dtype", ["i32", "f32"])
def test_reverse(arguments: list[str], target: str, dtype: str) -> None:
    names = [name for name in arguments if name != "n"]
    dtypes = dict.fromkeys(names, dtype)
    job = a_job(operation="reverse", arguments=tuple(arguments), shape={"n": 8}, dtypes=dtypes)
    (source,) = REVERSE.inputs(job).values()
    assert [name for name, operand in REVERSE.arrays(job).items() if operand.written] == [target]
    assert REVERSE.given(job, names[0]) and REVERSE.given(job, target) == (len(names) == 1)
    assert REVERSE.judge(job, {target: source[::-1]}).verdict == "correct"
    judged = REVERSE.judge(job, {target: source})
    assert judged.verdict == "wrong" and f"; {target}[0] is " in judged.reason
    assert REVERSE.judge(job, {target: source[:4]}).reason == f"{target} has 4 elements, expected 8"


def probe_job(case: dict[str, Any], **buffers: dict[str, Any]) -> Job:
    probe_buffers = {name: ProbeBuffer(**buffer) for name, buffer in buffers.items()}
    return a_job(operation="probe", probe=Probe(probe_buffers, **case))


def test_probe_inputs_are_expressions_over_lanes() -> None:
    values = {"index": "lane // 2 + WIDTH", "active": "(lane == 15) + (lane == 16)"}
    values |= {"both": "(lane < 2) + (lane < 1)", "one": 1, "choice": "lane if lane < 4 else 0"}
    case = {"macros": {"WIDTH": 8}, "values": values, "scalars": {"steps": "4 * WIDTH"}}
    buffers = {name: {"dtype": "i32", "size": 32} for name in values}
    job = probe_job(case, **buffers, errors={"dtype": "i32", "size": "WIDTH", "expect": 0})
    given = PROBE.inputs(job)
    assert given["index"].dtype == np.int32 and given["index"].tolist()[:4] == [8, 8, 9, 9]
    assert given["active"].sum() == 2 and given["one"].tolist() == [1] * 32
    assert given["both"].tolist()[:3] == [2, 1, 0]
    assert given["choice"].tolist()[:6] == [0, 1, 2, 3, 0, 0]
    assert [name for name, operand in PROBE.arrays(job).items() if operand.written] == ["errors"]
    assert PROBE.stored(job, "errors") == (np.dtype(np.int32), 8)
    assert job.numbers["steps"] == 32


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("lane // 2 % 7", 1 << 20),
        ("(7 * lane + 3 * (lane // 2)) % 32", 1 << 20),
        ("(lane < 3000) + (lane < 5)", 1 << 14),
        ("1 if lane % 2 == 0 and lane else 0", 1 << 14),
    ],
)
def test_probe_buffers_of_many_elements_mean_the_same(text: str, size: int) -> None:
    """Large buffers have the same elements as small ones."""
    few, many = (
        PROBE.inputs(probe_job({"values": {"x": text}}, x={"dtype": "i32", "size": size}))["x"]
        for size in (64, size)
    )
    assert (many[:64] == few).all() and many.size == size
    for at in (3000, size - 1):
        assert many[at] == eval(text, {"lane": at})


def test_chase_visits_every_slot_once() -> None:
    table = probe.chase(32, 4096 + 5)
    seen, at = set(), 0
    for _ in range(128):
        assert at % 32 == 0 and at not in seen
        seen.add(at)
        at = int(table[at])
    assert at == 0 and len(seen) == 128
    assert (probe.chase(32, 4096, 1) == probe.chase(32, 4096, 1)).all()
    assert (probe.chase(32, 4096, 1) != probe.chase(32, 4096, 2)).any()
    assert probe.chase(4, 4).tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="chase"):
        probe.chase(64, 32)
    given = {"values": {"c": "chase(32)"}, "sizes": {"c": 64}}
    job = probe_job(given, c={"dtype": "i32", "size": 8})
    assert sorted(PROBE.inputs(job)["c"][[0, 32]].tolist()) == [0, 32]


def test_what_shipped_probes_expect_has_a_value_on_a_large_gpu() -> None:
    block = {"kernels": "all", "operation": "probe", "macros": "defaults"}
    loaded = project.load(config(block, kernel_folders=[str(ROOT / "kernels")]), "test.yaml")
    compiled = samples.compiled(*loaded.plan.variants)
    gpu = {"sms": 148, "l2_bytes": 126 << 20}
    gpu |= {"shared_per_sm": 233472, "shared_per_block_optin": 232448}
    checks = samples.planned("check", loaded, compiled, {"device": gpu, "arch": 90}).values()
    probes = [(check, check.probe) for check in checks if isinstance(check, Job) and check.probe]
    assert len(probes) > 50
    for job, its_probe in probes:
        few = replace(its_probe, sizes=dict.fromkeys(its_probe.buffers, 8))
        for name, buffer in its_probe.buffers.items():
            if buffer.expect is not None:
                assert probe._fill(replace(job, probe=few), name, buffer.expect).size == 8


def test_probe_verdicts() -> None:
    cycles = {"dtype": "f32", "size": 3, "report": {"metric": "latency", "unit": "cycle"}}
    errors = {"dtype": "i32", "size": 4, "expect": "lane * 0"}
    job = probe_job({}, errors=errors, cycles=cycles, scratch={"dtype": "i32", "size": 1})
    good = {"cycles": np.array([30, 10, 20], np.float32), "errors": np.zeros(4, np.int32)}
    good["scratch"] = np.array([-1], np.int32)
    figures = [{"metric": "latency", "value": 20.0, "unit": "cycle"}]
    assert PROBE.judge(job, good) == Judgement("correct", "", figures)
    for bad, said in (
        ({"errors": np.array([0, 0, -1, 0], np.int32)}, "errors[2] is -1, expected 0 (1 of 4"),
        ({"cycles": np.full(3, np.nan, np.float32)}, "cycles holds a value that is no number"),
    ):
        judged = PROBE.judge(job, good | bad)
        assert judged.verdict == "wrong" and judged.reason.startswith(said)
    only = probe_job({}, cycles=cycles)
    assert PROBE.judge(only, {"cycles": good["cycles"]}).verdict == "not checked"


def test_a_case_of_the_tables_knows_its_work_and_all_its_sizes() -> None:
    blocks = [
        {"operation": "batched_matmul", "kernels": ["batched_naive"], "shapes": ["3x4x5x6"]},
        {"operation": "copy", "kernels": ["copy"], "shapes": [64]},
        {"operation": "softmax", "kernels": ["softmax_online"], "shapes": ["7x32"]},
        {"operation": "probe", "kernels": ["latency"]},
    ]
    blocks = [{**block, "macros": "defaults"} for block in blocks]
    plan = project.load(config(*blocks), "config", checked=True).plan
    here = {"device": {"sms": 132, "arch": 90}, "arch": 90}
    resolved = [resolve(case, here) for case in plan.cases.values()]
    none: dict[str, Any] = {case.variant.id: {} for case in resolved}
    cases = tables.cases_table(resolved, none, "sm_90", {}).drop_duplicates("kernel")
    cases = cases.set_index("kernel")
    work = [3 * 2 * 4 * 5 * 6, 3 * 4 * (24 + 30 + 20)]
    assert cases.loc["batched_naive", ["flop", "byte"]].tolist() == work
    assert cases.loc["copy", ["flop", "byte"]].tolist() == [0, 2 * 4 * 64]
    assert cases.loc["softmax_online", ["flop", "byte"]].tolist() == [5 * 7 * 32, 2 * 4 * 7 * 32]
    assert cases.loc["latency", ["flop", "byte"]].isna().all()
    assert cases.loc["batched_naive", "sizes"] == '{"batch": 3, "m": 4, "n": 5, "k": 6}'
