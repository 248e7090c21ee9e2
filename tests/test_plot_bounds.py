"""The figure of bounds: scaled counts, the limiter, and what a measurement is held against."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import synthetic
from tilewave.counters import catalogue
from tilewave.plots import base
from tilewave.plots import bounds as figure
from tilewave.plots.style import Style
from tilewave.theory import bounds
from tilewave.theory.data_sheets import H200

TILED, CUBLAS = "matmul_tiled@4096x4096x4096", "cublas@4096x4096x4096"


def _table(study: base.StudyData) -> base.pd.DataFrame:
    return figure.table(study).set_index("case")


def test_a_bound_from_two_small_executions() -> None:
    found = _table(synthetic.make("bounds"))
    blocks = 32 * 32
    share = -(-blocks // 132) / blocks
    assert found.loc[TILED, "counts"] == "executed, scaled"
    assert found.loc[TILED, "limiter"] == bounds.DATA
    assert found.loc[TILED, "bound (cycles)"] == pytest.approx(share * blocks * 3 * 4096)
    assert found.loc[TILED, "measured over bound"] == pytest.approx(
        700e3 / (share * blocks * 3 * 4096)
    )
    issue = share * blocks * (10 + 4 * 4096) / 4
    assert found.loc[TILED, "issue slots (% of measured)"] == pytest.approx(100 * issue / 700e3)
    assert found.loc[TILED, "busiest by ncu"] == bounds.DATA
    assert not found.index.str.contains("256x256").any()


def test_what_cannot_be_scaled_is_counted_by_ncu() -> None:
    study = synthetic.make("bounds")
    found = _table(study)
    assert found.loc[CUBLAS, "counts"] == "ncu"
    assert found.loc[CUBLAS, "bound (cycles)"] == pytest.approx(32 * 32 * 3 * 4096 / 132)
    # Two blocks a tile at the small sizes, one at the large ones: stream-K.
    cases = study.cases.copy()
    cases.loc[cases["m"] == 256, "blocks"] = 8
    assert set(_table(replace(study, cases=cases))["counts"]) == {"ncu"}
    # Tiles that reach beyond the small sizes, whose blocks do more than the product has.
    cases = study.cases.copy()
    cases["tile_n"] = 96
    assert set(_table(replace(study, cases=cases))["counts"]) == {"ncu"}
    # A launch before it whose blocks grow with a side of the product, not with its tiles.
    for blocks, told in (
        (lambda m: m // 8, {"ncu"}),
        (lambda m: m * m // 64, {"executed, scaled", "ncu"}),
    ):
        cases = study.cases.copy()
        cases["launches"] = [
            json.dumps([{"entry": "copied", "grid": [blocks(int(m)), 1, 1]}])
            for m in cases["m"].fillna(0)
        ]
        assert set(_table(replace(study, cases=cases))["counts"]) == told
    one = study.records[~((study.records["stage"] == "execute") & (study.records["k"] == 512))]
    assert set(_table(replace(study, records=one))["counts"].dropna()) == {"ncu"}


def test_without_counted_cycles_the_time_at_the_largest_clock() -> None:
    study = synthetic.make("bounds")
    timed = replace(study, records=study.records[study.records["stage"] != "counters"])
    found = _table(timed)
    bounded = found.index[found["bound (cycles)"].notna()]
    assert list(bounded) == ["matmul_tiled@2048x2048x2048", TILED]
    duration = base.value_of(study, "duration", "time")[TILED]
    assert found.loc[TILED, "measured (cycles)"] == pytest.approx(duration * H200.clock_mhz)
    assert found["busiest by ncu"].isna().all()


def test_the_busiest_pipe_may_be_the_l2_or_one_of_the_sm() -> None:
    study = synthetic.make("bounds")
    records = study.records.copy()
    records.loc[records["metric"] == catalogue.L2_SECTORS, "value"] = 1e9
    found = figure.table(replace(study, records=records))
    assert set(found["busiest by ncu"]) == {figure.L2}
    assert figure.agreement(found) == {"SM, L2 and DRAM": (0, 4)}
    few = records[
        ~records["metric"].isin([catalogue.WARP_INSTRUCTIONS]) | (records["stage"] == "execute")
    ]
    pipes = dict.fromkeys([catalogue.AVERAGE, *figure.SM_PIPES.values()], 9.0)
    pipes |= {catalogue.AVERAGE: 700e3, figure.SM_PIPES[bounds.TENSOR]: 99.0}
    model = few[(few["case"] == TILED) & (few["metric"] == catalogue.ELAPSED)]
    more = [model.assign(metric=name, value=value) for name, value in pipes.items()]
    found = figure.table(replace(study, records=base.pd.concat([few, *more]))).set_index("case")
    assert found.loc[TILED, "busiest by ncu"] == bounds.TENSOR
    assert found.loc[TILED, "among"] == "pipes of the SM"


@pytest.mark.parametrize("width", [86.0, 178.0])
def test_the_figure_says_what_it_shows(width: float) -> None:
    study = synthetic.make("bounds")
    drawn = synthetic.draw(figure, study, Style(width_mm=width))
    told = synthetic.said(drawn)
    assert "0 of 4 bounds lie above" in told and "matmul_tiled" in told
    assert figure.takeaway(study, figure.table(study)).startswith(
        "Measured over bound, median at 4096³: FP32"
    )


def test_an_unknown_gpu_has_no_bound() -> None:
    study = synthetic.make("bounds")
    facts = {
        synthetic.ENVIRONMENT: synthetic.ENVIRONMENTS[synthetic.ENVIRONMENT] | {"gpu": "NVIDIA X1"}
    }
    other = replace(study, environments=facts)
    assert figure.table(other)["bound (cycles)"].isna().all()
    assert synthetic.draw(figure, other, Style()) is not None
