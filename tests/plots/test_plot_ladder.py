"""The ladder: rungs in their order, shares of cuBLAS from pairs of samples, its summary."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import synthetic
import synthetic_studies
from samples import ROOT, table
from tilewave import plots
from tilewave.pipeline import project, tables
from tilewave.plots import _rungs, base, ladder
from tilewave.plots.style import Style

CASES = table("plots")

TILED = "matmul_tiled"


@pytest.fixture
def study() -> Any:
    return synthetic.make("ladder")


def cases(*pairs: tuple[str, str | None]) -> pd.DataFrame:
    return pd.DataFrame(pairs, columns=["kernel", "follows"])


@pytest.mark.parametrize("pairs, expected", CASES["order of rungs"])
def test_order(pairs: list[tuple[str, str | None]], expected: str) -> None:
    assert _rungs.order(cases(*pairs)) == expected.split()


def test_table_and_summary(study: Any) -> None:
    table = ladder.table(study).set_index("case")
    row = table.loc["hgemm_top@4096x4096x4096"]
    share = 100 * 720 / (1 + (900 / 4096) ** 3) / 685
    assert row["% of cuBLAS"] == pytest.approx(share)
    assert row["upper quartile (%)"] - row["lower quartile (%)"] == pytest.approx(0.013 * share)
    assert table.index.notna().sum() == len(study.cases)

    short = ladder.summary(ladder.table(study))
    assert list(short.columns[:7]) == [
        "dtype", "kernel", "variant",
        "% of cuBLAS, 1024³", "% of cuBLAS, 2048³", "% of cuBLAS, 4096³", "% of cuBLAS, 8192³",
    ]  # fmt: skip
    assert len(short) == study.cases["variant"].nunique() - 2, "none of the CPU's code"
    by_variant = short.set_index("variant")
    top = by_variant.loc["hgemm_top"]
    assert top["% of cuBLAS, 4096³"] == pytest.approx(share)
    assert top["IQR, 4096³"] == pytest.approx(0.013 * share)
    wrong = by_variant.loc["matmul_two_outputs"].drop(["dtype", "kernel"])
    assert wrong.isna().all(), "a wrong rung has no figure"
    vendor = by_variant.loc["cublas"]
    assert vendor["TFLOP/s, 4096³"] == 51.2 and pd.isna(vendor["% of cuBLAS, 4096³"])


def panels(study: Any, **options: Any) -> dict[str, list[str]]:
    fig = synthetic.draw(ladder, replace(study, options=options), Style())
    return {ax.get_title(loc="left"): synthetic.labels(ax) for ax in fig.axes}


def test_two_dtypes_have_their_rungs_in_order(study: Any) -> None:
    # It is listed first, and drawn behind the rung that it follows.
    assert study.cases["kernel"].iloc[0] == "hgemm_top"
    rungs = ["hgemm_wmma", "hgemm_wmma_staged", "hgemm_top"]
    # Wrong everywhere: matmul_two_outputs. The others rank at the largest size.
    f32 = ["matmul_naive", "matmul_tiled", "matmul_tiled tile32"]
    f32 += ["matmul_register", "matmul_double_buffered"]
    assert panels(study) == {"FP16 (FP32 sum)": rungs, "FP32": f32}
    tiled = study.cases["variant"] == "matmul_tiled"
    by_cpu = replace(study, cases=study.cases.assign(provider=np.where(tiled, "cpu", "nvrtc")))
    assert "matmul_tiled" not in panels(by_cpu)["FP32"], "code of the CPU has no row"


def test_options_choose_dtypes_rungs_and_names(study: Any) -> None:
    names = {"matmul_tiled-tile32": "shared tiles"}
    variants = ["matmul_tiled-tile32", "matmul_naive", "absent"]
    chosen = panels(study, dtypes=["f64", "f32"], variants=variants, names=names)
    assert list(chosen) == ["FP64", "FP32"] and chosen["FP32"] == ["shared tiles", "matmul_naive"]
    assert chosen["FP64"] == panels(study, dtypes=["f64"])["FP64"], "none is named: the first ones"
    whole = ladder.table(replace(study, options={"variants": variants}))
    assert set(whole["variant"]) == set(study.cases["variant"]), "the table has all"


def test_dots_are_shares_at_the_ends_of_the_sizes(study: Any) -> None:
    ax = synthetic.draw(ladder, study, Style()).axes[0]
    top = synthetic.labels(ax).index("hgemm_top")
    small, large = (float(points.get_offsets()[top, 0]) for points in ax.collections[1:3])
    for share, size in ((small, 1024), (large, 8192)):
        assert share == pytest.approx(100 * 720 / (1 + (900 / size) ** 3) / 685)
    assert synthetic.labels(ax.child_axes[0])[top] == "105 %"
    keys = [text.get_text() for text in ax.figure.legends[0].get_texts()]
    assert keys == ["1024³", "8192³", "cuBLAS"]
    assert synthetic.draw(ladder, synthetic_studies.ladder((1024,)), Style()).axes


@pytest.mark.parametrize("study", ["ladder", "limits", "roofline"])
def test_the_rungs_of_the_config_are_its_cases(study: str) -> None:
    text = (ROOT / "config/config.yaml").read_text()
    loaded = project.load(yaml.safe_load(text), "config.yaml")
    variants = {loaded.plan.cases[case].variant.id for case in loaded.plan.studies[study]}
    options = loaded.config.studies[study].options
    assert {*options["variants"], *options["names"]} <= variants


def test_percent_of_its_highest(study: Any) -> None:
    table = ladder.table(study).set_index("case")
    # 9.1 n^3 / (n^3 + 900^3) TFLOP/s.
    share = (1024**3 / (1024**3 + 900**3)) / (8192**3 / (8192**3 + 900**3))
    assert table.loc[f"{TILED}@1024x1024x1024", "% of its highest"] == pytest.approx(100 * share)
    assert table.loc[f"{TILED}@8192x8192x8192", "% of its highest"] == 100
    assert table["% of its highest"].isna()["matmul_register@512x512x512"], "it is wrong there"


def test_the_highest_speed_is_of_the_same_environment(study: Any) -> None:
    case = f"{TILED}@8192x8192x8192"
    percent = ladder.of_highest(synthetic.changed(study, {"environment": "here"}, case=case))
    assert percent[case] == percent[f"{TILED}@4096x4096x4096"] == 100


def test_lecture_table(study: Any) -> None:
    lecture = ladder.table(study).dropna(subset="lecture").set_index("lecture").dropna(axis=1)
    assert list(lecture.columns) == ["64×64 (ms)", "512×512 (ms)"]
    assert list(lecture.index) == ["CPU, triple loop, one core", "GPU, naive", "GPU, tiled"]
    option = {"rows": {"register": "matmul_register", "none": "absent"}, "sizes": [512]}
    chosen = ladder.table(replace(study, options={"lecture": option}))
    assert chosen["512×512 (ms)"].dropna().tolist() == ["wrong", "not in the study"]
    for options in ({}, {"lecture": {"rows": {"none": "absent"}, "sizes": [512]}}):
        assert "lecture" not in ladder.table(replace(study, options=options))


@pytest.mark.parametrize(
    "name", [name for name in synthetic_studies.MAKERS if plots.offers(name, "summary")]
)
def test_summaries_of_a_study_without_cases(name: str) -> None:
    nothing = replace(synthetic.empty(name), cases=pd.DataFrame(columns=base.CASE_COLUMNS))
    module = plots.load(name)
    assert len(module.summary(module.table(nothing))) == 0
    assert len(module.summary(module.table(synthetic.empty(name)))) > 0


DURATIONS = [10.0, 12.0, 20.0, 10.0, 10.0]
BASELINES = [9.0, 12.0, 22.0, 8.0, 7.0]


def timed(case: str = "a@64", metric: str = "percent_of_cublas", **more: Any) -> dict[str, Any]:
    row = dict.fromkeys(tables.RECORD_COLUMNS)
    return row | {"case": case, "stage": "time", "metric": metric, "value": 90.0, "unit": "%",
                  "environment": "e1", "source": "events", "key": "k1", **more}  # fmt: skip


def samples(case: str = "a@64", stage: str = "time", **series: list[float]) -> list[dict[str, Any]]:
    return [
        {"case": case, "stage": stage, "key": "k1", "series": name, "index": i, "value": value}
        for name, values in series.items()
        for i, value in enumerate(values)
    ]


def shares_of(records: list[dict[str, Any]], rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(records, columns=tables.RECORD_COLUMNS)
    with_shares = tables.paired_shares(frame, pd.DataFrame(rows))
    pd.testing.assert_frame_equal(with_shares.iloc[: len(frame)], frame, check_dtype=False)
    return with_shares.iloc[len(frame) :]


def test_shares_are_those_of_neighbouring_samples() -> None:
    """In the third sample both ran at half the clock: the pairs cancel this, the medians do not."""
    rows = samples(duration_us=DURATIONS, baseline_us=BASELINES)
    shares = shares_of([timed(), timed(metric="duration")], rows)
    # Pairs: 90, 100, 110, 80 and 70 %.
    expected = {"paired_share_low": 80, "paired_share": 90, "paired_share_high": 100}
    assert dict(zip(shares["metric"], shares["value"])) == pytest.approx(expected)
    assert set(shares["unit"]) == {"%"} and set(shares["environment"]) == {"e1"}


def test_speeds_have_the_share_of_their_pairs() -> None:
    """Speeds are medians over the pairs between the quartiles: 90, 100 and 80 %."""
    rows = samples(duration_us=DURATIONS, baseline_us=BASELINES)
    figures = [timed(metric="tflops") | {"value": 10.0}]
    figures += [timed(metric="duration") | {"value": DURATIONS[0]}]
    shares = shares_of([timed(), *figures], rows).set_index("metric")["value"]
    middle = [0, 1, 3]
    for metric, series in (("paired_tflops", DURATIONS), ("paired_baseline_tflops", BASELINES)):
        usual = sorted(series[place] for place in middle)[1]
        assert shares[metric] == pytest.approx(10.0 * DURATIONS[0] / usual)


def test_shares_need_their_samples() -> None:
    both = samples(duration_us=DURATIONS, baseline_us=BASELINES)
    assert shares_of([timed("b@64")], both).empty
    assert shares_of([timed(metric="duration")], both).empty
    assert shares_of([timed()], samples(duration_us=DURATIONS)).empty
    assert shares_of([timed()], samples(stage="tune", duration_us=DURATIONS)).empty
    assert shares_of([timed()], []).empty
    # A sample without its partner forms no pair.
    shares = shares_of([timed()], samples(duration_us=DURATIONS, baseline_us=BASELINES[:1]))
    assert set(shares["value"]) == {90.0}
