"""The figures: found by name, never failing on missing data, wrong never ranking, same bytes."""

import functools
import itertools
from dataclasses import replace
from pathlib import Path

import markupsafe
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import synthetic
import synthetic_studies
from tilewave import plots
from tilewave.basics.errors import UserError
from tilewave.plots import _captions, _sweeps, ablation, base, ladder, wavefronts
from tilewave.plots.style import GREY, PALETTE, TALLEST_MM, Style, caption, save

NAMES = sorted(synthetic_studies.MAKERS)
WIDTHS = (178.0, 85.0)


@functools.cache
def drawn(name: str, width: float) -> Figure:
    """Return a figure, laid out once; draw asks the records for no value a second time."""
    study, module = synthetic.make(name), plots.load(name)
    table = synthetic.table(name, study)

    def refuse(*args: object) -> None:
        raise AssertionError("a value was read from the records a second time")

    with pytest.MonkeyPatch.context() as patch:
        for question in ("value_of", "pivot", "over_2mnk", "text_of"):
            patch.setattr(base, question, refuse)
        return module.draw(study, table, Style(width_mm=width))


@functools.cache
def drawn_texts(name: str, width: float) -> list[tuple[str, Bbox]]:
    return synthetic.texts_of(drawn(name, width))


def test_what_a_module_offers() -> None:
    assert set(NAMES) == set(plots.MODULES.names()), "a test draws every plot"
    for name in plots.MODULES.names():
        module = plots.load(name)
        assert plots.reading(name).endswith(".")
        assert plots.offers(name, "summary") == hasattr(module, "summary")


def test_unknown_plot_lists_those_there_are() -> None:
    with pytest.raises(UserError, match=r"config\.yaml: studies\.x\.plot is 'laddr'.*ladder"):
        plots.load("laddr", "config.yaml", "studies.x.plot")
    for helper in ("base", "style", "_quantization"):
        with pytest.raises(UserError):
            plots.load(helper)


def test_a_suffix_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        save(drawn("latency", 178.0), tmp_path / "l.jpg")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_texts_stay_inside_and_apart(name: str, width: float) -> None:
    edge = drawn(name, width).bbox
    texts = drawn_texts(name, width)
    for text, box in texts:
        assert box.x0 >= -1 and box.x1 <= edge.x1 + 1, f"{text!r} leaves the figure"
        assert box.y0 >= -1 and box.y1 <= edge.y1 + 1, f"{text!r} leaves the figure"
    for (first, a), (second, b) in itertools.combinations(texts, 2):
        wide = min(a.x1, b.x1) - max(a.x0, b.x0)
        high = min(a.y1, b.y1) - max(a.y0, b.y0)
        slanted = first == second and first.endswith(" ")  # the characters of one text
        assert slanted or not (wide > 1.5 and high > 2.5), f"{first!r} and {second!r} overlap"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_a_figure_fits_a_column_and_makes_one_point(name: str, width: float) -> None:
    """At most 120 mm high, no title of its own, at most twelve rows or eight series, no text under 7 points."""
    fig = drawn(name, width)
    assert fig.get_figheight() * 25.4 <= TALLEST_MM + 1e-6 and fig.get_suptitle() == ""
    assert fig.get_figwidth() * 25.4 == pytest.approx(width)
    for ax in fig.axes:
        assert len(ax.get_yticklabels()) <= 12 and len(ax.get_legend_handles_labels()[0]) <= 8
        assert all(text.get_fontsize() >= 7 for text in ax.findobj(Text) if text.get_text())


