"""Scaling: where a variant arrives at its speed, by its correct cases of one environment alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

import synthetic
from tilewave.plots import scaling
from tilewave.plots.style import Style

TILED = "matmul_tiled"


def test_percent_of_its_highest() -> None:
    table = scaling.table(synthetic.make("scaling")).set_index("case")
    # 9.1 n^3 / (n^3 + 900^3) TFLOP/s.
    share = (1024**3 / (1024**3 + 900**3)) / (8192**3 / (8192**3 + 900**3))
    assert table.loc[f"{TILED}@1024x1024x1024", "% of its highest"] == pytest.approx(100 * share)
    assert table.loc[f"{TILED}@8192x8192x8192", "% of its highest"] == 100
    assert table["% of its highest"].isna()["matmul_register@512x512x512"], "it is wrong there"


def test_the_highest_speed_is_of_the_same_environment() -> None:
    study = synthetic.make("scaling")
    records = study.records.copy()
    records.loc[records["case"] == f"{TILED}@8192x8192x8192", "environment"] = "here"
    found = scaling.of_highest(replace(study, records=records))
    assert found[f"{TILED}@8192x8192x8192"] == found[f"{TILED}@4096x4096x4096"] == 100


def test_the_finding() -> None:
    study = synthetic.make("scaling")
    # n^3 / (n^3 + 900^3) passes 0.9 between 1872 and 1873: of the GPU's 13 variants none is early.
    assert scaling.takeaway(study, scaling.table(study)) == (
        "Variants reach 90 % of their highest speed: 13 at N = 2048; cuBLAS at 2048"
    )
    nothing = synthetic.empty("scaling")
    assert scaling.takeaway(nothing, scaling.table(nothing)) == ""


def test_what_the_figure_says() -> None:
    fig = synthetic.draw(scaling, synthetic.make("scaling"), Style())
    said = synthetic.said(fig)
    for words in ("matmul_tiled 9.09 at 2048", "On the CPU, TFLOP/s: matmul_cpu 0.00400",
                  "GPU, tiled 0.160, 0.190", "not correct, not ranked"):  # fmt: skip
        assert words in said
    assert not [line for ax in fig.axes for line in ax.lines if "cpu" in str(line.get_label())]


def test_a_line_breaks_where_a_size_does_not_rank() -> None:
    fig = synthetic.draw(scaling, synthetic.make("scaling"), Style())
    (ax,) = [ax for ax in fig.axes if ax.get_title(loc="left").startswith("FP32")]
    sizes = [list(line.get_xdata()) for line in ax.lines]
    assert [64.0, 128.0, 256.0] in sizes and [1024.0, 2048.0, 4096.0, 8192.0] in sizes
    assert [512.0] in sizes, "the cross of what is wrong"
