"""The figure of an ablation: its labels, and cases of another environment."""

import json
from dataclasses import replace

import synthetic
from tilewave.plots import ablation
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style

SKEW = "hgemm_wmma_staged-skew0@4096x4096x4096"


def bar_labels(study: StudyData) -> dict[str, str]:
    """Return the text beside the bars of speed, by row."""
    ax = synthetic.draw(ablation, study, Style()).axes[0]
    labels = synthetic.labels(ax)
    return {labels[round(float(text.xy[1]))]: text.get_text() for text in ax.texts}  # type: ignore[attr-defined]


def test_rows_say_which_macro_changed_and_how_much_it_buys() -> None:
    study = synthetic.make("ablation")
    macros = [json.dumps({"SKEW": 0 if "skew0" in case else 8}) for case in study.cases["case"]]
    labels = bar_labels(replace(study, cases=study.cases.assign(macros=macros)))
    assert next(iter(labels)) == "default" and labels["SKEW 8 → 0"] == "−36.4 % (250)"
    assert labels["stages4"] == "wrong, not ranked"


def test_a_speed_of_another_environment_is_shown_without_a_ratio() -> None:
    study = synthetic.changed(synthetic.make("ablation"), synthetic.ELSEWHERE, case=SKEW)
    assert bar_labels(study)["skew0"] == "250 TFLOP/s, other environment"
    bars = synthetic.draw(ablation, study, Style()).axes[0].patches
    hatched = [bar.get_width() for bar in bars if bar.get_hatch()]  # type: ignore[attr-defined]
    assert hatched == [250.0]
