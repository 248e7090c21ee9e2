"""One run's project: config, kernels and plan, loaded the same way by the DAG and by every job."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewave import plots
from tilewave.basics import cache
from tilewave.basics.errors import KernelRefused, UserError
from tilewave.basics.paths import RECORDED, ROOT, place
from tilewave.basics.validation import read_mapping as read_config
from tilewave.compiling import nvrtc
from tilewave.kernel import operations, trial
from tilewave.kernel.discovery import (
    gathered,
    leave_out,
    mistakes,
    no_kernels,
    tried,
    with_user_operation,
)
from tilewave.kernel.expressions import ExpressionError
from tilewave.kernel.front_matter import Kernel, spared
from tilewave.kernel.operations import user_defined
from tilewave.kernel.variants import Variant
from tilewave.pipeline import outputs, parameters, plan
from tilewave.pipeline.cases import Case, Plan, expand
from tilewave.pipeline.config import Config, check_folders, parse
from tilewave.records.recorded import Recorded, folders, largest_first
from tilewave.records.store import Store

STORE = Path(".tilewave")
TRIED = 10_000_000
"""Sizes, multiplied, below which an operation of somebody's own is tried before the run."""


@dataclass(frozen=True)
class Project:
    """What a run is about, and where its folders are."""

    config: Config
    where: str
    kernels: dict[str, Kernel]
    plan: Plan
    recorded_root: Path
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Kernels whose files cannot be read, pass a limit or have a mistake, with the reason: there is no case of
    them, and the run fails at its end."""
    no_kernels: Mapping[str, str] = field(default_factory=dict)
    """Files among them that are no kernel files, with what to do."""

    @functools.cached_property
    def followers(self) -> dict[str, list[str]]:
        """Kernel of the plan -> those that follow it."""
        found: dict[str, list[str]] = {}
        for name in self.plan.kernels:
            before = self.kernels[name].front.follows
            if before is not None:
                found.setdefault(before, []).append(name)
        return found

    @property
    def results(self) -> Path:
        return Path(self.config.output.results)

    @property
    def reports(self) -> Path:
        return Path(self.config.output.reports)

    @property
    def store(self) -> Store:
        """The store lies in the folder that the run works in."""
        return Store(STORE.resolve())

    def recorded(self, target: Mapping[str, Any]) -> Recorded | None:
        """The recorded figures the target names, if any."""
        name = target["recorded"]
        return Recorded(self.recorded_root / name) if name else None

    @property
    def damage(self) -> list[str]:
        """A line about each damaged file of a recording."""
        return [line for path in folders(self.recorded_root) for line in Recorded(path).warnings]

    def largest_recording(self) -> Recorded | None:
        """The recording with the most results, of whatever GPU."""
        return next(iter(largest_first(self.recorded_root)), None)

    @property
    def raced_studies(self) -> list[str]:
        """The studies that race their cases."""
        return [name for name in self.plan.studies if self.config.studies[name].races]

    @property
    def summarised_studies(self) -> list[str]:
        """The studies with a summary in ``tables/``: their plot module makes one."""
        return [
            name for name in self.plan.studies if plots.has_summary(self.config.studies[name].plot)
        ]

    @property
    def raced_plan(self) -> Plan:
        """The part of the plan of the studies that race."""
        return self._part(self.raced_studies)

    def _part(self, names: Iterable[str]) -> Plan:
        studies = {name: self.plan.studies[name] for name in names}
        mine = {case for cases in studies.values() for case in cases}
        cases = {name: case for name, case in self.plan.cases.items() if name in mine}
        return Plan(cases, studies)

    def study_digest(self, name: str) -> str:
        """Digest of what a study's figure depends on beside the tables."""
        study = self.config.studies[name].model_dump(exclude={"cases", "time", "tune", "counters"})
        return _digest([study, self.plan.studies[name], self.config.style.model_dump()])


def load(
    data: Mapping[str, Any],
    where: object,
    root: Path = ROOT,
    files: Iterable[Any] = (),
    checked: bool = False,
    thorough: bool = True,
    ladder: bool = True,
) -> Project:
    """Check a config and expand it.

    ``files`` are the config files that ``data`` was read from, where they are known. ``thorough``: try the front
    matter of every variant and each user's operation, which takes seconds. ``checked``: check nothing, as in the
    processes of a run behind its first. ``ladder``: whether the kernel that another one `follows` must be there.
    Raises UserError for every mistake in the config or in a kernel file's front matter.
    """
    for file in () if checked else files:
        read_config(Path(str(file)), parameters.config_name([file]))
    config, kernels, left_out, found = _kernels(data, where, root)
    recorded_root = place(RECORDED, root)
    if ladder:
        _check_rungs(kernels, left_out, found)
    if left_out and not kernels:
        first = next(iter(left_out.values()))
        allowed = f"folders with at least one; {len(left_out)} left out, the first: {first}"
        raise UserError(where, "kernel_folders", "no kernel", allowed)
    if not checked:
        outputs.check(config, where, root)
    _check_target(config, recorded_root, where)
    _check_architectures(config, where)
    cache.owned(STORE.resolve())
    if thorough and not checked:
        _check_expressions(kernels)
    cases = expand(config, kernels, where, left_out)
    if leave_out(kernels, left_out, found, with_user_operation(kernels, cases.kernels)):
        cases = expand(config, kernels, where, left_out)
    if not checked:
        _check_names(config, {**kernels, **dict.fromkeys(left_out)}, where)
    if thorough and not checked:
        for variant in cases.variants.values():
            _try_out(variant)
        _try_operations(cases)
    why = mistakes(left_out), no_kernels(left_out)
    return Project(config, str(where), kernels, cases, recorded_root, *why)


