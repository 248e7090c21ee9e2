"""The figure of limits: cycles in parts that add up, clocks and shares within one environment."""

from __future__ import annotations

from dataclasses import replace

import pytest

import synthetic
from tilewave.counters import catalogue
from tilewave.plots import limits
from tilewave.plots.style import Style

BALANCED = "matmul_balanced@8192x8192x8192"
WGMMA = "hgemm_wgmma_late@8192x8192x8192"


def test_parts_add_up() -> None:
    found = limits.parts(synthetic.make("limits"))
    assert found[list(limits.PARTS)].sum(axis=1).tolist() == pytest.approx([100.0] * len(found))
    assert found.loc[BALANCED, "pipe"] == "FMA" and found.loc[WGMMA, "pipe"] == "tensor"
    assert found.loc[BALANCED, "at work"] == pytest.approx(0.81 * 95)
    assert found.loc[BALANCED, "uneven"] == pytest.approx(3)
    assert found.loc[BALANCED, "around"] == pytest.approx(2)


def test_a_pass_that_took_longer_leaves_no_negative_part() -> None:
    study = synthetic.make("limits")
    records = study.records.copy()
    longer = (records["case"] == BALANCED) & (records["metric"] == catalogue.BUSIEST)
    records.loc[longer, "value"] *= 1.05
    found = limits.parts(replace(study, records=records))
    assert (found[list(limits.PARTS)] >= 0).all(axis=None)
    assert found.loc[BALANCED, list(limits.PARTS)].sum() == pytest.approx(100)


def test_waits_are_shares_of_all_warps() -> None:
    found = limits.waits(synthetic.make("limits"))
    assert found.loc[BALANCED].to_dict() == pytest.approx(
        dict.fromkeys(found.columns, 0.0)
        | {"issued": 25.0, "barrier, end of wgmma": 50.0, "shared memory": 12.5, "other": 12.5}
    )
    grouped = [state for states in limits.GROUPS.values() for state in states]
    assert len(grouped) == len(set(grouped)) and set(grouped) < set(catalogue.STATES)


def test_clock_and_share_by_cycles() -> None:
    study = synthetic.make("limits")
    # 40.3 M cycles in 2 * 8192**3 / 54 TFLOP/s, 20.36 ms
    assert limits.clock(study)[BALANCED] == pytest.approx(40.3e6 / (2 * 8192**3 / 54e6), rel=1e-6)
    assert limits.by_cycles(study)[BALANCED] == pytest.approx(100 * 42.6 / 40.3)
    assert limits.by_cycles(study)[WGMMA] == pytest.approx(100 * 2.3 / 2.2)


def test_nothing_is_formed_across_environments() -> None:
    study = synthetic.make("limits")
    records = study.records.copy()
    moved = (records["case"] == BALANCED) & (records["stage"] == "counters")
    records.loc[moved, "environment"] = "here"
    mixed = replace(study, records=records)
    assert BALANCED not in limits.clock(mixed) and BALANCED not in limits.by_cycles(mixed)
    assert BALANCED in limits.parts(mixed).index


def test_a_case_without_a_counter_is_left_out() -> None:
    study = synthetic.make("limits")
    gone = (study.records["case"] == BALANCED) & (study.records["metric"] == catalogue.ELAPSED)
    partly = replace(study, records=study.records[~gone])
    assert BALANCED not in limits.parts(partly).index
    table = limits.table(partly).set_index("case")
    assert table["elapsed cycles"].isna()[BALANCED]
    synthetic.draw(limits, partly, Style())


def test_what_is_wrong_has_no_share() -> None:
    study = synthetic.make("limits")
    records = study.records.copy()
    records.loc[records["case"] == BALANCED, "verdict"] = "wrong"
    fig = synthetic.draw(limits, replace(study, records=records), Style())
    labels = [text.get_text() for ax in fig.axes for text in ax.get_yticklabels()]
    assert "matmul_balanced (wrong)" in labels
    said = [text.get_text() for ax in fig.axes for text in ax.texts]
    assert f"{100 * 42.6 / 40.3:.1f}" not in said
    sound = [
        text.get_text() for ax in synthetic.draw(limits, study, Style()).axes for text in ax.texts
    ]
    assert f"{100 * 42.6 / 40.3:.1f}" in sound


def test_the_finding() -> None:
    study = synthetic.make("limits")
    # 81 % of the 95 % of the cycles in which an SM is active, 96 % of them.
    assert limits.takeaway(study, limits.table(study)) == (
        "Pipe at work in the fastest kernels: bf16 91 %, FP32 77 %, at 1401 to 1979 MHz"
    )
    nothing = synthetic.empty("limits")
    assert limits.takeaway(nothing, limits.table(nothing)) == ""


@pytest.mark.parametrize("width", [178.0, 86.0])
def test_a_line_for_each_dtype_and_variant(width: float) -> None:
    ax = synthetic.draw(limits, synthetic.make("limits"), Style(width_mm=width)).axes[0]
    told = [text.get_text() for text in ax.get_yticklabels()]
    own = ["matmul_balanced", "matmul_async", "cublas"]
    assert told == ["FP32", *own, "bf16", "hgemm_wgmma_late", "cublas typebf16_f32"]
