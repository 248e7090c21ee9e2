"""The way of a case through the stages of one target: compiled, known or measured, collected.

`Pipeline` says for a resolved plan what each stage does for each case (`planned`), does what is missing (`compile`,
`measure`) and puts together what came of it (`collected`). A job of the workflow does this for its part of the cases.
"""

from __future__ import annotations

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
from tilewave.pipeline import executing, jobs, measuring, sampling, tuning
from tilewave.pipeline.cases import Case, wants
from tilewave.pipeline.compiling import Compilations, Entry, Listing, Task, compile_all
from tilewave.pipeline.measuring import Sources
from tilewave.pipeline.project import Project
from tilewave.records.agreement import Disagreement, disagreements
from tilewave.records.store import Store, write_where_other

ALL = "1-of-1"
"""The part that holds every case."""
ON_GPU = ("check", "time", result.TUNE, "counters", result.SAMPLE)
"""Stages that measure, in their order. A check says what may be timed, and timing chooses cuBLAS' algorithm."""

Compiled = dict[str, dict[str, Entry | None]]
Results = dict[str, dict[str, Result]]
"""Stage -> case -> result."""


def part_of(items: Sequence[str], part: str) -> list[str]:
    """The items of a part, named ``2-of-3``: dealt in turn, because neighbours cost alike."""
    number, _, count = part.partition("-of-")
    return list(items[int(number) - 1 :: int(count)])


def _group(case: Case) -> tuple[float, str]:
    """What stays in one part: an operation, its dtype and shape, with all that is compared there."""
    what = case.kernel.name if case.shape is None else case.kernel.front.operation
    size = float(math.prod(case.sizes.values()))
    return -size, f"{what} {case.variant.dtype} {case.shape.id if case.shape else ''}"


