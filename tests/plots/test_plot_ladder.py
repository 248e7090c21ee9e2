"""The ladder: rungs in their order, shares of cuBLAS from pairs of samples, its summary."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import synthetic
from samples import ROOT
from tilewave import plots
from tilewave.pipeline import project, tables
from tilewave.plots import _rungs, base, ladder
from tilewave.plots.style import GOOD, Style, caption

TILED = "matmul_tiled"


@pytest.fixture
def study() -> Any:
    return synthetic.make("ladder")


def cases(*pairs: tuple[str, str | None]) -> pd.DataFrame:
    return pd.DataFrame(pairs, columns=["kernel", "follows"])


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("c", "b"), ("b", "a"), ("a", None)], "a b c"),
        # Branches that follow the same rung come one after the other.
        ([("a", None), ("x", "a"), ("b", "a"), ("y", "x")], "a x y b"),
        # A rung may follow a kernel outside the study; cuBLAS is no rung.
        ([("cublas", None), ("b", "elsewhere"), ("c", "b")], "b c cublas"),
        # A circle keeps all rungs.
        ([("a", "b"), ("b", "a")], "a b"),
    ],
)
def test_order(pairs: list[tuple[str, str | None]], expected: str) -> None:
    assert _rungs.order(cases(*pairs)) == expected.split()


def test_rows_stand_in_the_order_of_the_rungs(study: Any) -> None:
    assert study.cases["kernel"].iloc[0] == "hgemm_top", (
        "listed first, drawn behind what it follows"
    )
    fig = synthetic.draw(ladder, study, Style())
    panels = {ax.get_title(loc="left"): ax for ax in fig.axes[::3]}
    assert list(panels) == ["FP16 (FP32 sum)", "FP32", "FP64", "FP16 (FP16 sum)"]
    ax = panels["FP16 (FP32 sum)"]
    assert synthetic.labels(ax) == ["hgemm_wmma", "hgemm_wmma_staged", "hgemm_top"]
    assert [text.get_text() for text in ax.texts] == ["100 %: 685 TFLOP/s"], "cuBLAS's own"
    # Only cuBLAS has tf32 here: no panel.
    assert "TF32" not in panels


def test_a_dtype_without_a_measurement_is_named(study: Any) -> None:
    cases = study.cases.set_index("case")["dtype"]
    measured = study.records[study.records["case"].map(cases) != "f64"]
    fig = synthetic.draw(ladder, replace(study, records=measured), Style())
    assert "FP64" not in [ax.get_title(loc="left") for ax in fig.axes]
    assert "No share was measured of FP64" in synthetic.said(fig)


def test_who_passes_cublas(study: Any) -> None:
    numbers = synthetic.draw(ladder, study, Style()).axes[1]
    numbers_by_text = {t.get_text(): t for t in numbers.texts}
    # 720 n^3 / (n^3 + 900^3) TFLOP/s beside 685.
    assert {"62.6", "96.9", "104.0", "105.0"} <= set(numbers_by_text)
    assert [numbers_by_text[text].get_color() == GOOD for text in ("96.9", "104.0")] == [
        False,
        True,
    ]
    left = synthetic.draw(ladder, study, Style()).axes[0]
    at_100 = [line for line in left.lines if list(line.get_xdata()) == [100, 100]]
    assert len(at_100) == 1


def test_more_work_than_2mnk_is_named(study: Any) -> None:
    tiled = {"variant": "matmul_tiled-tile32", "metric": "counted_flops"}
    more = synthetic.changed(study, {"value": 2.0 * 4096**3 * 1.032}, **tiled)
    said = caption(synthetic.draw(ladder, more, Style()))
    named = "FLOPs counted over 2mnk: 1.000 to 1.008; more than that: matmul_tiled tile32 1.032."
    assert named in said


def test_whiskers_are_the_quartiles(study: Any) -> None:
    left = synthetic.draw(ladder, study, Style()).axes[0]
    share = 100 * 720 / (1 + (900 / 4096) ** 3) / 685
    whiskers = [line.get_xdata() for line in left.lines if line.get_marker() == "None"]
    assert any(np.allclose(whisker, [0.996 * share, 1.009 * share]) for whisker in whiskers)


def test_table_and_summary(study: Any) -> None:
    table = ladder.table(study).set_index("case")
    row = table.loc["hgemm_top@4096x4096x4096"]
    share = 100 * 720 / (1 + (900 / 4096) ** 3) / 685
    assert row["% of cuBLAS"] == pytest.approx(share)
    assert row["upper quartile (%)"] - row["lower quartile (%)"] == pytest.approx(0.013 * share)
    assert table.index.notna().sum() == len(study.cases)

    short = plots.summary("ladder", ladder.table(study))
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


def test_code_of_the_cpu_has_no_row(study: Any) -> None:
    naive = study.cases["variant"] == "matmul_naive"
    with_cpu = replace(study, cases=study.cases.assign(provider=np.where(naive, "cpu", "nvrtc")))
    labels = synthetic.labels(*synthetic.draw(ladder, with_cpu, Style()).axes[::3])
    assert "matmul_naive" in set(study.cases["variant"]) and "matmul_tiled" in labels
    assert labels.count("matmul_naive") == 1, "the f64 one, which a GPU runs"


def test_the_largest_shapes_have_shares(study: Any) -> None:
    fig = synthetic.draw(ladder, study, Style())
    assert len(fig.axes) == 3 * 4, "shares, numbers and speeds of each dtype"
    sizes = [label.get_text() for label in fig.axes[1].get_xticklabels()]
    assert sizes == ["1024", "2048", "4096", "8192"]
    assert len(synthetic.draw(ladder, study, Style(width_mm=86)).axes) == 4, "shares alone"
    assert synthetic.draw(ladder, synthetic.ladder((1024,)), Style()).axes


def test_the_named_rungs_are_drawn(study: Any) -> None:
    named = {"f32": ["matmul_naive", "matmul_tiled tile32"], "f64": ["matmul_tiled"]}
    chosen = replace(study, options={"rungs": named})
    fig = synthetic.draw(ladder, chosen, Style())
    labels = {ax.get_title(loc="left"): synthetic.labels(ax) for ax in fig.axes[::3]}
    assert labels["FP32"] == named["f32"] and labels["FP64"] == named["f64"]
    assert len(labels["FP16 (FP32 sum)"]) == 3, "all of a dtype that is not named"
    assert len(fig.axes[5].lines) >= 3, "with cuBLAS"
    assert set(ladder.table(chosen)["variant"]) == set(study.cases["variant"])
    chosen = replace(study, options={"rungs": {"f16_f16": ["hgemm_wmma_staged"]}})
    assert "failed to launch" not in synthetic.said(synthetic.draw(ladder, chosen, Style()))


@pytest.mark.parametrize("study", ["ladder", "roofline"])
def test_the_rungs_of_the_config_are_its_cases(study: str) -> None:
    text = (ROOT / "config/config.yaml").read_text()
    loaded = project.load(yaml.safe_load(text), "config.yaml")
    names = set()
    for case in loaded.plan.studies[study]:
        variant = loaded.plan.cases[case].variant
        if variant.kernel.front.follows:
            row = {"kernel": variant.kernel.name, "variant": variant.id}
            label = base.variant_label(row, variant.dtype).replace("\n", " ")
            names.add((variant.dtype, label))
    rungs = loaded.config.studies[study].options["rungs"]
    assert {(dtype, rung) for dtype, few in rungs.items() for rung in few} <= names


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
    assert percent[f"{TILED}@8192x8192x8192"] == percent[f"{TILED}@4096x4096x4096"] == 100


def test_dots_are_where_variants_arrive(study: Any) -> None:
    # n^3 / (n^3 + 900^3) passes 0.9 between 1872 and 1873: of the GPU's 12 own variants that rank none is early.
    arrivals = ladder._arrivals(ladder._cubes(ladder._cases(ladder.table(study))))
    kernels = arrivals[arrivals["kernel"] != "cublas"]
    assert len(kernels) == 12 and set(kernels["n"]) == {2048}
    assert set(arrivals.loc[arrivals["kernel"] == "cublas", "n"]) == {64}
    assert "not correct, not ranked" in synthetic.said(synthetic.draw(ladder, study, Style()))


def test_a_line_breaks_where_a_size_does_not_rank(study: Any) -> None:
    fig = synthetic.draw(ladder, study, Style())
    (at,) = [i for i, ax in enumerate(fig.axes) if ax.get_title(loc="left") == "FP32"]
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in fig.axes[at + 2].lines]
    sizes = [64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0]
    gaps = [[x for x, y in zip(*line) if pd.isna(y)] for line in lines if line[0] == sizes]
    assert gaps.count([512.0]) == 1, "the wrong one, of matmul_register"
    assert gaps.count(sizes) == 1, "of matmul_two_outputs, which is wrong everywhere"
    assert gaps.count([]) == 5, "cuBLAS and four rungs"
    crosses = [line[0] for line in lines if line[0] not in ([], sizes)]
    assert sorted(crosses[-1]) == sorted([*sizes, 512.0]), "the crosses of what is wrong"


def test_a_dtype_without_cubes_has_no_lines(study: Any) -> None:
    other = study.cases["dtype"].eq("f64")
    changed = replace(study, cases=study.cases.assign(n=study.cases["n"].mask(other, 100)))
    fig = synthetic.draw(ladder, changed, Style())
    (at,) = [i for i, ax in enumerate(fig.axes) if ax.get_title(loc="left") == "FP64"]
    assert all(pd.isna(line.get_ydata()).all() for line in fig.axes[at + 2].lines)
    assert "×" in fig.axes[1].get_xticklabels()[0].get_text()


def test_lecture_table(study: Any) -> None:
    lecture = ladder.table(study).dropna(subset="lecture").set_index("lecture").dropna(axis=1)
    assert list(lecture.columns) == ["64×64 (ms)", "512×512 (ms)"]
    assert list(lecture.index) == ["CPU, triple loop, one core", "GPU, naive", "GPU, tiled"]
    option = {"rows": {"register": "matmul_register", "none": "absent"}, "sizes": [512]}
    chosen = ladder.table(replace(study, options={"lecture": option}))
    assert chosen["512×512 (ms)"].dropna().tolist() == ["wrong", "not in the study"]
    nothing = {"rows": {"none": "absent"}, "sizes": [512]}
    for options in ({}, {"lecture": nothing}):
        assert "lecture" not in ladder.table(replace(study, options=options))


@pytest.mark.parametrize("name", [name for name in synthetic.MAKERS if plots.has_summary(name)])
def test_summaries_of_a_study_without_cases(name: str) -> None:
    nothing = replace(synthetic.empty(name), cases=pd.DataFrame(columns=base.CASE_COLUMNS))
    module = plots.load(name)
    assert len(plots.summary(name, module.table(nothing))) == 0
    assert len(plots.summary(name, module.table(synthetic.empty(name)))) > 0


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
    assert dict(zip(shares["metric"], shares["value"])) == {
        "paired_share_low": pytest.approx(80),
        "paired_share": pytest.approx(90),
        "paired_share_high": pytest.approx(100),
    }
    assert set(shares["unit"]) == {"%"} and set(shares["environment"]) == {"e1"}


def test_speeds_have_the_share_of_their_pairs() -> None:
    """Speeds are medians over the pairs between the quartiles: 90, 100 and 80 %."""
    rows = samples(duration_us=DURATIONS, baseline_us=BASELINES)
    figures = [
        timed(metric="tflops") | {"value": 10.0},
        timed(metric="duration") | {"value": DURATIONS[0]},
    ]
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
