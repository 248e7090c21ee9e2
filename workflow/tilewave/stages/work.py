"""What there is to do, for the graph of jobs: decided when the Snakefile is read, from content.

Without CUDA in this process and without compiling. Kernels of which nothing is to be done have no job;
the others of a stage are measured together, in batches, because a process costs a second and Nsight
Compute five.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewave import environment, library
from tilewave import target as targets
from tilewave.compiling import nvrtc
from tilewave.progress import say
from tilewave.project import Project, machine_fingerprint
from tilewave.records import model

if TYPE_CHECKING:
    from tilewave.stages.pipeline import Pipeline

BATCHED = ("compile", model.EXECUTE, "check", "time", "counters", model.SAMPLE, model.TUNE)
APART = ("compile", model.EXECUTE, "check")
"""Stages whose raced kernels have a batch of their own: `tune` asks for these alone."""

NAMED = 60
"""Kernels that a job's message names."""


class Work:
    """Stage -> batch -> kernels; and whether this run measures on a GPU of this machine.

    folder: where a batch leaves a file that says that it is done. compiled: by kernel the ids of what is to
    be compiled of it (`compiling.Task.id`). tried: changes when a run could not measure something, so that the tables
    of the next one wait for the same batches again.
    """

    def __init__(
        self,
        folder: str,
        live: bool,
        batches: Mapping[str, Mapping[str, list[str]]],
        compiled: Mapping[str, list[str]] | None = None,
        tried: str = "",
    ) -> None:
        self.folder, self.live, self.batches = folder, live, batches
        self.compiled, self.tried = compiled or {}, tried

    def of(self, stage: str, kernels: object = None) -> list[str]:
        """The batches of a stage; those that hold one of these kernels, if any are given."""
        found = self.batches.get(stage, {})
        if kernels is None:
            return list(found)
        return [batch for batch, mine in found.items() if set(mine) & set(kernels)]  # type: ignore[call-overload]

    def done(self, stage: str, kernels: object = None) -> list[str]:
        """What the batches of a stage leave; those of these kernels, where any are given."""
        return [f"{self.folder}/{stage}-{batch}.txt" for batch in self.of(stage, kernels)]

    def kernels_of(self, stage: str) -> Callable[[Any], str]:
        """For a rule: its wildcards -> the kernels of the batch, parted by commas."""
        return lambda wildcards: ", ".join(self.batches[stage][wildcards.batch])

    def compiled_in(self, wildcards: Any) -> list[str]:
        """For a rule: its wildcards -> what its batch compiles."""
        return [
            one for name in self.batches["compile"][wildcards.batch] for one in self.compiled[name]
        ]

    def named(self, stage: str) -> Callable[[Any], str]:
        """The same for people: of many kernels the first ones, and how many more."""

        def told(wildcards: Any) -> str:
            names = self.batches[stage][wildcards.batch]
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            return ", ".join(names[:NAMED]) + more

        return told


def _here(project: Project) -> dict[str, Any]:
    """This machine's environment; a driver is asked once for each state of the machine, in a child."""
    found = environment.fingerprint()
    if not environment.has_gpu(found):
        return targets.probe(project.config.gpu)
    known = [found, project.config.gpu, environment.package_versions()]
    name = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
    path = project.store.blob("environments", name, ".json")
    kept = project.store.read(path)
    if isinstance(kept, dict) and kept.get("gpu") and kept.get("id"):
        return kept
    here = targets.probe(project.config.gpu)
    if here.get("gpu"):
        project.store.write(path, here)
    return here


def _told(project: Project) -> dict[str, Any] | None:
    """The target as a node of a cluster found it, in a run before; None where none did."""
    try:
        found: dict[str, Any] = json.loads((project.results / "target.json").read_text("utf-8"))
        return found if found["node"] else None
    except (OSError, ValueError, KeyError):
        return None


