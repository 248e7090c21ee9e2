"""Which recorded variant should be the fastest at a shape: a recording's cases, fitted, and asked.

What was recorded for other code than the kernel file has today is left out. Nothing is compiled and
nothing runs: registers and shared memory are recorded, the rest of a launch follows from front matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilewave import racing
from tilewave.cases import expand_shapes
from tilewave.dtypes import product_sizes
from tilewave.errors import UserError
from tilewave.expressions import ExpressionError
from tilewave.kernels import Kernel
from tilewave.operations.matmul import Matmul
from tilewave.records import model
from tilewave.records.recorded import Recorded
from tilewave.stages.compiling import Task
from tilewave.target import device as device_of
from tilewave.theory import calibration, selection
from tilewave.theory.calibration import Case
from tilewave.theory.nearby import Sizes
from tilewave.theory.occupancy import SmLimits
from tilewave.theory.selection import Costs
from tilewave.variants import Variant, variant

OPERATION = "matmul"
CHECK, RACED, TIMED = "check", "tune", "time"
Place = tuple[str, str]
"""Where times may be compared: an environment, and which of these stages."""


@dataclass(frozen=True)
class Known:
    """A recorded variant: what was compiled of it, what was measured (by sizes), and its costs with
    the cases that they are fitted from."""

    variant: Variant
    resources: Mapping[str, Any]
    measured: Mapping[Sizes, float]
    fitted: Sequence[Case]
    costs: Costs


@dataclass(frozen=True)
class Candidate:
    """A variant at the shape that is asked for: its launch, microseconds by cost, and those measured
    there, if any."""

    known: Known
    launch: selection.Launch
    spent: Mapping[str, float]
    measured: float | None

    @property
    def us(self) -> float:
        """Predicted duration in microseconds."""
        return sum(self.spent.values())


@dataclass(frozen=True)
class Answer:
    """What is known of a shape and dtype: the candidates from fast to slow, and why the other variants
    are none (their number by reason)."""

    candidates: Sequence[Candidate]
    refused: Mapping[str, int]


class Picker:
    """A recording, asked for variants. Raises UserError where it has no GPU's environment."""

    def __init__(self, recorded: Recorded, kernels: Mapping[str, Kernel]) -> None:
        self._recorded = recorded
        self._kernels = {
            name: kernel
            for name, kernel in kernels.items()
            if kernel.front.operation == OPERATION and kernel.provider == "nvrtc"
        }
        if not recorded.main_environment:
            allowed = "a recording whose files are whole, with figures of a GPU"
            raise UserError(recorded.folder, "environments.json", None, allowed)
        self.environment = recorded.environments[recorded.main_environment]
        self.device = device_of(self.environment)
        self._limits = SmLimits.from_environment(self.environment)
        self.sms = int(self.environment["sms"])
        self._fits: dict[tuple[str, str], dict[str, Known]] = {}

    @cached_property
    def _measured(self) -> tuple[dict[Place, dict[str, float]], dict[Place, dict[str, float]]]:
        """Place -> case -> microseconds, and those of its baseline in the same turns, if any. Wrong cases are left out, and
        races are told by `racing.durations`."""
        rows = self._recorded.results((CHECK, RACED, TIMED))
        wrong = {
            made["case"]
            for made in rows
            if made["stage"] == CHECK and made["verdict"] not in (None, model.CORRECT)
        }
        gpus = {name for name, facts in self._recorded.environments.items() if facts.get("gpu")}
        durations: dict[Place, dict[str, float]] = {}
        baselines: dict[Place, dict[str, float]] = {}
        behind: dict[Place, dict[str, tuple[str, float]]] = {}
        for made in rows:
            case, place = made["case"], (made["environment"], made["stage"])
            if made["stage"] == CHECK or made["status"] != model.OK or place[0] not in gpus:
                continue
            figures = {one["metric"]: one["value"] for one in made["figures"]}
            us = figures.get("tune_duration" if made["stage"] == RACED else "duration")
            if case in wrong or us is None:
                continue
            durations.setdefault(place, {})[case] = us
            if "baseline_duration" in figures:
                baselines.setdefault(place, {})[case] = figures["baseline_duration"]
            if figures.get("tune_eliminated") and made["notes"].get("compared_us"):
                ratio = us / made["notes"]["compared_us"]
                behind.setdefault(place, {})[case] = (str(made["notes"]["compared_with"]), ratio)
        told = {
            place: racing.durations(own, behind.get(place, {})) for place, own in durations.items()
        }
        return told, baselines

    @cached_property
    def _times(self) -> dict[str, dict[str, dict[Place, float]]]:
        """Variant -> shape as recorded -> place -> microseconds, such that those of a dtype at a shape and place may be
        compared."""
        found: dict[str, dict[str, dict[Place, float]]] = {}
        durations, baselines = self._measured
        for place, there in durations.items():
            parts = {case: case.partition("@") for case in there}
            own = {case: us for case, us in there.items() if parts[case][0] in self.variants}
            shapes = {case: (self.variants[parts[case][0]].dtype, parts[case][2]) for case in own}
            for case, us in racing.at_one_clock(own, baselines.get(place, {}), shapes).items():
                name, _, shape = parts[case]
                found.setdefault(name, {}).setdefault(shape, {})[place] = us
        return found

    @cached_property
    def _where(self) -> dict[tuple[str, str], Place]:
        """Dtype and shape as recorded -> the place in which most variants were measured: parts of a recording may be of
        several cards, and what is timed at another moment than races has another clock."""
        counts: dict[tuple[str, str], Counter[Place]] = {}
        for name, made in self.variants.items():
            for shape, times in self._times[name].items():
                counts.setdefault((made.dtype, shape), Counter()).update(times.keys())
        return {key: max(one, key=lambda place: (one[place], place)) for key, one in counts.items()}

    @cached_property
    def variants(self) -> Mapping[str, Variant]:
        """The measured variants whose kernel files have the code that was measured, by id."""
        found = {}
        arch = f"sm_{self.device['arch']}"
        cases = (case for there in self._measured[0].values() for case in there)
        for name in dict.fromkeys(case.partition("@")[0] for case in cases):
            entry = self._recorded.compiled.get(f"{name}.{arch}", {})
            kernel = self._kernels.get(name.partition("-")[0])
            if kernel is None or "resources" not in entry:
                continue
            made = self._variant(kernel, entry)
            if made is not None and Task(made, arch).text_key == entry.get("text"):
                found[name] = made
        return found

    @staticmethod
    def _variant(kernel: Kernel, entry: Mapping[str, Any]) -> Variant | None:
        """By the macros that the compiler was given; None where the kernel no longer takes them."""
        words = [word[2:].partition("=") for word in entry["options"] if word.startswith("-D")]
        macros = {macro: text for macro, _, text in words if macro in kernel.front.macros}
        try:
            return variant(kernel, macros, kernel.path, "macros")
        except UserError:
            return None

    def dtypes(self) -> list[str]:
        """Those that variants were measured in."""
        return sorted({one.dtype for one in self.variants.values()})

    def known(self, name: str) -> Known | None:
        """A variant with its costs; None where it has too few cases."""
        made = self.variants[name]
        key = made.kernel.name, made.dtype
        if key not in self._fits:
            self._fits[key] = self._fit(*key)
        return self._fits[key].get(name)

    def _fit(self, kernel: str, dtype: str) -> dict[str, Known]:
        """The variants of a kernel and dtype that have costs, by id."""
        measured, cases = dict[str, dict[Sizes, float]](), dict[str, list[Case]]()
        for name, made in self.variants.items():
            resources = self._resources(made)
            if (made.kernel.name, made.dtype) != (kernel, dtype) or not resources.get("registers"):
                continue
            mine = measured[name] = {}
            for text, times in self._times[name].items():
                where = self._where[dtype, text]
                with suppress(ExpressionError, UserError):
                    if where in times:
                        mine[_sizes(text, self.device)] = times[where]
            cases[name] = [
                Case(sizes, launch, us)
                for sizes, us in mine.items()
                if isinstance(launch := self._launch(made, resources, sizes), selection.Launch)
            ]
        costs = calibration.costs(cases, self.sms, product_sizes(dtype))
        return {
            name: Known(
                self.variants[name],
                self._resources(self.variants[name]),
                measured[name],
                calibration.at(cases[name], one.fitted_at),
                one,
            )
            for name, one in costs.items()
        }

    def _resources(self, made: Variant) -> Mapping[str, Any]:
        """What the entry of a variant was compiled to; empty where that is not recorded."""
        entry = self._recorded.compiled[f"{made.id}.sm_{self.device['arch']}"]
        found: Mapping[str, Any] = entry["resources"].get(made.kernel.entry, {})
        return found

    def _launch(
        self, made: Variant, resources: Mapping[str, Any], sizes: Sizes
    ) -> selection.Launch | str:
        """How a variant covers a shape, or why it cannot."""
        shape = dict(zip("mnk", sizes))
        refused = made.supports(shape, self.device)
        if refused:
            return refused
        plan = made.plan(shape, self.device)
        return (
            plan.beyond(self.device)
            or plan.modelled(shape, resources, self._limits, made.kernel.entry)
            or "its front matter names no tile"
        )

    def answer(self, sizes: Sizes, dtype: str) -> Answer:
        """The variants of a dtype at a shape."""
        candidates, refused = [], dict[str, int]()
        shape = dict(zip("mnk", sizes))
        for name, made in self.variants.items():
            if made.dtype != dtype:
                continue
            known = self.known(name)
            launch: selection.Launch | str = f"measured at fewer than {calibration.LEAST} shapes"
            if known is not None:
                launch = self._launch(made, known.resources, sizes)
            if known is None or isinstance(launch, str):
                refused[str(launch)] = refused.get(str(launch), 0) + 1
                continue
            spent = known.costs.spent(shape, launch, self.sms)
            candidates.append(Candidate(known, launch, spent, known.measured.get(sizes)))
        return Answer(sorted(candidates, key=lambda one: one.us), refused)


def _sizes(text: str, device: Mapping[str, Any]) -> Sizes:
    """Sizes of a shape as a case's name has it: `4096x128x4096`, `256*sms` for all three."""
    parts = text.split("x")
    (shape,) = expand_shapes(
        [dict(zip(Matmul.dimensions, parts))] if len(parts) == 3 else [text],
        Matmul.dimensions, "recording", "case",
    )  # fmt: skip
    found = shape.resolve(device)
    return found["m"], found["n"], found["k"]
