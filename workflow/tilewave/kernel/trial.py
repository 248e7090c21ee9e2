"""A trial of a variant's front matter, before any device or shape is known: its mistakes."""

import math

from tilewave.basics.errors import UserError
from tilewave.kernel.expressions import FUNCTIONS, LAYOUTS, WORDS, names_in
from tilewave.kernel.front_matter import Launched
from tilewave.kernel.launches import leaves
from tilewave.kernel.variants import DEVICE_NAMES, Variant, names_used
from tilewave.theory import architectures
from tilewave.theory.dtypes import SIZES

TRIAL_SIZE = 256
TRIAL_DEVICE = {
    "sms": 100,
    "shared_per_block_optin": 232448,
    "shared_per_sm": 233472,
    "l2_bytes": 2**25,
    "arch": 10_000,
}


def try_out(variant: Variant) -> None:
    """Evaluate the front matter once, with stand-ins for the sizes and the device.

    So that a mistake in an expression is found when the project is loaded. Raises UserError for
    a name that no expression can know (in any branch), an expression without a value, a dtype
    or layout that does not exist, and a requirement that is none.
    """
    _check_requires(variant)
    _check_launches(variant)
    _check_compiling(variant)
    _check_let(variant)
    _check_strides(variant)
    _check_work(variant)
    if variant.kernel.front.operation != "probe":
        _check_memory(variant)
        _check_arrays(variant)
    _check_expressions(variant)
    shape = _trial_shape(variant)
    if not variant.supports(shape, TRIAL_DEVICE):
        variant.plan(shape, TRIAL_DEVICE)
        variant.arguments(shape, TRIAL_DEVICE)
        variant.strides(shape)


def _check_requires(variant: Variant) -> None:
    front, path = variant.kernel.front, variant.kernel.path
    wanted = ("arch", "conditions", *variant.operation.dimensions)
    for name in front.requires:
        if name not in wanted:
            raise UserError(path, f"requires.{name}", name, wanted)
    conditions = front.requires.get("conditions", [])
    if not isinstance(conditions, list) or not all(
        isinstance(condition, str | int | float) for condition in conditions
    ):
        raise UserError(path, "requires.conditions", conditions, "a list of expressions")
    least = front.requires.get("arch", 0)
    if isinstance(least, bool) or not isinstance(least, int):
        raise UserError(path, "requires.arch", least, "compute capability times ten, e.g. 75")


def _check_expressions(variant: Variant) -> None:
    """Every name in them is known; what is a dtype or a layout is one."""
    front, path, operation = variant.kernel.front, variant.kernel.path, variant.operation
    alone = [(f"{key}.{name}", text) for key in ("dtypes", "layouts")
             for name, text in getattr(front, key).items()]  # fmt: skip
    sized = [(key, getattr(front, key)) for key in ("working_blocks", "programmatic")]
    sized += variant.geometry_texts()
    sized += [(f"tile.{index}", text) for index, text in enumerate(front.tile or [])]
    sized += variant.map_texts()
    if front.operation != "probe":
        sized += [(f"buffers.{name}.size", buffer.size) for name, buffer in front.buffers.items()]
    plain_names = variant.plain_arguments
    passed = [(f"{before}arguments.{index}", text) for before, launch in variant.launched
              for index, given in enumerate(launch.arguments) for text in leaves([given])
              if isinstance(text, str) and text not in plain_names]  # fmt: skip
    conditions = [("requires.conditions", text) for text in front.requires.get("conditions", [])]
    geometry = {*variant.names, *operation.dimensions, *variant.stride_names, *DEVICE_NAMES}
    for expressions, allowed in (
        (alone, set(variant.names)),
        (sized, geometry),
        (passed, geometry),
        (conditions, geometry | {"arch", *architectures.NAMES}),
    ):
        for key, text in expressions:
            for name in sorted(names_used(variant.kernel, text) - {*front.let} - allowed):
                keywords = {"dtypes": SIZES, "layouts": LAYOUTS}.get(key.split(".")[0], ())
                raise UserError(path, key, name, {*keywords, *front.let} | allowed)
    for key, values, keywords in (
        ("dtypes", variant.dtypes, SIZES),
        ("layouts", variant.layouts, LAYOUTS),
    ):
        for name, value in values.items():
            if value not in keywords:
                raise UserError(path, f"{key}.{name}", value, keywords)
    for name in operation.needs_dtypes:
        known_here = operation.allowed_dtypes(name, variant.dtypes)
        if variant.dtypes[name] not in known_here:
            raise UserError(path, f"dtypes.{name}", variant.dtypes[name], known_here)


