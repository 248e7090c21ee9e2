"""The one way of a case through the stages: resolved, compiled, known or measured, collected.

`Pipeline` answers for a project and its target what each stage does for each case (`planned`), what of
it is to be done here (`work`) and what came of it (`results`). The Snakefile asks the second before
anything runs; a job of a stage measures it for its kernels; the tables ask the third.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.cases import wants
from tilewave.compiling.origins import Origin
from tilewave.compiling.sass import places
from tilewave.jobs import Job
from tilewave.project import Project
from tilewave.records import model
from tilewave.records.agreement import Disagreement, disagreements
from tilewave.records.store import Store, write_where_other
from tilewave.stages import executing, jobs, measuring, resolving, sampling, tuning
from tilewave.stages.compiling import Compilations, Entry, Listing, Task, compile_all
from tilewave.stages.jobs import Planned
from tilewave.stages.measuring import Measure, Sources
from tilewave.stages.resolving import Resolved
from tilewave.variants import Variant

MEASURED = ("execute", "check", "time", "counters", model.SAMPLE, model.TUNE)
"""Stages that run something, in the order in which they do."""

Results = dict[str, dict[str, Any]]


class Pipeline:
    """A project's cases, or those of some kernels, for one target (see `tilewave.target`)."""

    def __init__(
        self,
        project: Project,
        target: Mapping[str, Any],
        kernels: Collection[str] | None = None,
    ) -> None:
        self.project, self.target, self.kernels = project, dict(target), kernels
        self.recorded = project.recorded(target)
        # Compilations and executions hold on any machine: those of another GPU's recording, too.
        self.recording = self.recorded or project.largest_recording()
        self.deterministic = None if project.config.fresh else self.recording
        self.store = project.store
        # What could not be done is asked again where the target's machine can do more.
        self.attempts = Store(project.results / "attempts" / target.get("machine", ""))
        self.arch = f"sm_{target['arch']}"
        self.compilations = Compilations(self.store, self.deterministic, project.results / "cubins")

    @functools.cached_property
    def resolved(self) -> dict[str, Resolved]:
        """The cases, by id, in the plan's order."""
        found = resolving.of_plan(self.project.plan, self.target, self.store)
        return {
            name: one
            for name, one in found.items()
            if self.kernels is None or one.case.variant.kernel.name in self.kernels
        }

    @functools.cached_property
    def variants(self) -> dict[str, Variant]:
        """The cases' variants, by id."""
        return {one.case.variant.id: one.case.variant for one in self.resolved.values()}

    @functools.cached_property
    def architectures(self) -> list[str]:
        """What is compiled for."""
        asked = self.project.config.architectures
        return list(dict.fromkeys(self.arch if one == "auto" else one for one in asked))

    def wanted(self, variant: Variant) -> list[str]:
        """The architectures of a variant; code on the host has the target's, whatever is asked."""
        return self.architectures if variant.kernel.provider == "nvrtc" else [self.arch]

    @functools.cached_property
    def compiled(self) -> dict[str, dict[str, Entry | None]]:
        """What is known of each variant's compilations, by architecture; None: yet to be compiled."""
        return {
            name: {arch: self.compilations.entry(one, arch) for arch in self.wanted(one)}
            for name, one in self.variants.items()
        }

    @functools.cached_property
    def _planned(self) -> dict[str, list[Planned]]:
        return {}

    def planned(self, stage: str) -> list[Planned]:
        """What a stage does for each case; of `execute` only those that are to be executed."""
        if stage not in self._planned:
            config, chosen = self.project.config, list(self.resolved.values())
            if stage == model.EXECUTE:
                names = self._executed()
                chosen = [one for one in chosen if one.case.id in names]
            if stage == model.SAMPLE:
                chosen = sampling.chosen(chosen)
            self._planned[stage] = list(
                jobs.of_stage(stage, chosen, self.compiled, self.arch, config)
            )
        return self._planned[stage]

    def _executed(self) -> set[str]:
        """The cases that are to be executed."""
        when = self.project.config.execute.when
        replaced: list[Planned] = []
        if when != "never" and not self.target["live"]:
            replaced = [one for stage in executing.REPLACED for one in self.planned(stage)]
        requests = self.project.plan.requests.values()
        asked = executing.wanted(requests, replaced, self.target, self.recorded, when)
        if when == "always":
            return asked
        return executing.telling([self.resolved[name] for name in asked if name in self.resolved])

    def sources(self, stage: str, executions: Results | None = None) -> Sources:
        """Where a stage's results come from."""
        config = self.project.config
        return Sources(
            self.target,
            self.store,
            self.deterministic if stage == model.EXECUTE else self.recorded,
            self.attempts,
            (executions or {}) if stage in executing.REPLACED else {},
            executed_first=config.execute.when == "always",
        )

    # ------------------------------------------------------------------------------- what is to be done

    @functools.cached_property
    def waiting(self) -> dict[str, list[Planned]]:
        """Stage -> the cases that are to be measured here, as far as that is known."""
        found: dict[str, list[Planned]] = {}
        checks: Results = {}
        for stage in MEASURED:
            planned, sources = self.planned(stage), self.sources(stage)
            if stage == "check":
                checks = self._known(planned, sources)
            found[stage] = [one for one in planned if self._waits(stage, one, sources, checks)]
        return found

    def work(self) -> dict[str, list[str]]:
        """Stage -> kernels of which something is to be compiled or measured here."""
        found = {stage: self._kernels(waiting) for stage, waiting in self.waiting.items()}
        found["compile"] = list(dict.fromkeys(one.variant.kernel.name for one in self.tasks))
        return {stage: kernels for stage, kernels in found.items() if kernels}

    @staticmethod
    def _known(planned: Sequence[Planned], sources: Sources) -> Results:
        found = {}
        for one in planned:
            made = one.result if one.job is None else sources.find(one.job)
            if made is not None:
                found[one.case.id] = made
        return found

    def _waits(
        self, stage: str, one: Planned, sources: Sources, checks: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        """Whether a case of a stage is to be measured here, as far as that is known."""
        if one.result is not None:
            return False
        if one.waits_for:  # nobody can know of it
            return sources.measurable(stage, "nvrtc")
        if stage not in ("check", model.EXECUTE) and measuring.blocked(checks.get(one.case.id)):
            return False
        return one.job is not None and measuring.outstanding(one.job, sources)

    @functools.cached_property
    def tasks(self) -> list[Task]:
        """What is to be compiled: what nobody knows, and what is to run here and has no cubin."""
        return [
            Task(variant, arch)
            for name, variant in self.variants.items()
            for arch, entry in self.compiled[name].items()
            if self.compilations.missing_cubin(variant, arch)
            and (entry is None or (arch == self.arch and name in self._run))
        ]

    def tasks_of(self, ids: Sequence[str]) -> list[Task]:
        """Those of `tasks` that have these ids, without finding out which there are; all of them where the ids are of
        another machine's architecture. What was compiled since is not among them."""
        named = [one.partition(" ")[::2] for one in ids]
        if not {arch for _, arch in named} <= set(self.architectures):
            return self.tasks
        found = ((self.variants[variant], arch) for variant, arch in named)
        return [Task(*one) for one in found if self.compilations.missing_cubin(*one)]

    @functools.cached_property
    def _run(self) -> set[str]:
        """The variants of which something is to be measured here."""
        return {one.case.variant.id for waiting in self.waiting.values() for one in waiting}

    @staticmethod
    def _kernels(cases: Sequence[Planned]) -> list[str]:
        return list(dict.fromkeys(one.case.variant.kernel.name for one in cases))

    # ---------------------------------------------------------------------------------------- doing it

    def measure(
        self,
        stage: str,
        measure: Measure,
        only: Collection[str] | None = None,
        again: Collection[str] = (),
    ) -> dict[str, Any]:
        """Measure what is to be measured, or of it ``only`` these cases; those of ``again`` although they are known.
        Returns the document of `measuring.collect`."""
        planned = [one for one in self.planned(stage) if only is None or one.case.id in only]
        checks = None
        if stage not in ("check", model.EXECUTE):
            known = measuring.collect(self.planned("check"), self.sources("check"))
            checks = {made["case"]: made for made in known["results"]}
        sources = dataclasses.replace(self.sources(stage), again=again)
        if stage == model.TUNE:
            assert checks is not None
            planned = tuning.plan(planned, self.compiled, checks, self.target)
            sources = Sources(
                self.target, self.store, self.recorded, self.attempts,
                again=tuning.race_again(planned, self.target, self.store),
            )  # fmt: skip
        return measuring.collect(planned, sources, self._provided(measure), checks)

    def _provided(self, measure: Measure) -> Measure:
        """The same with the cubins of the jobs where the jobs say."""

        def provided(
            waiting: list[Job], finished: Callable[[dict[str, Any]], None]
        ) -> list[dict[str, Any]]:
            for name in dict.fromkeys(job.variant for job in waiting if job.cubin):
                self.compilations.provide(self.variants[name], self.arch)
            if waiting[0].stage == model.TUNE:
                waiting = tuning.by_group(waiting)
            return measure(waiting, finished)

        return provided

    # ------------------------------------------------------------------------------------ what came of it

    def results(self, stages: Sequence[str] = MEASURED) -> dict[str, list[dict[str, Any]]]:
        """What each of these stages knows of every case, measuring nothing."""
        found: dict[str, list[dict[str, Any]]] = {}
        by_case: dict[str, Results] = {}
        for stage in MEASURED:
            if stage not in stages and stage not in ("execute", "check"):
                continue
            checks = None if stage in ("execute", "check") else by_case["check"]
            planned = self.planned(stage)
            if stage == model.TUNE:
                planned = tuning.plan(planned, self.compiled, by_case["check"], self.target)
            sources = self.sources(stage, by_case.get(model.EXECUTE))
            made = measuring.collect(planned, sources, None, checks)["results"]
            by_case[stage] = {one["case"]: one for one in made}
            if stage in stages:
                found[stage] = made
        return found

    def doubtful(
        self, results: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> dict[str, Disagreement]:
        """The times among results, by stage, that another measurement contradicts (`records.agreement`)."""
        return disagreements(results, self.products)

    @functools.cached_property
    def products(self) -> dict[str, str]:
        """What each timed case computes, so that cuBLAS and what is timed beside it share it."""
        jobs = [one.job for one in self.planned("time") if one.job is not None]
        return {
            job.case: json.dumps(
                [job.operation, job.dtypes, job.layouts, job.strides, job.shape], sort_keys=True
            )
            for job in jobs
        }

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
        for one in self.resolved.values():
            variant = one.case.variant
            first.setdefault(variant.kernel.name, variant.id)
            if one.refusal is None and wants(model.SAMPLE, one.request):
                counted.setdefault(variant.kernel.name, variant.id)
        return {*first.values(), *counted.values(), *drawn}

    def write_listings(self, names: Collection[str], cores: int) -> None:
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
        compile_all(unknown, self.store, cores)
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
                if entry is None or entry["status"] != model.OK:
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
        counters: Sequence[Mapping[str, Any]],
        sampled: Sequence[Mapping[str, Any]],
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
            kernel = found[self.resolved[made["case"]].case.variant.kernel.name]
            report = made["notes"].get("report")
            measured = made["source"] == model.SOURCES[made["stage"]]
            if measured and report and report not in kernel["profiles"]:
                kernel["profiles"].append(report)
            if made["stage"] == model.SAMPLE:
                told = ("case", "status", "reason", "environment", "notes")
                kernel["sampled"] = {part: made[part] for part in told}
        return found
