"""The figure of an ablation: its labels, and cases of another environment."""

import json
from dataclasses import replace

import synthetic
from tilewave.plots import ablation
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style

SKEW = "hgemm_wmma_staged-skew0@4096x4096x4096"


def changes(study: StudyData) -> dict[str, str]:
    """Return the text beside each bar."""
    ax = synthetic.draw(ablation, study, Style()).axes[0]
    return dict(zip(synthetic.labels(ax), synthetic.labels(ax.child_axes[0]), strict=True))


def test_rows_say_which_macro_changed_and_how_much_it_buys() -> None:
    study = synthetic.make("ablation")
    macros = [json.dumps({"SKEW": 0 if "skew0" in case else 8}) for case in study.cases["case"]]
    rows = changes(replace(study, cases=study.cases.assign(macros=macros)))
    assert list(rows.items())[-1] == ("SKEW 8 → 0", "−36.4 %"), "the largest loss is last"
    assert "stages4" not in rows, "wrong: the caption names it"


def test_a_speed_of_another_environment_has_no_change() -> None:
    study = synthetic.changed(synthetic.make("ablation"), synthetic.ELSEWHERE, case=SKEW)
    assert "skew0" not in changes(study)
    table = ablation.table(study).set_index("case")
    assert table.loc[SKEW, "TFLOP/s"] == 250
