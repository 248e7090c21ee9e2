"""The figure of races at every N of a sweep."""

from __future__ import annotations

from dataclasses import replace

import pytest

import synthetic
from tilewave.plots import best_sweep
from tilewave.plots.style import Style


def test_the_fastest_at_each_n_beside_cublas() -> None:
    study = synthetic.make("best_sweep")
    table = best_sweep.table(study)
    assert list(table["n"]) == [1408, 1536, 1664, 1792]
    assert list(table["best variant"]) == [
        "hgemm_wmma_staged", "hgemm_mma", "hgemm_wmma_staged", "hgemm_mma"
    ]  # fmt: skip
    assert list(table["% of cuBLAS"]) == pytest.approx([100 * 48 / one for one in (45, 40, 59, 58)])
    assert table["cuBLAS TFLOP/s"][0] == pytest.approx(2e-6 * 1408 * 1408 * 4096 / 48)
    assert not [name for name in table if "pick" in name or "model" in name]
    said = best_sweep.takeaway(study, table)
    assert (
        "at 2 of 4 sizes; it has 94.7 % in the median and 81.4 % at worst (1408×1664×4096)" in said
    )


def test_without_cublas_there_are_speeds() -> None:
    study = synthetic.make("best_sweep")
    own = replace(study, cases=study.cases[study.cases["kernel"] != "cublas"])
    table = best_sweep.table(own)
    assert table["TFLOP/s"].notna().all() and best_sweep.takeaway(own, table) == ""
    assert "hgemm_mma" in synthetic.said(synthetic.draw(best_sweep, own, Style()))


@pytest.mark.parametrize("width_mm", [178, 85])
def test_two_panels_for_each_sweep(width_mm: int) -> None:
    study = synthetic.make("best_sweep")
    fig = synthetic.draw(best_sweep, study, Style(width_mm=width_mm))
    said = synthetic.said(fig)
    for text in ("M = 1408, K = 4096", "hgemm_mma", "hgemm_wmma_staged", "cuBLAS", "TFLOP/s"):
        assert text in said
    assert len(fig.axes) == 2
