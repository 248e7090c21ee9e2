"""Advice: each rule on a case that triggers it and one that does not, and bounds against measured gains."""

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import executing_support as support
from samples import HOPPER, ROOT, needs_nvrtc, shipped_plan, table
from tilewave.compiling.origins import NOWHERE
from tilewave.compiling.sass import of_cubin as listing
from tilewave.execution import counters
from tilewave.execution.places import Places
from tilewave.kernel import result
from tilewave.pipeline import tables
from tilewave.pipeline.resolving import resolve
from tilewave.records.counters.catalogue import AVERAGE, ISSUED, PIPE, STALLED, WARP_INSTRUCTIONS
from tilewave.records.recorded import Recorded
from tilewave.report import advice
from tilewave.report.advice import Finding, Subject, for_case
from tilewave.report.advice.rules import LEAST_BOUND, RULES
from tilewave.report.advice.subject import total
from tilewave.theory import bounds

PLANTED = ROOT / "tests" / "planted" / "costly_accesses.cu"
SPILLING = ROOT / "tests" / "foreign" / "spill_registers.cu"

SM = {**HOPPER, "sms": 100, "gpu": "NVIDIA H200"}
CASE = {
    "m": 1024, "n": 1024, "k": 1024, "tile_m": 128, "tile_n": 128, "tile_k": 8, "blocks": 64,
    "block_threads": 256, "registers": 32, "shared_bytes": 0, "spill_bytes": 0,
}  # fmt: skip
CYCLES = 1_000_000
WHOLE = {
    "sm__cycles_elapsed.max": CYCLES, "sm__cycles_active.avg": CYCLES,
    "sm__cycles_active.max": CYCLES, "launch__waves_per_multiprocessor": 1.0,
    "dram_bytes": 0.0, "gpu__time_duration.sum": 1e6,
}  # fmt: skip


def stalled(**states: float) -> dict[str, float]:
    return {STALLED.format(name): value for name, value in states.items()}


def row(opcode: str, **more: Any) -> dict[str, Any]:
    origin = {"file": "k.cuh", "line": 7, "text": "x", "via": "k.cu:3", "kernel_line": 3}
    return {"address": 0, "opcode": opcode, "executed": 1000, **origin, **more}


def wavefronts(actual: int, ideal: int) -> dict[str, int]:
    return {"wavefronts_shared": actual, "wavefronts_shared_ideal": ideal}


def sectors(actual: int, ideal: int) -> dict[str, int]:
    return {"sectors_global": actual, "sectors_global_ideal": ideal}


def subject(metrics: Any = (), instructions: tuple[Any, ...] = (), case: Any = ()) -> Subject:
    return Subject(CASE | dict(case), WHOLE | dict(metrics), instructions, {}, SM)


def busy(shares: dict[str, float]) -> Subject:
    rows = (row("STS", **wavefronts(10_000_000, 10_000_000)),)
    return replace(subject(instructions=rows, case={"blocks": 200}), busy=shares)


def findings(case: Subject) -> dict[str, Finding]:
    return {finding.rule: finding for finding in for_case(case)}


def given(entry: dict[str, Any]) -> Subject:
    """Return a case of advice.yaml."""
    if "busy" in entry:
        return busy(entry["busy"])
    metrics = entry.get("metrics", {}) | stalled(**entry.get("stalls", {}))
    rows = tuple(row(**columns) for columns in entry.get("rows", ()))
    return subject(metrics, rows, entry.get("case", ()))


CASES = {
    rule: (given(case["faulty"]), given(case["sound"]), case["bound"])
    for rule, case in table("advice").items()
}


def test_the_top_stall_names_the_line_where_it_was_sampled() -> None:
    waits = stalled(no_instruction=4.0, selected=1.0)
    assert findings(subject(waits))["top stall"].origin == NOWHERE
    base = {"case": "k@8x8x8", "file": "k.cu", "text": "x", "via": ""}
    rows = [
        {**base, "line": at, "kernel_line": at, "stall_no_instructions": count, "stall_wait": wait}
        for at, count, wait in ((3, 30.0, 5.0), (4, float("nan"), 500.0), (5, 10.0, 5.0))
    ]
    finding = findings(replace(subject(waits), samples=rows))["top stall"]
    assert (finding.origin.file, finding.origin.line) == ("k.cu", 3)
    assert "75.0 % of its samples are in k.cu:3" in finding.sentence and finding.sampled == "8x8x8"


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_finds_its_fault_and_only_that(rule: str) -> None:
    faulty, sound, bound = CASES[rule]
    assert set(findings(faulty)) - {"top stall"} <= {rule} <= set(findings(faulty))
    assert rule not in findings(sound)
    finding = findings(faulty)[rule]
    assert finding.bound == pytest.approx(bound)
    assert finding.sentence
    if faulty.instructions:
        assert (finding.origin.file, finding.origin.line) == ("k.cuh", 7)