class Pipeline:
    """The cases of a project's resolved plan, or those of a part (``2-of-3``), for one target (see `tilewave.pipeline.target`).

    compiled: what was compiled, by variant and architecture; default: what the store and the recording know.
    cores: how many processes may compile what a stage lacks.
    """

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
        # Compilations and executions hold on any machine: those of another GPU's recording, too.
        self.recording = self.recorded or project.largest_recording()
        self.deterministic = None if project.config.fresh else self.recording
        self.store = project.store
        # What could not be done is asked again where the target's machine can do more.
        self.attempts = Store(project.results / "attempts" / target.get("machine", ""))
        self.arch = f"sm_{target['arch']}"
        self.compilations = Compilations(self.store, self.deterministic, project.results / "cubins")
        self._compiled, self._planned = compiled, dict[str, dict[str, Job | Result]]()

    @property
    def variants(self) -> dict[str, Variant]:
        """The cases' variants, by id."""
        return self.plan.variants

    @functools.cached_property
    def cases(self) -> dict[str, Case]:
        """The cases of the part, by id, in the plan's order."""
        groups = {name: _group(case) for name, case in self.plan.cases.items()}
        mine = set(part_of([name for _, name in sorted(set(groups.values()))], self.part))
        return {name: case for name, case in self.plan.cases.items() if groups[name][1] in mine}

    # ----------------------------------------------------------------------------------------- compiling

    @functools.cached_property
    def architectures(self) -> list[str]:
        """What is compiled for."""
        asked = self.project.config.architectures
        return list(dict.fromkeys(self.arch if one == "auto" else one for one in asked))

    def wanted(self, variant: Variant) -> list[str]:
        """The architectures of a variant; code on the host has the target's, whatever is asked."""
        return self.architectures if variant.kernel.provider == "nvrtc" else [self.arch]

    @property
    def compiled(self) -> Compiled:
        """What is known of each variant's compilations, by architecture; None: yet to be compiled."""
        if self._compiled is None:
            self._compiled = self.known(self.variants)
        return self._compiled

    def known(self, names: Iterable[str]) -> Compiled:
        """What the store and the recording know of these variants' compilations."""
        return {
            name: {
                arch: self.compilations.entry(self.variants[name], arch)
                for arch in self.wanted(self.variants[name])
            }
            for name in names
        }

    def tasks(self, names: Sequence[str]) -> list[Task]:
        """What is to be compiled of these variants: what nobody knows, and what a GPU here runs and has no cubin."""
        runs = self.target["live"] or self.project.config.execute.when == "always"
        return [
            Task(self.variants[name], arch)
            for name, entries in self.known(names).items()
            for arch, entry in entries.items()
            if (entry is None or (runs and arch == self.arch))
            and self.compilations.missing_cubin(self.variants[name], arch)
        ]

    # ----------------------------------------------------------------------------------------- measuring

    def planned(self, stage: str) -> dict[str, Job | Result]:
        """What a stage does for each case of the part; of `execute` only those that are to be executed."""
        if stage not in self._planned:
            config, chosen = self.project.config, list(self.cases.values())
            if stage == result.EXECUTE:
                names = self._executed()
                chosen = [case for case in chosen if case.id in names]
            if stage == result.SAMPLE:
                sampled = {case.id for case in sampling.chosen(self.plan.cases.values())}
                chosen = [case for case in chosen if case.id in sampled]
            self._planned[stage] = jobs.of_stage(stage, chosen, self.compiled, self.arch, config)
        return self._planned[stage]

    def _executed(self) -> set[str]:
        """The cases that are to be executed."""
        when = self.project.config.execute.when
        replaced: dict[str, list[Job | Result]] = {}
        for stage in executing.REPLACED if when == "no_gpu" and not self.target["live"] else ():
            for case, one in self.planned(stage).items():
                replaced.setdefault(case, []).append(one)
        return executing.wanted(
            list(self.cases.values()), replaced, self.target, self.recorded, when
        )

    def sources(self, stage: str) -> Sources:
        """Where a stage's results come from."""
        recorded = self.deterministic if stage == result.EXECUTE else self.recorded
        return Sources(self.target, self.store, recorded, self.attempts)

    def measure(
        self,
        stage: str,
        measure: Measure | None,
        checks: Mapping[str, Result] | None = None,
        again: Collection[str] = (),
    ) -> dict[str, Any]:
        """What a stage knows of each case, after measuring what is missing; without ``measure`` nothing is measured.

        checks: results of that stage, by case, for those behind it. again: cases that alone are measured, although
        they are known. Returns the document of `measuring.collect`.
        """
        planned = self.planned(stage)
        sources = dataclasses.replace(self.sources(stage), again=again)
        if again:
            planned = {case: one for case, one in planned.items() if case in again}
        if stage == result.TUNE:
            planned = tuning.plan(planned, self.compiled, checks or {}, self.target)
            racing = [one for one in planned.values() if isinstance(one, Job)]
            again = tuning.race_again(racing, self.target, self.store)
            sources = dataclasses.replace(sources, again=again)
        made = measure and self._provided(measure)
        return measuring.collect(planned, sources, made, checks)

    def _provided(self, measure: Measure) -> Measure:
        """The same with the cubins of the jobs where the jobs say."""

        def provided(waiting: list[Job], finished: Callable[[Result], None]) -> list[Result]:
            self.provide({job.variant for job in waiting if job.cubin})
            if waiting[0].stage == result.TUNE:
                waiting = tuning.by_group(waiting)
            return measure(waiting, finished)

        return provided

    def provide(self, names: Collection[str]) -> None:
        """Put the cubins of these variants where their entries say; those that are missing are compiled."""
        variants = [self.variants[name] for name in names]
        missing = [
            Task(one, self.arch)
            for one in variants
            if self.compilations.missing_cubin(one, self.arch)
        ]
        compile_all(missing, self.store, self.cores, recorded=self.deterministic)
        for one in variants:
            self.compilations.provide(one, self.arch)

    # ---------------------------------------------------------------------------------- what came of it

    def collected(self, found: Results) -> dict[str, list[Result]]:
        """The results of all stages, each in the plan's order, with what executions say where there is no figure, and
        without figures of cases whose check did not end clean."""
        executions, when = found.get(result.EXECUTE, {}), self.project.config.execute.when
        config, live = self.project.config, bool(self.target["live"])
        checks: dict[str, Result] = {}

        def final(stage: str, made: Result) -> Result:
            stop = None if stage == "check" else measuring.blocked(checks.get(made.case))
            if stop and made.key:
                return Result(stage, made.case, *stop, key=made.key)
            if stage == result.TUNE and made.key:
                why = tuning.judged(made.key, made.case, checks.get(made.case))
                return why or made
            execution = executions.get(made.case)
            if stage not in executing.REPLACED or execution is None:
                return made
            case = self.plan.cases[made.case]
            job = jobs.of_case(stage, case, self.compiled[case.variant.id], self.arch, config)
            if not isinstance(job, Job):
                return made
            return measuring.with_execution(job, made, execution, live, when == "always")

        done: dict[str, list[Result]] = {}
        for stage in (result.EXECUTE, *ON_GPU):
            by_case = found.get(stage, {})
            done[stage] = [by_case[name] for name in self.plan.cases if name in by_case]
            if stage != result.EXECUTE:
                done[stage] = [final(stage, made) for made in done[stage]]
            if stage == "check":
                checks.update((made.case, made) for made in done[stage])
        return done

    def doubtful(self, results: Mapping[str, Sequence[Result]]) -> dict[str, Disagreement]:
        """The times among results, by stage, that another measurement contradicts (`records.agreement`)."""
        return disagreements(results, self.products)

    @functools.cached_property
    def products(self) -> dict[str, str]:
        """What each timed case computes, so that cuBLAS and what is timed beside it share it."""
        found = {}
        for name, case in self.plan.cases.items():
            if wants("time", case) and case.refusal is None:
                variant = case.variant
                layouts = variant.layouts if variant.operation.laid_out else {}
                strides = variant.strides(case.sizes)
                what = [case.kernel.front.operation, variant.dtypes, layouts, strides, case.sizes]
                found[name] = json.dumps(what, sort_keys=True)
        return found

    def origins(self, variant: str, function: str) -> Mapping[int, Origin]:
        """Address -> the line that an instruction of a variant's code came from (see
        `Compilations.origins`)."""
        entry = self.compiled[variant].get(self.arch) or {}
        return self.compilations.origins(self.variants[variant], entry, function)

    def shown(self, drawn: Iterable[str] = ()) -> set[str]:
        """The variants whose code a page shows: of each kernel the first one and the first whose instructions are
        counted, and those whose accesses are ``drawn``."""
        first: dict[str, str] = {}
        counted: dict[str, str] = {}
        for case in self.plan.cases.values():
            first.setdefault(case.kernel.name, case.variant.id)
            if case.refusal is None and wants(result.SAMPLE, case):
                counted.setdefault(case.kernel.name, case.variant.id)
        return {*first.values(), *counted.values(), *drawn}

    def write_listings(self, names: Collection[str]) -> None:
        """The listings of these variants where their entries say, for whoever reads them; what nobody knows is made
        where there is a compiler."""
        wanted = [
            (self.variants[name], arch, entry)
            for name in names
            for arch, entry in self.compiled[name].items()
            if entry and "sass" in entry  # not refused
        ]
        unknown = [
            Task(variant, arch)
            for variant, arch, entry in wanted
            if self.compilations.as_compiled(entry) is None
            and self.compilations.missing_cubin(variant, arch)
        ]
        compile_all(unknown, self.store, self.cores)
        for variant, _, entry in wanted:
            text = self.compilations.listing(variant, entry)
            if text is not None:
                write_where_other(Path(entry["sass"]), text)

    def remove_code(self, but: Collection[str]) -> None:
        """Remove listings and cubins of all variants but these: the store has those that were made here."""
        for name, entries in self.compiled.items():
            for entry in entries.values():
                for kind in ("sass", "cubin"):
                    if entry and kind in entry and name not in but:
                        Path(entry[kind]).unlink(missing_ok=True)

    def shipped(
        self, shown: Collection[str], counted: Collection[str]
    ) -> tuple[dict[str, dict[str, Any]], dict[str, Listing]]:
        """What a recording keeps of compilations: by variant and architecture; and by key the listings of the
        variants that are ``shown``, of those that are only ``counted`` their `sass.places`, with the numbers of the
        lines that had code."""
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

    def about_kernels(
        self,
        counters: Sequence[Result],
        sampled: Sequence[Result],
        shown: Collection[str] = (),
    ) -> dict[str, dict[str, Any]]:
        """Kernel -> its ``variants`` as they were compiled (without logs; ``shown``: whether a page shows the code),
        the reports of Nsight Compute
        (``profiles``) that this machine made of it, and of the case that is sampled (``sampled``, where
        there is one) what came of it: case, status, reason, environment and notes."""
        found: dict[str, dict[str, Any]] = {}
        for name, compiled in self.compiled.items():
            one = found.setdefault(
                self.variants[name].kernel.name, {"variants": {}, "profiles": []}
            )
            one["variants"][name] = {
                arch: {part: entry[part] for part in entry if part not in ("log", "lines")}
                | {"shown": name in shown}
                for arch, entry in compiled.items()
                if entry is not None
            }
        for made in (*counters, *sampled):
            kernel = found[self.plan.cases[made.case].kernel.name]
            report = made.notes.get("report")
            measured = made.source == result.SOURCES[made.stage]
            if measured and report and report not in kernel["profiles"]:
                kernel["profiles"].append(report)
            if made.stage == result.SAMPLE:
                kernel["sampled"] = made.only("case", "status", "reason", "environment", "notes")
        return found
