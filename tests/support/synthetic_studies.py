"""A maker of invented data for each study. Their figures are in studies.yaml."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from study_builder import ENVIRONMENT, SMS, Builder
from tilewave.plots.base import StudyData
from tilewave.records.counters.catalogue import PIPE, STALLED, WARP_INSTRUCTIONS

LD = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
ST = "l1tex__t_{}_pipe_lsu_mem_global_op_st.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
SECTORS = "lts__t_sectors_srcunit_tex.sum"
FIGURES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("studies.yaml").read_text())
ACCESSES = FIGURES["accesses"]


def _rungs(name: str) -> list[tuple[str, str, float]]:
    """Return the variants of a table by dtype, each with its dtype and speed."""
    by_dtype = FIGURES[name].items()
    return [(of, dtype, speed) for dtype, speeds in by_dtype for of, speed in speeds.items()]


RUNGS = _rungs("rungs")
CUBLAS = {dtype: speed for variant, dtype, speed in RUNGS if variant.startswith("cublas")}


def _verdict(wrong: bool) -> str:
    return "wrong" if wrong else "correct"


def ladder(sizes: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096, 8192)) -> StudyData:
    b = Builder("ladder")
    variants = _rungs("top") + RUNGS + _rungs("of_cpu")
    for (variant, dtype, speed), n in itertools.product(variants, sizes):
        by_cpu = variant in FIGURES["of_cpu"]["f32"]
        about = {"follows": FIGURES["follows"].get(variant.partition("-")[0])}
        case = b.case(variant, dtype, (n, n, n), provider="cpu" if by_cpu else "nvrtc", **about)
        flops = 2.0 * n**3
        if by_cpu:
            b.check(case)
            if variant == "matmul_cpu" and n > 1024:
                b.fail(case, "not measured", "predicted 34 s, case_limit_s is 5", "time")
            else:
                b.add(case, "time", {"duration": flops / speed / 1e6, "tflops": speed})
        elif variant == "hgemm_wmma":
            b.fail(case, "failed to launch", "out of resources: 300 registers")
        elif variant == "matmul_naive-realf64" and n == 8192:
            b.check(case)
            b.fail(case, "not measured", "predicted cost 9 s exceeds 5 s", "time")
        else:
            wrong = variant == "matmul_two_outputs" or (variant, n) == ("matmul_register", 512)
            reached = speed if "cublas" in variant else speed * n**3 / (n**3 + 900.0**3)
            b.timed(case, reached, CUBLAS.get(dtype, speed), _verdict(wrong))
            if n == 4096:
                counted = flops * (1.0 + 0.004 * (len(variant) % 3))
                b.add(case, "counters", {"counted_flops": counted})
    return b.study(lecture=FIGURES["lecture"])


def wavefronts() -> StudyData:
    b = Builder("wavefronts")
    for variant, opcodes in FIGURES["wavefronts"].items():
        case = b.case(variant, "f16_f16", (2048, 2048, 2048))
        b.check(case, _verdict("stages2" in variant), max_error=0.1)
        b.add(case, "counters", {CONFLICTS.format("ld"): 0.0, CONFLICTS.format("st"): 1.2e5})
        for opcode, (counted, ideal) in opcodes.items():
            b.instruction(case, opcode, counted, ideal)
    return b.study()


def shared_access() -> StudyData:
    b, expectations = Builder("shared_access"), {}
    for op, (bits, names) in itertools.product(("load", "store"), FIGURES["shared_access"].items()):
        for index, name in enumerate(names):
            macros = json.dumps({"OP": op, "WIDTH": bits // 8})
            variant = f"shared_access-op{op}-width{bits // 8}"
            case = b.probe(variant, f"{op}_{bits}_{name}", "i32", macros=macros)
            if (op, bits, index) == ("store", 128, 5):
                b.fail(case, "timed out", "killed after 20 s")
                continue
            expectations[case] = float(1 + index % 4)
            b.check(case)
            off = 1.0 if (op, bits, index) == ("store", 64, 2) else 0.0
            b.add(case, "counters", {"wavefronts": expectations[case] + off})
    study = b.study()
    wavefronts_expected = study.cases["case"].map(expectations)
    return replace(study, cases=study.cases.assign(wavefronts_expected=wavefronts_expected))


def ablation() -> StudyData:
    b = Builder("ablation")
    for ending, (speed, excess, hit) in FIGURES["ablation"].items():
        case = b.case(f"hgemm_wmma_staged{ending}", "f16_f16", (4096, 4096, 4096))
        b.timed(case, speed, 690.0, _verdict(ending == "-stages4"))
        counted = {"wavefronts_shared_excess": excess, "lts__t_sector_hit_rate.pct": hit}
        b.add(case, "counters", counted)
    return b.study()


def limits() -> StudyData:
    b = Builder("limits")
    for variant, (dtype, speed, cycles, pipe, share) in FIGURES["limits"].items():
        case = b.case(variant, dtype, (8192, 8192, 8192))
        b.timed(case, speed, 51.0 if dtype == "f32" else 710.0)
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
    tile = {"tile_m": 128, "tile_n": 128}
    for k in (256, 512):
        case = b.case("matmul_tiled", "f32", (256, 256, k), **tile, blocks=4)
        b.check(case, max_error=1e-3)
        b.add(case, "execute", {WARP_INSTRUCTIONS: 4.0 * (10 + 4 * k)})
        b.instruction(case, "LDS", 4.0 * 3 * k, 4.0 * k, stage="execute")
    for edge, cycles in ((2048, 80e3), (4096, 700e3)):
        blocks = (edge // 128) ** 2
        for kernel, details in (("matmul_tiled", {**tile, "blocks": blocks}), ("cublas", {})):
            case = b.case(kernel, "f32", (edge, edge, edge), **details)
            b.timed(case, 50.0, 51.0)
            counted = {
                "sm__cycles_elapsed.max": cycles, WARP_INSTRUCTIONS: blocks * (10 + 4 * edge),
                "launch__grid_size": 132.0, "dram_bytes": 1e6, SECTORS: 1e6,
            }  # fmt: skip
            b.add(case, "counters", counted)
            b.instruction(case, "LDS", 3.0 * blocks * edge, 1.0)
    probe = b.probe("ceilings_memory-l2", "l2_read")
    b.add(probe, "time", {"bandwidth": 10.0, "duration": 1.0}, verdict="correct")


def _quantization(name: str, rows: tuple[int, int], columns: range) -> StudyData:
    b = Builder(name)
    tile_m, tile_n, k = 256, 128, 4096
    for m, n in itertools.product(rows, columns):
        tiles = -(-m // tile_m) * -(-n // tile_n)
        case = b.case(
            "hgemm_wmma_staged-raster1", "f16_f16", (m, n, k), tile_m=tile_m, tile_n=tile_n,
            blocks=tiles, working_blocks=tiles, registers=220.0, shared_bytes=92160.0,
        )  # fmt: skip
        vendor = b.case("cublas-typef16_f16", "f16_f16", (m, n, k))
        if n % 80 == 0:
            for failed in (case, vendor):
                b.fail(failed, "not measured", "no GPU")
            continue
        waves, cublas = -(-tiles // SMS), 680.0 * n / (n + 60)
        duration = waves * 90.0 * (1.0 + 0.01 * math.sin(n))
        b.timed(case, 2.0 * m * n * k / duration / 1e6, cublas, _verdict(n % 176 == 0))
        b.timed(vendor, cublas, cublas)
        height, width = ((128, 256), (128, 128), (64, 192), (256, 64))[n // 160 % 4]
        area = -(-m // height) * height * -(-n // width) * width
        chosen = {"cublas_tile_m": height, "cublas_tile_n": width}
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
    return _quantization("tile_quantization", (27648, 256 * SMS), range(128, 265, 8))


def wave_quantization() -> StudyData:
    return _quantization("wave_quantization", (2304, 2816), range(1408, 2177, 16))


def waves_cured() -> StudyData:
    """Return sweeps of three kernels, of which the last two lose less past a full wave."""
    study = wave_quantization()
    cases = study.cases[study.cases["m"] == 2304]
    parts, records = [cases], [study.records[study.records["case"].isin(cases["case"])]]
    for name, most in (("even", 0.9), ("stream_k", 0.7)):
        cured = [
            frame[frame["kernel"] != "cublas"].assign(variant=name, kernel=name)
            for frame in (parts[0], records[0])
        ]
        timed, more = (frame.assign(case=frame["case"] + name) for frame in cured)
        least = more["value"].clip(lower=most * 300.0)
        parts.append(timed)
        records.append(more.assign(value=more["value"].mask(more["metric"] == "tflops", least)))
    return replace(study, name="waves_cured", cases=pd.concat(parts), records=pd.concat(records))


def tile_size() -> StudyData:
    b = Builder("tile_size")
    shapes = [(n, n, n) for n in (256, 512, 1024, 2048, 4096, 8192)]
    shapes += [(512, 512, 16384), (128, 8192, 4096), (8192, 128, 4096)]
    pairs = itertools.product(FIGURES["tile_size"], shapes)
    for (tile_m, tile_n, peak, per_sm), (m, n, k) in pairs:
        blocks = -(-m // tile_m) * -(-n // tile_n)
        case = b.case(
            f"hgemm_mma-tile_m{tile_m}-tile_n{tile_n}", "f16_f32", (m, n, k),
            tile_m=tile_m, tile_n=tile_n, blocks=blocks, working_blocks=blocks,
            registers=64.0, shared_bytes=220000.0 / per_sm - 1024,
        )  # fmt: skip
        if (tile_m, tile_n, m) == (64, 128, 512):
            b.fail(case, "not measured", "no GPU")
            continue
        rounds = blocks / SMS if blocks > SMS * per_sm else 0.3 + 0.7 * blocks / SMS / per_sm
        rounds = max(1.0, -(-rounds // 1)) if blocks > SMS else 1.0
        duration = rounds * 2.0 * tile_m * tile_n * k * SMS / peak / 1e6 + 3.0
        speed = 2.0 * m * n * k / duration / 1e6
        wrong = (tile_m, tile_n, m) == (128, 64, 1024)
        b.timed(case, speed, 700.0 * m / (m + 900), _verdict(wrong))
        loaded = 2.0 * k * (m * -(-n // tile_n) + n * -(-m // tile_m)) + 2.0 * m * n
        b.add(case, "counters", {SECTORS: 1.02 * loaded / 32})
    return b.study()


def split_k() -> StudyData:
    b = Builder("split_k")
    probe = b.probe("ceilings_memory-levell2_read", "l2_read", "u32")
    b.add(probe, "check", verdict="correct")
    b.add(probe, "time", {"duration": 20.0, "bandwidth": 5.0})
    tile, chunk = 128, 64
    common = {"tile_m": tile, "tile_n": tile, "tile_k": chunk, "block_threads": 128.0,
              "registers": 255.0, "shared_bytes": 98304.0}  # fmt: skip
    for m, n, k in (
        (256, 256, 16384), (512, 512, 8192), (128, 128, 32768), (1408, 1664, 4096),
        (128 * 133, 128, 4096), (1408, 1536, 4096), (1408, 3200, 8192),
    ):  # fmt: skip
        tiles, chunks = -(-m // tile) * -(-n // tile), -(-k // chunk)
        dealt = 2 * SMS
        # Variant: blocks, chunks of the longest, parts that are added.
        launches = {"hgemm_mma-tile_m128-tile_n128": (tiles, chunks, 0)}
        for splits in (2, 4, 8, 16):
            parts = tiles * splits
            launches[f"hgemm_split_k-splits{splits}"] = (parts, -(-chunks // splits), parts)
        launches["hgemm_stream_k-tile_m128"] = (dealt, -(-tiles * chunks // dealt), dealt)
        for variant, (blocks, longest, parts) in launches.items():
            splits_of = variant.partition("-splits")[2]
            more = {"macros": json.dumps({"SPLITS": int(splits_of)})} if splits_of else {}
            about = {"blocks": blocks, "working_blocks": blocks, **common, **more}
            case = b.case(variant, "f16_f32", (m, n, k), **about)
            alone, full = -(-blocks // SMS), -(-blocks // (2 * SMS))
            duration = (alone + full) * longest * 0.45 + 4.0 + parts * 0.02
            wrong = "stream_k" in variant and k == 32768
            b.timed(case, 2.0 * m * n * k / duration / 1e6, 600.0, _verdict(wrong))
            moved = 65536.0 * max(0, 2 * parts - tiles)
            counted = {SECTORS: 1e7 + 1.03 * moved / 32, "dram_bytes": 5e7 + 0.2 * moved}
            b.add(case, "counters", counted)
    return b.study(aim=1.3)


def correctness() -> StudyData:
    b = Builder("correctness")
    shapes = [
        (1, 1, 1), (16, 16, 16), (128, 128, 128), (130, 130, 130), (256, 128, 64), (129, 65, 33),
        (8, 4096, 16), (512, 512, 512), (1000, 1000, 1000), (264, 136, 72),
    ]  # fmt: skip
    for (variant, dtype, _), shape in itertools.product(RUNGS, shapes):
        case, n = b.case(variant, dtype, shape), shape[1]
        match variant.partition("-")[0], n:
            case kernel, _ if "hgemm" in kernel and n % 8:
                b.fail(case, "unsupported", f"n = {n} is not a multiple of 8")
            case "matmul_two_outputs", 130:
                b.check(case, "wrong", max_error=3.0)
            case "matmul_register", 65:
                b.fail(case, "invalid access", "illegal address in matmul_register")
            case _ if (variant, n) == ("matmul_naive", 1000):
                b.fail(case, "stale", "the recorded key does not match")
            case _:
                b.check(case, max_error=1e-4, tolerance=1e-3)
    for n in (1, 1000, 1 << 20):
        b.check(b.case("vector_add", "f32", operation="vector_add", case=f"vector_add@{n}", n=n))
    for name in ("one_warps_all", "one_lanes_all", "two_warps_all", "two_lanes_all"):
        case = b.probe(f"barrier_divergent-fragment{name[:3]}", name, "i32")
        b.check(case, "not checked" if "two" in name else "correct")
    return b.study()


def alignment() -> StudyData:
    b = Builder("alignment")
    size, below = 4096, (4095, 4094, 4092, 4088, 4080, 4064, 4032, 3968)
    swept = [("m", size), *itertools.product("mnk", below)]
    pairs = itertools.product(FIGURES["alignment"], swept)
    for (variant, dtype, first, second, top, nbytes), (name, edge) in pairs:
        layouts = json.dumps({"a": first, "b": second, "c": "row"})
        fastest = {"k" if first == "row" else "m", "n" if second == "row" else "k", "n"}
        shape = {"m": size, "n": size, "k": size} | {name: edge}
        case = b.case(variant, dtype, tuple(shape.values()), layouts=layouts)
        if dtype == "i8" and name != "m" and edge % 4:
            b.fail(case, "unsupported", f"{name} = {edge} is not a multiple of 4")
            continue
        slowed = name in fastest and "cublas" in variant
        loss = max(0.0, 1 - (edge & -edge) * nbytes / 16) if slowed else 0
        speed = top * (1 - 0.6 * loss) * (edge / size if name != "k" else 1.0)
        b.timed(case, speed, speed, _verdict((variant, edge) == ("cublas-typetf32", 4080)))
    return b.study()


def _latencies(b: Builder, name: str, dtype: str) -> None:
    for level, cycles in FIGURES[name].items():
        b.check(b.probe(f"latency-level{level}", level, dtype), latency=cycles)


def latency() -> StudyData:
    b = Builder("latency")
    _latencies(b, "latency", "i32")
    b.fail(b.probe("latency-leveldram", "dram", "i32"), "not measured", "no GPU")
    return b.study()


def operations() -> StudyData:
    """Return copies at three sizes, transposes at three, a batch beside cuBLAS."""
    b = Builder("operations")

    def moved(operation: str, variant: str, n: int, rate: float, verdict: str = "correct") -> None:
        case = b.case(
            variant, "f32", operation=operation, case=f"{variant}@{n}", follows="",
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
        case = b.case(
            variant, "f32", operation="batched_matmul", case=f"{variant}@{batch}",
            provider="cublaslt" if "cublas" in variant else "nvrtc", flop=2.0 * batch * 1024**3,
            sizes=json.dumps({"batch": batch, "m": 1024, "n": 1024, "k": 1024}), byte=12.0 * batch * 1024**2,
        )  # fmt: skip
        b.timed(case, speed, 50.0)
    return b.study()


def exactness() -> StudyData:
    b, conflicts = Builder("exactness"), CONFLICTS.format("ld")
    wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    copies = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"
    executed: dict[str, Any] = {"source": "executed", "environment": "here"}
    for variant, dtype, _ in RUNGS:
        for index, shape in enumerate([(129, 67, 53), (256, 256, 256)]):
            case = b.case(variant, dtype, shape)
            b.check(case, max_error=1e-4, tolerance=1e-3)
            counts = {WARP_INSTRUCTIONS: 1e4 * (1 + index), conflicts: 0.0}
            counts["launch__grid_size"] = 16.0
            if "hgemm" in variant:
                counts |= {copies: 3e3, conflicts: 1e3, wavefronts: 4e3}
            b.add(case, "execute", counts, **executed)
            b.instruction(case, "LDS.128", 100.0, 64.0, stage="execute", **executed)
            if variant == "matmul_naive" and index:
                b.fail(case, "not measured", "no GPU", "counters")
                continue
            copied = counts.get(copies, 0.0) * (1.5 if index else 1.0)
            measured = {conflicts: counts[conflicts] * 1.02, copies: copied}
            b.add(case, "counters", counts | measured)
            b.instruction(case, "LDS.128", 100.0 + index, 64.0)
    return b.study()


def occupancy() -> StudyData:
    b = Builder("occupancy")
    for variant, (threads, registers, shared, percent, blocks) in FIGURES["occupancy"].items():
        used = {"block_threads": threads, "registers": registers, "shared_bytes": shared}
        case = b.case(variant, "f32", (2048, 2048, 2048), **used)
        if percent is None:
            b.fail(case, "not measured", "no GPU")
            continue
        b.check(case, max_error=1e-3, **({"driver_blocks_per_sm": blocks} if blocks else {}))
        counted = {"sm__maximum_warps_per_active_cycle_pct": percent}
        counted["sm__warps_active.avg.pct_of_peak_sustained_active"] = 0.96 * percent
        if variant == "cublas":
            counted |= FIGURES["occupancy_of_cublas"]
        b.add(case, "counters", counted)
    rates = ("matmul_tiled-tile32", 1024.0, 8.3), ("matmul_two_outputs", 512.0, 13.8)
    for variant, threads, rate in rates:
        used = {"block_threads": threads, "registers": 32.0, "shared_bytes": 8192.0}
        b.timed(b.case(variant, "f32", (4096, 4096, 4096), **used), rate, 51.0)
    for threads, registers, rate in ((128, 180.0, 38.0), (256, 128.0, 45.5)):
        used = {"registers": registers, "shared_bytes": 32768.0, "block_threads": float(threads)}
        case = b.probe(f"tile_threads-threads{threads}", f"threads_{threads}", **used)
        b.check(case, driver_blocks_per_sm=2.0)
        b.add(case, "time", {"tflops": rate})
    for ilp, warps in itertools.product((1, 2, 4, 8), (1, 4, 6, 16, 64)):
        blocks = 2 if warps > 32 else 1
        case = b.probe(
            f"occupancy-ilp{ilp}-block_warps{warps // blocks}", f"warps_{warps}_ilp_{ilp}",
            blocks=float(blocks * SMS), macros=json.dumps({"ILP": ilp}), block_threads=32.0 * warps / blocks,
            registers=28.0, shared_bytes=231424.0 if blocks == 1 else 115200.0,
        )  # fmt: skip
        rate = 0.99 * warps * 32 * ilp / max(4.06, math.ceil(warps / 4) * ilp)
        b.check(case, _verdict((ilp, warps) == (8, 1)), driver_blocks_per_sm=float(blocks))
        b.add(case, "time", {"tflops": rate * 2 * SMS * 1.98e-3, "sm_clock": 1980.0})
    b.check(b.probe("latency", "register"), latency=4.06)
    return b.study()


def roofline() -> StudyData:
    """Return bytes of a tile of 2 to 128 rows; a ceiling failed, a case was wrong."""
    b = Builder("roofline")
    flops = 2.0 * 4096**3
    for variant, dtype, speed in RUNGS:
        case = b.case(variant, dtype, (4096, 4096, 4096))
        if variant == "hgemm_wmma":
            b.fail(case, "timed out", "no result within 20 s")
            continue
        b.timed(case, speed, CUBLAS[dtype], _verdict(variant == "matmul_two_outputs"))
        tensor = dtype.startswith("f16") or variant == "cublas-typef64"
        sectors = flops / speed / 8
        # The rest are bulk copies.
        counted_sectors = sectors / 99 if variant == "cublas-typef16_f32" else sectors
        waves = 0.0 if "naive" in variant else counted_sectors
        counted = {
            "dram_bytes": 3e8 + 1e10 / speed, "counted_tensor_flops": flops if tensor else 0.0,
            SECTORS: sectors / 4, LD.format("sectors"): counted_sectors, ST.format("sectors"): 2e6,
            "shared_wavefronts_load": waves / 9, "shared_wavefronts_store": waves / 90,
        }  # fmt: skip
        b.add(case, "counters", counted)
    for kernel, name, dtype, macros, metric, value in FIGURES["ceilings"]:
        case = b.probe(f"{kernel}-{name}", name, dtype, macros=json.dumps(macros))
        if math.isnan(value):
            b.fail(case, "failed to launch", "out of resources")
            continue
        b.add(case, "check", verdict="correct")
        b.add(case, "time", {"duration": 400.0, metric: value})
    return b.study()


def roofline_of_operations() -> StudyData:
    """Return a softmax and a transpose under the same ceilings; their dtype also has a product."""
    b, full, n = Builder("roofline"), roofline(), 1 << 26
    for operation, variant, flop, duration, waves in (
        ("transpose", "transpose_swizzled", 0.0, 150.0, 2e6),
        ("softmax", "softmax_online", 5.0 * n, 200.0, 1e6),
    ):
        case = b.case(
            variant, "f32", operation=operation, case=f"{variant}@8192x8192", flop=flop,
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
    study = b.study()
    kept = full.cases["operation"].eq("probe") | full.cases["case"].str.startswith("cublas@")
    cases = full.cases[kept]
    records = full.records[full.records["case"].isin(cases["case"])]
    return replace(
        study, cases=pd.concat([study.cases, cases], ignore_index=True),
        records=pd.concat([study.records, records], ignore_index=True),
    )  # fmt: skip


def claims() -> StudyData:
    """Return a claim of each verdict; a case is wrong, and most values of the claims are missing."""
    b = Builder("claims")
    for variant, speed in FIGURES["claims"].items():
        case = b.case(variant, "f32", (4096, 4096, 4096))
        b.timed(case, speed, 690.0, _verdict("stages2" in variant))
    _latencies(b, "latency_of_claims", "")
    return b.study()


def best() -> StudyData:
    """Return three f16 variants and an f32 variant at five shapes, and cuBLAS."""
    b = Builder("best")

    def raced(case: str, us: float, eliminated: bool) -> None:
        b.check(case)
        figures = {
            "tune_duration": us, "tune_spread": 0.01 * us, "tune_tflops": 1.0,
            "tune_rounds": 0.0 if eliminated else 5.0, "tune_eliminated": float(eliminated),
            "tune_spent": 3.0 if eliminated else 25.0, "tune_full_cost": 22.0,
        }  # fmt: skip
        b.add(case, "tune", figures, verdict="correct")

    for dtype, variants in FIGURES["raced"].items():
        for index, shape in enumerate(map(tuple, FIGURES["raced_at"])):
            fastest = min(times[index] for times in variants.values())
            for variant, times in variants.items():
                case = b.case(variant, dtype, shape)
                if dtype == "f32" and index == 1:
                    b.fail(case, "not measured", "no NVIDIA GPU here", "tune")
                else:
                    raced(case, times[index], times[index] > 1.1 * fastest)
            speed = 700.0 if dtype == "f16_f32" else 50.0
            vendor = b.case(f"cublas-type{dtype}", dtype, shape)
            raced(vendor, 2e-6 * math.prod(shape) / speed, False)
    return b.study()


def traffic(
    ceilings: bool = True, probe_environment: str = ENVIRONMENT, verdict: str = "correct",
    **options: Any,
) -> StudyData:  # fmt: skip
    b = Builder("traffic")

    def product(
        variant: str, dtype: str, shape: tuple[int, ...], tflops: float, counters: dict[str, float],
        verdict: str = "correct", tile: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        sides = dict(zip(("tile_m", "tile_n", "tile_k"), tile))
        case = b.case(variant, dtype, shape, **sides)
        b.check(case, verdict, max_error=1e-4)
        if tflops:
            duration = 2e-6 * math.prod(shape) / tflops
            b.add(case, "time", {"tflops": tflops, "duration": duration})
        b.add(case, "counters", counters)

    for (m, n, k), tflops, moved in (
        ((8192, 8192, 128), 400.0, 1.1), ((8192, 8192, 8192), 700.0, 1.9),
        ((8192, 1, 8192), 3.6, 1.0), ((1, 8192, 8192), 3.9, 1.01),
    ):  # fmt: skip
        counted = {"dram_bytes": moved * 2 * (m * k + k * n + m * n)}
        product("cublas-typef16_f32", "f16_f32", (m, n, k), tflops, counted, verdict)
    naive = FIGURES["tiles"]["matmul_naive"]
    for shape in ((8192, 1, 8192), (1, 8192, 8192)):
        product("matmul_naive", "f32", shape, 0.6, {"dram_bytes": 2.9e8}, tile=naive)
    # 2 * 256 * 384 * 128 / 32 requests, of 1 and of 4 sectors.
    counted = {
        LD.format("requests"): 786432.0, LD.format("sectors"): 1966080.0,
        ST.format("requests"): 3072.0, ST.format("sectors"): 12288.0,
    }  # fmt: skip
    product("matmul_naive", "f32", (256, 384, 128), 0.0, counted, tile=naive)
    for variant, tile in FIGURES["tiles"].items():
        shared = 1 if tile[2] == 1 else tile[0] * (4 if tile[0] == 128 else 1)
        counted = {
            LD.format("requests"): 2 * 2048**3 / 32 / shared, "lts__t_sectors_op_read.sum": 2e8 / tile[0],
            "dram__bytes_read.sum": 3.4e7, "dram_bytes": 4.5e7,
        }  # fmt: skip
        product(variant, "f32", (2048, 2048, 2048), 0.0, counted, tile=tile)
    for name, metric, value in FIGURES["traffic_ceilings"] if ceilings else ():
        case = b.probe(f"ceilings-{name}", name, name.partition("_")[2])
        where = {"environment": probe_environment}
        b.add(case, "check", {"max_error": 0.0}, verdict="correct", **where)
        b.add(case, "time", {metric: value, "duration": 100.0}, **where)
    return b.study(**{"accesses": ACCESSES, **options})


MAKERS = {
    maker.__name__: maker
    for maker in (
        ladder, limits, wavefronts, shared_access, ablation, tile_quantization, wave_quantization, waves_cured,
        correctness, latency, exactness, alignment, occupancy, tile_size, split_k, roofline, best, traffic, claims,
        operations,
    )
}  # fmt: skip
