"""Cases: a variant at a shape, expanded from the studies of a config.

Shapes stay symbolic here (``256 * sms``), because the shape of the DAG follows from the config
alone; `Shape.resolve` gives whole numbers once the target's device is known.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.kernel import operations
from tilewave.kernel.expressions import ExpressionError, integer
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.launches import Argument, LaunchPlan
from tilewave.kernel.variants import Variant, choices
from tilewave.pipeline.config import (
    LARGEST_SHAPE,
    LARGEST_SIZE,
    MOST_CASES,
    MOST_LISTED,
    CaseBlock,
    Config,
    Range,
    Study,
    words,
)
from tilewave.records.counters.catalogue import OF_INSTRUCTIONS

DIMENSION = re.compile(r"^[1-9][0-9]*$")
LONGEST_SIZE = 200  # letters of an expression
MOST_SMS = 513
"""One more SM than any GPU is thought to have."""
WANTS = ("time", "tune", "counters", "execute")
"""What a study wants done with its cases, and a block of them otherwise."""
WANTED = ("time", "tune", "execute")
"""Of these what is wanted or not."""
ELSEWHERE = "elsewhere"
"""In place of a block's shapes: only those that are given for it, by `shapes=` or by a study that takes its cases."""


@dataclass(frozen=True)
class Shape:
    """Dimensions in the operation's order; each a positive number or an expression over `sms`."""

    dimensions: tuple[tuple[str, int | str], ...]

    @cached_property
    def id(self) -> str:
        return "x".join(str(value).replace(" ", "") for _, value in self.dimensions)

    def resolve(self, device: Mapping[str, Any]) -> dict[str, int]:
        """Whole numbers for the device.

        Raises ExpressionError where a name is unknown or a size is not positive.
        """
        resolved = {}
        for name, text in self.dimensions:
            value = integer(text, device)
            if not 1 <= value <= LARGEST_SIZE:
                raise ExpressionError(f"{name} = {text!r} is {value}, not a positive size")
            resolved[name] = value
        if math.prod(resolved.values()) > LARGEST_SHAPE:
            raise ExpressionError(f"{self.id} is more than {LARGEST_SHAPE}, multiplied")
        return resolved


