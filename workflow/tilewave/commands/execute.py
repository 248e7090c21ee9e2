"""``tilewave execute KERNEL.cu``: execute a kernel's machine code on the CPU, check it and count.
Exit code 0: the result is correct, or a probe ran; 1: it is wrong, failed, or has a fault such as a race;
2: a mistake on the command line or in the file; 3: nothing checked it, or something is not supported."""

import functools
import itertools
import json
import os
import re
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewave import execution
from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import RECORDED, place
from tilewave.basics.progress import say
from tilewave.commands import flags, lanes
from tilewave.commands import outcome as outcomes
from tilewave.compiling import nvrtc
from tilewave.execution import case, least, predicted
from tilewave.kernel import operations, result, trial
from tilewave.kernel.front_matter import INFERRED, Kernel, load_kernel
from tilewave.kernel.job import Job
from tilewave.kernel.operations import kernel_reference
from tilewave.kernel.result import Result
from tilewave.kernel.trial import FALLBACK_ARCH
from tilewave.kernel.variants import Variant, choices, device
from tilewave.kernel.variants import variant as chosen_variant
from tilewave.pipeline import reference_kernel, single, trials
from tilewave.pipeline.cases import Case
from tilewave.records.folder import folders, largest_first
from tilewave.theory import architectures
from tilewave.theory.data_sheets import SHORT, DataSheet

LIMIT_S, BUDGET_S = 600.0, 5.0
ARCHITECTURE = re.compile(r"(?:sm_?|compute_?)?(\d+[af]?)")


def add(commands: Any) -> None:
    summary = "execute a kernel's machine code on the CPU, check it and count"
    parser = commands.add_parser("execute", help=summary, description=__doc__)
    parser.set_defaults(run=run, limit=LIMIT_S)
    flags.add(parser, "execute")
    add_variant(parser)
    flags.add(parser, "limits")


def add_variant(parser: ArgumentParser) -> None:
    """Add the arguments that choose a variant, its target, its inputs and its trials."""
    facts = {"arch": str(FALLBACK_ARCH), "gpus": ", ".join(SHORT)}
    flags.add(parser, "variant", "operations", "target", "budget", **facts)
    parser.set_defaults(budget=BUDGET_S)


def options_of(arguments: Sequence[str], machine: Any = None) -> Namespace:
    """Parse the arguments of ``execute``, for code that executes a kernel. Raises UserError."""
    return flags.options_of(add, ["execute", *arguments], machine)


def run(options: Namespace) -> int:
    """Execute, print the outcome and return the exit code. Raises UserError."""
    flags.use_operations(options)
    if options.time:
        document = time_of(options)
        flags.show(json.dumps(document, indent=1) if options.json else outcomes.time_text(document))
        return result.UNCLEAR if "reason" in document else result.RIGHT
    outcome = execute(options)
    flags.show(json.dumps(outcome, indent=1) if options.json else outcomes.text(outcome))
    return outcomes.exit_code(outcome)


def kernel_of(path: Path) -> Kernel:
    """Load a kernel file with machine code. Raises UserError."""
    if not path.is_file():
        raise UserError.because(HERE, f"{path} is not a file", "Give a kernel file")
    kernel = load_kernel(path) if path.suffix in (".cu", ".yaml") else None
    if kernel is None or kernel.provider != "nvrtc":
        remedy = "Give a .cu file, or a .yaml file with a `cubin`: only machine code is executed"
        raise UserError.because(HERE, f"{path} has no machine code", remedy)
    return kernel


def _with_facts(kernel: Kernel) -> Kernel:
    """Return a kernel without what `requires` infers from a failed trial: such a shape is executed."""
    inferred = re.findall(r"\w+", kernel.marked(INFERRED).get("requires", ""))
    kept = {key: of for key, of in kernel.front.requires.items() if key not in inferred}
    return replace(kernel, front=kernel.front.model_copy(update={"requires": kept}))


