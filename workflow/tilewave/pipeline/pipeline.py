"""The way of a case through the stages of one target: planned, looked up or measured, collected.
A job of the workflow does this for its part of the cases."""

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.compiling.origins import Origin
from tilewave.compiling.sass import places
from tilewave.gpu.failure import Measure
from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.kernel.variants import Variant
from tilewave.pipeline import compiling, executing, jobs, measuring, tuning
from tilewave.pipeline.cases import Case, sampled, wants
from tilewave.pipeline.compiling import Compilations, Entry, Listing, Task
from tilewave.pipeline.measuring import Sources
from tilewave.pipeline.project import Project
from tilewave.records.agreement import Disagreement, disagreements
from tilewave.records.store import Store, write_where_other

ALL = "1-of-1"
"""The part with every case."""
ON_GPU = ("check", "time", result.TUNE, "counters", result.SAMPLE)
"""Stages that measure, in order: a check decides what may be timed, and timing chooses cuBLAS' algorithm."""

Compiled = dict[str, dict[str, Entry | None]]
Results = dict[str, dict[str, Result]]
"""Stage -> case -> result."""


def part_of(items: Sequence[str], part: str) -> list[str]:
    """Return the items of a part, named ``2-of-3``: dealt in turn, because neighbours cost alike."""
    number, _, count = part.partition("-of-")
    return list(items[int(number) - 1 :: int(count)])


def _group(case: Case) -> tuple[float, str]:
    """Return the group that stays in one part, because its cases are compared: operation, dtype, shape."""
    name = case.kernel.name if case.shape is None else case.kernel.front.operation
    size = float(math.prod(case.sizes.values()))
    return -size, f"{name} {case.variant.dtype} {case.shape.id if case.shape else ''}"