@dataclass(frozen=True)
class Case:
    """A variant at a shape, or a probe's named case; what studies want of it; and, once it is resolved for a
    target (`pipeline.resolving`), how it is launched there.

    only_timed: the studies want no more than a timing or a race. sizes: the shape in numbers. refusal: status and
    reason where the case cannot run, whatever its code is. launch: None where the shape, or the device that its
    geometry asks for, is not known. arguments: of the launch that leads. device: what of the device arguments, or a
    probe's expressions, ask for. work: operations and bytes of a probe's launch, where counted.
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
        place = self.probe_case if self.shape is None else self.shape.id
        return f"{self.variant.id}@{place}"

    @property
    def kernel(self) -> Kernel:
        return self.variant.kernel


def _can_be_positive(text: str, where_file: object, key: str) -> None:
    """Raise UserError where an expression has no positive whole value on any number of SMs."""
    problem = f"a positive whole number of at most {LARGEST_SIZE}"
    for sms in (100, *range(1, MOST_SMS)):
        try:
            if 0 < integer(text, {"sms": sms}) <= LARGEST_SIZE:
                return
        except ExpressionError as error:
            problem = str(error) if sms == 100 else problem
    raise UserError(where_file, key, text, problem)


def _dimension(value: Any, where_file: object, key: str) -> list[int | str]:
    """Values of one dimension: a number, an expression, a list or a range."""
    if isinstance(value, list):
        found: list[int | str] = []
        for item in value:
            found += _dimension(item, where_file, key)
            _bounded(len(found), "sizes", where_file, key)
        return found
    if isinstance(value, Mapping):
        try:
            sweep = Range.model_validate(dict(value))
        except ValueError as error:
            allowed = f"{{from, to, step}} with positive numbers of at most {LARGEST_SIZE}"
            raise UserError(where_file, key, dict(value), allowed) from error
        sizes = range(sweep.start, sweep.stop + 1, sweep.step)
        _bounded(len(sizes), "sizes", where_file, key)
        return list(sizes)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise UserError(where_file, key, value, "a positive whole number or an expression")
    if isinstance(value, str):
        if len(value) > LONGEST_SIZE:
            raise UserError(where_file, key, value, f"at most {LONGEST_SIZE} letters")
        if not DIMENSION.match(value.strip()):
            _can_be_positive(value, where_file, key)
            return [value.strip()]
    if not 1 <= int(value) <= LARGEST_SIZE:
        allowed = f"a positive whole number of at most {LARGEST_SIZE}"
        raise UserError(where_file, key, value, allowed)
    return [int(value)]


def _bounded(count: int, what: str, where_file: object, key: str, most: int = MOST_CASES) -> None:
    """Raise UserError for more than a plan may hold."""
    if count > most:
        raise UserError(where_file, key, f"{count} {what}", f"at most {most} {what}")


def expand_shapes(
    given: list[Any], dimensions: tuple[str, ...], where_file: object, key: str
) -> Iterator[Shape]:
    """Shapes of a config list for an operation with these dimensions.

    A number or expression sets every dimension; ``512x256x128`` names them in order; a mapping
    gives each dimension its values (their product, in order).
    """
    for index, entry in enumerate(given):
        place = f"{key}.{index}"
        combinations: list[tuple[int | str, ...]]
        if isinstance(entry, Mapping):
            unknown = sorted(set(entry) - set(dimensions))
            missing = sorted(set(dimensions) - set(entry))
            if unknown or missing:
                found = unknown[0] if unknown else sorted(entry)
                raise UserError(where_file, place, found, f"all of {', '.join(dimensions)}")
            axes = [_dimension(entry[name], where_file, f"{place}.{name}") for name in dimensions]
            _bounded(math.prod(map(len, axes)), "shapes", where_file, place)
            combinations = list(itertools.product(*axes))
        elif isinstance(entry, str) and re.fullmatch(r"[0-9]+(x[0-9]+)+", entry):
            parts = entry.split("x")
            if len(parts) != len(dimensions):
                allowed = "x".join(dimensions)
                raise UserError(where_file, place, entry, f"{len(dimensions)} sizes as {allowed}")
            combinations = [tuple(_dimension(part, where_file, place)[0] for part in parts)]
        else:
            combinations = [
                tuple([value] * len(dimensions)) for value in _dimension(entry, where_file, place)
            ]
        for values in combinations:
            known = [value for value in values if isinstance(value, int)]
            if math.prod(known) > LARGEST_SHAPE:
                found = "x".join(map(str, values))
                raise UserError(where_file, place, found, f"at most {LARGEST_SHAPE}, multiplied")
            yield Shape(tuple(zip(dimensions, values)))


def _block_kernels(
    block: CaseBlock, kernels: Mapping[str, Kernel], where_file: object, key: str
) -> list[Kernel]:
    if block.operation not in operations.names():
        raise UserError(where_file, f"{key}.operation", block.operation, operations.names())
    if block.kernels == "all":
        found = {n: k for n, k in kernels.items() if k.front.operation == block.operation}
        if unknown := [name for name in block.without if name not in found]:
            raise UserError(where_file, f"{key}.without", unknown[0], found)
        return [kernel for name, kernel in found.items() if name not in block.without]
    if block.without:
        raise UserError(where_file, f"{key}.without", block.without, "nothing beside named kernels")
    names = _names(block)
    for name in names:
        if name not in kernels:
            raise UserError(where_file, f"{key}.kernels", name, [*kernels, "all"])
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(where_file, f"{key}.kernels", twice, "each name once")
    return [kernels[name] for name in names]


def _names(block: CaseBlock) -> list[str]:
    return [block.kernels] if isinstance(block.kernels, str) else block.kernels


def _without(block: CaseBlock, left_out: Mapping[str, UserError]) -> CaseBlock:
    """A block without the kernels that are left out. Raises why the first one is where no other is named."""
    names = _names(block)
    stay = [name for name in names if name not in left_out]
    if names and not stay:
        raise left_out[names[0]]
    without = [name for name in block.without if name not in left_out]
    changed = {"kernels": stay} if stay != names else {}
    return block.model_copy(update={**changed, "without": without})


def _combinations(kernel: Kernel, how: str | Mapping[str, Any]) -> int:
    """Of how many combinations of macros a block's variants are chosen, at most."""
    lists = how if isinstance(how, Mapping) else kernel.front.macros
    return math.prod(len(one) if isinstance(one, list) else 1 for one in lists.values())


