"""The figures of latencies, shared accesses and wavefronts: claims, predictions and excess beside measurements."""

import json
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import synthetic
from tilewave.plots import latency, shared_access, wavefronts
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style


def clocked(**clocks: Any) -> StudyData:
    study = synthetic.make("latency")
    environments = {
        name: {**facts, "sm_clock_max_mhz": clocks.get(name.partition("-")[0])}
        for name, facts in study.environments.items()
    }
    return replace(study, environments=environments)


def test_nanoseconds_need_a_common_clock() -> None:
    study = clocked(h200=2000)
    assert latency.clock_mhz(study) == 2000
    table = latency.table(study).set_index("probe_case")
    assert table.at["register", "measured (ns at 2000 MHz)"] == pytest.approx(2.05)
    assert latency.clock_mhz(synthetic.make("latency")) is None
    both = clocked(h200=2000, here=1000)
    mixed = synthetic.changed(both, {"environment": "here"}, probe_case="shared")
    assert latency.clock_mhz(mixed) is None
    assert not [name for name in latency.table(mixed) if "ns at" in name]


def test_labels_say_how_many_times_the_claim() -> None:
    fig = synthetic.draw(latency, clocked(h200=1980), Style())
    labels = synthetic.labels(fig.axes[0].child_axes[0])
    assert labels[0] == "4.10   (4.10 × 1 claimed)"
    assert labels[1] == "29.0   (5.80 × 5 claimed)"
    assert labels[3] == "38.6", "L1 has no claim"
    assert labels[5] == "not measured   (500 claimed)"


def test_several_hundred_is_judged_where_it_was_measured() -> None:
    study = synthetic.make("latency")
    table = latency.table(study).set_index("probe_case")
    assert table.at["l2", "the article holds"] == "yes"
    assert table.at["dram", "the article holds"] == "", "not measured"
    assert table.at["l1", "claimed by the article"] == ""
    worse = latency.table(synthetic.changed(study, {"value": 1500.0}, probe_case="l2"))
    assert worse.set_index("probe_case").at["l2", "the article holds"] == "no"


def test_the_finding_of_shared_accesses_counts_patterns() -> None:
    study, off = synthetic.make("shared_access"), {"probe_case": "store_64_pairs"}
    wrong = synthetic.changed(study, {"verdict": "wrong"}, **off)
    assert synthetic.finding("shared_access", wrong).startswith("26 of 26 access patterns cost")


def test_a_different_attribution_by_ncu_has_its_mark() -> None:
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


def test_the_most_excess_stands_first_and_wrong_cases_last() -> None:
    rows = wavefronts.burdened(wavefronts.table(synthetic.make("wavefronts")))
    order = list(zip(rows["variant"], rows["kind"], strict=True))
    assert order[0] == ("matmul_double_buffered-pad0", "STS")
    assert order[-1] == ("hgemm_wmma_staged-stages2", "LDGSTS") and not rows["ranks"].iloc[-1]
    assert "matmul_tiled" not in set(rows["variant"])


def test_rows_of_several_operations_name_only_unusual_shapes() -> None:
    b = synthetic.Builder("wavefronts")
    for operation, kernel, sizes, counted in (
        ("transpose", "transpose_tiled", {"m": 64, "n": 64}, 320.0),
        ("transpose", "transpose_tiled", {"m": 64, "n": 64}, 310.0),
        ("transpose", "transpose_tiled", {"m": 32, "n": 96}, 300.0),
        ("softmax", "softmax_online", {"rows": 8, "columns": 4096}, 290.0),
    ):
        case = b.case(
            kernel, kernel, "f32", operation=operation, case=f"{kernel}@{len(b.cases)}",
            sizes=json.dumps(sizes),
        )  # fmt: skip
        b.add(case, "check", {"max_error": 0.0}, verdict="correct")
        b.add(case, "counters", {"inst": 1.0})
        b.instruction(case, "LDS", counted, 10.0)
    study = b.study()
    table = wavefronts.table(study)
    assert table.columns[:9].tolist() == "case kernel variant dtype m n k rows columns".split()
    assert table["columns"].tolist()[-1] == 4096
    fig = synthetic.draw(wavefronts, study, Style())
    tiled = ["transpose_tiled LDS", "transpose_tiled LDS", "transpose_tiled 32×96 LDS"]
    assert synthetic.labels(fig.axes[0])[:4] == [*tiled, "softmax_online LDS"]
    note = "Shape transpose 64×64, softmax 8×4096, where no other is named"
    assert note in synthetic.said(fig)


def test_variants_without_excess_share_a_row() -> None:
    study = synthetic.make("wavefronts")
    ax = synthetic.draw(wavefronts, study, Style()).axes[0]
    assert synthetic.labels(ax)[-1] == "no excess: 1 variants"
    clean = replace(study, cases=study.cases[study.cases["variant"] == "matmul_tiled"])
    assert len(synthetic.draw(wavefronts, clean, Style()).axes) == 1
    assert synthetic.finding("wavefronts", clean).startswith("0 of 1 variants")
