"""The figure of the rules that pick a variant: trials, regrets, what it says."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.figure import Figure

import synthetic
from tilewave.plots import pick
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style

REGRET = "regret of {} (%)"


@pytest.fixture(scope="module")
def study() -> StudyData:
    """The races, of which those at 120x4096x4096 are timed instead."""
    raced = synthetic.make("best")
    records = raced.records.copy()
    there = (records["m"] == 120) & (records["stage"] == "tune")
    records.loc[there, "stage"] = "time"
    records.loc[there & (records["metric"] == "tune_duration"), "metric"] = "duration"
    return replace(raced, name="pick", records=records)


def test_trials_of_races_and_times(study: StudyData) -> None:
    table = pick.table(study)
    # f32 has one variant: no choice. The model is fitted at three of five shapes.
    assert set(table["dtype"]) == {"f16_f32"} and len(table) == 5
    trials = table[~table["fitted here"].astype(bool)].set_index("m")
    assert list(trials["measured in"]) == ["races", "turn with cuBLAS"]
    assert trials.loc[2304, REGRET.format("costs")] == 0.0
    assert trials.loc[120, REGRET.format("costs")] == pytest.approx(100 * 3 / 27)
    assert trials.loc[2304, REGRET.format("whole waves")] == pytest.approx(100 * 20 / 110)
    fitted = table[table["fitted here"].astype(bool)]
    assert fitted[[REGRET.format(rule) for rule in pick.RULES]].isna().all(axis=None)


def test_a_shape_that_was_raced_and_timed_is_one_trial(study: StudyData) -> None:
    races = study.records[(study.records["m"] == 2304) & (study.records["stage"] == "tune")]
    timed = races.assign(stage="time", metric=races["metric"].str.removeprefix("tune_"))
    both = replace(study, records=pd.concat([study.records, timed], ignore_index=True))
    assert len(pick.table(both)) == 5


def test_the_rules_summed_up_and_the_finding(study: StudyData) -> None:
    table = pick.table(study)
    found = pick.summary(table).set_index(["dtype", "rule"])
    worst = found["worst regret (%)"]["all"]
    assert worst["costs"] == pytest.approx(100 * 3 / 27)
    assert worst["whole waves"] == pytest.approx(100 * 20 / 110)
    assert found.loc[("f16_f32", "whole waves"), "above 15 %"] == 1
    assert pick.takeaway(study, table) == (
        "At 2 shapes where not all variants were fitted, the model's pick is 5.6 % slower than the best variant in the "
        "median and 11 % at worst; by whole waves at worst 18 %"
    )


@pytest.mark.parametrize("width", [178.0, 86.0])
def test_what_the_figure_says(study: StudyData, width: float) -> None:
    fig = synthetic.draw(pick, study, Style(width_mm=width))
    found = synthetic.texts_of(fig)
    said = synthetic.said(fig)
    for words in ("whole waves", "regret (%)", "expected over measured", "256³", "1 of the trials"):
        assert words in said
    for text, box in found:
        assert box.x0 >= -1 and box.x1 <= fig.bbox.x1 + 1, f"{text!r} leaves the figure"


def test_nothing_to_try(study: StudyData) -> None:
    bare = replace(study, environments=synthetic.ENVIRONMENTS)
    summed = pick.summary(pick.table(bare))
    assert summed.empty and list(summed) == list(pick.summary(pick.table(study)))
    assert pick.table(bare).empty and pick.takeaway(bare, pick.table(bare)) == ""
    assert isinstance(synthetic.draw(pick, bare, Style()), Figure)
    assert isinstance(synthetic.draw(pick, synthetic.empty("ladder"), Style()), Figure)