def test_colours_stand_out_from_the_page() -> None:
    def luminance(color: str) -> float:
        shares = to_rgb(color)
        parts = [s / 12.92 if s <= 0.03928 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    for color in (*PALETTE, GREY):
        assert 1.05 / (luminance(color) + 0.05) >= 4.5, color


@pytest.mark.parametrize("name", NAMES)
def test_same_tables_same_bytes(name: str, tmp_path: Path) -> None:
    suffixes = ("svg", "pdf", "png") if name == "latency" else ("svg",)
    again = synthetic.draw(plots.load(name), synthetic.make(name), Style())
    for run, fig in (("a", drawn(name, 178.0)), ("b", again)):
        for suffix in suffixes:
            save(fig, tmp_path / f"{run}.{suffix}")
    for suffix in suffixes:
        first = (tmp_path / f"a.{suffix}").read_bytes()
        assert first == (tmp_path / f"b.{suffix}").read_bytes()
        for word in (b"Matplotlib", b"matplotlib.org", b"CreationDate", b"<dc:date>"):
            assert word not in first, f"{suffix} holds {word!r}"
        # Characters of an SVG are outlines, which need no font.
        assert suffix != "svg" or not (b"<text" in first or b"font-family" in first)


@pytest.mark.parametrize("name", NAMES)
def test_no_record_at_all_says_so(name: str) -> None:
    study = synthetic.empty(name)
    assert set(synthetic.table(name, study)["status"].dropna()) == {"not measured"}
    text = synthetic.said(synthetic.draw(plots.load(name), study, Style(width_mm=86)))
    assert "not measured" in text and "source: no measurement" in text


@pytest.mark.parametrize("name", NAMES)
def test_no_case_at_all(name: str) -> None:
    columns = pd.DataFrame(columns=base.CASE_COLUMNS)
    study = replace(synthetic.empty(name), cases=columns, environments={})
    module = plots.load(name)
    assert len(module.table(study)) == 0 and base.case_order(study) == []
    assert "no case" in synthetic.said(synthetic.draw(module, study, Style()))


@pytest.mark.parametrize("name", NAMES)
def test_tables_name_units_and_status(name: str) -> None:
    table = synthetic.table(name, synthetic.make(name))
    assert {"verdict", "status", "reason", "source"} <= set(table.columns)
    assert len(table) > 0 and table.columns.is_unique


@pytest.mark.parametrize("name", NAMES)
def test_what_a_figure_says_first(name: str) -> None:
    sentence = synthetic.finding(name, synthetic.make(name))
    assert len(sentence.split()) <= 18 and sentence == synthetic_studies.FIGURES["findings"][name]
    if name != "claims":  # theory alone judges some of them
        assert synthetic.finding(name, synthetic.empty(name)) == ""


def test_wrong_case_never_ranks() -> None:
    study = synthetic.make("ladder")
    assert "matmul_two_outputs@4096x4096x4096" not in base.ranking(study)
    rows, _ = ladder._drawn(study, ladder.table(study))
    variants = set(rows["variant"])
    assert "matmul_two_outputs" not in variants and "matmul_tiled" in variants
    assert "wrong: matmul_two_outputs@" in " ".join(caption(drawn("ladder", 178.0)))
    study = synthetic.make("ablation")
    assert "hgemm_wmma_staged-stages4@4096x4096x4096" not in ablation._change(study).index
    swept = _sweeps.sweeps(synthetic.make("tile_quantization"))[0]
    assert not swept.frame.set_index("n").loc[176, "ranks"]
    # A case without a verdict does not rank either.
    records = study.records.assign(verdict=None)
    assert base.ranking(replace(study, records=records)) == []
    assert set(base.verdicts(replace(study, records=records)).values()) == {"not checked"}


def test_wrong_outweighs_correct_and_statuses_are_the_worst() -> None:
    study = synthetic.make("latency")
    case = "latency-levell1@l1"
    row = study.records[study.records["case"] == case].iloc[[0]]
    row = row.assign(stage="time", verdict="wrong", status="stale", reason="moved")
    study = replace(study, records=pd.concat([study.records, row]))
    assert base.verdicts(study)[case] == "wrong"
    assert base.statuses(study)[case] == base.Missing(case, "stale", "moved")
    assert base.statuses(study, ("check",))[case].status == "ok"
    assert base.Missing(case, "stale", "moved") in base.missing_cases(study)


def test_a_figure_lists_what_was_disturbed() -> None:
    study = synthetic.make("ladder")
    case = base.ranking(study)[0]
    timed = study.records["case"].eq(case) & study.records["stage"].eq("time")
    reason = study.records["reason"].mask(timed, "disturbed: the GPU was slowed down: thermal")
    study = replace(study, records=study.records.assign(reason=reason))
    gone = base.Missing(case, "disturbed", "the GPU was slowed down: thermal")
    assert timed.any() and gone in base.missing_cases(study) and case in base.ranking(study)


def test_reasons_that_differ_by_numbers_are_listed_once() -> None:
    study = synthetic.make("latency")
    reasons = ["no GPU", "predicted 5.04 s exceeds 5", "predicted 88 s exceeds 5"]
    by_case = dict(zip(base.case_order(study), reasons))
    records = study.records[study.records["case"].isin(by_case)]
    records = records.assign(status="not measured", reason=records["case"].map(by_case))
    study = replace(study, cases=study.cases[study.cases["case"].isin(by_case)], records=records)
    assert _captions.missing_notes(study) == [
        "not measured (no GPU): latency-levelregister@register",
        "not measured (predicted 5.04 to 88 s exceeds 5): latency-levelshared@shared, "
        "latency-levelconstant@constant",
    ]


def test_values_in_config_order_and_only_ok() -> None:
    study = synthetic.make("latency")
    values = base.value_of(study, "latency")
    assert list(values.index) == [c for c in base.case_order(study) if c in values.index]
    stale = study.records.assign(status="stale")
    assert base.value_of(replace(study, records=stale), "latency").empty
    frame = base.pivot(study, ["latency", "nothing"])
    assert len(frame) == 6 and frame["nothing"].isna().all()


def test_ratios_stay_inside_an_environment() -> None:
    study = synthetic.make("ablation")
    other = "hgemm_wmma_staged-copyca@4096x4096x4096"
    assert other in ablation._change(study).index
    mixed = synthetic.changed(study, synthetic.ELSEWHERE, case=other)
    assert other not in ablation._change(mixed).index
    source = _captions.source_line(mixed)
    assert "2 environments, no ratio" in source
    assert "recorded on NVIDIA H200 (ncu 2025.3.1, driver 580.159.03" in source
    assert "measured live on NVIDIA L4" in source
    shown = synthetic.said(synthetic.draw(ablation, mixed, Style()))
    assert "2 environments" in shown and "stages2" in shown and "copyca" not in shown


def test_every_figure_names_its_source() -> None:
    for name, width in itertools.product(NAMES, WIDTHS):
        text = " ".join(caption(drawn(name, width)))
        if name == "exactness":
            assert "sources: 2 environments, counts are compared between them" in text
            assert "recorded on NVIDIA H200" in text and "executed on the CPU" in text
        else:
            assert "source: recorded on NVIDIA H200" in text
        *notes, last = caption(drawn(name, width))
        assert "recorded on NVIDIA H200" in last
        shown = " ".join(text for text, _ in drawn_texts(name, width))
        assert "source: " not in shown and not any(note in shown for note in notes)


def test_wavefronts_show_who_pays() -> None:
    study = synthetic.make("wavefronts")
    kinds = wavefronts.by_kind(study).set_index(["case", "kind"])
    padded = "hgemm_wmma_staged@2048x2048x2048"
    assert kinds.loc[(padded, "LDSM"), "excess"] == 0
    assert kinds.loc[(padded, "LDGSTS"), "excess"] == 5898240 - 1572864
    bare = "hgemm_wmma_staged-skew0@2048x2048x2048"
    assert kinds.loc[(bare, "LDSM"), "excess"] > 0 == kinds.loc[(bare, "LDGSTS"), "excess"]
    table = wavefronts.table(study)
    assert table["wavefronts / ideal"].max() == pytest.approx(6.7e7 / 4.2e6)
    assert len(table[table["kind"].isna()]) == 1, "a kernel without shared memory has one row"


def test_wavefronts_from_records_where_instructions_are_gone() -> None:
    study = synthetic.make("wavefronts")
    case = base.case_order(study)[1]
    row = study.records[study.records["case"] == case].iloc[[0]]
    counted = row.assign(metric="wavefronts_shared_LDS", value=8.0, stage="counters")
    ideal = row.assign(metric="wavefronts_shared_ideal_LDS", value=2.0, stage="counters")
    records = pd.concat([study.records, counted, ideal])
    study = replace(study, instructions=study.instructions.iloc[:0], records=records)
    kinds = wavefronts.by_kind(study)
    assert kinds[["case", "kind", "excess"]].to_numpy().tolist() == [[case, "LDS", 6.0]]


def test_wave_boundaries_are_those_of_the_gpu() -> None:
    by_m = {s.m: s for s in _sweeps.sweeps(synthetic.make("wave_quantization"))}
    assert [n for n, _, _ in by_m[2304].edges("waves")] == [1792.0], "no step at 1664 on 132 SMs"
    assert [n for n, _, _ in by_m[2816].edges("waves")] == [1536.0]
    assert [n for n, _, _ in by_m[2304].edges("columns")][:2] == [1408.0, 1536.0]
    assert by_m[2304].wave_time == pytest.approx(90.0, rel=0.02)
    assert by_m[2304].blocks_per_sm == 1


@pytest.mark.parametrize("name", [n for n in NAMES if hasattr(plots.load(n), "page_table")])
def test_a_page_shows_rows_of_the_csv_with_small_bars(name: str, tmp_path: Path) -> None:
    table = synthetic.table(name, synthetic.make(name))
    table.to_csv(tmp_path / "data.csv", index=False)
    shown = plots.load(name).page_table(pd.read_csv(tmp_path / "data.csv"))
    assert 0 < len(shown) <= len(table) and len(shown.columns) < len(table.columns)
    bars = [cell for cell in shown.to_numpy().ravel() if "<meter" in str(cell)]
    assert bars or name == "claims"
    assert all(isinstance(bar, markupsafe.Markup) for bar in bars), "escaped, it would be text"