def probe_case(kernel: Kernel, name: str) -> Case:
    macros = kernel.front.cases[name].macros
    return Case(next(choices(kernel, macros, kernel.path, f"cases.{name}.macros")), None, name)


def variant_of(kernel: Kernel, definitions: Iterable[str]) -> Variant:
    """Return the variant of --macro NAME=VALUE. Raises UserError."""
    macros = {}
    for definition in definitions:
        name, sign, macros[name] = definition.partition("=")
        if not sign or not name:
            raise UserError(HERE, "--macro", definition, "NAME=VALUE")
    return chosen_variant(kernel, macros, HERE, "--macro")


def _case(kernel: Kernel, options: Namespace) -> Case:
    front = kernel.front
    if front.operation == "probe":
        if options.case not in front.cases:
            raise UserError(HERE, "--case", options.case, front.cases)
        for value, name in ((options.shape, "--shape"), (options.macro, "--macro")):
            if value:
                problem = f"{name} is given, but {kernel.name} is a probe: its case decides that"
                raise UserError.because(HERE, problem, f"Remove {name}")
        return probe_case(kernel, options.case)
    dimensions = operations.load(front.operation, kernel.path).dimensions
    if options.case is not None:
        problem = f"--case is given, but {kernel.name} is not a probe and has no cases"
        raise UserError.because(HERE, problem, f"Use --shape: {flags.sizes_of(dimensions)}")
    if options.shape is None:
        raise UserError(HERE, "--shape", None, flags.sizes_of(dimensions))
    shape = flags.shape(options.shape, dimensions, "--shape")
    return Case(variant_of(kernel, options.macro), shape)


def arch_of(options: Namespace) -> str:
    """Return the architecture of --arch or --gpu as NVRTC names it: ``sm_90`` for ``compute_90``."""
    arch = options.arch
    if arch is None and options.gpu is not None:
        arch = least.gpu_named(options.gpu, HERE).capability.replace(".", "")
    arch = arch or f"sm_{FALLBACK_ARCH}"
    match = ARCHITECTURE.fullmatch(arch)
    return f"sm_{match[1]}" if match else arch


