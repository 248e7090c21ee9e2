"""Cases: a variant at a shape, expanded from the studies of a config.
Shapes stay symbolic (``256 * sms``), as the DAG follows from the config; `Shape.resolve` needs the device."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.kernel import operations
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.launches import Argument, LaunchPlan
from tilewave.kernel.result import OK, SAMPLE, Result
from tilewave.kernel.variants import Variant, choices
from tilewave.pipeline.config import MOST_CASES, MOST_LISTED, CaseBlock, Config, Study
from tilewave.pipeline.parameters import split_names
from tilewave.pipeline.shapes import Shape, bounded, expand_shapes, refusal
from tilewave.records.counters.catalogue import OF_INSTRUCTIONS

WANTS = ("time", "tune", "counters", "execute")
"""Keys of a study that say what is done with its cases; a block may override them."""
Wanted = Mapping[str, Any]
"""Their values."""
ELSEWHERE = "elsewhere"
"""A block's `shapes` where other keys name them: `shapes=`, or a study that takes its cases."""
Skipped = Mapping[str, UserError]
"""Skipped kernels with the reason."""
Builds = Mapping[str, Mapping[str, Any] | None]
"""A variant's compiled entries by architecture."""


@dataclass(frozen=True)
class Case:
    """A variant at a shape, or a probe's named case, with what studies want of it, and once resolved with its launch.

    only_timed: the studies want no more than a timing or a tuning run. sizes: the shape in numbers. refusal: status and
    reason if the case cannot run, whatever its code is. launch: None if its shape or geometry needs a device that
    is not known. arguments: of the leading launch. device: facts that arguments or a probe's expressions use. work:
    operations and bytes of a probe's launch, if counted.
    """

    variant: Variant
    shape: Shape | None = None
    probe_case: str | None = None
    studies: tuple[str, ...] = ()
    time: bool = False
    tune: bool = False
    counters: frozenset[str] = frozenset()
    execute: bool = False
    only_timed: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict)
    refusal: tuple[str, str] | None = None
    launch: LaunchPlan | None = None
    arguments: tuple[Argument, ...] = ()
    device: Mapping[str, Any] = field(default_factory=dict)
    work: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        setting = self.probe_case if self.shape is None else self.shape.id
        return f"{self.variant.id}@{setting}"

    @property
    def kernel(self) -> Kernel:
        return self.variant.kernel

    def expects(self, outcome: Result) -> bool:
        """Return whether a probe's front matter names this failure or finding."""
        if self.probe_case is None:
            return False
        probe = self.kernel.front.cases[self.probe_case]
        failed = outcome.status != OK and outcome.status == probe.status
        return failed or bool(probe.finds and outcome.verdict == probe.finds)


def _block_kernels(
    block: CaseBlock, kernels: Mapping[str, Kernel], where_file: object, key: str
) -> list[Kernel]:
    if block.operation not in operations.names():
        raise UserError(where_file, f"{key}.operation", block.operation, operations.names())
    if block.kernels == "all":
        matching = {n: k for n, k in kernels.items() if k.front.operation == block.operation}
        if unknown := [name for name in block.without if name not in matching]:
            raise UserError(where_file, f"{key}.without", unknown[0], matching)
        return [kernel for name, kernel in matching.items() if name not in block.without]
    if block.without:
        problem, remedy = " needs `kernels: all`", "Delete it or the names"
        raise refusal(where_file, f"{key}.without", problem, remedy)
    names = _names(block)
    for name in names:
        if name not in kernels:
            raise UserError(where_file, f"{key}.kernels", name, [*kernels, "all"])
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise refusal(where_file, f"{key}.kernels", f" has {twice} twice", "Name each kernel once")
    return [kernels[name] for name in names]


def _names(block: CaseBlock) -> list[str]:
    return [block.kernels] if isinstance(block.kernels, str) else block.kernels


def _without(block: CaseBlock, left_out: Skipped) -> CaseBlock:
    """Return a block without skipped kernels. Raises the first one's reason if none of the named remains."""
    names = _names(block)
    stay = [name for name in names if name not in left_out]
    if names and not stay:
        raise left_out[names[0]]
    without = [name for name in block.without if name not in left_out]
    changed = {"kernels": stay} if stay != names else {}
    return block.model_copy(update={**changed, "without": without})


