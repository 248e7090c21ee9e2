"""The alignment figure: shares, losses and the smallest alignment that is enough, worked out by hand."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest

import synthetic
from study_builder import Builder
from tilewave.plots import alignment, base
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style, caption

SIZE = 4096


def study(speeds: dict[str, dict[int, float]], **options: object) -> StudyData:
    """Return a row-major FP16 product: TFLOP/s by dimension varied and size; 100 where it is aligned."""
    b = Builder("alignment")
    layouts = json.dumps({"a": "row", "b": "row", "c": "row"})
    points = [("m", SIZE, 100.0)]
    for name, sizes in speeds.items():
        points += [(name, size, speed) for size, speed in sizes.items()]
    for name, size, speed in points:
        m, n, k = ({"m": SIZE, "n": SIZE, "k": SIZE} | {name: size}).values()
        case = b.case("cublas-typef16_f32", "f16_f32", (m, n, k), layouts=layouts)
        if math.isnan(speed):
            b.add(case, "check", status="unsupported", reason=f"{name} = {size}")
            continue
        b.timed(case, speed, speed)
    return b.study(**options)


def totals(data: StudyData) -> pd.DataFrame:
    return alignment.totals(data, alignment.lines(data))


def by_dimension(data: StudyData) -> dict[str, alignment.Line]:
    return {line.dimension: line for line in alignment.lines(data)}


def test_share_loss_and_the_smallest_alignment_that_is_enough() -> None:
    data = study({"n": {4095: 40.0, 4092: 70.0, 4088: 99.0, 3968: 97.0}})
    (line,) = alignment.lines(data)
    about = line.points[["dimension", "along", "layout"]].iloc[0]
    assert list(about) == ["n", "B, C", "row, row"]
    assert list(line.points["alignment"]) == [1, 4, 8, 128, 4096]
    assert list(line.points["share"]) == pytest.approx([0.4, 0.7, 0.99, 0.97, 1.0])
    # 3968 keeps 31 of 32 tiles: 96.9 % needs no alignment to explain, so 97 % is no loss.
    assert list(line.points["enough"]) == [False, False, True, True, True]
    assert line.smallest_enough == 8
    assert line.lost(1) == pytest.approx(1 - 0.4 / (4095 / 4096))
    assert line.lost(128) == 0.0
    # No point has alignment 16, 32 or 64: the next larger one answers. The reference never does.
    assert line.lost(16) == line.lost(128)
    assert math.isnan(line.lost(256))

    row = totals(data).iloc[0]
    assert row["contiguous in"] == "B, C" and row["reference (TFLOP/s)"] == 100
    assert row["recommended multiple"] == 8 and row["recommended on A100 multiple"] == 64
    assert row["loss at the multiple recommended (%)"] == pytest.approx(100 - 99 * 4096 / 4088)
    assert row["smallest alignment that is enough"] == 8


def test_two_percent_are_tolerated() -> None:
    speeds = {"k": {4095: 40.0, 4092: 93.0, 4088: 99.0}}
    assert alignment.lines(study(speeds))[0].smallest_enough == 8
    speeds["k"][4092] = 98.2
    assert alignment.lines(study(speeds))[0].smallest_enough == 4


def test_a_dimension_that_only_counts_rows_is_contiguous_in_none() -> None:
    data = study({name: {4095: 99.0} for name in "mnk"})
    along = {name: line.points["along"].iloc[0] for name, line in by_dimension(data).items()}
    assert along == {"m": "none", "n": "B, C", "k": "A"}
    assert list(totals(data)["contiguous in"]) == ["none", "B, C", "A"]


def test_unsupported_sizes_are_named_and_have_no_share() -> None:
    data = study({"n": {4095: math.nan, 4094: math.nan, 4092: 55.0}})
    (line,) = alignment.lines(data)
    assert list(line.measured["alignment"]) == [4, 4096]
    row = totals(data).iloc[0]
    assert row["unsupported alignments"] == "1, 2" and row["least alignment measured"] == 4
    assert row["loss at it (%)"] == pytest.approx(100 * (1 - 0.55 / (4092 / 4096)))


def test_what_is_wrong_or_measured_elsewhere_has_no_share() -> None:
    data = study({"n": {4095: 40.0, 4092: 70.0, 4088: 99.0}})
    wrong = synthetic.changed(data, {"verdict": "wrong"}, n=4092)
    line = by_dimension(synthetic.changed(wrong, {"environment": "here"}, n=4088))["n"]
    assert list(line.measured["alignment"]) == [1, 4096]
    # The reference alone says nothing about alignment.
    alone = data.records[data.records["n"] == SIZE]
    line = by_dimension(replace(data, records=alone))["n"]
    assert len(line.measured) == 1
    assert math.isnan(line.smallest_enough) and math.isnan(line.lost(1))
    # Without the reference there is no share at all, and nothing fails.
    gone = data.records[data.records["n"] != SIZE]
    line = by_dimension(replace(data, records=gone))["n"]
    assert line.measured.empty and math.isnan(line.smallest_enough) and math.isnan(line.lost(8))
    assert totals(replace(data, records=gone))["loss at it (%)"].isna().all()


def test_table_has_a_row_for_each_case_and_dimension_and_for_each_line() -> None:
    data = study({"n": {4095: 40.0}, "k": {4095: 50.0}})
    frame = alignment.table(data)
    cases = frame[frame["line"].isna()]
    # The reference stands in both sweeps.
    assert sorted(cases["dimension varied"]) == ["k", "k", "n", "n"]
    assert list(frame["line"].dropna()) == ["cublas-typef16_f32, n", "cublas-typef16_f32, k"]
    assert set(base.case_order(data)) == set(cases["case"])
    assert alignment.table(synthetic.empty("alignment")).shape[0] > 0


def test_table_names_the_kernels_that_were_launched() -> None:
    data = study({"n": {4095: 40.0}})
    assert "kernels launched" not in alignment.table(data)
    case = "cublas-typef16_f32@4096x4095x4096"
    name = data.records[data.records["case"] == case].iloc[:1].copy()
    name["stage"], name["metric"], name["text"] = "counters", "kernel_name", "gemm_align1"
    records = pd.concat([data.records, name], ignore_index=True)
    frame = alignment.table(replace(data, records=records)).set_index("case")
    assert frame.loc[case, "kernels launched"] == "gemm_align1"


def test_integer_rates_have_a_note() -> None:
    assert "TOP/s" in base.rate_notes(synthetic.make("alignment"))[0]
    assert base.rate_notes(synthetic.make("latency")) == []
    assert base.rate_notes(study({"n": {4095: 40.0}})) == []


def test_the_figure_has_the_dimension_that_costs_a_dtype_most() -> None:
    data = study({"m": {4095: 98.0}, "n": {4095: 40.0, 4092: 70.0, 4088: 95.0, 3968: 97.0}})
    assert list(alignment._drawn(data, alignment.table(data))) == ["FP16, N varies"]
    assert synthetic.finding("alignment", data).endswith("leaves cuBLAS only 40 % of its speed")
    fig = synthetic.draw(alignment, full := synthetic.make("alignment"), Style())
    assert len(fig.axes) == 1 and f"m = n = k = {SIZE}" in " ".join(caption(fig))
    names = [text.get_text() for text in fig.axes[0].texts]
    dtypes = {line.dtype for line in alignment.lines(full) if line.kernel == "cublas"}
    assert len(names) == len(dtypes)
