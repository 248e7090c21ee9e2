"""The project of a run: config, kernels and plan, loaded alike by the DAG and by every job."""

import contextlib
import functools
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
from tilewave.kernel import discovery, operations, trial
from tilewave.kernel.expressions import ExpressionError
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.operations import user_defined
from tilewave.pipeline import outputs, parameters, plan
from tilewave.pipeline.cases import Case, Plan, expand
from tilewave.pipeline.config import Config, check_folders, parse
from tilewave.records.folder import folders, largest_first
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store

STORE = Path(".tilewave")
TRIED = 10_000_000
"""Product of sizes below which a user-defined operation is tried before the run."""


@dataclass(frozen=True)
class Project:
    """The config, kernels, plan and folders of a run."""

    config: Config
    where: str
    kernels: dict[str, Kernel]
    plan: Plan
    recorded_root: Path
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Skipped kernels with the reason: an unreadable file, a limit or a mistake. The run fails at its end."""
    no_kernels: Mapping[str, str] = field(default_factory=dict)
    """Skipped files that are no kernel files, with what to do."""

    @functools.cached_property
    def followers(self) -> dict[str, list[str]]:
        followers: dict[str, list[str]] = {}
        for name in self.plan.kernels:
            before = self.kernels[name].front.follows
            if before is not None:
                followers.setdefault(before, []).append(name)
        return followers

    @property
    def results(self) -> Path:
        return Path(self.config.output.results)

    @property
    def reports(self) -> Path:
        return Path(self.config.output.reports)

    @property
    def store(self) -> Store:
        return Store(STORE.resolve())

    def recorded(self, target: Mapping[str, Any]) -> Recorded | None:
        name = target["recorded"]
        return Recorded(self.recorded_root / name) if name else None

    def largest_recording(self) -> Recorded | None:
        """Return the recording with the most results, of any GPU."""
        folders = largest_first(self.recorded_root)
        return Recorded(folders[0].folder) if folders else None

    @property
    def summarised_studies(self) -> list[str]:
        studies = self.config.studies
        return [name for name in self.plan.studies if plots.offers(studies[name].plot, "summary")]


def load(
    data: Mapping[str, Any],
    where: object,
    root: Path = ROOT,
    files: Iterable[Any] = (),
    checked: bool = False,
    thorough: bool = True,
    ladder: bool = True,
) -> Project:
    """Check a config and expand it. Raises UserError for every mistake in it or in a kernel file's front matter.

    ``files``: the config files that ``data`` comes from. ``thorough``: try the front matter of every variant and each
    user-defined operation, which takes seconds. ``checked``: check nothing, as in all processes of a run but the
    first. ``ladder``: require the kernel that another one `follows`.
    """
    for file in () if checked else files:
        read_config(Path(str(file)), parameters.config_name([file]))
    config, kernels, left_out, kernel_folders = _kernels(data, where, root)
    recorded_root = place(RECORDED, root)
    if ladder:
        _check_rungs(kernels, left_out, kernel_folders)
    if left_out and not kernels:
        first = next(iter(left_out.values()))
        problem = f"kernel_folders have no usable kernel; {len(left_out)} skipped"
        raise UserError.because(where, problem, f"Fix the first: {first}", "kernel_folders")
    if not checked:
        outputs.check(config, where, root)
    targets = ["auto", "live", *(path.name for path in folders(recorded_root))]
    if config.target not in targets:
        raise UserError(where, "target", config.target, targets)
    names = {i: name for i, name in enumerate(config.architectures) if name != "auto"}
    supported = nvrtc.architectures() if names else ()  # without NVRTC any will do
    for index, name in names.items():
        if supported and name not in supported:
            raise UserError(where, f"architectures.{index}", name, ["auto", *supported])
    cache.owned(STORE.resolve())
    if thorough and not checked:
        _check_expressions(kernels)
    cases = expand(config, kernels, where, left_out)
    user_kernels = discovery.with_user_operation(kernels, cases.kernels)
    if discovery.leave_out(kernels, left_out, kernel_folders, user_kernels):
        cases = expand(config, kernels, where, left_out)
    if not checked:
        _check_names(config, {**kernels, **dict.fromkeys(left_out)}, where)
        _check_options(config, where, thorough)
    if thorough and not checked:
        for variant in cases.variants.values():
            with contextlib.suppress(KernelRefused):  # the variant's cases report an exceeded limit
                trial.try_out(variant)
        _try_operations(cases)
    return Project(config, str(where), kernels, cases, recorded_root, *discovery.reasons(left_out))


def _kernels(
    data: Mapping[str, Any], where: object, root: Path
) -> tuple[Config, dict[str, Kernel], dict[str, UserError], list[Path]]:
    """Return the config, the kernels of its folders, why files are skipped, and the folders."""
    config = parse(data, where)
    for kind, modules in (("operation", operations.MODULES), ("plot", plots.MODULES)):
        modules.use(check_folders(config, f"{kind}_folders", where, root))
    left_out: dict[str, UserError] = {}
    kernel_folders = check_folders(config, "kernel_folders", where, root)
    return config, discovery.gathered(kernel_folders, left_out), left_out, kernel_folders


def planned(data: Mapping[str, Any], where: object, path: Path, root: Path = ROOT) -> Project:
    """Return the project of a run, with its cases as planned (see `pipeline.plan`)."""
    config, kernels, *_ = _kernels(data, where, root)
    resolved, left_out, without = plan.read(path, kernels)
    return Project(config, str(where), kernels, resolved, place(RECORDED, root), left_out, without)


def _check_expressions(kernels: Mapping[str, Kernel]) -> None:
    """Refuse kernels, used or not, whose first variant has an expression without a value.
    A user-defined operation is code, so it is loaded only for the kernels of the cases."""
    for kernel in kernels.values():
        if operations.MODULES.file(kernel.front.operation):
            continue
        with contextlib.suppress(KernelRefused):
            discovery.tried(kernel)


def _try_operations(plan: Plan) -> None:
    """Try user-defined operations, each at the smallest shape that one of its kernels takes."""
    smallest: dict[str, tuple[int, Case, dict[str, int]]] = {}
    for case in plan.cases.values():
        operation = case.kernel.front.operation
        if case.shape is None or operations.MODULES.file(operation) is None:
            continue
        with contextlib.suppress(ExpressionError):  # a size that needs the device
            shape = case.shape.resolve({})
            size = math.prod(shape.values())
            best = smallest.get(operation, (TRIED, case, shape))
            if size < best[0] and not case.variant.supports(shape, {}):
                smallest[operation] = size, case, shape
    for operation, (_, case, shape) in smallest.items():
        user_defined.try_out(operations.load(operation), shape, case.variant.dtypes, case.id)


def _check_names(config: Config, kernels: Mapping[str, object], where: object) -> None:
    """Refuse unknown plots and studies, and parts with the name of a study or kernel. kernels: all, by name."""
    for name, study in config.studies.items():
        plots.MODULES.check(study.plot, where, f"studies.{name}.plot")
    for part, members in config.parts.items():
        if part in config.studies or part in kernels:
            raise UserError(where, f"parts.{part}", part, "a name that no study and no kernel has")
        for index, name in enumerate(members):
            if name not in config.studies:
                raise UserError(where, f"parts.{part}.{index}", name, config.studies)


def _check_options(config: Config, where: object, noted: bool) -> None:
    """Refuse options that a plot cannot take. noted: the store notes that they were checked.
    The plots' modules load slowly, so options and modules that were checked before are not loaded."""
    chosen = {name: study for name, study in config.studies.items() if study.options}
    modules = plots.digest("plots.options", *sorted({study.plot for study in chosen.values()}))
    options = {name: [study.plot, study.options] for name, study in chosen.items()}
    store, key = Store(STORE), parameters.digest([options, modules])
    path = store.blob("options", key, ".json")
    if store.read(path) == key:
        return
    for name, study in chosen.items():
        plots.check_options(study.plot, study.options, where, f"studies.{name}.options")
    if noted:
        store.write(path, key)


def _check_rungs(
    kernels: dict[str, Kernel], left_out: dict[str, UserError], folders: Sequence[Path]
) -> None:
    """Refuse a kernel that follows an unknown one; one that is `spared` is skipped."""
    names = {**kernels, **left_out}
    for name, kernel in list(kernels.items()):
        before = kernel.front.follows
        if before is not None and before not in names:
            error = UserError(kernel.path, "follows", before, names)
            if not discovery.spared(kernel.path, folders):
                raise error
            left_out[name] = error
            del kernels[name]


def read(path: Path) -> Any:
    """Read a JSON document of an earlier stage."""
    return json.loads(path.read_text(encoding="utf-8"))
