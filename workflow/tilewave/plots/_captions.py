"""The sentences of a caption: missing cases, and the source of the values."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable

import pandas as pd

from tilewave.plots.base import StudyData, case_order, missing_cases, present

MOST = 4
"""The most cases that a note names."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")


def missing_notes(study: StudyData, stages: Iterable[str] | None = None) -> list[str]:
    """Return the missing cases as notes of a figure, one for each status and reason.
    Reasons that differ by their numbers alone share a note, with the least and the largest number."""
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[str, list[str]]]] = {}
    for missing in missing_cases(study, stages):
        fragments = tuple(_NUMBER.split(missing.reason))
        member = missing.case, _NUMBER.findall(missing.reason)
        groups.setdefault((missing.status, fragments), []).append(member)
    notes = []
    for (status, fragments), members in groups.items():
        cases = [case for case, _ in members]
        columns = zip(*(numbers for _, numbers in members), strict=True)
        ranges = (sorted(set(numbers), key=float) for numbers in columns)
        spans = (" to ".join(dict.fromkeys((ends[0], ends[-1]))) for ends in ranges)
        reason = "".join(itertools.chain(*itertools.zip_longest(fragments, spans, fillvalue="")))
        heading = status + (f" ({reason})" if reason else "")
        if len(cases) == len(case_order(study)) > 1:
            notes.append(f"{heading}: all {len(cases)} cases")
            continue
        names = ", ".join(cases[:MOST])
        more = f" and {len(cases) - MOST} more" if len(cases) > MOST else ""
        notes.append(f"{heading}: {names}{more}")
    return notes


def nothing_to_draw(study: StudyData, what: str) -> str:
    """Return the sentence of an axes that stays empty."""
    if not case_order(study):
        return "This study has no case."
    counts = Counter(missing.status for missing in missing_cases(study))
    summary = ", ".join(f"{status} {count}" for status, count in counts.items())
    return f"No {what} to draw" + (f": {summary}." if summary else ".")


def _origins(study: StudyData) -> pd.DataFrame:
    """Return environment and source of the study's values and instructions, each pair once."""
    frames = [study.records, study.instructions]
    if not study.records.empty:
        has_value = study.records["value"].notna() & (study.records["source"] != "model")
        frames[0] = study.records[has_value]
    pairs = pd.concat([frame.reindex(columns=["environment", "source"]) for frame in frames])
    return pairs[pairs["environment"].map(present).astype(bool)].drop_duplicates()


def _described(study: StudyData, identity: str, sources: set[str]) -> str:
    environment = study.environments.get(identity, {})
    recordings = sorted(name.partition(":")[2] for name in sources if name.startswith("recorded"))
    gpu, cpu = environment.get("gpu") or next(iter(recordings), ""), environment.get("cpu")
    if sources == {"executed"}:
        return f"executed on the CPU ({cpu or 'unknown'}) from the same machine code"
    names = {"ncu": "ncu", "driver": "driver", "nvrtc": "NVRTC"} if gpu else {}
    details = [f"{word} {environment[key]}" for key, word in names.items() if environment.get(key)]
    if gpu and cpu and "provider" in study.cases and (study.cases["provider"] == "cpu").any():
        details.append(f"CPU: {cpu}")
    recorded = bool(environment.get("recorded") or recordings)
    if recorded and environment.get("commit"):
        details.append(f"commit {str(environment['commit'])[:10]}")
    before = "executed on the CPU from the same machine code; " if "executed" in sources else ""
    how = "recorded on" if recorded else "measured live on"
    after = f" ({', '.join(details)})" if details else ""
    return f"{before}{how} {gpu or cpu or f'environment {identity}'}{after}"


def source_line(study: StudyData) -> str:
    """Return where the figure's values were measured; several environments are named one by one."""
    groups = _origins(study).groupby("environment", sort=False)["source"]
    parts = [_described(study, str(name), {*filter(present, sources)}) for name, sources in groups]
    if not parts:
        return "source: no measurement"
    if len(parts) == 1:
        return f"source: {parts[0]}"
    executed = not study.records.empty and bool((study.records["stage"] == "execute").any())
    rule = "counts are compared" if executed else "no ratio is formed"
    listed = "; ".join(f"[{i}] {part}" for i, part in enumerate(parts, 1))
    return f"sources: {len(parts)} environments, {rule} between them: {listed}"