class Pipeline:
    """The cases of a project's resolved plan, or of its part (``2-of-3``), for one target. cores: limit for
    compiling. compiled: entries by variant and architecture; default: of the store and the recording."""

    def __init__(
        self,
        project: Project,
        target: Mapping[str, Any],
        compiled: Compiled | None = None,
        part: str = ALL,
        cores: int = 1,
    ) -> None:
        self.cores = cores
        self.project, self.plan, self.target, self.part = project, project.plan, dict(target), part
        self.recorded = project.recorded(target)
        # Compilations and executions are the same on any machine, so another GPU's recording serves, too.
        self.recording = self.recorded or project.largest_recording()
        self.deterministic = None if project.config.fresh else self.recording
        self.store = project.store
        # Failed attempts are kept for each machine, and tried again on one that can do more.
        self.failed_attempts = Store(project.results / "attempts" / target.get("machine", ""))
        self.arch = f"sm_{target['arch']}"
        self.compilations = Compilations(self.store, self.deterministic, project.results / "cubins")
        self._compiled, self._planned = compiled, dict[str, dict[str, Job | Result]]()

    @property
    def variants(self) -> dict[str, Variant]:
        return self.plan.variants

    @functools.cached_property
    def cases(self) -> dict[str, Case]:
        """The cases of the part, by id, in the plan's order."""
        groups = {name: _group(case) for name, case in self.plan.cases.items()}
        members = set(part_of([name for _, name in sorted(set(groups.values()))], self.part))
        return {name: case for name, case in self.plan.cases.items() if groups[name][1] in members}

    # ----------------------------------------------------------------------------------------- compiling

    @functools.cached_property
    def architectures(self) -> list[str]:
        names = self.project.config.architectures
        return list(dict.fromkeys(self.arch if name == "auto" else name for name in names))

    def wanted(self, variant: Variant) -> list[str]:
        """Return the architectures of a variant; code on the host has only the target's."""
        return self.architectures if variant.kernel.provider == "nvrtc" else [self.arch]

    @property
    def compiled(self) -> Compiled:
        """The entries of each variant, by architecture; None for one yet to be compiled."""
        if self._compiled is None:
            self._compiled = self.look_up(self.variants)
        return self._compiled

    def look_up(self, names: Iterable[str]) -> Compiled:
        """Return the entries that the store and the recording have of these variants."""
        entry, variants = self.compilations.entry, {name: self.variants[name] for name in names}
        return {
            name: {arch: entry(variant, arch) for arch in self.wanted(variant)}
            for name, variant in variants.items()
        }

    def tasks(self, names: Sequence[str]) -> list[Task]:
        """Return what to compile of these variants: those without an entry, and without a cubin to run here."""
        runs = self.target["live"] or self.project.config.execute.when == "always"
        return [
            Task(self.variants[name], arch)
            for name, entries in self.look_up(names).items()
            for arch, entry in entries.items()
            if (entry is None or (runs and arch == self.arch))
            and self.compilations.missing_cubin(self.variants[name], arch)
        ]

    # ----------------------------------------------------------------------------------------- measuring

    def planned(self, stage: str) -> dict[str, Job | Result]:
        """Return a stage's jobs and results for the part's cases; for `execute`, only of the chosen cases."""
        if stage not in self._planned:
            config, names = self.project.config, set(self.cases)
            if stage == result.EXECUTE:
                names = self._executed()
            if stage == result.SAMPLE:
                names = {case.id for case in sampled(self.plan.cases.values())}
            chosen = [case for name, case in self.cases.items() if name in names]
            self._planned[stage] = jobs.of_stage(stage, chosen, self.compiled, self.arch, config)
        return self._planned[stage]

    def _executed(self) -> set[str]:
        when = self.project.config.execute.when
        replaced: dict[str, list[Job | Result]] = {}
        for stage in executing.REPLACED if when == "no_gpu" and not self.target["live"] else ():
            for case, entry in self.planned(stage).items():
                replaced.setdefault(case, []).append(entry)
        cases = list(self.cases.values())
        return executing.wanted(cases, replaced, self.target, self.recorded, when)

    def sources(self, stage: str) -> Sources:
        recorded = self.deterministic if stage == result.EXECUTE else self.recorded
        return Sources(self.target, self.store, recorded, self.failed_attempts)

    def measure(
        self,
        stage: str,
        measure: Measure | None,
        checks: Mapping[str, Result] | None = None,
        only: Collection[str] = (),
    ) -> dict[str, Any]:
        """Return a stage's results (`measuring.collect`), measured if missing. only: measure these cases alone."""
        planned = self.planned(stage)
        sources = dataclasses.replace(self.sources(stage), remeasured=only)
        if only:
            planned = {case: entry for case, entry in planned.items() if case in only}
        if stage == result.TUNE:
            planned = tuning.plan(planned, checks or {})
            candidates = [entry for entry in planned.values() if isinstance(entry, Job)]
            repeated = tuning.repeated(candidates, self.target, self.store)
            sources = dataclasses.replace(sources, remeasured=repeated)
        return measuring.collect(planned, sources, measure and self._provided(measure), checks)

    def _provided(self, measure: Measure) -> Measure:
        """Return a measure function that first writes the jobs' cubins to their paths."""

        def provided(waiting: list[Job], finished: Callable[[Result], None]) -> list[Result]:
            self.provide({job.variant for job in waiting if job.cubin})
            if waiting[0].stage == result.TUNE:
                waiting = tuning.by_group(waiting)
            return measure(waiting, finished)

        return provided

    def provide(self, names: Collection[str]) -> None:
        """Write the cubins of these variants to the paths in their entries; missing ones are compiled."""
        variants = [self.variants[name] for name in names]
        self._compile((variant, self.arch) for variant in variants)
        for variant in variants:
            self.compilations.provide(variant, self.arch)

    def _compile(self, pairs: Iterable[Sequence[Any]]) -> None:
        """Compile these variants, each for an architecture, where that is possible and was not done."""
        missing = [Task(*pair) for pair in pairs if self.compilations.missing_cubin(*pair)]
        list(compiling.compiled(missing, self.store, self.cores))

    # ------------------------------------------------------------------------------------------- results

    def collected(self, results: Results) -> dict[str, list[Result]]:
        """Return the results of all stages, each in the plan's order.
        Executions stand in for missing figures. Cases whose check did not end clean have no figures."""
        executions, when = results.get(result.EXECUTE, {}), self.project.config.execute.when
        config, live = self.project.config, bool(self.target["live"])
        checks: dict[str, Result] = {}

        def final(stage: str, outcome: Result) -> Result:
            check = None if stage == "check" else checks.get(outcome.case)
            stop = measuring.stopped_by_check(check)
            if stop and outcome.key:
                return Result(stage, outcome.case, *stop, key=outcome.key)
            if stage == result.TUNE and outcome.key:
                return tuning.judged(outcome.key, outcome.case, check) or outcome
            execution = executions.get(outcome.case)
            if stage not in executing.REPLACED or execution is None:
                return outcome
            case = self.plan.cases[outcome.case]
            job = jobs.of_case(stage, case, self.compiled[case.variant.id], self.arch, config)
            if not isinstance(job, Job):
                return outcome
            correct = stage == "check" and outcome.verdict == result.CORRECT
            first = when == "always" or (correct and executing.checked_here(case, job))
            return measuring.with_execution(job, outcome, execution, live, first)

        done: dict[str, list[Result]] = {}
        for stage in (result.EXECUTE, *ON_GPU):
            by_case = results.get(stage, {})
            done[stage] = [by_case[name] for name in self.plan.cases if name in by_case]
            if stage != result.EXECUTE:
                done[stage] = [final(stage, outcome) for outcome in done[stage]]
            if stage == "check":
                checks.update((outcome.case, outcome) for outcome in done[stage])
        return done

    def doubtful(self, results: Mapping[str, Sequence[Result]]) -> dict[str, Disagreement]:
        """Return the times, by case, that another measurement contradicts (`records.agreement`)."""
        return disagreements(results, self.products)

    @functools.cached_property
    def products(self) -> dict[str, str]:
        """The product that each timed case computes: cuBLAS has the same one as the kernels timed beside it."""
        products = {}
        for name, case in self.plan.cases.items():
            if wants("time", case) and case.refusal is None:
                variant, operation = case.variant, case.kernel.front.operation
                layouts = variant.layouts if variant.operation.laid_out else {}
                arrays = variant.dtypes, layouts, variant.strides(case.sizes)
                products[name] = json.dumps([operation, *arrays, case.sizes], sort_keys=True)
        return products

    def origins(self, variant: str, function: str) -> Mapping[int, Origin]:
        """Return the source line of each instruction of a variant, by address (`Compilations.origins`)."""
        entry = self.compiled[variant].get(self.arch) or {}
        return self.compilations.origins(self.variants[variant], entry, function)

    def shown(self, drawn: Iterable[str] = ()) -> set[str]:
        """Return variants whose code a page shows: a kernel's first, its first with counted instructions, ``drawn``."""
        first: dict[str, str] = {}
        counted: dict[str, str] = {}
        for case in self.plan.cases.values():
            first.setdefault(case.kernel.name, case.variant.id)
            if case.refusal is None and wants(result.SAMPLE, case):
                counted.setdefault(case.kernel.name, case.variant.id)
        return {*first.values(), *counted.values(), *drawn}

    def write_listings(self, names: Collection[str]) -> None:
        """Write the listings of these variants to the paths in their entries; unknown ones are compiled if possible."""
        wanted = [
            (self.variants[name], arch, entry)
            for name in names
            for arch, entry in self.compiled[name].items()
            if entry and "sass" in entry  # not refused
        ]
        listing_of = self.compilations.as_compiled
        self._compile(pair for *pair, entry in wanted if listing_of(entry) is None)
        for variant, _, entry in wanted:
            text = self.compilations.listing(variant, entry)
            if text is not None:
                write_where_other(Path(entry["sass"]), text)

    def remove_code(self, but: Collection[str]) -> None:
        """Remove listings and cubins of all variants but these; the store keeps those that were made here."""
        for name, entries in self.compiled.items():
            for entry in entries.values():
                for kind in ("sass", "cubin"):
                    if entry and kind in entry and name not in but:
                        Path(entry[kind]).unlink(missing_ok=True)

    def shipped(
        self, shown: Collection[str], counted: Collection[str]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Listing]]:
        """Return what a recording keeps: entries by variant and architecture, and listings by key.
        A variant that is only ``counted``, not ``shown``, has its `sass.places` for a listing."""
        kept = ("source_sha256", "sha256", "code", "symbol", "symbols", "resources", "options", "nvrtc", "key",
                "text")  # fmt: skip
        entries, listings = {}, {}
        for name, compiled in self.compiled.items():
            for arch, entry in compiled.items():
                if entry is None or entry["status"] != result.OK:
                    continue
                entries[f"{name}.{arch}"] = {part: entry[part] for part in kept if part in entry}
                if name not in shown and name not in counted:
                    continue
                if (listing := self.compilations.as_compiled(entry)) is not None:
                    text, lines = listing
                    listings[entry["key"]] = text if name in shown else places(text), lines
        return entries, listings

    def about_kernels(self, shown: Collection[str] = ()) -> dict[str, dict[str, Any]]:
        """Return, by kernel, what its page needs besides the tables. ``variants``: as they were compiled,
        without logs; each says whether a page shows its code (``shown``)."""
        kernels: dict[str, dict[str, Any]] = {}
        for name, compiled in self.compiled.items():
            about = kernels.setdefault(self.variants[name].kernel.name, {"variants": {}})
            about["variants"][name] = {
                arch: {part: entry[part] for part in entry if part not in ("log", "lines")}
                | {"shown": name in shown}
                for arch, entry in compiled.items()
                if entry is not None
            }
        return kernels