def _combinations(kernel: Kernel, macros: str | Mapping[str, Any]) -> int:
    """Return the largest number of macro combinations from which a block's variants are chosen."""
    lists = macros if isinstance(macros, Mapping) else kernel.front.macros
    return math.prod(len(values) if isinstance(values, list) else 1 for values in lists.values())


def _chosen(
    kernel: Kernel, block: CaseBlock, macros: str | Mapping[str, Any], where_file: object, key: str
) -> tuple[Sequence[Variant], Set[str]]:
    """Return the variants that a block takes of a kernel, and the dtypes of those examined."""
    chosen, seen = [], set()
    for variant in choices(kernel, macros, where_file, f"{key}.macros"):
        seen.add(variant.dtype)
        if block.dtypes and variant.dtype not in block.dtypes:
            continue
        chosen.append(variant)
        if block.most is not None and len(chosen) > block.most:
            return [], seen  # a product may have thousands, so stop here
    return chosen, seen


def _block_shapes(
    block: CaseBlock, dimensions: tuple[str, ...], where_file: object, key: str
) -> Sequence[Shape]:
    elsewhere = block.shapes == [ELSEWHERE]
    expanded = expand_shapes([] if elsewhere else block.shapes, dimensions, where_file, key)
    shapes = list(itertools.islice(expanded, MOST_CASES + 1))
    bounded(len(shapes), "shapes", where_file, key)
    if not shapes and not elsewhere:
        raise refusal(where_file, key, " is empty", "Give at least one shape")
    return shapes


def _block_cases(
    block: CaseBlock, kernels: Mapping[str, Kernel], where_file: object, key: str
) -> Iterator[Case]:
    selected = _block_kernels(block, kernels, where_file, key)
    offered = {name for kernel in selected for name in kernel.front.macros}
    for macro, values in block.macros.items() if isinstance(block.macros, dict) else ():
        if macro not in offered:
            allowed = offered or "nothing, because these kernels have no macros"
            raise UserError(where_file, f"{key}.macros.{macro}", macro, allowed)
        if isinstance(values, list) and len({str(value) for value in values}) < len(values):
            problem = f" has a value twice: {values}"
            raise refusal(where_file, f"{key}.macros.{macro}", problem, "Give each value once")
    labels: set[str] = set()
    if block.providers:
        offered_providers = dict.fromkeys(kernel.provider for kernel in selected)
        selected = [kernel for kernel in selected if kernel.provider in block.providers]
        if not selected:
            raise UserError(where_file, f"{key}.providers", block.providers, offered_providers)
    expanded: dict[tuple[str, ...], Sequence[Shape]] = {}
    for kernel in selected:
        dimensions = operations.load(kernel.front.operation, kernel.path).dimensions
        if kernel.front.operation == "probe":
            for name, probe in kernel.front.cases.items():
                macros_key = f"cases.{name}.macros"
                chosen = block.macros.items() if isinstance(block.macros, dict) else ()
                lists = {of: value if isinstance(value, list) else [value] for of, value in chosen}
                if any(str(probe.macros.get(of)) not in map(str, lists[of]) for of in lists):
                    continue
                yield Case(next(choices(kernel, probe.macros, kernel.path, macros_key)), None, name)
            continue
        if dimensions not in expanded:
            expanded[dimensions] = _block_shapes(block, dimensions, where_file, f"{key}.shapes")
        shapes = expanded[dimensions]
        macros = block.macros
        if isinstance(macros, dict) and block.kernels == "all":
            macros = {name: value for name, value in macros.items() if name in kernel.front.macros}
        if block.most is not None and _combinations(kernel, macros) > MOST_CASES:
            continue
        bounded(_combinations(kernel, macros), "combinations", where_file, f"{key}.macros")
        choice = json.dumps([macros, block.dtypes, block.most], default=str)
        if choice not in kernel.chosen:
            kernel.chosen[choice] = _chosen(kernel, block, macros, where_file, key)
        chosen, seen = kernel.chosen[choice]
        labels |= seen
        for variant in chosen:
            for shape in shapes:
                yield Case(variant, shape)
    for label in block.dtypes:
        if label not in labels:
            allowed = labels or "nothing, because probes have no dtypes"
            raise UserError(where_file, f"{key}.dtypes", label, allowed)


