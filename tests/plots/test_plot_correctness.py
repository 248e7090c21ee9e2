"""The figure of correctness: its title, its folded rows, and endings that are no failure."""

from dataclasses import replace

import synthetic
from tilewave.plots import correctness
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style


def ended(study: StudyData, case: str, ends: str) -> StudyData:
    """Return the study with a case that timed out, and whose kernel file says that it ends so."""
    about = [ends if name == case else "ok" for name in study.cases["case"]]
    timed_out = {"status": "timed out", "verdict": None, "value": None}
    study = synthetic.changed(study, timed_out, case=case)
    return replace(study, cases=study.cases.assign(ends=about))


def test_all_cases_may_be_right() -> None:
    study = synthetic.make("correctness")
    right = study.records[~study.records["status"].eq("invalid access")]
    right = right[right["verdict"] != "wrong"]
    cases = study.cases[study.cases["case"].isin(right["case"])]
    finding = synthetic.finding("correctness", replace(study, records=right, cases=cases))
    assert finding == "All 160 cases that this study checks are correct"


def test_an_ending_that_the_file_announces_is_no_failure() -> None:
    case = "barrier_divergent-fragmenttwo@two_lanes_all"
    study = synthetic.make("correctness")
    for ends, expected in (("timed out", correctness.EXPECTED), ("ok", "fails")):
        table = correctness.table(ended(study, case, ends))
        shown = correctness.shown(table)[table["case"] == case]
        assert list(shown) == [expected]
        assert list(table[table["case"] == case]["outcome"]) == ["timed out"]


def test_a_dtype_has_its_errors_and_how_many_are_right() -> None:
    study = synthetic.make("correctness")
    for to, metric in (("relative_error", "max_error"), ("relative_tolerance", "tolerance")):
        study = synthetic.changed(study, {"metric": to}, metric=metric)
    (ax,) = (fig := synthetic.draw(correctness, study, Style())).axes
    legend = [text.get_text() for text in fig.legends[0].get_texts()]
    assert legend == ["tolerance", "error", "error of a case that fails"]
    counts = dict(zip(synthetic.labels(ax), synthetic.labels(ax.child_axes[0]), strict=True))
    outcomes = correctness.shown(correctness.table(study)).value_counts()
    pairs = [tuple(map(int, text.split(" of "))) for text in counts.values()]
    right, checked = map(sum, zip(*pairs, strict=True))
    assert right == outcomes["right"] and checked == right + outcomes["fails"]
    assert f"{right} of {checked} right" in [text.get_text() for text in ax.texts]