def _kernels(
    data: Mapping[str, Any], where: object, root: Path
) -> tuple[Config, dict[str, Kernel], dict[str, UserError], list[Path]]:
    """The config, the kernels of its folders, why others are left out, and the folders."""
    config = parse(data, where)
    for kind, modules in (("operation", operations.MODULES), ("plot", plots.MODULES)):
        modules.use(check_folders(config, f"{kind}_folders", where, root))
    left_out: dict[str, UserError] = {}
    found = check_folders(config, "kernel_folders", where, root)
    return config, gathered(found, left_out), left_out, found


def planned(data: Mapping[str, Any], where: object, path: Path, root: Path = ROOT) -> Project:
    """The project of a run, its cases as they were planned (see `pipeline.plan`)."""
    config, kernels, *_ = _kernels(data, where, root)
    made, left_out, without = plan.read(path, kernels)
    return Project(config, str(where), kernels, made, place(RECORDED, root), left_out, without)


def _check_target(config: Config, recorded_root: Path, where: object) -> None:
    """A target that is named must have been recorded."""
    allowed = ["auto", "live", *(path.name for path in folders(recorded_root))]
    if config.target not in allowed:
        raise UserError(where, "target", config.target, allowed)


def _check_architectures(config: Config, where: object) -> None:
    """Architectures must be some that this NVRTC compiles for; without one any will do."""
    asked = {i: name for i, name in enumerate(config.architectures) if name != "auto"}
    known = nvrtc.architectures() if asked else ()
    for index, name in asked.items():
        if known and name not in known:
            raise UserError(where, f"architectures.{index}", name, ["auto", *known])


def _check_expressions(kernels: Mapping[str, Kernel]) -> None:
    """Every kernel's first variant, used or not: its expressions must have values. A user's own operation
    is code, and is loaded for the kernels that cases ask for."""
    for kernel in kernels.values():
        if operations.MODULES.file(kernel.front.operation):
            continue
        with contextlib.suppress(KernelRefused):
            tried(kernel)


def _try_operations(plan: Plan) -> None:
    """Operations of somebody's own at the smallest shape of theirs that a kernel takes."""
    smallest: dict[str, tuple[int, Case, dict[str, int]]] = {}
    for case in plan.cases.values():
        operation = case.kernel.front.operation
        if case.shape is None or operations.MODULES.file(operation) is None:
            continue
        with contextlib.suppress(ExpressionError):  # sizes of a device
            shape = case.shape.resolve({})
            size = math.prod(shape.values())
            best = smallest.get(operation, (TRIED, case, shape))
            if size < best[0] and not case.variant.supports(shape, {}):
                smallest[operation] = size, case, shape
    for operation, (_, case, shape) in smallest.items():
        user_defined.try_out(operations.load(operation), shape, case.variant.dtypes, case.id)


def _try_out(variant: Variant) -> None:
    """`trial.try_out`; what passes a limit is told by the variant's own cases."""
    with contextlib.suppress(KernelRefused):
        trial.try_out(variant)


def _check_names(config: Config, known: Mapping[str, object], where: object) -> None:
    """Plots and studies that are named must exist, and parts have names of their own. known: by name all
    kernels that there are."""
    for name, study in config.studies.items():
        plots.MODULES.check(study.plot, where, f"studies.{name}.plot")
        if study.options:
            plots.check_options(study.plot, study.options, where, f"studies.{name}.options")
    for part, members in config.parts.items():
        if part in config.studies or part in known:
            raise UserError(where, f"parts.{part}", part, "a name that no study and no kernel has")
        for index, name in enumerate(members):
            if name not in config.studies:
                raise UserError(where, f"parts.{part}.{index}", name, config.studies)


def _check_rungs(
    kernels: dict[str, Kernel], left_out: dict[str, UserError], folders: Sequence[Path]
) -> None:
    """The kernel that another one follows must exist; one that is `spared` is left out."""
    known = {**kernels, **left_out}
    for name, kernel in list(kernels.items()):
        before = kernel.front.follows
        if before is not None and before not in known:
            error = UserError(kernel.path, "follows", before, known)
            if not spared(kernel.path, folders):
                raise error
            left_out[name] = error
            del kernels[name]


def _digest(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def read(path: Path) -> Any:
    """A JSON document of an earlier stage."""
    return json.loads(path.read_text(encoding="utf-8"))
