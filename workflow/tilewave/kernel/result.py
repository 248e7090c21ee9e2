"""What a job gave, and the words that every result uses."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from tilewave.kernel.job import Job  # it needs NumPy

SCHEMA_VERSION = 1

OK = "ok"
NOT_MEASURED = "not measured"
FAILED_TO_COMPILE = "failed to compile"
FAILED_TO_LAUNCH = "failed to launch"
INVALID_ACCESS = "invalid access"
ASSERTION_FAILED = "assertion failed"
TRAPPED = "trap"
TIMED_OUT = "timed out"
UNSUPPORTED = "unsupported"
STALE = "stale"
# Statuses that a kernel is to blame for; the rest say what this machine could not do.
FAILURES = (
    FAILED_TO_COMPILE,
    FAILED_TO_LAUNCH,
    INVALID_ACCESS,
    ASSERTION_FAILED,
    TRAPPED,
    TIMED_OUT,
)
STATUSES = (OK, NOT_MEASURED, *FAILURES, UNSUPPORTED, STALE)

CORRECT = "correct"
WRONG = "wrong"
NOT_CHECKED = "not checked"
RACE = "race"
UNINITIALISED = "uninitialised read"
BARRIER = "barrier"
# What an execution may find in a case that ended.
FINDINGS = (RACE, UNINITIALISED, BARRIER)
VERDICTS = (CORRECT, WRONG, NOT_CHECKED, RACE, UNINITIALISED, BARRIER)

EXECUTE = "execute"
SAMPLE = "sample"
TUNE = "tune"
STAGES = ("check", "time", TUNE, "counters", SAMPLE, EXECUTE)
# Where the figures of a stage come from when they were measured here.
SOURCES = {
    "check": "events",
    "time": "events",
    "tune": "events",
    "counters": "counters",
    SAMPLE: "samples",
    EXECUTE: "executed",
}
EXECUTED = SOURCES[EXECUTE]
INSTEAD = "executed here, because on this GPU "
"""Begins the reason of a result that stands in for one that this machine's GPU did not give."""
DISTURBED = "disturbed: "
"""Begins the reason of a result whose figures something else on the machine has changed."""
DOUBTFUL = "doubtful: "
"""Begins the reason of a time that another measurement of the same case contradicts (`records.agreement`)."""
SPOILT = (DISTURBED, DOUBTFUL)
COUNTED_CLOCK = "counted"
"""Note ``clock`` of a time whose SM clock was counted on the GPU; others were read through NVML, which lags."""

KINDS = {
    "stage": str, "case": str, "key": str, "status": str, "reason": str, "verdict": str | None, "environment": str,
    "source": str, "figures": list, "samples": dict, "instructions": list, "notes": dict,
}  # fmt: skip
"""What a document holds of every result."""


@dataclass(frozen=True)
class Result:
    """What a job gave, or why it gave nothing.

    environment: id of the one it was measured in. figures: each a metric, value and unit. samples: by series.
    instructions: a row each. accesses: to shared memory, of an execution that was watched. Raises ValueError for a
    status or verdict outside the closed lists.
    """

    stage: str
    case: str
    key: str = field(default="", kw_only=True)
    status: str
    reason: str = ""
    _: KW_ONLY
    verdict: str | None = None
    environment: str = ""
    source: str = ""
    figures: list[dict[str, Any]] = field(default_factory=list)
    samples: dict[str, list[float]] = field(default_factory=dict)
    instructions: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    accesses: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r} is none of {', '.join(STATUSES)}")
        if self.verdict is not None and self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r} is none of {', '.join(VERDICTS)}")

    @classmethod
    def of_job(cls, job: Job, status: str = OK, reason: str = "", **more: Any) -> Self:
        """The result of a job; whoever knows the environment fills it in."""
        return cls(job.stage, job.case, status, reason, key=job.key, **more)

    def document(self) -> dict[str, Any]:
        """As JSON, to be stored or sent to another process; accesses only where there are any."""
        document = {"schema_version": SCHEMA_VERSION, **vars(self)}
        if not self.accesses:
            del document["accesses"]
        return document

    @classmethod
    def of_document(cls, document: Any) -> Self:
        """From `document`. Raises ValueError for what is no result."""
        if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
            raise ValueError(f"no document of schema version {SCHEMA_VERSION}")
        for name, kind in KINDS.items():
            if name not in document or not isinstance(document[name], kind):
                raise ValueError(f"no {name} of its kind")
        result = cls(
            **{entry.name: document[entry.name] for entry in fields(cls) if entry.name in document}
        )
        if not all(
            isinstance(row, dict) for row in (*result.figures, *result.instructions)
        ) or not all(
            isinstance(figure.get("metric"), str)
            and isinstance(figure.get("value"), int | float | None)
            for figure in result.figures
        ):
            raise ValueError("a figure or an instruction is none")
        return result

    def only(self, *names: str) -> dict[str, Any]:
        """Some of its fields, by name."""
        return {name: getattr(self, name) for name in names}

    @property
    def by_metric(self) -> dict[str, Any]:
        """The values of its figures."""
        return {figure["metric"]: figure["value"] for figure in self.figures}

    @property
    def passing(self) -> bool:
        """Whether the next run may well get a better result: somebody ended this one (``interrupted``), or
        disturbed it (``disturbed``), or another measurement contradicts it (``doubtful``)."""
        return bool({"interrupted", "disturbed", "doubtful"} & self.notes.keys())

    @property
    def keepable(self) -> bool:
        """Whether it says something about the case that will be as true next time.

        What this machine could not do (no permission, no time) is asked again on the next run, and so is what
        somebody interrupted or disturbed. That a
        library has no product for a case lasts as long as its version, which the environment names;
        a case refused by its front matter has no key and costs nothing to refuse again.
        """
        answered = self.status == UNSUPPORTED and bool(self.key) and self.stage != EXECUTE
        return not self.passing and (self.status in (OK, *FAILURES) or answered)

    @property
    def recordable(self) -> bool:
        """Whether it may be shipped: also that a case was too dear on the recorded GPU."""
        return self.keepable or (self.status == NOT_MEASURED and bool(self.figures))
