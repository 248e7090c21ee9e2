"""The sentences of a caption: missing cases, and the source of the values."""

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pandas as pd

from tilewave.basics.columns import filled
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
    rows = []
    for (status, fragments), members in groups.items():
        columns = zip(*(numbers for _, numbers in members), strict=True)
        ranges = (sorted(set(numbers), key=float) for numbers in columns)
        spans = (" to ".join(dict.fromkeys((ends[0], ends[-1]))) for ends in ranges)
        reason = "".join(itertools.chain(*itertools.zip_longest(fragments, spans, fillvalue="")))
        rows.append((status, reason, [case for case, _ in members]))
    facts = {"rows": rows, "all": len(case_order(study)), "most": MOST}
    return filled(__file__, "_captions", sources=None, **facts).splitlines()


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


def _described(study: StudyData, identity: str, sources: set[str]) -> dict[str, Any]:
    """Return the facts of a source: its machine, and how its values were gained there."""
    environment = study.environments.get(identity, {})
    recordings = sorted(name.partition(":")[2] for name in sources if name.startswith("recorded"))
    gpu, cpu = environment.get("gpu") or next(iter(recordings), ""), environment.get("cpu")
    by_cpu = "provider" in study.cases and bool((study.cases["provider"] == "cpu").any())
    recorded = bool(environment.get("recorded") or recordings)
    return {
        "facts": environment, "gpu": gpu, "cpu": cpu, "by_cpu": by_cpu, "recorded": recorded,
        "executed": "executed" in sources, "only": sources == {"executed"}, "id": identity,
    }  # fmt: skip


def source_line(study: StudyData) -> str:
    """Return where the figure's values were measured; several environments are named one by one."""
    groups = _origins(study).groupby("environment", sort=False)["source"]
    parts = [_described(study, str(name), {*filter(present, sources)}) for name, sources in groups]
    executed = not study.records.empty and bool((study.records["stage"] == "execute").any())
    return filled(__file__, "_captions", sources=parts, counted=executed)
