"""The figure of latencies: claims beside measurements, and time only where one clock is known."""

from dataclasses import replace
from typing import Any

import pytest

import synthetic
from tilewave.plots import latency
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style


def clocked(**clocks: Any) -> StudyData:
    study = synthetic.make("latency")
    environments = {
        name: {**facts, "sm_clock_max_mhz": clocks.get(name.partition("-")[0])}
        for name, facts in study.environments.items()
    }
    return replace(study, environments=environments)


def texts(study: StudyData, width: float = 178) -> list[str]:
    fig = synthetic.draw(latency, study, Style(width_mm=width))
    return synthetic.labels(fig.axes[0].child_axes[0])


def test_time_needs_one_clock() -> None:
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
    told = texts(clocked(h200=1980))
    assert told[0] == "4.10   (4.10 × 1 claimed)"
    assert told[1] == "29.0   (5.80 × 5 claimed)"
    assert told[3] == "38.6", "nobody claims anything of L1"
    assert told[5] == "not measured   (500 claimed)"


def test_several_hundred_is_judged_where_it_was_measured() -> None:
    study = synthetic.make("latency")
    table = latency.table(study).set_index("probe_case")
    assert table.at["l2", "the article holds"] == "yes"
    assert table.at["dram", "the article holds"] == "", "not measured"
    assert table.at["l1", "claimed by the article"] == ""
    worse = latency.table(synthetic.changed(study, {"value": 1500.0}, probe_case="l2"))
    assert worse.set_index("probe_case").at["l2", "the article holds"] == "no"
