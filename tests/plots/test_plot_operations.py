"""The ladders of operations: baselines of the shares, order of the rungs, and texts of the figure."""

from dataclasses import replace

import pandas as pd
import pytest

import synthetic
from tilewave.plots import operations
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style

SHARE = "% of the baseline"


def rows(study: StudyData) -> pd.DataFrame:
    return operations.table(study).set_index("case")


def test_a_share_is_of_the_copy_of_nearest_bytes_or_of_cublas() -> None:
    table = rows(synthetic.make("operations"))
    for n, rate in ((1 << 20, 2.0), (1 << 23, 3.5), (1 << 26, 4.0)):
        row = table.loc[f"transpose_tiled@{n}"]
        assert (row["baseline"], row["bytes of the baseline"]) == (f"copy@{n}", 8 * n)
        assert row[SHARE] == pytest.approx(80)
        assert table.loc[f"copy@{n}", "bandwidth (TB/s)"] == rate
    # 2^24 elements are nearer to 2^23 than to 2^26; the copy of 2^23 moves half as many bytes.
    between = table.loc[f"transpose_naive@{1 << 24}"]
    assert between["baseline"] == f"copy@{1 << 23}"
    assert between[SHARE] == pytest.approx(100 * 0.2 * 4.0 / 3.5)
    batch = table.loc["batched_tiled@16"]
    assert (batch["baseline"], batch[SHARE]) == ("cuBLAS", pytest.approx(18))
    assert batch["lower quartile (%)"] < 18 < batch["upper quartile (%)"]


def test_only_a_correct_copy_of_the_same_environment_is_a_baseline() -> None:
    study = synthetic.make("operations")
    for change in ({"verdict": "wrong"}, {"environment": "here"}):
        table = rows(synthetic.changed(study, change, case=f"copy@{1 << 23}"))
        table = table.loc[f"transpose_tiled@{1 << 23}"]
        assert table["baseline"] == f"copy@{1 << 20}", change
    records = study.records[study.records["case"].str.partition("@")[0] != "copy"]
    table = rows(replace(study, records=records))
    tiled = table.loc[f"transpose_tiled@{1 << 20}"]
    assert tiled["baseline"] == "" and pd.isna(tiled[SHARE])
    assert operations.takeaway(study, table.reset_index()) == "", "no copy, no share of one"


def test_rungs_stand_in_order_and_sizes_grow() -> None:
    study = synthetic.make("operations")
    follows = {"transpose_tiled": "transpose_broken", "transpose_broken": "transpose_naive"}
    cases = study.cases.assign(follows=study.cases["kernel"].map(follows).fillna(""))
    table = operations.table(replace(study, cases=cases.iloc[::-1]))
    kernels = list(dict.fromkeys(table["kernel"]))
    assert [kernel for kernel in kernels if kernel.startswith("transpose")] == [
        "transpose_naive", "transpose_broken", "transpose_tiled",
    ]  # fmt: skip
    for _, group in table.groupby("variant"):
        assert group["bytes that must move"].is_monotonic_increasing


def test_a_row_a_rung_with_its_share_at_the_largest_size() -> None:
    fig = synthetic.draw(operations, synthetic.make("operations"), Style())
    (ax,) = fig.axes
    shares = dict(zip(synthetic.labels(ax), synthetic.labels(ax.child_axes[0]), strict=True))
    assert shares["transpose: transpose_tiled"] == "80 %"
    assert "% of a copy" in ax.get_xlabel() and not any("batched" in row for row in shares)
    assert "transpose: transpose_naive" not in shares, "it was not timed at the largest size"
    text = synthetic.said(fig)
    assert "Only the table has batched matmul" in text
    assert "cublas_batched" not in text and "wrong: transpose_broken@1048576" in text