def _trial_shape(variant: Variant) -> dict[str, int]:
    """Sizes that the front matter's divisors allow."""
    front, shape = variant.kernel.front, {}
    for name in variant.operation.dimensions:
        divisor = variant.integer(f"requires.{name}", front.requires.get(name, 1), {})
        if divisor < 1:
            allowed = "a positive divisor"
            raise UserError(variant.kernel.path, f"requires.{name}", divisor, allowed)
        shape[name] = math.lcm(TRIAL_SIZE, divisor)
    return shape


def _check_launches(variant: Variant) -> None:
    path = variant.kernel.path
    if variant.kernel.front.launches:
        _check_series(variant)
    for before, launched in variant.launched:
        for key in ("grid", "block", "cluster"):
            given = getattr(launched, key)
            if given is not None and not 1 <= len(given) <= 3:
                raise UserError(path, f"{before}{key}", given, "one to three expressions")


def _check_compiling(variant: Variant) -> None:
    """Macros' names, and what they are put into; folders of headers."""
    front, path = variant.kernel.front, variant.kernel.path
    for name in front.macros:
        if name in (*variant.operation.dimensions, *DEVICE_NAMES, *architectures.NAMES, *WORDS):
            raise UserError(path, f"macros.{name}", name, "a name with no meaning of its own")
    variant.kernel.compiler_options(variant.names)
    if front.cubin is not None:
        variant.kernel.formatted("cubin", front.cubin, variant.names)
    for folder, given in zip(variant.kernel.folders[1:], front.compiler.include):
        if not folder.is_dir():
            raise UserError(path, "compiler.include", given, "folders that exist")


def _check_let(variant: Variant) -> None:
    """Names of its own, each from those that are known before it."""
    front, path = variant.kernel.front, variant.kernel.path
    if front.let and front.operation == "probe":
        raise UserError(path, "let", front.operation, "any operation but probe")
    earlier = {*variant.names, *variant.operation.dimensions, *DEVICE_NAMES}
    for name, meaning in front.let.items():
        if names_in(name) != {name} or name in (*earlier, *FUNCTIONS, "arch"):
            raise UserError(path, f"let.{name}", name, "a name with no meaning of its own")
        for unknown in sorted(names_in(meaning) - earlier):
            raise UserError(path, f"let.{name}", unknown, earlier)
        earlier.add(name)


def _check_work(variant: Variant) -> None:
    """What a probe alone may have, or what only some operations."""
    front, path = variant.kernel.front, variant.kernel.path
    if front.work is not None:
        if front.operation != "probe":
            raise UserError(path, "work", front.operation, "a probe: other work is known")
        scalars = {name for case in front.cases.values() for name in case.scalars}
        known_here = {*front.macros, *DEVICE_NAMES, *front.buffers, *scalars}
        for key, text in (("work.flop", front.work.flop), ("work.byte", front.work.byte)):
            for name in sorted(names_in(text) - known_here):
                raise UserError(path, key, name, known_here)
    if front.reads_c and "beta" not in variant.operation.scalars:
        allowed = "an operation with beta, such as matmul"
        raise UserError(path, "reads_c", front.operation, allowed)
    if front.operation == "probe" and front.tensor_maps:
        allowed = "any operation but probe: a map is of an operand"
        raise UserError(path, "tensor_maps", front.operation, allowed)


def _operation_names(variant: Variant) -> tuple[str, ...]:
    """What arguments may be without more: arrays, sizes, scalars."""
    operation = variant.operation
    return (*operation.operands, *operation.dimensions, *operation.scalars)


