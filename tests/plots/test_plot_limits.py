"""The figure of limits: parts of cycles, clocks and shares within one environment, bounds from scaled counts."""

import json
from dataclasses import replace

import pytest

import synthetic
from study_builder import ENVIRONMENT, ENVIRONMENTS
from tilewave.plots import _bounds, base, limits
from tilewave.plots.style import Style, caption
from tilewave.records.counters import catalogue
from tilewave.theory import bounds
from tilewave.theory.data_sheets import SHORT

STUDY = synthetic.make("limits")
BALANCED = "matmul_balanced@8192x8192x8192"
WGMMA = "hgemm_wgmma_late@8192x8192x8192"
TILED, CUBLAS = "matmul_tiled@4096x4096x4096", "cublas@4096x4096x4096"


def test_parts_add_up() -> None:
    parts = limits.parts(STUDY)
    assert parts[list(limits.PARTS)].sum(axis=1).tolist() == pytest.approx([100.0] * len(parts))
    assert parts.loc[BALANCED, "pipe"] == "FMA" and parts.loc[WGMMA, "pipe"] == "tensor"
    assert parts.loc[BALANCED, "at work"] == pytest.approx(0.81 * 95)
    assert parts.loc[BALANCED, "uneven"] == pytest.approx(3)
    assert parts.loc[BALANCED, "around"] == pytest.approx(2)


def test_a_pass_that_took_longer_leaves_no_negative_part() -> None:
    records = STUDY.records.copy()
    longer = (records["case"] == BALANCED) & (records["metric"] == catalogue.BUSIEST)
    records.loc[longer, "value"] *= 1.05
    parts = limits.parts(replace(STUDY, records=records))
    assert (parts[list(limits.PARTS)] >= 0).all(axis=None)
    assert parts.loc[BALANCED, list(limits.PARTS)].sum() == pytest.approx(100)


def test_waits_are_shares_of_all_warps() -> None:
    waits = limits.waits(STUDY)
    assert waits.loc[BALANCED].to_dict() == pytest.approx(
        dict.fromkeys(waits.columns, 0.0)
        | {"issued": 25.0, "barrier, end of wgmma": 50.0, "shared memory": 12.5, "other": 12.5}
    )
    grouped = [state for states in limits.GROUPS.values() for state in states]
    assert len(grouped) == len(set(grouped)) and set(grouped) < set(catalogue.STATES)


def test_clock_and_share_by_cycles() -> None:
    # 40.3 M cycles in 2 * 8192**3 / 54 TFLOP/s, 20.36 ms
    assert limits.clock(STUDY)[BALANCED] == pytest.approx(40.3e6 / (2 * 8192**3 / 54e6), rel=1e-6)
    assert limits.by_cycles(STUDY)[BALANCED] == pytest.approx(100 * 42.6 / 40.3)
    assert limits.by_cycles(STUDY)[WGMMA] == pytest.approx(100 * 2.3 / 2.2)


def test_nothing_is_formed_across_environments() -> None:
    mixed = synthetic.changed(STUDY, {"environment": "here"}, case=BALANCED, stage="counters")
    assert BALANCED not in limits.clock(mixed) and BALANCED not in limits.by_cycles(mixed)
    assert BALANCED in limits.parts(mixed).index


def test_a_case_without_a_counter_is_left_out() -> None:
    gone = (STUDY.records["case"] == BALANCED) & (STUDY.records["metric"] == catalogue.ELAPSED)
    partly = replace(STUDY, records=STUDY.records[~gone])
    assert BALANCED not in limits.parts(partly).index
    table = limits.table(partly).set_index("case")
    assert table["elapsed cycles"].isna()[BALANCED]
    synthetic.draw(limits, partly, Style())


def _table(study: base.StudyData) -> base.pd.DataFrame:
    return limits.table(study).set_index("case")