def expand_study(
    name: str, study: Study, kernels: Mapping[str, Kernel], where_file: object, left_out: Skipped
) -> Iterator[tuple[Case, Wanted]]:
    """Yield the study's cases in config order, each with what is done with it, by `WANTS`."""
    for index, block in enumerate(study.cases):
        key = f"studies.{name}.cases.{index}"
        wanted = {
            want: getattr(study, want) if getattr(block, want) is None else getattr(block, want)
            for want in WANTS
        }
        for case in _block_cases(_without(block, left_out), kernels, where_file, key):
            yield case, wanted


def wants(stage: str, case: Case) -> bool:
    """Return whether a stage has anything to do for a case. A probe is timed only if it says how much work it
    does. Code on the host has no GPU counters, only a cubin is executed, and no probe is tuned."""
    kernel = case.kernel
    if stage == "time":
        return case.time and (kernel.front.operation != "probe" or kernel.front.work is not None)
    if stage == "tune":
        return case.tune and kernel.front.operation != "probe" and kernel.provider != "cpu"
    if stage == "counters":
        return bool(case.counters) and kernel.provider != "cpu"
    if stage == "sample":
        compiled = kernel.provider == "nvrtc" and kernel.front.operation != "probe"
        return compiled and not case.counters.isdisjoint(OF_INSTRUCTIONS)
    return stage != "execute" or kernel.provider == "nvrtc"


def sampled(cases: Iterable[Case]) -> list[Case]:
    """Return the cases of stage sample: each kernel's largest of its first variant with counted instructions.
    One is enough: where warps wait hardly depends on shape and macros, and ncu runs a launch many times."""
    by_kernel: dict[str, Case] = {}
    for case in cases:
        if case.refusal is not None or not wants(SAMPLE, case):
            continue
        first = by_kernel.setdefault(case.kernel.name, case)
        larger = math.prod(case.sizes.values()) > math.prod(first.sizes.values())
        if case.variant.id == first.variant.id and larger:
            by_kernel[case.kernel.name] = case
    return list(by_kernel.values())


@dataclass(frozen=True)
class Plan:
    """The cases of a config by id, and the cases of each study in order."""

    cases: dict[str, Case]
    studies: dict[str, list[str]]

    @cached_property
    def kernels(self) -> list[str]:
        return list(dict.fromkeys(case.kernel.name for case in self.cases.values()))

    @cached_property
    def variants(self) -> dict[str, Variant]:
        return {case.variant.id: case.variant for case in self.cases.values()}


def _named_studies(config: Config) -> set[str]:
    """Return the studies that ``only`` names, by themselves or in parts."""
    names = set(split_names(config.only))
    parts = {study for name in names for study in config.parts.get(name, ())}
    return (names & config.studies.keys()) | parts


def _narrow(
    config: Config, kernels: Mapping[str, Kernel], everything: list[Case], where: object
) -> dict[str, set[str]]:
    """Return the names in ``only`` by kind. Variants count as kernels."""
    named: dict[str, set[str]] = {kind: set() for kind in ("kernels", "dtypes", "shapes")}
    named["studies"] = _named_studies(config)
    names = sorted(set(split_names(config.only)) - {*config.studies, *config.parts})
    if not names:  # the usual case, which needs no names of variants and shapes
        return named
    variants = {case.variant.id for case in everything}
    dtypes = sorted({case.variant.dtype for case in everything} - {""})
    shapes = {case.shape.id for case in everything if case.shape is not None}
    for name in names:
        if name in kernels or name in variants:
            named["kernels"].add(name)
        elif name in dtypes:
            named["dtypes"].add(name)
        elif name in shapes or f"{name}x{name}x{name}" in shapes:
            named["shapes"] |= {name, f"{name}x{name}x{name}"}
        else:
            allowed = [*config.parts, *config.studies, *kernels, *dtypes, *shapes, *variants]
            raise UserError(where, "only", name, allowed)
    return named


def _wanted(study: str, case: Case, named: Mapping[str, set[str]]) -> bool:
    variant, shape = case.variant, case.shape.id if case.shape else ""
    names = {"studies": {study}, "kernels": {variant.kernel.name, variant.id}}
    names |= {"dtypes": {variant.dtype}, "shapes": {shape}}
    return all(not wanted or wanted & names[kind] for kind, wanted in named.items())


