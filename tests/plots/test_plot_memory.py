"""The figures of latencies, shared accesses and wavefronts: claims, predictions and excess beside measurements."""

import json
from dataclasses import replace
from typing import Any

import pytest

import synthetic
from study_builder import Builder
from tilewave.plots import latency, shared_access, wavefronts
from tilewave.plots.base import StudyData
from tilewave.plots.style import RED, Style


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


def test_levels_have_measured_and_claimed_cycles() -> None:
    ax = synthetic.draw(latency, clocked(h200=1980), Style()).axes[0]
    levels = ["register", "shared", "constant", "L1", "L2"]
    assert synthetic.labels(ax) == levels, "DRAM was not measured"
    assert synthetic.labels(ax.child_axes[0]) == ["4", "29", "8", "39", "262"]


def test_a_kernel_has_its_worst_case() -> None:
    b = Builder("wavefronts")
    for operation, kernel, sizes, counted in (
        ("transpose", "transpose_tiled", {"m": 64, "n": 64}, 320.0),
        ("transpose", "transpose_tiled", {"m": 64, "n": 64}, 310.0),
        ("transpose", "transpose_tiled", {"m": 32, "n": 96}, 300.0),
        ("softmax", "softmax_online", {"rows": 8, "columns": 4096}, 290.0),
    ):
        case = b.case(
            kernel, "f32", operation=operation, case=f"{kernel}@{len(b.cases)}",
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
    rows = ["FP32: transpose_tiled", "FP32: softmax_online"]
    assert synthetic.labels(fig.axes[0])[:2] == rows, "the worst of a kernel"
    assert all(text.endswith("%, LDS") for text in synthetic.labels(fig.axes[0].child_axes[0]))
    assert "Shape transpose 64×64, softmax 8×4096." in synthetic.said(fig)


def test_the_finding_of_shared_accesses_is_of_correct_patterns() -> None:
    study, off = synthetic.make("shared_access"), {"probe_case": "store_64_pairs"}
    wrong = synthetic.changed(study, {"verdict": "wrong"}, **off)
    assert synthetic.finding("shared_access", wrong).startswith("100 % of the access patterns")
    fig = synthetic.draw(shared_access, study, Style())
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["32-bit", "64-bit", "128-bit"]
    texts = [text.get_text() for ax in fig.axes for text in ax.texts]
    pairs = [text.split() for text in texts if "=" in text or "≠" in text]
    table = shared_access.table(study)
    correct = table[(table["verdict"] == "correct") & table["measured wavefronts"].notna()]
    assert len(pairs) == len(correct), "a cell has measured and expected wavefronts"
    assert all((measured == expected) == (sign == "=") for measured, sign, expected in pairs)
    more = synthetic.changed(study, {"value": 99.0}, metric="wavefronts", **off)
    ax = synthetic.draw(shared_access, more, Style()).axes[1]
    assert [text.get_text() for text in ax.texts if text.get_color() == RED] == ["99 ≠ 3"]


def test_the_largest_share_of_excess_stands_first_and_wrong_cases_nowhere() -> None:
    study = synthetic.make("wavefronts")
    rows = wavefronts.burdened(wavefronts.table(study))
    assert rows["of all"].is_monotonic_decreasing
    assert not {"hgemm_wmma_staged-stages2", "matmul_tiled"} & set(rows["variant"])
    clean = replace(study, cases=study.cases[study.cases["variant"] == "matmul_tiled"])
    assert synthetic.finding("wavefronts", clean) == ""
    figure = synthetic.draw(wavefronts, clean, Style())
    assert "No excess wavefronts to draw" in synthetic.said(figure)