def test_a_case_says_what_limits_it() -> None:
    full, loose = busy({bounds.DATA: 0.82, bounds.ISSUE: 0.5}), busy({bounds.TENSOR: 0.6})
    assert full.limit == "Its limit: shared memory and L1, busy 82 % of the cycles."
    assert loose.limit == "No unit is full: the busiest, tensor cores, works 60 % of the cycles."
    assert subject().limit == ""
    least = bounds.Bound({bounds.DATA: 3960.0, bounds.ISSUE: 5.0}, 1980.0)
    counted = replace(subject(), least=least).limit
    assert counted == "It takes at least 2 us on an NVIDIA H200. Its limit: shared memory and L1."


def test_every_rule_has_a_case() -> None:
    everything = [finding for faulty, _, _ in CASES.values() for finding in for_case(faulty)]
    assert {finding.rule for finding in everything} == set(CASES)


def test_findings_come_by_their_bound_and_never_promise_more_than_is_idle() -> None:
    rows = (row("STS", **wavefronts(90_000_000, 10_000_000)),)
    uneven = subject({"launch__waves_per_multiprocessor": 1.8} | {PIPE.format("fma"): 70.0}, rows)
    bounds = [finding.bound for finding in for_case(uneven)]
    assert bounds == pytest.approx([0.3, 0.1])
    # Without cycles the excess is bounded by its share of the wavefronts.
    no_cycles = Subject(CASE | {"m": 130, "n": 130}, {}, rows, {}, SM)
    bounds = {finding.rule: finding.bound for finding in for_case(no_cycles)}
    assert bounds["excess shared wavefronts"] == pytest.approx(8 / 9)
    assert for_case(Subject({})) == []
    moves_nothing = (row("UTMALDG", **wavefronts(0, 0), **sectors(0, 0)),)
    assert for_case(Subject({}, {}, moves_nothing, {}, SM)) == []


def test_gains_too_small_to_time_are_not_reported() -> None:
    few = CYCLES * 100 * LEAST_BOUND / 2
    assert not for_case(subject(instructions=(row("STS", **wavefronts(int(few) + 10, 10)),)))


def executed(path: Path, case: Any, **macros: Any) -> Subject:
    """Execute a kernel on the CPU, which gives counters but no times."""
    done = support.execute(path, case, macros)
    assert done.verdict == "correct", done.reason
    launch = done.job.launch
    places = Places(path, done.job.entry, listing(Path(done.job.cubin)))
    counted = counters.instruction_rows(done.program.instructions, done.counts)
    rows = [row | vars(places(row["address"])) for row in counted]
    about = {"block_threads": math.prod(launch.block), "blocks": launch.blocks}
    (used,) = support.entry(support.choose(path, macros), "sm_90")["resources"].values()
    return Subject(about, {}, rows, used, SM)


@needs_nvrtc
def test_costly_accesses_are_reported_at_their_lines() -> None:
    by_rule = findings(executed(PLANTED, 2048, PIECE=4))
    assert "// COPY" in by_rule["excess shared wavefronts"].origin.text
    assert "// COPY" in by_rule["cp.async with small pieces"].origin.text
    assert "four" not in by_rule["sectors over ideal"].origin.text
    assert by_rule["sectors over ideal"].amount > 1
    assert findings(executed(PLANTED, 2048, PIECE=16)) == {}


@needs_nvrtc
def test_spills_are_reported() -> None:
    spilled = executed(SPILLING, "ramp")
    assert re.search(r", [1-9][\d,]* accesses$", findings(spilled)["spills"].sentence)


@cache
def recorded() -> tuple[Any, Any, dict[str, Subject]]:
    """Return cases, records and subjects of the shipped config's products, as recorded on an H200."""
    folder = ROOT / "resources" / "recorded" / "nvidia_h200"
    plan = shipped_plan()
    recording = Recorded(folder)
    environment = recording.environments[recording.main_environment]
    target: dict[str, Any] = {"device": {"sms": environment["sms"], "arch": 90}, "arch": 90}
    stored = (entry for entry in recording.results() if entry.stage != "execute")
    results = [replace(entry, source="recorded") for entry in stored]
    counted = {entry.case for entry in results if entry.stage == "counters"}
    chosen = [plan.cases[case] for case in plan.cases if case in counted]
    verdicts = tables.verdicts(entry for entry in results if entry.stage == "check")
    compiled: dict[str, Any] = {}
    for name, entry in recording.compiled.items():
        compiled.setdefault(name.rpartition(".")[0], {})["sm_90"] = entry
    chosen = [case for case in chosen if case.kernel.front.operation == "matmul"]
    resolved = [resolve(case, target) for case in chosen]
    of_variant = {case.variant.id: compiled.get(case.variant.id, {}) for case in resolved}
    cases = tables.cases_table(resolved, of_variant, "sm_90", verdicts)
    names = set(cases["case"])
    kept = [entry for entry in results if entry.case in names]
    records = tables.records_table(cases, kept, verdicts)
    counts = [replace(entry, source="recorded:") for entry in kept if entry.stage == "counters"]
    rows = tables.instructions_table(counts, recording, lambda name, function: {})
    target |= {"environments": recording.environments, "environment": recording.main_environment}
    return cases, records, advice.subjects(target, cases, records, rows, {})


