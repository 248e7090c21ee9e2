"""Invented study data for the tests of the figures."""

import functools
import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from tilewave.pipeline.tables import RECORD_COLUMNS
from tilewave.plots import PlotModule, load, takeaway
from tilewave.plots.base import CASE_COLUMNS, INSTRUCTION_COLUMNS, StudyData
from tilewave.plots.style import Style, apply, caption
from tilewave.records.counters.catalogue import PIPE, STALLED

ENVIRONMENT = "h200-test"
SMS = 132
LD = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
ST = "l1tex__t_{}_pipe_lsu_mem_global_op_st.sum"
SECTORS = "lts__t_sectors_srcunit_tex.sum"
ENVIRONMENTS = {
    ENVIRONMENT: {
        "id": ENVIRONMENT, "gpu": "NVIDIA H200", "compute_capability": "9.0", "sms": SMS,
        "driver": "580.159.03", "ncu": "2025.3.1", "nvrtc": "13.0.88", "commit": "0123456789abcdef",
        "cpu": "Synthetic CPU 9000 64-Core Processor", "recorded": True,
    },
    "here": {"id": "here", "gpu": "NVIDIA L4", "sms": 58, "driver": "575.1", "recorded": False},
}  # fmt: skip


class Builder:
    """A builder of a StudyData from cases and records."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cases: list[dict[str, Any]] = []
        self.records: list[dict[str, Any]] = []
        self.instructions: list[dict[str, Any]] = []

    def case(
        self, variant: str, kernel: str, dtype: str, shape: tuple[int, int, int] | None = None,
        probe: str = "", operation: str = "matmul", **more: Any,
    ) -> str:  # fmt: skip
        name = probe or "x".join(str(s) for s in shape or ())
        m, n, k = shape or (None, None, None)
        row = dict.fromkeys(CASE_COLUMNS) | {
            "case": f"{variant}@{name}", "kernel": kernel, "variant": variant, "macros": "{}",
            "operation": operation, "dtype": dtype, "m": m, "n": n, "k": k, "probe_case": probe,
            "block_threads": 256.0, "registers": 128.0, "shared_bytes": 49152.0,
            "flop": 2.0 * math.prod(shape) if shape and operation == "matmul" else None,
        }  # fmt: skip
        row.update(more)
        self.cases.append(row)
        return str(row["case"])

    def add(
        self, case: str, stage: str, figures: dict[str, float] | None = None, status: str = "ok",
        reason: str = "", verdict: str | None = None, environment: str = ENVIRONMENT,
        source: str = "",
    ) -> None:  # fmt: skip
        about = next(c for c in self.cases if c["case"] == case)
        recorded = ENVIRONMENTS[environment]["recorded"]
        live = source or "events"
        source = f"recorded:{ENVIRONMENTS[environment]['gpu']}" if recorded else live
        for metric, value in (figures or {"": math.nan}).items():
            row = {c: about.get(c) for c in RECORD_COLUMNS if c in about}
            row |= {
                "stage": stage, "metric": metric, "value": value, "unit": "", "source": source,
                "status": status, "reason": reason, "verdict": verdict, "key": "k",
                "environment": environment,
            }  # fmt: skip
            self.records.append(row)

    def check(self, case: str, verdict: str = "correct", **figures: float) -> None:
        """Add a check with that verdict; by default its error is 0."""
        self.add(case, "check", figures or {"max_error": 0.0}, verdict=verdict)

    def fail(self, case: str, status: str, reason: str, stage: str = "check") -> None:
        self.add(case, stage, status=status, reason=reason)

    def probe(self, variant: str, kernel: str, dtype: str, name: str, **more: Any) -> str:
        return self.case(variant, kernel, dtype, probe=name, operation="probe", **more)

    def instruction(
        self, case: str, opcode: str, counted: float, ideal: float, stage: str = "counters",
        source: str = "recorded:NVIDIA H200", environment: str = ENVIRONMENT,
    ) -> None:  # fmt: skip
        before = sum((row["case"], row["stage"]) == (case, stage) for row in self.instructions)
        row = {
            "case": case, "key": "k", "environment": environment, "source": source,
            "stage": stage, "address": 16 * before, "opcode": opcode,
            "wavefronts_shared": counted, "wavefronts_shared_ideal": ideal,
            "wavefronts_shared_excess": counted - ideal, "executed": 1.0,
        }  # fmt: skip
        self.instructions.append(dict.fromkeys(INSTRUCTION_COLUMNS) | row)

    def study(self, **options: Any) -> StudyData:
        def frame(rows: list[dict[str, Any]], columns: list[str]) -> pd.DataFrame:
            return pd.DataFrame(rows, columns=columns)

        return StudyData(
            name=self.name, title=self.name, question=f"What does {self.name} show?", options=options,
            cases=frame(self.cases, [*CASE_COLUMNS, "provider", "follows"]), records=frame(self.records, RECORD_COLUMNS),
            instructions=frame(self.instructions, [*INSTRUCTION_COLUMNS, "stage"]), environments=ENVIRONMENTS,
            target={"label": "NVIDIA H200", "live": False, "sms": SMS, "environment": ENVIRONMENT},
        )  # fmt: skip


def _timed(
    b: Builder, case: str, tflops: float, cublas: float, flops: float, verdict: str = "correct",
    **more: float,
) -> None:  # fmt: skip
    b.check(case, verdict, max_error=1e-3, tolerance=2e-3, relative_error=1e-4)
    share = 100 * tflops / cublas
    shares = {"": share, "_low": 0.996 * share, "_high": 1.009 * share}
    paired = {f"paired_share{end}": value for end, value in shares.items()}
    figures = {
        "duration": flops / tflops / 1e6, "tflops": tflops, "baseline_tflops": cublas,
        "baseline_duration": flops / cublas / 1e6, "percent_of_cublas": share,
        **({} if case.startswith("cublas") else paired),
        "duration_spread": 0.4, "empty_kernel": 1.9, **more,
    }  # fmt: skip
    b.add(case, "time", figures)


RUNGS = (
    ("matmul_naive", "matmul_naive", "f32", 6.2),
    ("matmul_tiled", "matmul_tiled", "f32", 9.1),
    ("matmul_tiled-tile32", "matmul_tiled", "f32", 8.7),
    ("matmul_two_outputs", "matmul_two_outputs", "f32", 11.0),
    ("matmul_register", "matmul_register", "f32", 16.8),
    ("matmul_double_buffered", "matmul_double_buffered", "f32", 36.3),
    ("cublas", "cublas", "f32", 51.2),
    ("matmul_naive-realf64", "matmul_naive", "f64", 1.9),
    ("matmul_tiled-realf64", "matmul_tiled", "f64", 4.0),
    ("matmul_tiled-realf64-loadscalar-storagedynamic", "matmul_tiled", "f64", 3.8),
    ("cublas-typef64", "cublas", "f64", 55.1),
    ("hgemm_wmma-accumulatef32", "hgemm_wmma", "f16_f32", 45.0),
    ("hgemm_wmma_staged-accumulatef32", "hgemm_wmma_staged", "f16_f32", 350.0),
    ("cublas-typef16_f32", "cublas", "f16_f32", 685.0),
    ("hgemm_wmma", "hgemm_wmma", "f16_f16", 52.0),
    ("hgemm_wmma_staged", "hgemm_wmma_staged", "f16_f16", 393.0),
    ("cublas-typef16_f16", "cublas", "f16_f16", 690.0),
)

FOLLOWS = {
    "matmul_naive": "matmul_cpu", "matmul_tiled": "matmul_naive", "matmul_two_outputs": "matmul_tiled",
    "matmul_register": "matmul_two_outputs", "matmul_double_buffered": "matmul_register",
    "hgemm_wmma": "matmul_tiled", "hgemm_wmma_staged": "hgemm_wmma", "hgemm_top": "hgemm_wmma_staged",
}  # fmt: skip
# A rung that is faster than cuBLAS at the large sizes, listed before the rung that it follows.
TOP = (("hgemm_top", "hgemm_top", "f16_f32", 720.0), ("cublas-typetf32", "cublas", "tf32", 377.0))

BY_CPU = (("matmul_cpu", "matmul_cpu", "f32", 0.004), ("matmul_blas", "matmul_blas", "f32", 0.9))
LECTURE = {
    "rows": {"CPU, triple loop, one core": "matmul_cpu", "GPU, naive": "matmul_naive", "GPU, tiled": "matmul_tiled"},
    "sizes": (64, 512),
}  # fmt: skip


def ladder(sizes: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096, 8192)) -> StudyData:
    b = Builder("ladder")
    best = {dtype: speed for _, kernel, dtype, speed in RUNGS if kernel == "cublas"}
    for (variant, kernel, dtype, speed), n in itertools.product((*TOP, *RUNGS, *BY_CPU), sizes):
        by_cpu = kernel in ("matmul_cpu", "matmul_blas")
        about = {"follows": FOLLOWS.get(kernel), "provider": "cpu" if by_cpu else "nvrtc"}
        case = b.case(variant, kernel, dtype, (n, n, n), **about)
        flops = 2.0 * n**3
        if by_cpu:
            b.check(case)
            if kernel == "matmul_cpu" and n > 1024:
                b.fail(case, "not measured", "predicted 34 s, case_limit_s is 5", "time")
            else:
                b.add(case, "time", {"duration": flops / speed / 1e6, "tflops": speed})
            continue
        if variant == "hgemm_wmma":
            b.fail(case, "failed to launch", "out of resources: 300 registers")
            continue
        if variant == "matmul_naive-realf64" and n == 8192:
            b.check(case)
            b.fail(case, "not measured", "predicted cost 9 s exceeds 5 s", "time")
            continue
        wrong = variant == "matmul_two_outputs" or (variant == "matmul_register" and n == 512)
        verdict = "wrong" if wrong else "correct"
        reached = speed * n**3 / (n**3 + 900.0**3) if kernel != "cublas" else speed
        _timed(b, case, reached, best.get(dtype, speed), flops, verdict)
        if n == 4096:
            b.add(case, "counters", {"counted_flops": flops * (1.0 + 0.004 * (len(variant) % 3))})
    return b.study(lecture=LECTURE)


def wavefronts() -> StudyData:
    b = Builder("wavefronts")
    staged = (4194304.0, 4194304.0), (5898240.0, 1572864.0)
    bare = (12582912.0, 4194304.0), (1572864.0, 1572864.0)
    for variant, kernel, parts in (
        ("matmul_naive", "matmul_naive", {}),
        ("matmul_tiled", "matmul_tiled", {"LDS": (3.3e8, 3.3e8), "STS": (1.7e7, 1.7e7)}),
        ("matmul_double_buffered", "matmul_double_buffered",
         {"LDS.128": (1.3e8, 1.3e8), "STS": (2.1e7, 4.2e6)}),
        ("matmul_double_buffered-pad0", "matmul_double_buffered",
         {"LDS.128": (1.3e8, 1.3e8), "STS": (6.7e7, 4.2e6)}),
        ("hgemm_wmma_staged", "hgemm_wmma_staged",
         {"LDSM.16.M88.4": staged[0], "LDGSTS.E.BYPASS.128": staged[1], "STS.64": (3e5, 1.3e5),
          "ATOMS": (2e4, 2e4)}),
        ("hgemm_wmma_staged-skew0", "hgemm_wmma_staged",
         {"LDSM.16.M88.4": bare[0], "LDGSTS.E.BYPASS.128": bare[1], "STS.64": (3e5, 1.3e5)}),
        ("hgemm_wmma_staged-stages2", "hgemm_wmma_staged",
         {"LDSM.16.M88.4": staged[0], "LDGSTS.E.BYPASS.128": staged[1]}),
    ):  # fmt: skip
        case = b.case(variant, kernel, "f16_f16", (2048, 2048, 2048))
        b.check(case, "wrong" if "stages2" in variant else "correct", max_error=0.1)
        conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
        b.add(case, "counters", {conflicts.format("ld"): 0.0, conflicts.format("st"): 1.2e5})
        for opcode, (counted, ideal) in parts.items():
            b.instruction(case, opcode, counted, ideal)
    return b.study()


def shared_access() -> StudyData:
    b, expectations = Builder("shared_access"), {}
    patterns = {
        32: ("permuted", "broadcast", "conflict"),
        64: ("one_half", "two_halves", "pairs", "mixed", "halves_equal"),
        128: ("two_halves", "one_half", "pairs", "mixed", "conflict", "mixed_conflict"),
    }
    for op in ("load", "store"):
        for bits, names in patterns.items():
            for index, name in enumerate(names):
                macros = json.dumps({"OP": op, "WIDTH": bits // 8})
                variant = f"shared_access-op{op}-width{bits // 8}"
                probe_case = f"{op}_{bits}_{name}"
                case = b.probe(variant, "shared_access", "i32", probe_case, macros=macros)
                expected = float(1 + index % 4)
                if (op, bits, index) == ("store", 128, 5):
                    b.fail(case, "timed out", "killed after 20 s")
                    continue
                b.check(case)
                off = 1.0 if (op, bits, index) == ("store", 64, 2) else 0.0
                b.add(case, "counters", {"wavefronts": expected + off})
                expectations[case] = expected
    study = b.study()
    wavefronts_expected = study.cases["case"].map(expectations)
    return replace(study, cases=study.cases.assign(wavefronts_expected=wavefronts_expected))


def ablation() -> StudyData:
    b = Builder("ablation")
    for variant, speed, excess, hit in (
        ("hgemm_wmma_staged", 393.0, 4.3e6, 71.0),
        ("hgemm_wmma_staged-stages2", 340.0, 4.3e6, 70.2),
        ("hgemm_wmma_staged-stages4", 396.5, 4.3e6, 71.3),
        ("hgemm_wmma_staged-skew0", 250.0, 8.4e6, 71.0),
        ("hgemm_wmma_staged-copyca", 371.0, 1.2e6, 62.0),
        ("hgemm_wmma_staged-raster1", 389.0, 4.3e6, 55.5),
        ("hgemm_wmma_staged-accumulatef32", 350.0, 4.4e6, 71.0),
    ):
        case = b.case(variant, "hgemm_wmma_staged", "f16_f16", (4096, 4096, 4096))
        verdict = "wrong" if variant.endswith("stages4") else "correct"
        _timed(b, case, speed, 690.0, 2.0 * 4096**3, verdict)
        figures = {"wavefronts_shared_excess": excess}
        b.add(case, "counters", figures | {"lts__t_sector_hit_rate.pct": hit})
    return b.study()


def limits() -> StudyData:
    b = Builder("limits")
    for variant, dtype, speed, cycles, pipe, share in (
        ("matmul_balanced", "f32", 54.0, 40.3e6, "fma", 81.0),
        ("matmul_async", "f32", 50.0, 43.5e6, "fma", 75.0),
        ("cublas", "f32", 51.0, 42.6e6, "fma", 77.0),
        ("hgemm_wgmma_late", "bf16", 700.0, 2.2e6, "tensor", 96.0),
        ("cublas-typebf16_f32", "bf16", 710.0, 2.3e6, "tensor", 95.0),
    ):
        case = b.case(variant, variant.partition("-")[0], dtype, (8192, 8192, 8192))
        _timed(b, case, speed, 51.0 if dtype == "f32" else 710.0, 2.0 * 8192**3)
        pipes = {"tensor": 0.0, "fma": 2.0, "fp64": 0.0} | {pipe: share}
        states = {"selected": 1.0, "barrier": 2.0, "short_scoreboard": 0.5, "misc": 0.5}
        counted = {
            "sm__cycles_elapsed.max": cycles, "sm__cycles_active.max": 0.98 * cycles,
            "sm__cycles_active.avg": 0.95 * cycles,
            **{PIPE.format(name): value for name, value in pipes.items()},
            **{STALLED.format(name): value for name, value in states.items()},
        }  # fmt: skip
        b.add(case, "counters", counted)
    _bounded(b)
    return b.study()


def _bounded(b: Builder) -> None:
    """Add a tiled kernel of 4 instructions a step and tile, executed at two depths, and cuBLAS, counted by ncu."""
    issued, tile = "smsp__inst_executed.sum", {"tile_m": 128, "tile_n": 128}
    for k in (256, 512):
        case = b.case("matmul_tiled", "matmul_tiled", "f32", (256, 256, k), **tile, blocks=4)
        b.check(case, max_error=1e-3)
        b.add(case, "execute", {issued: 4.0 * (10 + 4 * k)})
        b.instruction(case, "LDS", 4.0 * 3 * k, 4.0 * k, stage="execute")
    for edge, cycles in ((2048, 80e3), (4096, 700e3)):
        for kernel in ("matmul_tiled", "cublas"):
            details = dict(tile, blocks=(edge // 128) ** 2) if kernel == "matmul_tiled" else {}
            case = b.case(kernel, kernel, "f32", (edge, edge, edge), **details)
            _timed(b, case, 50.0, 51.0, 2.0 * edge**3)
            blocks = (edge // 128) ** 2
            counted = {
                "sm__cycles_elapsed.max": cycles, issued: blocks * (10 + 4 * edge),
                "launch__grid_size": 132.0, "dram_bytes": 1e6, SECTORS: 1e6,
            }  # fmt: skip
            b.add(case, "counters", counted)
            b.instruction(case, "LDS", 3.0 * blocks * edge, 1.0)
    probe = b.probe("ceilings_memory-l2", "ceilings_memory", "", "l2_read")
    b.add(probe, "time", {"bandwidth": 10.0, "duration": 1.0}, verdict="correct")


def _quantization(name: str, sweeps: list[tuple[int, range]]) -> StudyData:
    b = Builder(name)
    tile_m, tile_n, k = 256, 128, 4096
    for m, n in ((m, n) for m, sizes in sweeps for n in sizes):
        tiles = -(-m // tile_m) * -(-n // tile_n)
        case = b.case(
            "hgemm_wmma_staged-raster1", "hgemm_wmma_staged", "f16_f16", (m, n, k),
            tile_m=tile_m, tile_n=tile_n, blocks=tiles, working_blocks=tiles,
            registers=220.0, shared_bytes=92160.0,
        )  # fmt: skip
        vendor = b.case("cublas-typef16_f16", "cublas", "f16_f16", (m, n, k))
        if n % 80 == 0:
            for failed in (case, vendor):
                b.fail(failed, "not measured", "no GPU")
            continue
        waves, flops, cublas = -(-tiles // SMS), 2.0 * m * n * k, 680.0 * n / (n + 60)
        duration = waves * 90.0 * (1.0 + 0.01 * math.sin(n))
        verdict = "wrong" if n % 176 == 0 else "correct"
        _timed(b, case, flops / duration / 1e6, cublas, flops, verdict)
        _timed(b, vendor, cublas, cublas, flops)
        rows, columns = ((128, 256), (128, 128), (64, 192), (256, 64))[n // 160 % 4]
        area = -(-m // rows) * rows * -(-n // columns) * columns
        chosen = {"cublas_tile_m": rows, "cublas_tile_n": columns}
        b.add(vendor, "counters", {**chosen, "counted_tensor_flops": 2.0 * area * k})
        counted = {
            "counted_tensor_flops": 2.0 * tiles * tile_m * tile_n * k,
            "sm__cycles_active.avg": 1.6e5 * tiles / SMS * 0.99,
            "sm__cycles_active.max": 1.6e5 * waves * (1.0 + 0.003 * math.cos(n)),
            "launch__waves_per_multiprocessor": tiles / SMS,
        }
        b.add(case, "counters", counted)
    return b.study()


def tile_quantization() -> StudyData:
    sizes = range(128, 265, 8)
    return _quantization("tile_quantization", [(27648, sizes), (256 * SMS, sizes)])


def wave_quantization() -> StudyData:
    sizes = range(1408, 2177, 16)
    return _quantization("wave_quantization", [(2304, sizes), (2816, sizes)])


def waves_cured() -> StudyData:
    """Return sweeps of three kernels, of which the last two lose less past a full wave."""
    study = wave_quantization()
    swept = study.cases["m"] == 2304
    cases = study.cases[swept]
    parts, records = [cases], [study.records[study.records["case"].isin(cases["case"])]]
    for name, most in (("even", 0.9), ("stream_k", 0.7)):
        renamed = {"case": lambda f: f["case"] + name, "variant": name, "kernel": name}  # noqa: B023
        compiled = parts[0]["kernel"] != "cublas"
        parts.append(parts[0][compiled].assign(**renamed))
        more = records[0][records[0]["kernel"] != "cublas"].assign(**renamed)
        least = more["value"].clip(lower=most * 300.0)
        records.append(more.assign(value=more["value"].mask(more["metric"] == "tflops", least)))
    return replace(study, name="waves_cured", cases=pd.concat(parts), records=pd.concat(records))


def tile_size() -> StudyData:
    b = Builder("tile_size")
    shapes = [
        (256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048),
        (4096, 4096, 4096), (8192, 8192, 8192), (512, 512, 16384), (128, 8192, 4096),
        (8192, 128, 4096),
    ]  # fmt: skip
    tiles = {
        (256, 128): (560, 1), (128, 256): (550, 1), (128, 128): (520, 2), (256, 64): (430, 2),
        (64, 256): (440, 2), (128, 64): (380, 3), (64, 128): (390, 3), (64, 64): (260, 4),
    }  # fmt: skip
    for (tile_m, tile_n), (peak, per_sm) in tiles.items():
        for m, n, k in shapes:
            blocks = -(-m // tile_m) * -(-n // tile_n)
            case = b.case(
                f"hgemm_mma-tile_m{tile_m}-tile_n{tile_n}", "hgemm_mma", "f16_f32", (m, n, k),
                tile_m=tile_m, tile_n=tile_n, blocks=blocks, working_blocks=blocks,
                registers=64.0, shared_bytes=220000.0 / per_sm - 1024,
            )  # fmt: skip
            if (tile_m, tile_n, m) == (64, 128, 512):
                b.fail(case, "not measured", "no GPU")
                continue
            rounds = blocks / SMS if blocks > SMS * per_sm else 0.3 + 0.7 * blocks / SMS / per_sm
            rounds = max(1.0, -(-rounds // 1)) if blocks > SMS else 1.0
            duration = rounds * 2.0 * tile_m * tile_n * k * SMS / peak / 1e6 + 3.0
            flops = 2.0 * m * n * k
            wrong = (tile_m, tile_n, m) == (128, 64, 1024)
            speed = flops / duration / 1e6
            _timed(b, case, speed, 700.0 * m / (m + 900), flops, "wrong" if wrong else "correct")
            loaded = 2.0 * k * (m * -(-n // tile_n) + n * -(-m // tile_m)) + 2.0 * m * n
            b.add(case, "counters", {SECTORS: 1.02 * loaded / 32})
    return b.study()


def split_k() -> StudyData:
    b = Builder("split_k")
    probe = b.probe("ceilings_memory-levell2_read", "ceilings_memory", "u32", "l2_read")
    b.add(probe, "check", verdict="correct")
    b.add(probe, "time", {"duration": 20.0, "bandwidth": 5.0})
    tile, chunk = 128, 64
    common = {"tile_m": tile, "tile_n": tile, "tile_k": chunk, "block_threads": 128.0,
              "registers": 255.0, "shared_bytes": 98304.0}  # fmt: skip
    for m, n, k in (
        (256, 256, 16384), (512, 512, 8192), (128, 128, 32768), (1408, 1664, 4096),
        (128 * 133, 128, 4096), (1408, 1536, 4096), (1408, 3200, 8192),
    ):  # fmt: skip
        tiles, flops = (-(-m // tile)) * (-(-n // tile)), 2.0 * m * n * k
        shape, chunks = (m, n, k), -(-k // chunk)

        def add(
            kernel: str, ending: str, blocks: int, longest: int, parts: int, tiles: int = tiles,
            shape: tuple[int, int, int] = shape, flops: float = flops, **more: Any,
        ) -> None:  # fmt: skip
            about = {"blocks": blocks, "working_blocks": blocks, **common, **more}
            case = b.case(f"{kernel}-{ending}", kernel, "f16_f32", shape, **about)
            alone, full = -(-blocks // SMS), -(-blocks // (2 * SMS))
            duration = (alone + full) * longest * 0.45 + 4.0 + parts * 0.02
            wrong = kernel == "hgemm_stream_k" and shape[2] == 32768
            _timed(b, case, flops / duration / 1e6, 600.0, flops, "wrong" if wrong else "correct")
            moved = 65536.0 * max(0, 2 * parts - tiles)
            counted = {SECTORS: 1e7 + 1.03 * moved / 32, "dram_bytes": 5e7 + 0.2 * moved}
            b.add(case, "counters", counted)

        add("hgemm_mma", "tile_m128-tile_n128", tiles, chunks, 0)
        for splits in (2, 4, 8, 16):
            blocks, macros = tiles * splits, json.dumps({"SPLITS": splits})
            longest = -(-chunks // splits)
            add("hgemm_split_k", f"splits{splits}", blocks, longest, blocks, macros=macros)
        add("hgemm_stream_k", "tile_m128", 2 * SMS, -(-tiles * chunks // (2 * SMS)), 2 * SMS)
    return b.study(aim=1.3)


def correctness() -> StudyData:
    b = Builder("correctness")
    shapes = [
        (1, 1, 1), (16, 16, 16), (128, 128, 128), (130, 130, 130), (256, 128, 64), (129, 65, 33),
        (8, 4096, 16), (512, 512, 512), (1000, 1000, 1000), (264, 136, 72),
    ]  # fmt: skip
    for variant, kernel, dtype, _ in RUNGS:
        for m, n, k in shapes:
            case = b.case(variant, kernel, dtype, (m, n, k))
            if "hgemm" in kernel and n % 8:
                b.fail(case, "unsupported", f"n = {n} is not a multiple of 8")
            elif variant == "matmul_two_outputs" and n == 130:
                b.check(case, "wrong", max_error=3.0)
            elif variant == "matmul_register" and n == 65:
                b.fail(case, "invalid access", "illegal address in matmul_register")
            elif variant == "matmul_naive" and n == 1000:
                b.fail(case, "stale", "the recorded key does not match")
            else:
                b.check(case, max_error=1e-4, tolerance=1e-3)
    for n in (1, 1000, 1 << 20):
        about = {"operation": "vector_add", "case": f"vector_add@{n}", "n": n}
        b.check(b.case("vector_add", "vector_add", "f32", **about))
    for name in ("one_warps_all", "one_lanes_all", "two_warps_all", "two_lanes_all"):
        variant = f"barrier_divergent-fragment{name[:3]}"
        case = b.probe(variant, "barrier_divergent", "i32", name)
        b.check(case, "not checked" if "two" in name else "correct")
    return b.study()


def alignment() -> StudyData:
    b = Builder("alignment")
    size, below = 4096, (4095, 4094, 4092, 4088, 4080, 4064, 4032, 3968)
    row, col = "row", "col"
    lines = [
        ("cublas-typef16_f32", "cublas", "f16_f32", row, row, 765.0, 2),
        ("cublas-typef16_f32-bcol", "cublas", "f16_f32", row, col, 750.0, 2),
        ("cublas-typef16_f32-acol", "cublas", "f16_f32", col, row, 741.0, 2),
        ("hgemm_wmma_staged-accumulatef32", "hgemm_wmma_staged", "f16_f32", row, col, 339.0, 2),
        ("cublas-typetf32", "cublas", "tf32", row, row, 377.0, 4),
        ("cublas-typetf32-bcol", "cublas", "tf32", row, col, 381.0, 4),
        ("cublas-typei8-bcol", "cublas", "i8", row, col, 1310.0, 1),
        ("cublas-typef64", "cublas", "f64", row, row, 61.1, 8),
        ("matmul_tiled-reald64", "matmul_tiled", "f64", row, row, 4.8, 8),
    ]
    for variant, kernel, dtype, first, second, top, nbytes in lines:
        layouts = json.dumps({"a": first, "b": second, "c": row})
        fastest = {"k" if first == row else "m", "n" if second == row else "k", "n"}
        swept = [(name, edge) for name in "mnk" for edge in below]
        for name, edge in [("m", size), *swept]:
            shape = {"m": size, "n": size, "k": size} | {name: edge}
            m, n, k = shape.values()
            case = b.case(variant, kernel, dtype, (m, n, k), layouts=layouts)
            step = edge & -edge
            if dtype == "i8" and name != "m" and edge % 4:
                b.fail(case, "unsupported", f"{name} = {edge} is not a multiple of 4")
                continue
            loss = max(0.0, 1 - step * nbytes / 16) if name in fastest and kernel == "cublas" else 0
            speed = top * (1 - 0.6 * loss) * (edge / size if name != "k" else 1.0)
            wrong = (variant, edge) == ("cublas-typetf32", 4080)
            _timed(b, case, speed, speed, 2.0 * m * n * k, "wrong" if wrong else "correct")
    return b.study()


def latency() -> StudyData:
    b = Builder("latency")
    cycles = {"register": 4.1, "shared": 29.0, "constant": 8.2, "l1": 38.6, "l2": 262.0}
    for level, value in cycles.items():
        b.check(b.probe(f"latency-level{level}", "latency", "i32", level), latency=value)
    dram = b.probe("latency-leveldram", "latency", "i32", "dram")
    b.fail(dram, "not measured", "no GPU")
    return b.study()


def operations() -> StudyData:
    """Copies at three sizes, transposes at three, a batch beside cuBLAS."""
    b = Builder("operations")

    def moved(operation: str, variant: str, n: int, rate: float, verdict: str = "correct") -> None:
        case = b.case(
            variant, variant, "f32", operation=operation, case=f"{variant}@{n}", follows="",
            sizes=json.dumps({"n": n}), flop=0.0, byte=8.0 * n,
        )  # fmt: skip
        b.check(case, verdict)
        b.add(case, "time", {"bandwidth": rate, "duration": 8e-6 * n / rate})

    for n, rate in ((1 << 20, 2.0), (1 << 23, 3.5), (1 << 26, 4.0)):
        moved("copy", "copy", n, rate)
        moved("transpose", "transpose_naive", n // 4 if n == 1 << 26 else n, 0.2 * rate)
        moved("transpose", "transpose_tiled", n, 0.8 * rate)
    moved("transpose", "transpose_broken", 1 << 20, 3.9, "wrong")
    for batch, (variant, speed) in itertools.product(
        (4, 16), (("batched_naive", 6.0), ("batched_tiled", 9.0), ("cublas_batched", 50.0))
    ):
        vendor = variant == "cublas_batched"
        flops, sizes = 2.0 * batch * 1024**3, {"batch": batch, "m": 1024, "n": 1024, "k": 1024}
        case = b.case(
            variant, variant, "f32", operation="batched_matmul", case=f"{variant}@{batch}",
            provider="cublaslt" if vendor else "nvrtc", sizes=json.dumps(sizes), flop=flops,
            byte=12.0 * batch * 1024**2,
        )  # fmt: skip
        _timed(b, case, speed, 50.0, flops)
    return b.study()


def exactness() -> StudyData:
    b = Builder("exactness")
    warps, wavefronts, conflicts, copies = (
        "smsp__inst_executed.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
    )
    for variant, kernel, dtype, _ in RUNGS:
        for index, shape in enumerate([(129, 67, 53), (256, 256, 256)]):
            case = b.case(variant, kernel, dtype, shape)
            b.check(case, max_error=1e-4, tolerance=1e-3)
            counts = {warps: 1e4 * (1 + index), conflicts: 0.0, "launch__grid_size": 16.0}
            if "hgemm" in kernel:
                counts |= {copies: 3e3, conflicts: 1e3, wavefronts: 4e3}
            b.add(case, "execute", counts, environment="here", source="executed")
            side = {"stage": "execute", "source": "executed", "environment": "here"}
            b.instruction(case, "LDS.128", 100.0, 64.0, **side)
            if variant == "matmul_naive" and index:
                b.fail(case, "not measured", "no GPU", "counters")
                continue
            seen = counts.get(copies, 0.0) * (1.5 if index else 1.0)
            measured = {conflicts: counts[conflicts] * 1.02, copies: seen}
            b.add(case, "counters", counts | measured)
            b.instruction(case, "LDS.128", 100.0 + index, 64.0)
    return b.study()


def occupancy() -> StudyData:
    b = Builder("occupancy")
    limits = {"registers": 1.0, "shared_mem": 3.0, "warps": 8.0, "blocks": 32.0}
    for variant, threads, registers, shared, percent, blocks in (
        ("cublas", None, None, None, 12.5, None),
        ("matmul_naive", 256.0, 32.0, 0.0, 100.0, 8.0),
        ("matmul_double_buffered", 256.0, 128.0, 33280.0, 25.0, 2.0),
        ("hgemm_wmma_staged-accumulatef32", 256.0, 244.0, 92160.0, 12.5, 1.0),
        ("hgemm_wmma_staged-stages4", 256.0, 190.0, 122880.0, 12.5, 1.0),
        ("matmul_disputed", 128.0, 64.0, 0.0, 50.0, 7.0),  # the closed form gives 8 blocks
        ("matmul_unmeasured", 128.0, 96.0, 16384.0, None, None),
    ):
        case = b.case(variant, variant.partition("-")[0], "f32", (2048, 2048, 2048),
                      block_threads=threads, registers=registers, shared_bytes=shared)  # fmt: skip
        if percent is None:
            b.fail(case, "not measured", "no GPU")
            continue
        figures = {} if blocks is None else {"driver_blocks_per_sm": blocks}
        b.check(case, max_error=1e-3, **figures)
        seen = {"sm__maximum_warps_per_active_cycle_pct": percent}
        seen["sm__warps_active.avg.pct_of_peak_sustained_active"] = 0.96 * percent
        if variant == "cublas":
            seen |= {f"launch__occupancy_limit_{name}": value for name, value in limits.items()}
            seen |= {"launch__block_size": 256.0, "launch__registers_per_thread": 202.0,
                     "launch__shared_mem_per_block_dynamic": 49152.0}  # fmt: skip
        b.add(case, "counters", seen)
    for variant, rate in (("matmul_tiled-tile32", 8.3), ("matmul_two_outputs", 13.8)):
        threads = 1024.0 if "tiled" in variant else 512.0
        case = b.case(variant, variant.partition("-")[0], "f32", (4096, 4096, 4096),
                      block_threads=threads, registers=32.0, shared_bytes=8192.0)  # fmt: skip
        _timed(b, case, rate, 51.0, 2.0 * 4096**3)
    for threads, registers, rate in ((128, 180, 38.0), (256, 128, 45.5)):
        name, used = f"threads_{threads}", {"registers": float(registers), "shared_bytes": 32768.0}
        used["block_threads"] = float(threads)
        case = b.probe(f"tile_threads-threads{threads}", "tile_threads", "", name, **used)
        b.check(case, driver_blocks_per_sm=2.0)
        b.add(case, "time", {"tflops": rate})
    for ilp, warps in itertools.product((1, 2, 4, 8), (1, 4, 6, 16, 64)):
        blocks = 2 if warps > 32 else 1
        case = b.probe(
            f"occupancy-ilp{ilp}-block_warps{warps // blocks}", "occupancy", "",
            f"warps_{warps}_ilp_{ilp}", blocks=float(blocks * SMS),
            macros=json.dumps({"ILP": ilp}), block_threads=32.0 * warps / blocks,
            registers=28.0, shared_bytes=231424.0 if blocks == 1 else 115200.0,
        )  # fmt: skip
        rate = 0.99 * warps * 32 * ilp / max(4.06, math.ceil(warps / 4) * ilp)
        verdict = "wrong" if (ilp, warps) == (8, 1) else "correct"
        b.check(case, verdict, driver_blocks_per_sm=float(blocks))
        b.add(case, "time", {"tflops": rate * 2 * SMS * 1.98e-3, "sm_clock": 1980.0})
    b.check(b.probe("latency", "latency", "", "register"), latency=4.06)
    return b.study()


CEILINGS = (
    # probe case, kernel, dtype, macros, metric, value
    ("dram_copy", "ceilings_memory", "", {"LEVEL": "dram_copy"}, "bandwidth", 4.28),
    ("l2_read", "ceilings_memory", "", {"LEVEL": "l2_read"}, "bandwidth", 7.4),
    ("shared_read", "ceilings_memory", "", {"LEVEL": "shared_read"}, "bandwidth", 31.5),
    ("fma_f32", "ceilings_math", "f32", {"UNIT": "fma"}, "tflops", 60.4),
    ("fma_f64", "ceilings_math", "f64", {"UNIT": "fma"}, "tflops", 31.0),
    ("mma_f64", "ceilings_math", "f64", {"UNIT": "mma"}, "tflops", 61.0),
    ("fma_f16", "ceilings_math", "f16_f16", {"UNIT": "fma"}, "tflops", 119.0),
    ("mma_f16_f32", "ceilings_math", "f16_f32", {"UNIT": "mma"}, "tflops", 610.0),
    ("mma_f16_f16", "ceilings_math", "f16_f16", {"UNIT": "mma"}, "tflops", 620.0),
    ("mma_i8", "ceilings_math", "i8", {"UNIT": "mma"}, "tflops", 1200.0),
    ("f16_f32", "ceilings_wgmma", "f16_f32", {}, "tflops", 820.0),
    ("f16_f16", "ceilings_wgmma", "f16_f16", {}, "tflops", math.nan),
)


def roofline() -> StudyData:
    """Bytes of a tile of 2 to 128 rows; a ceiling failed, a case was wrong."""
    b = Builder("roofline")
    flops, best = 2.0 * 4096**3, {"f32": 51.2, "f64": 55.1, "f16_f32": 685.0, "f16_f16": 690.0}
    for variant, kernel, dtype, speed in RUNGS:
        case = b.case(variant, kernel, dtype, (4096, 4096, 4096))
        if variant == "hgemm_wmma":
            b.fail(case, "timed out", "no result within 20 s")
            continue
        verdict = "wrong" if variant == "matmul_two_outputs" else "correct"
        _timed(b, case, speed, best[dtype], flops, verdict)
        tensor = dtype.startswith("f16") or (kernel == "cublas" and dtype == "f64")
        sectors = flops / speed / 8
        seen = sectors / 99 if variant == "cublas-typef16_f32" else sectors  # bulk copies
        counted = {
            "dram_bytes": 3e8 + 1e10 / speed, "counted_tensor_flops": flops if tensor else 0.0,
            SECTORS: sectors / 4, LD.format("sectors"): seen, ST.format("sectors"): 2e6,
            "shared_wavefronts_load": 0.0 if "naive" in kernel else seen / 9,
            "shared_wavefronts_store": 0.0 if "naive" in kernel else seen / 90,
        }  # fmt: skip
        b.add(case, "counters", counted)
    for name, kernel, dtype, macros, metric, value in CEILINGS:
        case = b.probe(f"{kernel}-{name}", kernel, dtype, name, macros=json.dumps(macros))
        if math.isnan(value):
            b.fail(case, "failed to launch", "out of resources")
            continue
        b.add(case, "check", verdict="correct")
        b.add(case, "time", {"duration": 400.0, metric: value})
    return b.study()


def roofline_of_operations() -> StudyData:
    """A softmax and a transpose under the same ceilings; their dtype also has a product."""
    b = Builder("roofline")
    full, n = make("roofline"), 1 << 26
    for operation, variant, flop, duration, waves in (
        ("transpose", "transpose_swizzled", 0.0, 150.0, 2e6),
        ("softmax", "softmax_online", 5.0 * n, 200.0, 1e6),
    ):
        case = b.case(
            variant, variant, "f32", operation=operation, case=f"{variant}@8192x8192", flop=flop,
            byte=8.0 * n, sizes=json.dumps({"rows": 8192, "columns": 8192}),
        )  # fmt: skip
        b.check(case)
        rates = {"tflops": flop / duration * 1e-6} if flop else {}
        b.add(case, "time", {"duration": duration, "bandwidth": 8e-6 * n / duration, **rates})
        counted = {
            "dram_bytes": 8.0 * n, SECTORS: n / 4, LD.format("sectors"): n / 8, ST.format("sectors"): n / 8,
            "shared_wavefronts_load": waves, "shared_wavefronts_store": 2e6,
        }  # fmt: skip
        b.add(case, "counters", counted)
    operations_study = b.study()
    kept = full.cases["operation"].eq("probe") | full.cases["case"].str.startswith("cublas@")
    cases = full.cases[kept]
    records = full.records[full.records["case"].isin(cases["case"])]
    return replace(
        operations_study, cases=pd.concat([operations_study.cases, cases], ignore_index=True),
        records=pd.concat([operations_study.records, records], ignore_index=True),
    )  # fmt: skip


def claims() -> StudyData:
    """A claim of each verdict; a case is wrong, and most values of the claims are missing."""
    b = Builder("claims")
    for variant, kernel, speed in (
        ("matmul_two_outputs", "matmul_two_outputs", 11.0),
        ("matmul_tiled-tile32", "matmul_tiled", 8.7),
        ("matmul_register", "matmul_register", 16.8),
        ("matmul_double_buffered", "matmul_double_buffered", 36.3),
        ("hgemm_wmma_staged", "hgemm_wmma_staged", 393.0),
        ("hgemm_wmma_staged-stages2", "hgemm_wmma_staged", 340.0),
    ):
        case = b.case(variant, kernel, "f32", (4096, 4096, 4096))
        verdict = "wrong" if variant.endswith("stages2") else "correct"
        _timed(b, case, speed, 690.0, 2.0 * 4096**3, verdict)
    for level, cycles in (("register", 4.0), ("shared", 23.0), ("l1", 32.0), ("dram", 640.0)):
        b.check(b.probe(f"latency-level{level}", "latency", "", level), latency=cycles)
    return b.study()


RACED_AT = [
    (256, 256, 256), (2304, 1920, 4096), (4096, 4096, 4096), (120, 4096, 4096), (512, 512, 8192)
]  # fmt: skip
# Variant: microseconds at each of the shapes.
RACED_F16 = {
    "hgemm_mma-accumulatef32": (8.0, 110.0, 400.0, 27.0, 60.0),
    "hgemm_mma-tile_m64-tile_n64-accumulatef32": (5.0, 130.0, 500.0, 30.0, 40.0),
    "hgemm_wmma_staged-raster1-accumulatef32": (9.0, 120.0, 380.0, 90.0, 110.0),
}
RACED_F32 = {"matmul_register": (20.0, 1500.0, 6000.0, 300.0, 600.0)}


def races() -> StudyData:
    """Three f16 variants and an f32 variant at five shapes, and cuBLAS."""
    b = Builder("best")
    for dtype, variants in (("f16_f32", RACED_F16), ("f32", RACED_F32)):
        for index, shape in enumerate(RACED_AT):
            m, n, k = shape
            for variant, times in variants.items():
                case = b.case(variant, variant.partition("-")[0], dtype, shape)
                if dtype == "f32" and index == 1:
                    b.fail(case, "not measured", "no NVIDIA GPU here", "tune")
                    continue
                b.check(case)
                fastest = min(rivals[index] for rivals in variants.values())
                _raced(b, case, times[index], times[index] > 1.1 * fastest)
            vendor = b.case(f"cublas-type{dtype}", "cublas", dtype, shape)
            b.check(vendor)
            _raced(b, vendor, 2e-6 * m * n * k / (700.0 if dtype == "f16_f32" else 50.0), False)
    return b.study()


def _raced(b: Builder, case: str, us: float, out: bool) -> None:
    figures = {
        "tune_duration": us, "tune_spread": 0.01 * us, "tune_tflops": 1.0,
        "tune_rounds": 0.0 if out else 5.0, "tune_eliminated": float(out),
        "tune_spent": 3.0 if out else 25.0, "tune_full_cost": 22.0,
    }  # fmt: skip
    b.add(case, "tune", figures, verdict="correct")


ACCESSES: dict[str, Any] = {
    "matmul_naive": {"tile": [1, 32, 1], "a": {"rows": 1, "columns": 1}},
    "matmul_double_buffered": {
        "a": {"rows": 16, "columns": 2, "vector": 4},
        "b": {"columns": 32, "vector": 4},
        "c": {"rows": 4, "columns": 8, "vector": 4, "row_step": 4},
    },
}


def _product(
    b: Builder, variant: str, dtype: str, shape: tuple[int, int, int], tflops: float,
    counters: dict[str, float], verdict: str = "correct", **more: Any,
) -> str:  # fmt: skip
    case = b.case(variant, variant.partition("-")[0], dtype, shape, **more)
    b.check(case, verdict, max_error=1e-4)
    if tflops:
        duration = 2e-6 * math.prod(shape) / tflops
        b.add(case, "time", {"tflops": tflops, "duration": duration})
    b.add(case, "counters", counters)
    return case


def traffic(
    ceilings: bool = True, probe_environment: str = ENVIRONMENT, verdict: str = "correct",
    **options: Any,
) -> StudyData:  # fmt: skip
    b = Builder("traffic")
    for (m, n, k), tflops, moved in (
        ((8192, 8192, 128), 400.0, 1.1), ((8192, 8192, 8192), 700.0, 1.9),
        ((8192, 1, 8192), 3.6, 1.0), ((1, 8192, 8192), 3.9, 1.01),
    ):  # fmt: skip
        counted = {"dram_bytes": moved * 2 * (m * k + k * n + m * n)}
        _product(b, "cublas-typef16_f32", "f16_f32", (m, n, k), tflops, counted, verdict)
    tile = {"tile_m": 8, "tile_n": 32, "tile_k": 1}
    for shape in ((8192, 1, 8192), (1, 8192, 8192)):
        _product(b, "matmul_naive", "f32", shape, 0.6, {"dram_bytes": 2.9e8}, **tile)
    # 2 * 256 * 384 * 128 / 32 requests, of 1 and of 4 sectors.
    counted = {
        LD.format("requests"): 786432.0, LD.format("sectors"): 1966080.0,
        ST.format("requests"): 3072.0, ST.format("sectors"): 12288.0,
    }  # fmt: skip
    _product(b, "matmul_naive", "f32", (256, 384, 128), 0.0, counted, **tile)
    for variant, tile in (
        ("matmul_naive", (8, 32, 1)), ("matmul_tiled", (16, 16, 16)), ("matmul_tiled-tile32", (32, 32, 32)),
        ("matmul_two_outputs", (32, 32, 32)), ("matmul_register", (64, 64, 16)),
        ("matmul_double_buffered", (128, 128, 16)),
    ):  # fmt: skip
        loads = 2 * 2048**3 / 32
        sides = dict(zip(("tile_m", "tile_n", "tile_k"), tile, strict=True))
        counted = {
            LD.format("requests"): loads / (1 if tile[2] == 1 else tile[0]) / (4 if tile[0] == 128 else 1),
            "lts__t_sectors_op_read.sum": 2e8 / tile[0], "dram__bytes_read.sum": 3.4e7,
            "dram_bytes": 4.5e7,
        }  # fmt: skip
        _product(b, variant, "f32", (2048, 2048, 2048), 0.0, counted, **sides)
    if ceilings:
        for name, metric, value in (
            ("dram_copy", "bandwidth", 4.0), ("l2_read", "bandwidth", 9.0),
            ("mma_f16_f32", "tflops", 600.0), ("wgmma_f16_f32", "tflops", 800.0),
            ("fma_f32", "tflops", 60.0),
        ):  # fmt: skip
            case = b.probe(f"ceilings-{name}", "ceilings", "", name)
            where = {"environment": probe_environment}
            b.add(case, "check", {"max_error": 0.0}, verdict="correct", **where)
            b.add(case, "time", {metric: value, "duration": 100.0}, **where)
    return b.study(**{"accesses": ACCESSES, **options})


MAKERS = {
    "ladder": ladder, "limits": limits, "wavefronts": wavefronts, "shared_access": shared_access,
    "ablation": ablation, "tile_quantization": tile_quantization, "wave_quantization": wave_quantization,
    "waves_cured": waves_cured,
    "correctness": correctness, "latency": latency, "exactness": exactness, "alignment": alignment,
    "occupancy": occupancy, "tile_size": tile_size, "split_k": split_k, "roofline": roofline,
    "best": races, "traffic": traffic, "claims": claims, "operations": operations,
}  # fmt: skip


@functools.cache
def make(name: str) -> StudyData:
    """Return invented data for the plot module of that name. It is cached, so do not change its tables."""
    return MAKERS[name]()


def empty(name: str) -> StudyData:
    """Return the same study with its cases and no record."""
    full = make(name)
    return replace(
        full, options={}, records=full.records.iloc[:0], instructions=full.instructions.iloc[:0],
        environments={}, target=full.target | {"environment": ""},
    )  # fmt: skip


ELSEWHERE = {"environment": "here", "source": "events"}


def changed(study: StudyData, to: dict[str, Any], **where: Any) -> StudyData:
    """Return the study with new values in the records that match ``where``."""
    records = study.records.copy()
    chosen = np.logical_and.reduce([records[name] == value for name, value in where.items()])
    assert chosen.any(), where
    records.loc[chosen, list(to)] = list(to.values())
    return replace(study, records=records)


def labels(*axes: Axes) -> list[str]:
    """Return the labels of the rows of these panels."""
    return [label.get_text() for ax in axes for label in ax.get_yticklabels()]


def finding(name: str, study: StudyData) -> str:
    """Return a figure's title sentence."""
    return takeaway(name, study, load(name).table(study))