def _chosen(
    kernel: Kernel, block: CaseBlock, how: str | Mapping[str, Any], where_file: object, key: str
) -> tuple[Sequence[Variant], Set[str]]:
    """The variants that a block takes of a kernel, and the dtypes of those that were looked at."""
    chosen, seen = [], set()
    for variant in choices(kernel, how, where_file, f"{key}.macros"):
        seen.add(variant.dtype)
        if block.dtypes and variant.dtype not in block.dtypes:
            continue
        chosen.append(variant)
        if block.most is not None and len(chosen) > block.most:
            return [], seen  # a product may have thousands: the rest is not looked at
    return chosen, seen


def _block_shapes(
    block: CaseBlock, dimensions: tuple[str, ...], where_file: object, key: str
) -> Sequence[Shape]:
    """The shapes of a block for operations of these dimensions."""
    elsewhere = block.shapes == [ELSEWHERE]
    told = expand_shapes([] if elsewhere else block.shapes, dimensions, where_file, key)
    shapes = list(itertools.islice(told, MOST_CASES + 1))
    _bounded(len(shapes), "shapes", where_file, key)
    if not shapes and not elsewhere:
        raise UserError(where_file, key, block.shapes, "at least one shape")
    return shapes


def _block_cases(
    block: CaseBlock, kernels: Mapping[str, Kernel], where_file: object, key: str
) -> Iterator[Case]:
    selected = _block_kernels(block, kernels, where_file, key)
    offered = {name for kernel in selected for name in kernel.front.macros}
    for macro, values in block.macros.items() if isinstance(block.macros, dict) else ():
        if macro not in offered:
            allowed = offered or "no macros at all"
            raise UserError(where_file, f"{key}.macros.{macro}", macro, allowed)
        if isinstance(values, list) and len({str(one) for one in values}) < len(values):
            raise UserError(where_file, f"{key}.macros.{macro}", values, "each value once")
    labels: set[str] = set()
    if block.providers:
        found = dict.fromkeys(kernel.provider for kernel in selected)
        selected = [kernel for kernel in selected if kernel.provider in block.providers]
        if not selected:
            raise UserError(where_file, f"{key}.providers", block.providers, found)
    told: dict[tuple[str, ...], Sequence[Shape]] = {}
    for kernel in selected:
        dimensions = operations.load(kernel.front.operation, kernel.path).dimensions
        if kernel.front.operation == "probe":
            for name, probe in kernel.front.cases.items():
                place = f"cases.{name}.macros"
                if isinstance(block.macros, dict) and not _among(probe.macros, block.macros):
                    continue
                yield Case(next(choices(kernel, probe.macros, kernel.path, place)), None, name)
            continue
        if dimensions not in told:
            told[dimensions] = _block_shapes(block, dimensions, where_file, f"{key}.shapes")
        shapes = told[dimensions]
        how = block.macros
        if isinstance(how, dict) and block.kernels == "all":
            how = {name: value for name, value in how.items() if name in kernel.front.macros}
        if block.most is not None and _combinations(kernel, how) > MOST_CASES:
            continue
        _bounded(_combinations(kernel, how), "combinations", where_file, f"{key}.macros")
        asked = json.dumps([how, block.dtypes, block.most], default=str)
        if asked not in kernel.chosen:
            kernel.chosen[asked] = _chosen(kernel, block, how, where_file, key)
        chosen, seen = kernel.chosen[asked]
        labels |= seen
        for variant in chosen:
            for shape in shapes:
                yield Case(variant, shape)
    for label in block.dtypes:
        if label not in labels:
            allowed = labels or "no dtypes: probes have none to choose from"
            raise UserError(where_file, f"{key}.dtypes", label, allowed)


def _among(macros: Mapping[str, Any], chosen: Mapping[str, Any]) -> bool:
    """Return whether a probe's case has macros that a block chose: a value, or one of a list."""
    lists = ((macros.get(name), values) for name, values in chosen.items())
    return all(
        str(value) in map(str, values if isinstance(values, list) else [values])
        for value, values in lists
    )


