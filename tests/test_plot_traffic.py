"""The figure of work and traffic, drawn from invented measurements."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

import synthetic
from test_plots import texts_of
from tilewave.errors import UserError
from tilewave.plots import base, check_options, traffic
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style, save

WIDTHS = (178.0, 86.0)
QUESTION = "What bounds each product, and how often does each kernel load its operands?"
ACCESSES: dict[str, Any] = {
    "matmul_naive": {"tile": [1, 32, 1], "a": {"rows": 1, "columns": 1}},
    "matmul_double_buffered": {
        "a": {"rows": 16, "columns": 2, "vector": 4},
        "b": {"columns": 32, "vector": 4},
        "c": {"rows": 4, "columns": 8, "vector": 4, "row_step": 4},
    },
}
THIN = "cublas-typef16_f32@8192x8192x128"
NAIVE = "matmul_naive@256x384x128"
LD = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
ST = "l1tex__t_{}_pipe_lsu_mem_global_op_st.sum"


def _product(
    b: synthetic.Builder, variant: str, dtype: str, shape: tuple[int, int, int], tflops: float,
    counters: dict[str, float], verdict: str = "correct", **more: Any,
) -> str:  # fmt: skip
    case = b.case(variant, variant.partition("-")[0], dtype, shape, **more)
    b.add(case, "check", {"max_error": 1e-4}, verdict=verdict)
    if tflops:
        b.add(
            case,
            "time",
            {"tflops": tflops, "duration": 2e-6 * shape[0] * shape[1] * shape[2] / tflops},
        )
    b.add(case, "counters", counters)
    return case


def study(
    ceilings: bool = True, probe_environment: str = synthetic.ENVIRONMENT, verdict: str = "correct",
    **options: Any,
) -> StudyData:  # fmt: skip
    b = synthetic.Builder("ladder")
    for (m, n, k), tflops, moved in (
        ((8192, 8192, 128), 400.0, 1.1), ((8192, 8192, 8192), 700.0, 1.9),
        ((8192, 1, 8192), 3.6, 1.0), ((1, 8192, 8192), 3.9, 1.01),
    ):  # fmt: skip
        size = 2 * (m * k + k * n + m * n)
        _product(
            b,
            "cublas-typef16_f32",
            "f16_f32",
            (m, n, k),
            tflops,
            {"dram_bytes": moved * size},
            verdict,
        )
    for shape in ((8192, 1, 8192), (1, 8192, 8192)):
        _product(
            b,
            "matmul_naive",
            "f32",
            shape,
            0.6,
            {"dram_bytes": 2.9e8},
            tile_m=8,
            tile_n=32,
            tile_k=1,
        )
    # 2 * 256 * 384 * 128 / 32 requests, of 1 and of 4 sectors.
    _product(
        b, "matmul_naive", "f32", (256, 384, 128), 0.0,
        {
            LD.format("requests"): 786432.0, LD.format("sectors"): 1966080.0,
            ST.format("requests"): 3072.0, ST.format("sectors"): 12288.0,
        },
        tile_m=8, tile_n=32, tile_k=1,
    )  # fmt: skip
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
            case = b.case(f"ceilings-{name}", "ceilings", "", probe=name, operation="probe")
            b.add(
                case, "check", {"max_error": 0.0}, verdict="correct", environment=probe_environment
            )
            b.add(case, "time", {metric: value, "duration": 100.0}, environment=probe_environment)
    made = b.study(**{"accesses": ACCESSES, **options})
    return replace(made, name="traffic", title="Work and traffic", question=QUESTION)


def row(made: StudyData, case: str) -> dict[str, Any]:
    table = traffic.table(made)
    return {str(k): v for k, v in table[table["case"] == case].iloc[0].to_dict().items()}


def test_the_documents_example_beside_what_is_so() -> None:
    thin = row(study(), THIN)
    assert thin["intensity (FLOP/byte)"] == pytest.approx(124.1, abs=0.05)
    assert thin["intensity claimed by the GPU-performance document (FLOP/byte)"] == 64
    assert thin["bound on the document's V100 (model)"] == "memory"
    assert thin["bound claimed by the document"] == "memory"
    # The fastest f16 probe: 800 TFLOP/s over 4 TB/s; below it 124.12 * 4 are attainable.
    assert thin["balance of this GPU (FLOP/byte, measured ceilings)"] == pytest.approx(200)
    assert thin["bound on this GPU (model)"] == "memory"
    assert thin["TFLOP/s / attainable (%)"] == pytest.approx(100 * 400 / (4 * 128 / 1.03125))
    # 138,412,032 bytes at 4 TB/s.
    assert thin["least duration (us, model)"] == pytest.approx(34.603008)
    assert thin["DRAM bytes / compulsory (counted)"] == pytest.approx(1.1)


def test_a_claim_about_fp16_is_no_claim_about_fp32() -> None:
    vector = row(study(), "matmul_naive@8192x1x8192")
    assert vector["bound on the document's V100 (model)"] == ""
    assert vector["bound claimed by the document"] == "memory"
    # 60 TFLOP/s over 4 TB/s.
    assert vector["balance of this GPU (FLOP/byte, measured ceilings)"] == pytest.approx(15)


def test_loads_of_the_naive_product_as_two_documents_have_them() -> None:
    naive = row(study(), NAIVE)
    assert naive["loads of an element of A without reuse (model, and the lecture)"] == 384
    assert naive["loads of an element of A claimed by the multiplication document"] == 128
    assert naive["loads of an element of B without reuse (model, and the lecture)"] == 256
    assert (
        naive["loads of an element of either, claimed by the multiplication document"]
        == 256 * 384 * 128
    )
    asked = "loads of an element of A and B, asked for by lanes ({})"
    # 2 * 256 * 384 * 128 over 256 * 128 + 128 * 384 elements, and counted requests say the same.
    assert naive[asked.format("model")] == naive[asked.format("counted")] == pytest.approx(307.2)
    for name in ("load requests", "load sectors", "store requests", "store sectors"):
        assert naive[f"{name} (model)"] == naive[f"{name} (counted)"]
    tiled = row(study(), "matmul_tiled@2048x2048x2048")
    assert tiled[asked.format("model")] == 128
    assert not base.present(
        tiled["loads of an element of A claimed by the multiplication document"]
    )


@pytest.mark.parametrize(
    "made",
    [study(ceilings=False), study(probe_environment="here"), study(verdict="wrong")],
    ids=["no ceiling", "another GPU's ceiling", "wrong"],
)
def test_no_share_without_a_ceiling_of_the_same_machine_or_of_a_wrong_case(made: StudyData) -> None:
    assert not base.present(row(made, THIN)["TFLOP/s / attainable (%)"])
    shown = [text for text, _ in texts_of(synthetic.draw(traffic, made, Style()))]
    assert not any(text.startswith("80.6 %") for text in shown)


def test_a_chosen_peak() -> None:
    thin = row(study(peaks={"f16_f32": "mma_f16_f32"}), THIN)
    assert thin["balance of this GPU (FLOP/byte, measured ceilings)"] == pytest.approx(150)


def test_accesses_that_are_none() -> None:
    check_options("traffic", {"accesses": ACCESSES, "peaks": {}})
    for kernel, said in (
        ({"a": {"lanes": 4}}, r"accesses\.matmul_naive\.a\.lanes.*rows"),
        ({"a": {"rows": 9, "columns": 8}}, r"accesses\.matmul_naive\.a.*32 lanes"),
        ({"d": {}}, "'d'"),
        ({"tile": [1, 2]}, r"accesses\.matmul_naive\.tile"),
    ):
        with pytest.raises(UserError, match=said):
            check_options("traffic", {"accesses": {"matmul_naive": kernel}})
    # An access that does not divide the tile predicts nothing.
    odd = row(
        study(accesses={"matmul_tiled": {"a": {"rows": 1, "columns": 32}}}),
        "matmul_tiled@2048x2048x2048",
    )
    assert not base.present(odd["load requests (model)"])


def test_no_prediction_for_columns() -> None:
    full = study()
    layouts = '{"a": "row", "b": "col", "c": "row"}'
    columns = row(replace(full, cases=full.cases.assign(layouts=layouts)), NAIVE)
    assert not base.present(columns["load requests (model)"])
    assert columns["load requests (counted)"] == 786432


@pytest.fixture(scope="module")
def drawn() -> dict[float, Figure]:
    return {width: synthetic.draw(traffic, study(), Style(width_mm=width)) for width in WIDTHS}


@pytest.mark.parametrize("width", WIDTHS)
def test_texts_stay_inside_and_apart(width: float, drawn: dict[float, Figure]) -> None:
    found = texts_of(drawn[width])
    edge = drawn[width].bbox
    for text, box in found:
        assert box.x0 >= -1 and box.x1 <= edge.x1 + 1, f"{text!r} leaves the figure"
    for (one, a), (other, b) in itertools.combinations(found, 2):
        wide = min(a.x1, b.x1) - max(a.x0, b.x0)
        high = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert not (wide > 1.5 and high > 2.5), f"{one!r} and {other!r} overlap"


def test_predictions_are_ticks_and_counters_marks(drawn: dict[float, Figure]) -> None:
    loads = drawn[178.0].axes[-1]
    at: dict[str, set[float]] = {}
    for points in loads.collections:
        label = str(points.get_label())
        at.setdefault(label, set()).update(round(float(x), 6) for x in points.get_offsets()[:, 0])
    # Naive, tiled, tiled 32 and two outputs, register, double-buffered.
    assert {2048.0, 128.0, 64.0, 32.0, 16.0} <= at.pop("predicted")
    # As the multiplication document would have it: (32768 * 128 + 49152 * 256) / 81920.
    assert at.pop("asked for, if A were loaded k times") == {204.8}
    assert {2048.0, 128.0, 64.0} <= set().union(*at.values())


def test_one_gpu_in_a_panel(drawn: dict[float, Figure]) -> None:
    assert not any("V100" in text for text, _ in texts_of(drawn[178.0]))
    assert row(study(), THIN)["bound on the document's V100 (model)"] == "memory"


def test_the_finding_is_what_the_baseline_reaches_and_how_often_is_loaded() -> None:
    told = traffic.takeaway(study(), traffic.table(study()))
    # 8192 x 1 x 8192 reaches 3.6 of 4 TFLOP/s; the thin product 400 of 496.
    assert re.fullmatch(
        r"cuBLAS reaches 81 to 9\d % of its roof; lanes ask for an element 2048 times in "
        r"matmul_naive, 16 times in matmul_double_buffered",
        told,
    )
    bare = study(ceilings=False)
    assert traffic.takeaway(bare, traffic.table(bare)).startswith("lanes ask for an element 2048")
    nothing = replace(bare, records=bare.records.iloc[:0], environments={})
    assert traffic.takeaway(nothing, traffic.table(nothing)) == ""


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_measured(width: float) -> None:
    full = study()
    bare = replace(full, records=full.records.iloc[:0], environments={})
    assert "No traffic" in " ".join(
        text for text, _ in texts_of(synthetic.draw(traffic, bare, Style(width_mm=width)))
    )
    table = traffic.table(bare)
    assert len(table) == 13 and set(table["status"]) == {"not measured"}
    none = replace(bare, cases=full.cases.iloc[:0])
    synthetic.draw(traffic, none, Style(width_mm=width))
    assert traffic.table(none).empty


@pytest.mark.parametrize("kept", [slice(0, 6), slice(6, 13)], ids=["above", "below"])
def test_half_of_it(kept: slice) -> None:
    full = study()
    cases = pd.concat([full.cases.iloc[kept], full.cases.iloc[13:]])
    records = full.records[full.records["case"].isin(cases["case"])]
    synthetic.draw(traffic, replace(full, cases=cases, records=records), Style())


def test_same_tables_same_bytes(tmp_path: Any, drawn: dict[float, Figure]) -> None:
    save(drawn[178.0], tmp_path / "a.svg")
    save(synthetic.draw(traffic, study(), Style()), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