# Stream-K also saves split-K's partial sums, which have no counters at uneven shapes. The pairs depend on the recording.
SPARES_MORE = {("hgemm_split_k@256*(sms+1)x128x8192", "hgemm_stream_k@256*(sms+1)x128x8192")}


def test_bounds_held_on_the_recorded_ladder() -> None:
    cases, records, subjects = recorded()
    gains = list(judged(cases, records, subjects))
    assert {pair for pair, _, _, held in gains if not held} == SPARES_MORE
    rules = {finding.rule for _, finding, _, _ in gains}
    expected = {"excess shared wavefronts", "sectors over ideal", "idle part of the last wave"}
    # In some recordings occupancy or a stall limits a pair, and its bound holds.
    assert expected <= rules <= expected | {"top stall", "occupancy limiter"}
    assert sum(gained > 0.02 for _, _, gained, _ in gains) > 10
    names = ("hgemm_split_k@4096x4096x4096", "hgemm_stream_k@4096x4096x4096")
    split, stream = (total(subjects[name].instructions, "sectors_global") for name in names)
    assert stream < split / 6


def test_advice_names_what_the_next_rungs_fixed() -> None:
    subjects = recorded()[2]
    copies = findings(subjects["matmul_async@4096x4096x4096"])["excess shared wavefronts"]
    assert copies.sentence.startswith("50,331,648 of ")
    assert copies.bound == pytest.approx(0.072, abs=0.002)  # 50,331,648 / 132 of 5.4 M cycles
    buffered = "matmul_double_buffered@4096x4096x4096"
    assert "excess shared wavefronts" not in findings(subjects[buffered])
    banks = findings(subjects["matmul_double_buffered@8192x8192x8192"])
    assert "register banks" in banks and banks["register banks"].bound is not None
    later = findings(subjects["matmul_async@8192x8192x8192"])["register banks"]
    assert later.amount < 0.6 * banks["register banks"].amount


SAME_PRODUCT = ["operation", "dtype", "shape"]

FIXED = 0.5
"""The other case follows the advice if at most this part of the finding's amount remains."""
SAME_WORK = 0.98
"""And if its other work is no less, within the difference of two passes of the profiler. A bound excludes other
savings. Work without counters (sectors, in a case without rows of instructions) may be less."""
PASSES = 0.03
"""Difference of two runs of a kernel at the power limit, as a share of the cycles (see `plots.limits`)."""


def _work(case: Subject) -> dict[str, float]:
    """Return the counted work that no rule removes."""
    counted = {}
    if executed := case.value(WARP_INSTRUCTIONS):
        counted["instructions"] = executed
    elif (issued := case.value(ISSUED.name)) and (active := case.value(AVERAGE)):
        counted["instructions"] = issued / 100 * active
    if case.instructions:
        counted["wavefronts"] = total(case.instructions, "wavefronts_shared_ideal")
        counted["sectors"] = total(case.instructions, "sectors_global_ideal")
    return counted


def following(cases: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield pairs of cases of one product of which the second may follow the advice on the first: its kernel follows
    the first's, or is the same with one macro changed."""
    columns = [cases[name].tolist() for name in ("case", "kernel", "follows", "macros")]
    rows = [(*row, set(json.loads(macros).items())) for *row, macros in zip(*columns)]
    for group in cases.groupby(SAME_PRODUCT, sort=False).indices.values():
        for first, second in itertools.permutations([rows[at] for at in group], 2):
            if second[2] == first[1] or (first[1] == second[1] and len(first[3] - second[3]) == 1):
                yield first[0], second[0]


def judged(
    cases: pd.DataFrame, records: pd.DataFrame, subjects: Mapping[str, Subject]
) -> Iterator[tuple[tuple[str, str], Finding, float, bool]]:
    """Yield pairs of cases of one environment, a finding that the second has fixed (it saves no other work), its gain
    (in units of paired times of the vendor's product, where both have them), and whether the bound held."""
    timed = records[(records["stage"] == "time") & (records["verdict"] == result.CORRECT)]
    times = timed.pivot_table(index="case", columns="metric", values="value", aggfunc="last")
    environments = dict(zip(timed["case"], timed["environment"]))
    units = times["baseline_duration"].fillna(0.0)
    comparable = cases["case"].isin([case for case in environments if case in subjects])
    for first, second in following(cases[comparable]):
        before, after = subjects[first], subjects[second]
        if environments[first] != environments[second] or before.device != after.device:
            continue
        duration = times["duration"][second] / times["duration"][first]
        if units[first] and units[second]:
            duration *= units[first] / units[second]
        here, there = _work(before), _work(after)
        both = here.keys() & there.keys()
        if not both or any(there[name] < SAME_WORK * here[name] for name in both):
            continue
        remaining = [rule(after) for rule in RULES]
        later = {finding.rule: finding.amount for finding in remaining if finding}
        for finding in for_case(before):
            fixed = later.get(finding.rule, math.inf) <= FIXED * finding.amount
            if fixed and finding.bound is not None:
                gained = 1 - duration
                yield (first, second), finding, gained, gained <= finding.bound + PASSES