def _at_shapes(study: Study, shapes: Sequence[Any]) -> Study:
    """A study whose blocks have these shapes, where they have any: those of probes have none."""
    blocks = [
        one.model_copy(update={"shapes": shapes}) if one.shapes else one for one in study.cases
    ]
    return study.model_copy(update={"cases": blocks})


def expand_study(
    name: str,
    study: Study,
    kernels: Mapping[str, Kernel],
    where_file: object,
    left_out: Mapping[str, UserError] = MappingProxyType({}),
) -> Iterator[tuple[Case, bool, bool, str, bool]]:
    """The study's cases in config order, each with (timed, raced, metric set, executed)."""
    for index, block in enumerate(study.cases):
        key = f"studies.{name}.cases.{index}"
        time, tune, counters, execute = (
            getattr(study, want) if getattr(block, want) is None else getattr(block, want)
            for want in WANTS
        )
        for case in _block_cases(_without(block, left_out), kernels, where_file, key):
            yield case, time, tune, counters, execute


def wants(stage: str, case: Case) -> bool:
    """Whether a stage has anything to do for a case.

    A probe answers in its check, and is timed where it says how much work it does; code on the host
    has no GPU counters, and only a cubin is executed. What a GPU runs is raced, but for probes. Own
    kernels whose instructions are counted may be sampled: `pipeline.sampling` chooses among them.
    """
    kernel = case.kernel
    if stage == "time":
        rated = kernel.front.operation != "probe" or kernel.front.work is not None
        return case.time and rated
    if stage == "tune":
        return case.tune and kernel.front.operation != "probe" and kernel.provider != "cpu"
    if stage == "counters":
        return bool(case.counters) and kernel.provider != "cpu"
    if stage == "sample":
        own = kernel.provider == "nvrtc" and kernel.front.operation != "probe"
        return own and not case.counters.isdisjoint(OF_INSTRUCTIONS)
    if stage == "execute":
        return kernel.provider == "nvrtc"
    return True


@dataclass(frozen=True)
class Plan:
    """Everything the config asks for: cases by id, and the cases of each study in order."""

    cases: dict[str, Case]
    studies: dict[str, list[str]]

    def of_kernel(self, kernel: str) -> list[Case]:
        return [case for case in self.cases.values() if case.kernel.name == kernel]

    @cached_property
    def kernels(self) -> list[str]:
        return list(dict.fromkeys(case.kernel.name for case in self.cases.values()))

    @cached_property
    def variants(self) -> dict[str, Variant]:
        """The cases' variants, by id."""
        return {case.variant.id: case.variant for case in self.cases.values()}


def _named_studies(config: Config) -> set[str]:
    """The studies that ``only`` names, by themselves or in parts."""
    asked = words(config.only)
    parts = [study for word in asked for study in config.parts.get(word, ())]
    return {word for word in asked if word in config.studies} | set(parts)


def _narrow(
    config: Config, kernels: Mapping[str, Kernel], everything: list[tuple[str, Case]], where: object
) -> dict[str, set[str]]:
    """The words of ``only`` by what they name; a variant's is beside those of kernels."""
    kinds = ("studies", "kernels", "dtypes", "shapes")
    named: dict[str, set[str]] = {kind: set() for kind in kinds}
    named["studies"] = _named_studies(config)
    others = [word for word in words(config.only) if word not in {*config.studies, *config.parts}]
    if not others:  # as mostly: what all cases are called need not be known
        return named
    variants = {case.variant.id for _, case in everything}
    dtypes = {case.variant.dtype for _, case in everything} - {""}
    shapes = {case.shape.id for _, case in everything if case.shape is not None}
    for word in others:
        if word in kernels or word in variants:
            named["kernels"].add(word)
        elif word in dtypes:
            named["dtypes"].add(word)
        elif word in shapes or f"{word}x{word}x{word}" in shapes:
            named["shapes"] |= {word, f"{word}x{word}x{word}"}
        else:
            known = [*config.parts, *config.studies, *kernels, *dtypes, *shapes, *variants]
            raise UserError(where, "only", word, known)
    return named


