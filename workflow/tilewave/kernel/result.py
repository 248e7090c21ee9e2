"""Results of jobs, with their statuses, verdicts and sources."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

from tilewave.basics.errors import printable

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
INTERRUPTED = "interrupted"
"""Note of a result that was ended from outside, and metric of its row in the records."""
ENDS = (INVALID_ACCESS, ASSERTION_FAILED, TRAPPED, TIMED_OUT)
# Statuses that the kernel causes; the others come from the machine.
FAILURES = (FAILED_TO_COMPILE, FAILED_TO_LAUNCH, *ENDS)
STATUSES = (OK, NOT_MEASURED, *FAILURES, UNSUPPORTED, STALE)

CORRECT = "correct"
WRONG = "wrong"
NOT_CHECKED = "not checked"
RACE = "race"
UNINITIALISED = "uninitialised read"
BARRIER = "barrier"
# Findings of an execution in a case that ended.
FINDINGS = (RACE, UNINITIALISED, BARRIER)
VERDICTS = (CORRECT, WRONG, NOT_CHECKED, *FINDINGS)

RIGHT, NOT_RIGHT, USAGE, UNCLEAR = range(4)
"""Exit codes of the command line: right; not right; a mistake on the command line or in a file; no verdict."""


def exit_code(status: str, verdict: str | None, judged: bool = True) -> int:
    """Return the exit code for a result. judged: False for a probe, whose result nothing is compared with."""
    if status in (UNSUPPORTED, NOT_MEASURED, STALE):
        return UNCLEAR
    if status == FAILED_TO_COMPILE:
        return USAGE
    if status != OK or verdict in (WRONG, *FINDINGS):
        return NOT_RIGHT
    return RIGHT if verdict == CORRECT or not judged else UNCLEAR


EXECUTE = "execute"
SAMPLE = "sample"
TUNE = "tune"
STAGES = ("check", "time", TUNE, "counters", SAMPLE, EXECUTE)
# Source of a stage's figures that were measured on this machine.
SOURCES = dict.fromkeys(("check", "time", TUNE), "events") | {"counters": "counters"}
SOURCES |= {SAMPLE: "samples", EXECUTE: "executed"}
EXECUTED = SOURCES[EXECUTE]
INSTEAD = "executed here, because on this GPU "
"""Start of the reason of a result that replaces one that this machine's GPU did not give."""
DISTURBED = "disturbed: "
"""Start of the reason of a result that other load on the machine changed."""
DOUBTFUL = "doubtful: "
"""Start of the reason of a time that another measurement of the case contradicts (`records.agreement`)."""
SPOILT = (DISTURBED, DOUBTFUL)
COUNTED_CLOCK = "counted"
"""Note ``clock`` of a time whose SM clock was counted on the GPU. Others come from NVML, which lags."""


@dataclass(frozen=True)
class Result:
    """The figures of a job, or the reason why it has none.

    environment: id of the environment in which it was measured. figures: each a metric, value and unit. samples: raw
    values by series. instructions: one row for each. accesses: accesses to shared memory, of an execution that records
    them. Raises ValueError for a status or verdict outside the closed lists."""

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
        object.__setattr__(self, "reason", printable(self.reason))  # it quotes kernels

    @classmethod
    def of_job(
        cls, job: Job, status: str = OK, reason: str = "", interrupted: str = "", **more: Any
    ) -> Self:
        """Make the result of a job, without its environment. interrupted: what ended it from outside, if anything."""
        if interrupted:
            more["notes"] = {INTERRUPTED: interrupted}
        return cls(job.stage, job.case, status, reason, key=job.key, **more)

    def document(self) -> dict[str, Any]:
        """Return the result as JSON, for the store or another process, with accesses if there are any."""
        document = {"schema_version": SCHEMA_VERSION, **vars(self)}
        if not self.accesses:
            del document["accesses"]
        return document

    @classmethod
    def of_document(cls, document: Any) -> Self:
        """Make a result from `document`. Raises ValueError for any other document."""
        from tilewave.basics.validation import of_document  # pydantic loads slowly

        names = {entry.name for entry in fields(cls)} - {"accesses"}
        version = document.get("schema_version") if isinstance(document, dict) else None
        if version != SCHEMA_VERSION or not names <= document.keys():
            raise ValueError(f"no document of schema version {SCHEMA_VERSION}")
        result: Self = of_document(cls, document)
        if not all(
            isinstance(figure.get("metric"), str)
            and isinstance(figure.get("value"), int | float | None)
            for figure in result.figures
        ):
            raise ValueError("a figure is none")
        return result

    def only(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    @property
    def by_metric(self) -> dict[str, Any]:
        return {figure["metric"]: figure["value"] for figure in self.figures}

    @property
    def transient(self) -> bool:
        """True if the next run may get a better result, by its notes: the job was ended from outside (``interrupted``),
        other load changed it (``disturbed``), or another measurement contradicts it (``doubtful``)."""
        return bool({INTERRUPTED, "disturbed", "doubtful"} & self.notes.keys())

    @property
    def keepable(self) -> bool:
        """True if the result holds for the next run too.

        An interrupted or disturbed job is tried again, one that this machine could not do (no permission, no
        time) once it can do more. A library lacks a product as long as its version lasts, which the
        environment names. A case that its front matter refuses has no key, and is refused again at no cost."""
        answered = self.status == UNSUPPORTED and bool(self.key) and self.stage != EXECUTE
        return not self.transient and (self.status in (OK, *FAILURES) or answered)

    @property
    def recordable(self) -> bool:
        """True if it may be recorded: also a case that was too expensive on the recorded GPU."""
        return self.keepable or (self.status == NOT_MEASURED and bool(self.figures))
