"""The quantization figures: the error of the model, the tile that cuBLAS chose, shared SMs."""

import json
import math
from collections import defaultdict
from dataclasses import replace

import pandas as pd
import pytest

import synthetic
from tilewave.kernel.expressions import integer
from tilewave.pipeline.project import ROOT
from tilewave.plots import _quantization, _sweeps, tile_quantization, wave_quantization, waves_cured
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style, caption
from tilewave.records.recorded import Recorded
from tilewave.theory import quantization

WAVES, TILES = map(synthetic.make, ("wave_quantization", "tile_quantization"))
H200 = ROOT / "resources" / "recorded" / "nvidia_h200"


def first(study: StudyData) -> _sweeps.Sweep:
    return _sweeps.sweeps(study)[0]


def test_errors_are_of_the_model_with_a_single_fitted_number() -> None:
    swept = first(WAVES)
    assert swept.summary().median < 0.01 and abs(swept.summary().worst) < 0.012
    twice = {"value": 2 * swept.wave_time}
    late = first(synthetic.changed(WAVES, twice, metric="duration", m=2304, n=1616))
    at = late.frame.set_index("n")
    error = late.errors().set_axis(late.frame["n"])
    assert error[1616] == pytest.approx(2 * swept.wave_time / late.wave_time - 1)
    summary = late.summary()
    assert summary.worst == pytest.approx(error[1616]) and summary.median < 0.01
    assert late.frame["n"].iloc[summary.place] == 1616
    unranked = at.index[~at["ranks"]]
    assert len(unranked) and error[unranked].isna().all(), "wrong cases are not compared"


def test_a_wave_of_narrower_tiles_counts_as_less() -> None:
    widths = WAVES.cases["tile_n"].where(WAVES.cases["n"] > 1800, 96)
    swept = first(replace(WAVES, cases=WAVES.cases.assign(tile_n=widths)))
    frame = swept.frame.set_index("n")
    assert swept.tile[1] == 128 and len(swept.model) == len(frame)
    assert (frame["work"] / frame["waves"]).loc[[1616, 2000]].tolist() == [0.75, 1]


def test_the_table_has_errors_and_their_summary() -> None:
    table = wave_quantization.table(WAVES)
    swept = table[table["m"] == 2304]
    error = swept["measured / model - 1 (%)"]
    median = swept["sweep: median of its absolute value (%)"].iloc[0]
    assert error.abs().median() == pytest.approx(median)
    assert swept["sweep: worst (%)"].nunique() == 1
    assert error.abs().max() == pytest.approx(abs(swept["sweep: worst (%)"].iloc[0]))


def test_cycles_have_a_separate_model() -> None:
    swept = first(WAVES)
    assert swept.summary("cycles").median < 0.005
    records = WAVES.records
    two_waves = (records["metric"] == "duration") & (records["n"] > 1792)
    faster = records["value"].mask(two_waves, 0.8 * records["value"])  # a higher clock, say
    other = first(replace(WAVES, records=records.assign(value=faster)))
    assert other.summary().median > 0.01
    assert other.summary("cycles") == swept.summary("cycles")


def test_useful_share_is_the_inverse_of_the_operations() -> None:
    frame = first(TILES).frame.set_index("n")
    assert frame.loc[136, ["model_useful", "useful"]].tolist() == pytest.approx([136 / 256] * 2)
    assert frame.loc[128, "model_useful"] == 1.0


def test_tiles_of_cublas_are_shown_and_compared_with_its_operations() -> None:
    sweeps = _sweeps.sweeps(TILES)
    at = sweeps[0].frame.set_index("n")
    assert at.loc[136, "cublas_tile_m"] == 128 and at.loc[136, "cublas_tile_n"] == 256
    assert at.loc[136, "cublas_tile_ratio"] == pytest.approx(256 / 136)
    both = at[["cublas_ratio", "cublas_tile_ratio"]].dropna()
    assert list(both["cublas_ratio"]) == pytest.approx(list(both["cublas_tile_ratio"]), rel=0.01)
    assert len(both) >= 16
    # A name with rows and columns swapped does not fit the counts.
    sides = {"cublas_tile_m": "cublas_tile_n", "cublas_tile_n": "cublas_tile_m"}
    records = TILES.records.assign(metric=TILES.records["metric"].replace(sides))
    turned = first(replace(TILES, records=records)).frame
    assert not (turned["cublas_ratio"] / turned["cublas_tile_ratio"]).between(0.99, 1.01).all()


def test_names_of_vendor_kernels_stand_in_the_table() -> None:
    case = "cublas-typef16_f16@27648x136x4096"
    row = TILES.records[TILES.records["case"] == case].iloc[[0]]
    name = row.assign(metric="kernel_name", value=math.nan, text="nvjet_hsh_256x128_64x4_TNT")
    with_names = replace(TILES, records=pd.concat([TILES.records.assign(text=""), name]))
    table = tile_quantization.table(with_names).set_index("case")
    kernel = table.loc["hgemm_wmma_staged-raster1@27648x136x4096", "cuBLAS kernel"]
    assert kernel == "nvjet_hsh_256x128_64x4_TNT"