@functools.lru_cache(maxsize=1)
def _recorded(root: Path, times: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the facts of the recorded GPUs. ``times``: of the folders' last changes, for the cache."""
    return [item.environments.get(item.main_environment, {}) for item in largest_first(root)]


def _environments() -> list[dict[str, Any]]:
    """Return the facts of the recorded GPUs, the one with the most results first."""
    root = place(RECORDED)
    return _recorded(root, tuple(path.stat().st_mtime_ns for path in folders(root)))


def gpu_of(options: Namespace) -> DataSheet | None:
    """Return the GPU of --gpu, or the recorded one of the architecture. Raises UserError."""
    arch = arch_of(options)
    if options.gpu is None:
        number = architectures.number(arch)
        names = [*(str(facts.get("gpu") or "") for facts in _environments()), ""]
        return next(filter(None, (least.gpu_of(number, name) for name in names)), None)
    sheet = least.gpu_named(options.gpu, HERE)
    of_gpu = f"sm_{sheet.capability.replace('.', '')}"
    if arch.rstrip("af") != of_gpu:
        problem = f"--gpu {options.gpu} is {of_gpu}, but --arch is {arch}"
        raise UserError.because(HERE, problem, f"Give a GPU of {arch}, or no --arch")
    return sheet


def target_of(options: Namespace) -> dict[str, Any]:
    """Return a recorded device of the architecture, else of another; ``sms`` is that of --gpu. Raises UserError."""
    arch, gpu = arch_of(options), None if options.gpu is None else gpu_of(options)
    if why := nvrtc.available():
        remedy = "Install requirements/base.txt, or tilewave[execute]"
        raise UserError.because(HERE, f"NVRTC cannot be used: {why}", remedy)
    if arch not in nvrtc.architectures():
        raise UserError(HERE, "--arch", arch, nvrtc.architectures())
    number = architectures.number(arch)
    recorded = list(map(device, _environments()))
    others = ({"sms": facts["sms"]} for facts in recorded if "sms" in facts)
    alike = (facts for facts in recorded if facts.get("arch") == number)
    facts: dict[str, Any] = next(itertools.chain(alike, others), {})
    return {"device": {**facts, **({} if gpu is None else {"sms": gpu.sms})}, "arch": number}


def engine_of(options: Namespace) -> Any:
    """Return what executes kernels: that of the options, else this CPU."""
    return options.machine or execution.engine(saying=say, processes=os.cpu_count() or 1)


def planned(options: Namespace, folder: Path) -> tuple[Case, Job | Result, dict[str, Any]]:
    """Compile the case; return it, its job or the result that refuses it, and its entry. Raises UserError."""
    kernel = kernel_of(options.kernel)
    trial.try_out(_case(kernel, options).variant)
    selected = _case(_with_facts(kernel), options)
    target, arch = target_of(options), arch_of(options)
    return selected, *single.planned(selected, arch, target, folder, options.seed, options.limit)


def execute(options: Namespace, timed: bool = True) -> dict[str, Any]:
    """Compile, execute, (``timed``) count by line and predict the command line's case, then its other trials. Raises UserError."""
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        selected, job, entry = planned(options, Path(folder))
        kernel_reference.execute, done = reference_kernel.outputs, None
        if isinstance(job, Job):
            options.machine = engine_of(options)
            watched_job = replace(job, watch=options.lanes is not None)
            done = case.run(watched_job, options.machine, lenient=() if timed else case.LENIENT)
        shown = done if timed or done is None else replace(done, ran=())
        outcome = outcomes.document(arch_of(options), selected, job, entry, shown)
        if timed and done and isinstance(job, Job) and (gpu := gpu_of(options)) is not None:
            outcome["bound"] = least.of_execution(done, job, gpu)
            if done.result.status == result.OK:
                outcome["time"] = predicted.of_case(job, gpu, options.machine)
        if options.lanes is not None and done is not None:
            outcome["lanes"] = lanes.drawn(done, options.lanes, options.kernel, options.output)
        elif options.budget > 0 and done is not None and done.result.verdict == result.CORRECT:
            outcome |= _trials(options, selected, entry, done)
        return outcome


def time_of(options: Namespace) -> dict[str, Any]:
    """Predict the time of the command line's case, and execute no more than a block of it. Raises UserError."""
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        _, job, _ = planned(options, Path(folder))
        if not isinstance(job, Job):
            problem = f"the case cannot run: {job.reason}"
            raise UserError.because(HERE, problem, "Choose another one")
        gpu = gpu_of(options)
        document = None if gpu is None else predicted.of_case(job, gpu, engine_of(options))
        name = gpu.name if gpu else job.device.get("name", "")
        return document or {"gpu": name, "reason": predicted.UNKNOWN}


def _trials(
    options: Namespace, selected: Case, entry: Mapping[str, Any], done: case.CaseExecution
) -> dict[str, Any]:
    """Return the parts of the document that the judge's other trials decide."""
    if selected.shape is None:
        return {}
    limited = _case(kernel_of(options.kernel), options)  # as front matter has it
    results = trials.judged(
        selected, arch_of(options), target_of(options), entry, seed=options.seed,
        limit_s=options.limit, budget_s=options.budget, machine=options.machine, done=done, limiting=limited.variant,
    )  # fmt: skip
    parts = {
        "trials": [outcomes.trial_row(tried.trial.name, tried.result) for tried in results],
        "tried": trials.summary(results),
    }
    worst = trials.worst(results)
    if worst.right or worst.result.status not in (result.OK, *result.FAILURES):
        return parts  # a trial without time or an opcode says nothing about this case
    reason = f"{worst.trial.title}: {worst.result.reason}"
    faults = worst.result.notes.get("faults", [])
    return parts | worst.result.only("status", "verdict") | {"reason": reason, "faults": faults}