def _check_memory(variant: Variant) -> None:
    """Scratch memory and tensor maps have names of their own and are used."""
    front, path, plain = variant.kernel.front, variant.kernel.path, _operation_names(variant)
    for name, buffer in front.buffers.items():
        if name in plain:
            raise UserError(path, f"buffers.{name}", name, "a name with no meaning of its own")
        if buffer.expect is not None or buffer.report is not None:
            allowed = "dtype, size and zeroed: only a probe's buffers are looked at"
            raise UserError(path, f"buffers.{name}", "expect or report", allowed)
    for name in front.tensor_maps:
        if name in (*plain, *front.buffers):
            allowed = "a name with no meaning of its own"
            raise UserError(path, f"tensor_maps.{name}", name, allowed)
        if not any(name in leaves(launch.arguments) for _, launch in variant.kernel.launches):
            raise UserError(path, f"tensor_maps.{name}", "no argument", "one of `arguments`")


def _check_arrays(variant: Variant) -> None:
    """What is said of arrays is said of the operation's, and of each that needs it."""
    front, path, operation = variant.kernel.front, variant.kernel.path, variant.operation
    operands = tuple(operation.operands)
    for name in operation.needs_dtypes:
        if name not in front.dtypes:
            allowed = f"a dtype for each of {', '.join(operation.needs_dtypes)}"
            raise UserError(path, f"dtypes.{name}", None, allowed)
    if not front.dtypes:
        raise UserError(path, "dtypes", None, "a dtype of each array")
    named = (
        ("dtypes", front.dtypes, (*operands, "accumulate")),
        ("layouts", front.layouts, operands),
        (
            "arguments",
            variant.plain_arguments,
            (*_operation_names(variant), *front.buffers, *front.tensor_maps),
        ),
    )
    # An operation without operands of its own takes what the arguments name.
    for key, given, valid_names in named if operands else ():
        for name in given:
            if name not in valid_names:
                raise UserError(path, key, name, valid_names)
    for name, tensor_map in front.tensor_maps.items():
        if tensor_map.of not in (memory := (*operands, *front.buffers)):
            raise UserError(path, f"tensor_maps.{name}.of", tensor_map.of, memory)
    if operation.tiles and front.tile is not None and len(front.tile) != len(operation.tiles):
        allowed = f"expressions: of {', '.join(operation.tiles)}"
        raise UserError(path, "tile", front.tile, allowed)


def _check_strides(variant: Variant) -> None:
    """Strides that the operation has, from names that are known before them."""
    front, path, stride_names = (
        variant.kernel.front,
        variant.kernel.path,
        variant.operation.stride_names(),
    )
    earlier = {*variant.names, *front.let, *variant.operation.dimensions}
    for name in front.strides:
        if name not in stride_names:
            raise UserError(
                path, f"strides.{name}", name, stride_names or "none: no array has rows"
            )
        if name in (*front.macros, *front.let):
            allowed = "a name that no macro and no `let` has"
            raise UserError(path, f"strides.{name}", name, allowed)
    if front.strides and variant.kernel.provider != "nvrtc":
        raise UserError(path, "strides", variant.kernel.provider, "a kernel that NVRTC compiles")
    for name in stride_names:
        for unknown in sorted(names_used(variant.kernel, front.strides.get(name)) - earlier):
            raise UserError(path, f"strides.{name}", unknown, earlier)
        earlier.add(name)


def _check_series(variant: Variant) -> None:
    """What only one launch may have, or an operation whose case is one."""
    front, path = variant.kernel.front, variant.kernel.path
    if front.operation == "probe":
        raise UserError(path, "launches", front.operation, "any operation but probe")
    if variant.kernel.provider != "nvrtc":
        raise UserError(
            path, "launches", path.name, "a .cu file or a cubin, whose kernels they are"
        )
    for key in Launched.model_fields:
        if key in front.model_fields_set:
            allowed = "nothing: with `launches` each of them has its own"
            raise UserError(path, key, getattr(front, key), allowed)