def test_a_bound_from_two_small_executions() -> None:
    table = _table(STUDY)
    blocks = 32 * 32
    share = -(-blocks // 132) / blocks
    assert table.loc[TILED, "counts"] == "executed, scaled"
    assert table.loc[TILED, "limiter"] == bounds.DATA
    bound = share * blocks * 3 * 4096
    assert table.loc[TILED, "bound (cycles)"] == pytest.approx(bound)
    assert table.loc[TILED, "measured over bound"] == pytest.approx(700e3 / bound)
    issue = share * blocks * (10 + 4 * 4096) / 4
    assert table.loc[TILED, "issue slots (% of measured)"] == pytest.approx(100 * issue / 700e3)
    assert table.loc[TILED, "busiest by ncu"] == bounds.DATA
    assert not table.index.str.contains("256x256").any()


def test_what_cannot_be_scaled_is_counted_by_ncu() -> None:
    table = _table(STUDY)
    assert table.loc[CUBLAS, "counts"] == "ncu"
    assert table.loc[CUBLAS, "bound (cycles)"] == pytest.approx(32 * 32 * 3 * 4096 / 132)
    cases = STUDY.cases

    def counts(**columns: object) -> set[str]:
        return set(_table(replace(STUDY, cases=cases.assign(**columns)))["counts"].dropna())

    # Two blocks a tile at the small sizes, one at the large ones: stream-K.
    assert counts(blocks=cases["blocks"].mask(cases["m"] == 256, 8)) == {"ncu"}
    # Tiles larger than the small sizes: their blocks do more work than the product needs.
    assert counts(tile_n=96) == {"ncu"}
    # An earlier launch whose blocks grow with a side of the product, not with its tiles.
    sides = cases["m"].fillna(0).astype(int)
    for blocks, sources in ((sides // 8, {"ncu"}), (sides**2 // 64, {"executed, scaled", "ncu"})):
        before = [[{"entry": "copied", "grid": [count, 1, 1]}] for count in blocks.tolist()]
        assert counts(launches=list(map(json.dumps, before))) == sources
    single = STUDY.records[~((STUDY.records["stage"] == "execute") & (STUDY.records["k"] == 512))]
    assert set(_table(replace(STUDY, records=single))["counts"].dropna()) == {"ncu"}


def test_without_counted_cycles_the_time_at_the_largest_clock() -> None:
    table = _table(replace(STUDY, records=STUDY.records[STUDY.records["stage"] != "counters"]))
    bounded = table.index[table["bound (cycles)"].notna()]
    assert list(bounded) == ["matmul_tiled@2048x2048x2048", TILED]
    duration = base.value_of(STUDY, "duration", "time")[TILED]
    cycles = duration * SHORT["h200"].clock_mhz
    assert table.loc[TILED, "measured (cycles)"] == pytest.approx(cycles)
    assert table["busiest by ncu"].isna().all()


def test_the_busiest_pipe_may_be_l2_or_a_pipe_of_the_sm() -> None:
    table = limits.table(synthetic.changed(STUDY, {"value": 1e9}, metric=catalogue.L2_SECTORS))
    assert set(table["busiest by ncu"].dropna()) == {_bounds.L2}
    assert _bounds.agreement(table) == {"SM, L2 and DRAM": (0, 4)}
    records, counted = STUDY.records, catalogue.WARP_INSTRUCTIONS
    few = records[records["metric"].ne(counted) | records["stage"].eq("execute")]
    pipes = dict.fromkeys([catalogue.AVERAGE, *_bounds.SM_PIPES.values()], 9.0)
    pipes |= {catalogue.AVERAGE: 700e3, _bounds.SM_PIPES[bounds.TENSOR]: 99.0}
    model = few[(few["case"] == TILED) & (few["metric"] == catalogue.ELAPSED)]
    more = [model.assign(metric=name, value=value) for name, value in pipes.items()]
    table = limits.table(replace(STUDY, records=base.pd.concat([few, *more]))).set_index("case")
    assert table.loc[TILED, "busiest by ncu"] == bounds.TENSOR
    assert table.loc[TILED, "among"] == "pipes of the SM"


def test_an_unknown_gpu_has_no_bound() -> None:
    facts = ENVIRONMENTS[ENVIRONMENT] | {"gpu": "NVIDIA X1"}
    other = replace(STUDY, environments={ENVIRONMENT: facts})
    assert limits.table(other)["bound (cycles)"].isna().all()
    assert synthetic.draw(limits, other, Style()) is not None


def test_the_idle_part_is_split_by_what_warps_wait_for() -> None:
    rows = limits._drawn(STUDY, limits.table(STUDY))
    assert list(rows["label"]) == ["matmul_balanced", "matmul_async", "hgemm_wgmma_late"]
    classes = limits._classes(rows)
    assert classes.sum(axis=1).tolist() == pytest.approx([100.0] * 3)
    # 19 % of the 95 % are idle. Of the waits, 50 are barriers, 12.5 shared memory, 12.5 others.
    expected = [0.81 * 95, 0.19 * 95 / 6, 0.19 * 95 * 4 / 6, 0.19 * 95 / 6, 5]
    assert classes.iloc[0].tolist() == pytest.approx(expected)
    notes = " ".join(caption(synthetic.draw(limits, STUDY, Style())))
    assert "0 of 4 bounds lie above" in notes and notes.startswith("8192³.")
    wrong = synthetic.changed(STUDY, {"verdict": "wrong"}, case=BALANCED)
    assert "matmul_balanced" not in set(limits._drawn(wrong, limits.table(wrong))["label"])