def _requested(case: Case, requests: Sequence[tuple[str, Wanted, bool]]) -> Case:
    """Return a case with what studies want of it. requests: study, wishes, and whether `only` keeps it there."""
    wishes = [wanted for _, wanted, kept in requests if kept]
    sets = {wanted["counters"] for _, wanted, _ in requests} - {"none"}
    counted = any(wanted["counters"] != "none" for wanted in wishes)
    timed = all(wanted["time"] or wanted["tune"] for wanted in wishes)
    stages = ("time", "tune", "execute")
    flags: dict[str, Any] = {stage: any(wish[stage] for wish in wishes) for stage in stages}
    return replace(
        case,
        studies=tuple(dict.fromkeys(study for study, _, kept in requests if kept)),
        counters=frozenset(sets if counted else ()),
        only_timed=timed and not counted and not flags["execute"],
        **flags,
    )


def _studies(config: Config, where: object) -> dict[str, Study]:
    """Return the config's studies; those with tuning runs have the shapes of ``config.shapes``, if it has any."""
    shapes = split_names(config.shapes)
    list(expand_shapes(shapes, operations.load("matmul", where).dimensions, where, "shapes"))
    tuned = [name for name, study in config.studies.items() if study.tunes]
    if shapes and not tuned:
        problem = " is for studies with `tune: true`, and there is none"
        raise refusal(where, "shapes", problem, "Delete it, or set `tune: true` in a study")
    studies = dict(config.studies)
    for name in tuned if shapes else ():
        cases = [  # blocks of probes have no shapes
            block.model_copy(update={"shapes": shapes}) if block.shapes else block
            for block in studies[name].cases
        ]
        studies[name] = studies[name].model_copy(update={"cases": cases})
    return studies


def expand(
    config: Config,
    kernels: Mapping[str, Kernel],
    where_file: object,
    left_out: Skipped = MappingProxyType({}),
) -> Plan:
    """Return all cases of a config, each once, with what its studies want of it.

    left_out: skipped kernels with the reason; a study that names no other kernel raises it. ``only`` narrows cases
    and studies; a case keeps the counters of the full run, because the metrics are part of its key. Raises UserError
    for unknown kernels, macros, shapes and names, and for a study without a case.
    """
    flat: list[tuple[str, Case, Wanted]] = []
    chosen, selected_studies = _studies(config, where_file), _named_studies(config)
    numbers = Counter[bool]()  # cases of the studies that `only` names, and of the rest
    for name, study in chosen.items():
        selected, cases_key = name in selected_studies, f"studies.{name}.cases"
        for case, wanted in expand_study(name, study, kernels, where_file, left_out):
            flat.append((name, case, wanted))
            numbers[selected] += 1
            bounded(numbers[selected], "cases in all studies", where_file, cases_key, MOST_LISTED)
    for name in config.studies:
        if not any(study == name for study, *_ in flat):
            remedy = "Name kernels, macros, dtypes and shapes that exist together"
            raise refusal(where_file, f"studies.{name}.cases", " selects no case", remedy)
    named = _narrow(config, kernels, [case for _, case, _ in flat], where_file)
    cases: dict[str, Case] = {}
    requests: dict[str, list[tuple[str, Wanted, bool]]] = {}
    studies: dict[str, dict[str, None]] = {}
    for name, case, wanted in flat:
        first, second = cases.setdefault(case.id, case).kernel.path, case.kernel.path
        if first != second:
            problem = f": {first} has a variant of the same name, {case.variant.id}"
            raise refusal(second, "file name", problem, "Rename one of the files")
        kept = _wanted(name, case, named)
        requests.setdefault(case.id, []).append((name, wanted, kept))
        if kept:
            studies.setdefault(name, {})[case.id] = None
    selected_cases = set().union(*studies.values())
    if not selected_cases:
        problem = f" selects no case: none has all of {config.only!r}"
        raise refusal(where_file, "only", problem, "Give names that at least one case has")
    kept_cases = {name: case for name, case in cases.items() if name in selected_cases}
    narrowed = {name: _requested(case, requests[name]) for name, case in kept_cases.items()}
    return Plan(narrowed, {name: list(members) for name, members in studies.items()})
