"""The figure of shared accesses: what it finds, and how it tells what was not as predicted."""

from dataclasses import replace

import pandas as pd

import synthetic
from tilewave.plots import shared_access
from tilewave.plots.style import Style


def test_the_finding_counts_patterns() -> None:
    study, off = synthetic.make("shared_access"), {"probe_case": "store_64_pairs"}
    wrong = synthetic.changed(study, {"verdict": "wrong"}, **off)
    assert synthetic.finding("shared_access", wrong).startswith("26 of 26 access patterns cost")


def test_what_ncu_attributes_otherwise_is_a_mark_of_its_own() -> None:
    study = synthetic.make("shared_access")
    kept = study.records["probe_case"] != "store_64_pairs"
    records = study.records[kept].copy()
    row = records[(records["probe_case"] == "load_128_pairs") & (records["metric"] == "wavefronts")]
    again = row.assign(metric="wavefronts_by_instruction", value=9.0)
    study = replace(study, records=pd.concat([records, again], ignore_index=True))
    fig = synthetic.draw(shared_access, study, Style())
    marks = {str(m.get_label()): m.get_offsets() for m in fig.axes[0].collections}
    assert marks["attributed to its address by ncu, where different"].tolist() == [[9.0, 10.0]]
    assert len(marks["expected"]) == 14