def draw(module: PlotModule, study: StudyData, style: Style) -> Figure:
    """Draw the figure of a study from the module's table."""
    return module.draw(study, module.table(study), style)


def _boxes(text: Text, box: Bbox) -> list[tuple[str, Bbox]]:
    """Return a text with its box; a slanted one, which rises to the right, as a box for each character."""
    if text.get_rotation() % 90 < 1:
        return [(text.get_text(), box)]
    size = text.get_fontsize() * text.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
    shares = [(at + 0.5) / len(text.get_text()) for at in range(len(text.get_text()))]
    middles = [(box.x0 + share * box.width, box.y0 + share * box.height) for share in shares]
    around = [Bbox.from_bounds(x - size / 2, y - size / 2, size, size) for x, y in middles]
    return [(f"{text.get_text()} ", box) for box in around]


def texts_of(fig: Figure) -> list[tuple[str, Bbox]]:
    """Return the texts that a figure draws (no tick outside its axis), with their boxes in pixels."""
    texts: list[tuple[str, Bbox]] = []
    draw = Text.draw

    def recorded(self: Text, renderer: RendererBase) -> None:
        if self.get_visible() and self.get_text().strip():
            texts.extend(_boxes(self, Text.get_window_extent(self, renderer)))
        draw(self, renderer)

    with pytest.MonkeyPatch.context() as patch, apply(Style()):  # as a file is written
        patch.setattr(Text, "draw", recorded)
        fig.draw_without_rendering()
    return texts


def said(fig: Figure) -> str:
    """Return all texts of a figure and its caption, with spaces for line breaks."""
    return " ".join(" ".join([*(text for text, _ in texts_of(fig)), *caption(fig)]).split())
