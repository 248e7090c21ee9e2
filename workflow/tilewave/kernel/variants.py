"""Variants: a kernel with its macros chosen, its requirements, and its launch at a shape."""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tilewave.basics.errors import KernelRefused, UserError, shown
from tilewave.basics.validation import WIDEST
from tilewave.kernel import memory_plan, operations
from tilewave.kernel.expressions import ExpressionError, Names, Sizes, evaluate, integer, names_in
from tilewave.kernel.front_matter import Kernel, Launched
from tilewave.kernel.launches import Argument, LaunchPlan, MapPlan, Scratch, Step, Typed, leaves
from tilewave.kernel.operations.base import Operation
from tilewave.kernel.padding import Placement
from tilewave.theory import architectures
from tilewave.theory.dtypes import SIZES, product_label

# Device attributes that an expression may use; the values come from the environment.
DEVICE_NAMES = ("sms", "shared_per_block_optin", "shared_per_sm", "l2_bytes")


def device(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the device facts for expressions, and ``arch`` (compute capability times ten)."""
    facts = {name: environment[name] for name in DEVICE_NAMES if environment.get(name) is not None}
    capability = environment.get("compute_capability")
    if capability:
        major, minor = str(capability).split(".")
        facts["arch"] = int(major) * 10 + int(minor)
    return facts


class _Scope(dict[str, Any]):
    """The values of the names of a launch, macros among them. let_values: cache of evaluated `let` names."""

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self.let_values: dict[str, Any] = {}


@dataclass(frozen=True)
class Variant:
    """A kernel file with a value for each of its macros, defaults included."""

    kernel: Kernel
    macros: tuple[tuple[str, Any], ...]

    @cached_property
    def id(self) -> str:
        """Kernel name with each macro that is not at its default, e.g. ``matmul_tiled-tile32``."""
        usual = {name: str(values[0]) for name, values in self.kernel.front.macros.items()}
        changed = (f"{name.lower()}{of}" for name, of in self.macros if str(of) != usual[name])
        return "-".join((self.kernel.name, *changed))

    @cached_property
    def names(self) -> dict[str, Any]:
        return dict(self.macros)

    def _scope(self, names: Names) -> _Scope:
        return names if isinstance(names, _Scope) else _Scope({**self.names, **names})

    def _with_strides(self, text: Any, names: Names) -> _Scope:
        """Return the same scope with the strides that an expression uses."""
        strides = self._strides_for(text, names)
        return _Scope({**self.names, **strides, **names}) if strides else self._scope(names)

    def _evaluate(self, key: str, text: Any, names: Names | None = None) -> Any:
        return _value(self.kernel, key, text, self._with_strides(text, names or {}))

    def integer(self, key: str, text: Any, names: Names) -> int:
        if type(text) is int and text in WIDEST:  # most are plain numbers
            return text
        return self._whole(key, text, self._with_strides(text, names))

    def _whole(self, key: str, text: Any, names: Names) -> int:
        """Return a whole number from these names, macros and `let`, without strides."""
        return int(_value(self.kernel, key, text, self._scope(names), integer))

    @cached_property
    def operation(self) -> Operation:
        return operations.load(self.kernel.front.operation, self.kernel.path)

    @cached_property
    def stride_names(self) -> set[str]:
        """Names of strides that expressions may use. A macro or `let` of the same name comes first."""
        taken = {*self.kernel.front.macros, *self.kernel.front.let}
        return set(self.operation.stride_names()) - taken

    def _all_strides(self, shape: Sizes) -> dict[str, int]:
        return memory_plan.strides(self.kernel, self.operation, self.layouts, shape, self._whole)

    def _strides_for(self, text: Any, names: Names) -> dict[str, int]:
        """Return the strides that an expression uses, if the sizes are among the names."""
        used = (self.stride_names & names_in(text)) - names.keys()
        if not used or not names.keys() >= set(self.operation.dimensions):
            return {}
        lengths = self._all_strides({name: names[name] for name in self.operation.dimensions})
        return {name: lengths[name] for name in used}

    def strides(self, shape: Sizes) -> dict[str, int]:
        """Return the strides that the front matter gives, in elements."""
        texts = self.kernel.front.strides
        if not texts:
            return {}
        return {name: length for name, length in self._all_strides(shape).items() if name in texts}

    @cached_property
    def dtypes(self) -> dict[str, str]:
        texts = self.kernel.front.dtypes
        return {name: str(self._evaluate(f"dtypes.{name}", text)) for name, text in texts.items()}

    @cached_property
    def layouts(self) -> dict[str, str]:
        """Layout of each matrix, ``row`` by default."""
        texts = {"a": "row", "b": "row", "c": "row", **self.kernel.front.layouts}
        return {name: str(self._evaluate(f"layouts.{name}", text)) for name, text in texts.items()}

    @cached_property
    def dtype(self) -> str:
        """Label of the arithmetic: ``f32``, ``f64``, ``tf32``, ``f16_f32``, ``bf16_f32``, ..."""
        operand = self.dtypes.get("a") or next(iter(self.dtypes.values()), "")
        accumulate = self.dtypes.get("accumulate", operand)
        return product_label(operand, accumulate)

    def supports(self, shape: Sizes, device: Names) -> str:
        """Return the requirement that the shape or device does not meet; empty if it meets all.

        ``requires`` holds ``arch`` (least compute capability times ten), divisors of dimensions (``n: 8``) and
        ``conditions`` (expressions over macros, shape, device and architecture that must hold). Clusters of more than
        one block, tensor maps and launches that overlap need an architecture that has them in any case.
        """
        front, has = self.kernel.front, architectures.names(device.get("arch"))
        names = self._scope({**device, **has, **shape})
        for name, wanted in front.requires.items():
            if name == "conditions":
                for condition in wanted:
                    if names_in(condition) & {*DEVICE_NAMES, *architectures.NAMES} - set(names):
                        continue  # without a device its limits are unknown
                    if self._evaluate("requires.conditions", condition, names):
                        continue
                    if condition in architectures.FEATURES:
                        return f"needs {condition}, which this architecture does not have"
                    return f"needs {condition} ({self._values(condition, names)})"
            elif name == "arch":
                have = device.get("arch")
                if have is not None and int(have) < int(wanted):
                    return f"needs compute capability {int(wanted) / 10:.1f} or later"
            elif name in shape:
                divisor = self.integer(f"requires.{name}", wanted, {})
                if shape[name] % divisor:
                    return f"{name} = {shape[name]} is not a multiple of {divisor}"
        texts = [text for _, launch in self.kernel.launches for text in launch.cluster or []]
        if not has.get("clusters", True) and (
            front.tensor_maps
            or self.integer("programmatic", front.programmatic, names)
            or any(
                not self._device_names(text) <= device.keys()
                or self.integer("cluster", text, names) > 1
                for text in texts
            )
        ):
            return f"needs compute capability {architectures.first('clusters').capability} or later"
        return ""

    def _device_names(self, text: Any) -> set[str]:
        return set(DEVICE_NAMES).intersection(names_used(self.kernel, text))

    def unknown_device(self, device: Names) -> str:
        """Return the device attributes that the launch needs and ``device`` lacks; empty if none."""
        return ", ".join(sorted(self._device_of_launch - device.keys()))

    @cached_property
    def _device_of_launch(self) -> frozenset[str]:
        front = self.kernel.front
        texts = [*(front.tile or []), *(buffer.size for buffer in front.buffers.values())]
        texts += [text for _, text in (*self.geometry_texts(), *self.map_texts())]
        more = (front.working_blocks, front.programmatic)
        used = {name for text in (*texts, *more) for name in self._device_names(text)}
        return self.device_of_arguments | used

    @property
    def launched(self) -> Iterator[tuple[str, Launched]]:
        """The prefix of each launch's keys, and the launch."""
        for index, (_, launch) in enumerate(self.kernel.launches):
            yield (f"launches.{index}." if self.kernel.front.launches else ""), launch

    def geometry_texts(self) -> Iterator[tuple[str, Any]]:
        """Yield key and text of each expression of the launches' geometry."""
        for before, launch in self.launched:
            for key in ("grid", "block", "cluster"):
                for index, text in enumerate(getattr(launch, key) or []):
                    yield f"{before}{key}.{index}", text
            yield f"{before}shared_bytes", launch.shared_bytes

    def map_texts(self) -> Iterator[tuple[str, Any]]:
        """Yield key and text of each expression of the tensor maps."""
        for name, tensor_map in self.kernel.front.tensor_maps.items():
            yield from ((f"tensor_maps.{name}.{key}", text) for key, text in tensor_map.expressions)

    @cached_property
    def plain_arguments(self) -> list[str]:
        """Arguments that are plain names. The others are numbers or expressions."""
        front = self.kernel.front
        scalars = {name for case in front.cases.values() for name in case.scalars}
        kernel_names = {*front.buffers, *scalars}
        numbers = {*self.names, *front.let, *self.stride_names, *set(DEVICE_NAMES) - kernel_names}
        texts = [text for _, launch in self.kernel.launches for text in leaves(launch.arguments)]
        identifiers = [text for text in texts if isinstance(text, str) and text.isidentifier()]
        return [name for name in identifiers if name not in numbers]

    def arguments(self, shape: Sizes, device: Names) -> tuple[Argument, ...]:
        """Return the arguments of the leading launch: names of buffers, sizes and so on, numbers, None for
        null. device: at least `device_of_arguments`. Raises UserError for an expression without a value."""
        before, launch = list(self.launched)[self.kernel.leading]
        return self._arguments(before, launch, {**device, **shape})

    @cached_property
    def device_of_arguments(self) -> frozenset[str]:
        """Device attributes that the arguments of any launch use."""
        texts = [text for _, launch in self.kernel.launches for text in leaves(launch.arguments)]
        return frozenset(name for text in texts for name in self._device_names(text))

    def _arguments(self, before: str, launch: Launched, names: Names) -> tuple[Argument, ...]:
        plain_names = self.plain_arguments

        def value(key: str, argument: Argument) -> Argument:
            if isinstance(argument, tuple):
                return tuple(value(key, part) for part in argument)
            if isinstance(argument, Typed):
                return replace(argument, value=value(key, argument.value))
            if argument in plain_names or not isinstance(argument, str):
                return argument
            number = self._evaluate(key, argument, names)
            finite = isinstance(number, (int, float)) and math.isfinite(number)
            if isinstance(number, bool) or not finite:
                raise UserError(self.kernel.path, key, argument, "an expression with a number")
            return int(number) if float(number).is_integer() else number

        items = enumerate(launch.arguments)
        return tuple(value(f"{before}arguments.{index}", argument) for index, argument in items)

    def _values(self, condition: str, names: Names) -> str:
        """Return the values of the names in a condition, for the sentence that it failed."""
        values = _with_let(self.kernel, condition, self._scope(names))
        identifiers = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", str(condition)))
        return ", ".join(f"{name} = {values[name]}" for name in identifiers if name in values)

    def plan(self, shape: Sizes, device: Names) -> LaunchPlan:
        """Return the launch at a shape. Raises UserError where an expression has no positive whole value."""
        front = self.kernel.front
        names = self._scope({**device, **shape})
        steps = [
            self._step(before, entry, launch, names)
            for (before, launch), (entry, _) in zip(self.launched, self.kernel.launches)
        ]
        leading = steps[self.kernel.leading]
        tile = front.tile and tuple(self.integer("tile", text, names) for text in front.tile)
        working = front.working_blocks
        working = math.prod(leading.grid) if working is None else working
        scratch, tensor_maps = self._memory(shape, names)
        return LaunchPlan(
            grid=leading.grid,
            block=leading.block,
            shared_bytes=leading.shared_bytes,
            tile=tile or None,
            working_blocks=self.integer("working_blocks", working, names),
            scratch=scratch,
            cluster=leading.cluster,
            tensor_maps=tensor_maps,
            programmatic=bool(self.integer("programmatic", front.programmatic, names)),
            cooperative=front.cooperative,
            series=tuple(steps) if len(steps) > 1 else (),
        )

    def _step(self, before: str, entry: str, launch: Launched, names: Names) -> Step:

        def three(key: str, texts: list[Any]) -> tuple[int, int, int]:
            key = before + key
            if len(texts) > 3:
                raise UserError(self.kernel.path, key, texts, "one to three expressions")
            values = [self.integer(key, text, names) for text in texts]
            if min(values) < 1:
                raise UserError(self.kernel.path, key, values, "positive sizes")
            x, y, z = values + [1] * (3 - len(values))
            return x, y, z

        cluster = three("cluster", launch.cluster) if launch.cluster else None
        return Step(
            entry=entry,
            arguments=self._arguments(before, launch, names),
            grid=three("grid", launch.grid),
            block=three("block", launch.block),
            shared_bytes=self.integer(f"{before}shared_bytes", launch.shared_bytes, names),
            # A cluster of one block is what a block is anyway.
            cluster=None if cluster == (1, 1, 1) else cluster,
        )

    def _memory(
        self, shape: Sizes, names: Names
    ) -> tuple[tuple[Scratch, ...], tuple[MapPlan, ...]]:
        """Return scratch and tensor maps; a probe's buffers belong to its operation."""
        front, operation = self.kernel.front, self.operation
        if front.operation == "probe" or not (front.buffers or front.tensor_maps):
            return (), ()
        dtypes = {
            name: str(self._evaluate(f"buffers.{name}.dtype", buffer.dtype))
            for name, buffer in front.buffers.items()
        }
        for name, dtype in dtypes.items():
            if dtype not in SIZES:
                raise UserError(self.kernel.path, f"buffers.{name}.dtype", dtype, SIZES)

        def whole(key: str, text: Any, more: Names) -> int:
            return self.integer(key, text, {**names, **more} if more else names)

        buffers = tuple(memory_plan.scratch(self.kernel, dtypes, whole))
        strides = self.strides(shape)
        arrays = operation.operands
        placed = {name: operation.placement(name, shape, self.layouts, strides) for name in arrays}
        for scratch in buffers:
            placed[scratch.name] = Placement((scratch.nbytes // SIZES[dtypes[scratch.name]],), (1,))
        first = next(iter(self.dtypes.values()), "")
        dtypes |= {name: self.dtypes.get(name) or first for name in operation.operands}
        of = {name: declared.of for name, declared in front.tensor_maps.items()}
        mapped = [(self.kernel, name, placed[of[name]], dtypes[of[name]], whole) for name in of]
        return buffers, tuple(itertools.starmap(memory_plan.tensor_map, mapped))


def _value(
    kernel: Kernel, key: str, text: Any, names: Names, of: Callable[[Any, Names], Any] = evaluate
) -> Any:
    """Return an expression's value from these names and `let`. Raises UserError for one without."""
    return _value_in(kernel, key, text, _with_let(kernel, text, names), of)


def _value_in(
    kernel: Kernel, key: str, text: Any, scope: Names, of: Callable[[Any, Names], Any] = evaluate
) -> Any:
    try:
        return of(text, scope)
    except ExpressionError as error:
        kind = KernelRefused if error.too_wide else UserError
        raise kind.because(kernel.path, f"{key}: {error}", "Correct the expression", key) from error


def names_used(kernel: Kernel, text: Any) -> Set[str]:
    """Return the names that an expression uses, itself or through `let`."""
    if not isinstance(text, str):
        return set()
    if text not in kernel.names_used:
        used = names_in(text)
        for name, meaning in reversed(kernel.front.let.items()):
            if name in used:
                used |= names_in(meaning)
        kernel.names_used[text] = frozenset(used)
    return kernel.names_used[text]


def _with_let(kernel: Kernel, text: Any, names: Names) -> Names:
    """Return ``names`` with the `let` names that an expression uses. Raises UserError for one without a value."""
    used = names_used(kernel, text) if kernel.front.let else frozenset()
    if used.isdisjoint(kernel.front.let):
        return names
    scope, let_values = dict(names), names.let_values if isinstance(names, _Scope) else {}
    for name, meaning in kernel.front.let.items():
        if name in used:
            if name not in let_values:
                let_values[name] = _value_in(kernel, f"let.{name}", meaning, scope)
            scope[name] = let_values[name]
    return scope


def _allowed(kernel: Kernel, macros: Names) -> bool:
    return all(_value(kernel, "where", condition, macros) for condition in kernel.front.where)


def variant(kernel: Kernel, chosen: Names, where_file: object, key: str) -> Variant:
    """Return the variant with the chosen macros, others at defaults. Raises UserError for one not offered."""
    offered = kernel.front.macros
    macros: dict[str, Any] = {name: values[0] for name, values in offered.items()}
    for name, value in chosen.items():
        if not offered:
            problem = f"{key}: {kernel.name} has no macros"
            raise UserError.because(where_file, problem, f"Remove {name}", key)
        if name not in offered:
            raise UserError.unknown(where_file, "macro", name, offered, key)
        match = [choice for choice in offered[name] if str(choice) == str(value)]
        if not match:
            raise UserError(where_file, f"{key}.{name}", value, map(str, offered[name]))
        macros[name] = match[0]
    if not _allowed(kernel, macros):
        problem = f"{key}: {kernel.name} has no variant with {shown(dict(chosen))}"
        remedy = f"It needs {' and '.join(kernel.front.where)}"
        raise UserError.because(where_file, problem, remedy, key)
    return Variant(kernel, tuple(macros.items()))


_PLAINEST: dict[str, list[dict[str, Any]]] = {}
"""Cache of `_plainest_by_dtype`, by the text of the kernel file."""


def _plainest_by_dtype(kernel: Kernel) -> list[dict[str, Any]]:
    """Return for each dtype the combination with the fewest macros away from their defaults."""
    if kernel.text in _PLAINEST:
        return _PLAINEST[kernel.text]
    offered = kernel.front.macros
    texts = kernel.front.dtypes.values()
    deciding_names = set().union(*(names_used(kernel, text) for text in texts))
    best: dict[str, tuple[int, dict[str, Any]]] = {}
    labels: dict[tuple[Any, ...], str] = {}  # by the values of the macros that decide it
    for values in itertools.product(*offered.values()):
        pick = dict(zip(offered, values))
        changed = sum(value != offered[name][0] for name, value in pick.items())
        deciding = tuple(value for name, value in pick.items() if name in deciding_names)
        label = labels.get(deciding)
        if (label is not None and changed >= best[label][0]) or not _allowed(kernel, pick):
            continue
        if label is None:
            label = labels[deciding] = Variant(kernel, tuple(pick.items())).dtype
        if label not in best or changed < best[label][0]:
            best[label] = (changed, pick)
    _PLAINEST[kernel.text] = [pick for _, pick in best.values()]
    return _PLAINEST[kernel.text]


def choices(kernel: Kernel, how: str | Names, where_file: object, key: str) -> Iterator[Variant]:
    """Yield variants of a kernel, each once.

    ``how`` is ``defaults``; ``each_dtype`` (for every dtype the variant with the fewest macros away from their
    defaults); ``one_at_a_time`` (defaults, then each other value of each macro alone); ``product`` (every combination
    that `where` allows); or a mapping of macros to a value or a list of values (their product, the others at defaults).
    """
    offered = kernel.front.macros
    picks: Iterable[dict[str, Any]]
    if how == "defaults":
        picks = [{}]
    elif how == "one_at_a_time":
        changes = [{name: value} for name, values in offered.items() for value in values[1:]]
        picks = [{}, *changes]
    elif how == "product":
        picks = (dict(zip(offered, values)) for values in itertools.product(*offered.values()))
    elif how == "each_dtype":
        picks = _plainest_by_dtype(kernel)
    elif isinstance(how, Mapping):
        lists = [value if isinstance(value, list) else [value] for value in how.values()]
        picks = [dict(zip(how, values)) for values in itertools.product(*lists)]
    else:
        modes = ["defaults", "each_dtype", "one_at_a_time", "product", "a mapping of macros"]
        raise UserError(where_file, key, how, modes)
    seen: set[str] = set()
    generated = how in ("one_at_a_time", "product")
    for pick in picks:
        full = {**{name: values[0] for name, values in offered.items()}, **pick}
        if generated and not _allowed(kernel, full):
            continue
        chosen = variant(kernel, pick, where_file, key)
        if chosen.id not in seen:
            seen.add(chosen.id)
            yield chosen
