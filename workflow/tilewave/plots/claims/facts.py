"""The facts that claims are judged by: a study's records and the limits of its target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewave.plots import base
from tilewave.plots.base import StudyData
from tilewave.records.model import EXECUTED
from tilewave.theory import occupancy

Value = float | bool
Function = Callable[["Facts"], "Value | None"]
_TOLD = ("stage", "value", "text", "source", "environment")


class Unknown(Exception):
    """A closed form asks for a fact that the target does not tell."""


class Facts:
    """The study's records and the target's limits, as the claims' functions ask for them.

    Every question is written down: `read` has what was found, `missing` what was not, `timed` the
    environments of the times, `places` those of all that a GPU gave. A figure of a case that is not
    *correct* is not given.
    """

    def __init__(self, study: StudyData) -> None:
        self.study = study
        rows = study.records[study.records["status"] == "ok"]
        rows = rows.reindex(columns=["case", "metric", *_TOLD]).to_dict("list")
        told = zip(*(rows[name] for name in _TOLD), strict=True)
        # Of several the last one counts.
        self._records = {
            place: dict(zip(_TOLD, one, strict=True))
            for place, one in zip(zip(rows["case"], rows["metric"], strict=True), told, strict=True)
        }
        self._verdicts = base.verdicts(study)
        self._states = base.statuses(study)
        self.cases = study.cases.to_dict("records")
        self._rows: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for row in self.cases:
            sizes = [row[d] for d in ("m", "n", "k")]
            shape = [int(size) for size in sizes] if base.present(row["m"]) else sizes
            self._rows.setdefault((row["variant"], *shape), row)
            self._rows.setdefault((row["kernel"], row["probe_case"]), row)
        self.environment = study.environment
        self.forget()

    def forget(self) -> None:
        """Begin a new claim."""
        self.read: list[str] = []
        self.sources: list[str] = []
        self.missing: list[str] = []
        self.timed: set[str] = set()
        self.places: set[str] = set()

    @property
    def limits(self) -> occupancy.SmLimits:
        """What an SM of the target holds; those of compute capability 9.0 where it is not told."""
        return occupancy.SmLimits.known(self.environment) or occupancy.HOPPER

    @property
    def sms(self) -> int:
        """The target's SMs. Raises Unknown where no GPU is known."""
        count = int(self.study.target.get("sms") or self.environment.get("sms") or 0)
        if count < 1:
            raise Unknown("the number of SMs is not known")
        return count

    def fact(self, name: str) -> float | None:
        """A fact that the target's driver told."""
        value = self.environment.get(name)
        if value is None:
            self.lack(f"the environment does not tell {name}")
            return None
        self._found(f"{name} of the environment", "environment")
        return float(value)

    def case(self, variant: str, m: int, n: int | None = None, k: int | None = None) -> str | None:
        """The id of a variant's case at a shape (m cubed without n and k), None without one."""
        shape = (m, n or m, k or m)
        row = self._rows.get((variant, *shape))
        if row is not None:
            return str(row["case"])
        self.lack(f"{variant} at {'×'.join(map(str, shape))} is no case of the study")
        return None

    def probe(self, kernel: str, name: str) -> str | None:
        """The id of a probe's case, None without one."""
        row = self._rows.get((kernel, name))
        if row is not None:
            return str(row["case"])
        self.lack(f"{kernel}@{name} is no case of the study")
        return None

    def _record(self, case: str | None, metric: str) -> Mapping[str, Any] | None:
        if case is None:
            return None
        found = self._records.get((case, metric))
        if found is None:
            state = self._states[case]
            why = f" ({state.status}{': ' if state.reason else ''}{state.reason})"
            self.lack(f"no {metric} of {case}" + ("" if state.status == "ok" else why))
            return None
        if self._verdicts[case] != "correct":
            self.lack(f"{case} is {self._verdicts[case]}")
            return None
        if found["stage"] == "time":
            self.timed.add(str(found["environment"]))
        if found["source"] != EXECUTED:
            self.places.add(str(found["environment"]))
        self._found(f"{metric} of {case}", str(found["source"]))
        return found

    def value(self, case: str | None, metric: str) -> float | None:
        """A metric of a case, None without an ok value."""
        found = self._record(case, metric)
        if found is None or not base.present(found["value"]):
            return None
        return float(found["value"])

    def text(self, case: str | None, metric: str) -> str | None:
        """A metric that is text, such as the names of the kernels that ran."""
        found = self._record(case, metric)
        told = None if found is None else found.get("text")
        return str(told) if base.present(told) else None

    def ratio(self, metric: str, over: str | None, under: str | None) -> float | None:
        """A metric of one case over that of another."""
        return self.together(divided(self.value(over, metric), self.value(under, metric)))

    def together(self, quotient: float | None) -> float | None:
        """A quotient of what this claim has read, None where that comes from several environments.

        What was executed was counted on no GPU: it may stand beside any other count.
        """
        if len(self.places) > 1:
            self.lack("its figures come from several environments")
            return None
        return quotient

    def ended_well(self, case: str | None) -> bool | None:
        """Whether a case ran to its end and was right; None where it was not tried."""
        if case is None:
            return None
        state, verdict = self._states[case], self._verdicts[case]
        if state.status in ("not measured", "stale", "unsupported"):
            self.lack(f"{case} was not run ({state.reason or state.status})")
            return None
        rows = self.study.records[self.study.records["case"] == case]
        for source in rows["source"].unique():
            self._found(f"verdict of {case}", str(source))
        return state.status == "ok" and verdict == "correct"

    def _found(self, what: str, source: str) -> None:
        self.read.append(what)
        if base.present(source) and source not in self.sources:
            self.sources.append(source)

    def lack(self, what: str) -> None:
        """Write down what was asked for and is not there."""
        if what not in self.missing:
            self.missing.append(what)


def divided(over: float | None, under: float | None) -> float | None:
    """A quotient, None where a part is missing or the divisor is 0."""
    return None if over is None or not under else over / under