def test_cublas_of_other_layouts_is_another_product() -> None:
    kernels = TILES.cases["kernel"] != "cublas"
    layouts = TILES.cases["layouts"].astype(object).mask(kernels, json.dumps({"b": "col"}))
    frame = first(replace(TILES, cases=TILES.cases.assign(layouts=layouts))).frame
    assert frame["cublas_tile_m"].isna().all()
    assert frame["cublas_tflops"].notna().any(), "the paired figure is the case's own"


def test_two_blocks_an_sm_have_two_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sweeps, "blocks_per_sm_of", lambda *of: 2)
    swept = first(WAVES)
    # 264 slots: always one wave, but SMs with two blocks from 133 tiles on, as in the synthetic times.
    assert set(swept.frame["waves"]) == {1} and set(swept.frame["rounds"]) == {1, 2}
    assert abs(swept.summary().worst) > 0.4
    assert [n for n, _, _ in swept.edges("rounds")] == [1792.0]


@pytest.mark.skipif(not H200.is_dir(), reason="no recorded H200")
def test_recorded_sweeps_are_within_five_percent() -> None:
    recorded = Recorded(H200)
    sweeps: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for result in recorded.results():
        variant, _, shape = result.case.partition("@")
        if variant != "hgemm_wmma_staged-raster1" or result.stage != "time":
            continue
        sms = int(recorded.environments[result.environment]["sms"])
        m, n, k = (integer(size, {"sms": sms}) for size in shape.split("x"))
        durations_us = [f["value"] for f in result.figures if f["metric"] == "duration"]
        if k == 4096 and durations_us and n != m:
            blocks = quantization.tile_count({"m": m, "n": n, "k": k}, (256, 128))
            sweeps[m].append((quantization.waves(blocks, sms).count, durations_us[0]))
    assert set(sweeps) == {2304, 2816, 27648, 33792}
    for m, points in sweeps.items():
        counts, durations = zip(*points)
        time = quantization.fitted_time(durations, counts)
        errors = [d / (c * time) - 1 for c, d in points]
        assert quantization.prediction_error(errors).median < 0.05, f"M = {m}"


def test_a_figure_has_two_panels_and_one_drop() -> None:
    fig = synthetic.draw(wave_quantization, WAVES, Style())
    titles = [ax.get_title(loc="left") for ax in fig.axes]
    assert titles == ["TFLOP/s", "active cycles of an SM, average / maximum"]
    rates = first(WAVES).frame.set_index("n")["tflops"]
    lost = 1 - rates[1808] / rates[1792]
    assert f"−{100 * lost:.0f} %" in [text.get_text() for text in fig.axes[0].texts]
    finding = synthetic.finding("wave_quantization", WAVES)
    assert finding.startswith(f"Throughput falls by {100 * lost:.0f} %")
    error = first(WAVES).summary()
    at = first(WAVES).frame["n"].iloc[error.place]
    notes = " ".join(caption(fig))
    assert "the only number fitted" in notes and "256×128 tiles" in notes
    assert f"M = 2304: {100 * error.median:.1f} %, worst" in notes and f"at N = {at}" in notes


def test_options_choose_the_sweep() -> None:
    other = replace(WAVES, cases=WAVES.cases[::-1])
    sweeps = _sweeps.sweeps(other)
    assert _quantization.drawn(other, sweeps)[0].m == sweeps[0].m
    chosen = replace(other, options={"drawn": [sweeps[0].variant]})
    assert len(_quantization.drawn(chosen, sweeps, 8)) == 1 < len(sweeps)
    unknown = [replace(s, frame=s.frame.assign(tflops=math.nan)) for s in sweeps]
    assert _quantization.drawn(other, unknown) == []


def test_a_cured_kernel_loses_less_past_a_full_wave() -> None:
    cured = synthetic.make("waves_cured")
    cured = replace(cured, options={"names": {"even": "even tiles"}})
    fig = synthetic.draw(waves_cured, cured, Style())
    names = {text.get_text().partition(":")[0] for text in fig.axes[0].texts}
    assert names >= {"even tiles", "stream_k"}
    even = next(sweep for sweep in _sweeps.sweeps(cured) if sweep.variant == "even")
    rates = even.frame.set_index("n")["tflops"]
    lost = max(0.0, 1 - rates[1808] / rates[1792])
    assert f"even tiles: −{100 * lost:.0f} %" in [text.get_text() for text in fig.axes[0].texts]
    said = f"Even tiles lose at most {100 * lost:.0f} % from a full wave to the next N"
    assert synthetic.finding("waves_cured", cured) == said
    alone = replace(cured, cases=cured.cases[cured.cases["variant"] == "even"])
    assert synthetic.finding("waves_cured", alone) == ""
