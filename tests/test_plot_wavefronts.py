"""The figure of wavefronts: who has excess, in which order, and what it says first."""

from __future__ import annotations

from dataclasses import replace

import synthetic
from tilewave.plots import wavefronts
from tilewave.plots.style import Style


def test_the_most_excess_stands_first_and_wrong_cases_last() -> None:
    rows = wavefronts.burdened(wavefronts.table(synthetic.make("wavefronts")))
    told = list(zip(rows["variant"], rows["kind"], strict=True))
    assert told[0] == ("matmul_double_buffered-pad0", "STS")
    assert told[-1] == ("hgemm_wmma_staged-stages2", "LDGSTS") and not rows["ranks"].iloc[-1]
    assert "matmul_tiled" not in set(rows["variant"])


def test_takeaway() -> None:
    study = synthetic.make("wavefronts")
    told = wavefronts.takeaway(study, wavefronts.table(study))
    assert told.startswith("4 of 5 variants") and "matmul_double_buffered pad0 most" in told
    assert "STS takes 15.95 times" in told and "0 for 0 of them" in told
    cases = study.cases[study.cases["variant"] == "matmul_tiled"]
    clean = wavefronts.table(replace(study, cases=cases))
    assert wavefronts.takeaway(study, clean).startswith("None of 1 variants")
    bare = synthetic.empty("wavefronts")
    assert wavefronts.takeaway(bare, wavefronts.table(bare)) == ""


def test_variants_without_excess_are_one_row() -> None:
    study = synthetic.make("wavefronts")
    ax = synthetic.draw(wavefronts, study, Style()).axes[0]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[-1] == "no excess: 1 variants"
    cases = study.cases[study.cases["variant"] == "matmul_tiled"]
    fig = synthetic.draw(wavefronts, replace(study, cases=cases), Style())
    assert len(fig.axes) == 1