def _batches(
    project: Project, work: Mapping[str, list[str]], nodes: int | None = None
) -> dict[str, dict[str, list[str]]]:
    """Stage -> batch -> kernels. Neighbours of a ladder cost alike: nodes are dealt them in turn."""
    raced, every = project.stage_kernels(model.TUNE), nodes or 1
    found: dict[str, dict[str, list[str]]] = {}
    for stage, kernels in work.items():
        parts = [kernels]
        if stage == model.TUNE:
            parts = [raced]  # a newcomer meets those that reached the end before
        elif stage in APART:
            first = [name for name in kernels if name in raced]
            parts = [first, [name for name in kernels if name not in raced]]
        if stage != model.TUNE:
            parts = [part[n::every] for part in parts for n in range(min(every, len(part)))]
        found[stage] = {str(n): part for n, part in enumerate(filter(None, parts))}
    return found


def _state(project: Project, told: Mapping[str, Any] | None) -> str:
    """Digest of all that decides what there is to do, but for what was done already."""
    why = nvrtc.available()
    parts = [
        project.plan_digest(),
        project.recorded_digest(),
        told["machine"] if told else machine_fingerprint(),
        why or nvrtc.version(),
        library.digest("stages.pipeline"),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _decided(project: Project) -> Path:
    """Where the work of a run is written down."""
    name = hashlib.sha256(project.results.as_posix().encode()).hexdigest()[:12]
    return project.store.root / "batches" / f"{name}.json"


def _tried(project: Project) -> str:
    """When something was last tried in vain (see `Pipeline.attempts`)."""
    files = (project.results / "attempts").rglob("*.json")
    return str(max((path.stat().st_mtime_ns for path in files), default=""))


def settle(pipeline: Pipeline) -> None:
    """Remember, when all batches of a run are done, where they left nothing to do: the next run need not
    look for it."""
    project = pipeline.project
    known = project.store.read(_decided(project))
    if isinstance(known, dict) and not pipeline.work():
        project.store.write(_decided(project), known | {"settled": project.plan_digest()})


def find(project: Project, decide: bool = True, nodes: int | None = None) -> Work:
    """The work of a run. ``decide``: now, and for all processes of the run; else as it was decided.

    nodes: of a cluster, how many jobs run at a time; as many batches has a stage. What they can measure
    is what they were seen to be when the target was asked for, not what this machine is.
    """
    store, path = project.store, _decided(project)
    folder = f"{project.results.as_posix()}/batches"
    known = store.read(path)
    try:
        work = Work(folder, known["live"], known["batches"], known["compiled"], known["tried"])
        state = known["state"]
    except (KeyError, TypeError):
        work, state = None, ""
    if work is not None and not decide:
        return work
    for line in project.damage if decide else ():
        say(f"Warning: {line}")
    told = _told(project) if nodes else None
    now = _state(project, told)
    # Once all was done nothing is left, as long as what was tried in vain is remembered, too.
    if work is not None and state == now and project.results.is_dir():
        if work.batches and known.get("settled") == project.plan_digest():
            work = Work(folder, work.live, {}, tried=work.tried)
            store.write(path, known | {"batches": {}, "compiled": {}})
        if not work.batches:
            return work
    from tilewave.stages.pipeline import Pipeline

    here = told["environments"][told["host"]] if told else _here(project)
    target = targets.resolve(project.config, here, project.recorded_root, project.where)
    target |= {name: told[name] for name in ("machine", "node")} if told else {}
    pipeline, compiled = Pipeline(project, target), dict[str, list[str]]()
    for task in pipeline.tasks:
        compiled.setdefault(task.variant.kernel.name, []).append(task.id)
    batches = _batches(project, pipeline.work(), nodes)
    work = Work(folder, bool(target["live"]), batches, compiled, _tried(project))
    decided = {"live": work.live, "batches": batches, "compiled": compiled, "state": now}
    decided["tried"] = work.tried
    if decided != known:
        store.write(path, decided)
    return work