def _wanted(study: str, case: Case, named: Mapping[str, set[str]]) -> bool:
    if named["studies"] and study not in named["studies"]:
        return False
    variant, kernels = case.variant, named["kernels"]
    if kernels and variant.kernel.name not in kernels and variant.id not in kernels:
        return False
    if named["dtypes"] and variant.dtype not in named["dtypes"]:
        return False
    return not named["shapes"] or (case.shape is not None and case.shape.id in named["shapes"])


def _studies(config: Config, where: object) -> dict[str, Study]:
    """The config's studies, those that race at the shapes of ``config.shapes`` where it has any.

    Raises UserError where it has some and no study races, and for what is no shape of a matrix product.
    """
    own = words(config.shapes)
    list(expand_shapes(own, operations.load("matmul", where).dimensions, where, "shapes"))
    racing = [name for name, study in config.studies.items() if study.races]
    if own and not racing:
        raise UserError(where, "shapes", config.shapes, "nothing: no study races (`tune: true`)")
    studies = dict(config.studies)
    for name in racing if own else ():
        studies[name] = _at_shapes(studies[name], own)
    return studies


def expand(
    config: Config,
    kernels: Mapping[str, Kernel],
    where_file: object,
    left_out: Mapping[str, UserError] = MappingProxyType({}),
) -> Plan:
    """All cases of a config, each once, with what its studies want of it.

    left_out: kernels whose files cannot be read, with the reason. Studies that name them go on without, but
    for one that names nothing else.
    ``only`` leaves out cases and studies; a case whose counters are still wanted gets those of the
    whole run, because the metrics are part of its key. Raises UserError for unknown kernels,
    macros, shapes and words, and for a study without a case.
    """
    flat = []
    chosen, alone = _studies(config, where_file), _named_studies(config)
    numbers = Counter[bool]()  # of the studies that `only` names, and of the others
    for name, study in chosen.items():
        room, place = name in alone, f"studies.{name}.cases"
        for asked in expand_study(name, study, kernels, where_file, left_out):
            flat.append((name, *asked))
            numbers[room] += 1
            _bounded(numbers[room], "cases in all studies", where_file, place, MOST_LISTED)
    for name in config.studies:
        if not any(study == name for study, *_ in flat):
            allowed = "blocks that select at least one case"
            raise UserError(where_file, f"studies.{name}.cases", "no case", allowed)
    named = _narrow(config, kernels, [(name, case) for name, case, *_ in flat], where_file)
    cases: dict[str, Case] = {}
    wanted: dict[str, dict[str, Any]] = {}  # of the studies that stay, by case
    counters: dict[str, set[str]] = {}  # of all studies
    studies: dict[str, list[str]] = {}
    counted: set[str] = set()  # cases of which a study that stays wants counters
    beyond_times: set[str] = set()  # cases of which one wants more than the time
    for name, case, time, tune, counter_set, execute in flat:
        first, second = cases.setdefault(case.id, case).kernel.path, case.kernel.path
        if first != second:
            raise UserError(
                second, "file name", second.stem, f"a name apart from {first}'s variants"
            )
        if counter_set != "none":
            counters.setdefault(case.id, set()).add(counter_set)
        if not _wanted(name, case, named):
            continue
        request = wanted.setdefault(case.id, {**dict.fromkeys(WANTED, False), "studies": {}})
        if name not in request["studies"]:
            request["studies"][name] = None
            studies.setdefault(name, []).append(case.id)
        if not (time or tune) or counter_set != "none" or execute:
            beyond_times.add(case.id)
        for want, on in zip(WANTED, (time, tune, execute), strict=True):
            request[want] |= on
        if counter_set != "none":
            counted.add(case.id)
    if not wanted:
        raise UserError(where_file, "only", config.only, "words that leave at least one case")
    return Plan(
        {
            case_id: replace(
                case,
                counters=frozenset(counters[case_id] if case_id in counted else ()),
                only_timed=case_id not in beyond_times,
                **{**wanted[case_id], "studies": tuple(wanted[case_id]["studies"])},
            )
            for case_id, case in cases.items()
            if case_id in wanted
        },
        studies,
    )
