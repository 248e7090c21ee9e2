"""The trial of a variant's front matter, before any device or shape is known."""

import math
from collections.abc import Mapping, Set
from pathlib import Path

from tilewave.basics.errors import UserError
from tilewave.basics.tables import table_beside
from tilewave.kernel import includes
from tilewave.kernel.expressions import FUNCTIONS, LAYOUTS, WORDS, names_in
from tilewave.kernel.front_matter import Launched
from tilewave.kernel.launches import leaves
from tilewave.kernel.variants import DEVICE_NAMES, Variant, names_used
from tilewave.theory import architectures
from tilewave.theory.dtypes import SIZES

PLACES: list[list[str]] = table_beside(__file__)
TRIAL_SIZE = 256
FALLBACK_ARCH = 90
"""The architecture without a live or recorded GPU."""
TRIAL_DEVICE = {"sms": 100, "shared_per_block_optin": 232448, "shared_per_sm": 233472}
TRIAL_DEVICE |= {"l2_bytes": 2**25, "arch": 10_000}


def try_out(variant: Variant) -> None:
    """Evaluate the front matter once, with stand-ins for sizes and device, to find mistakes before the run.
    Raises UserError for an unknown name, dtype, layout or requirement, and an expression without a value."""
    _check_requires(variant)
    _check_places(variant)
    _check_names(variant)
    _check_strides(variant)
    if variant.kernel.front.operation != "probe":
        _check_arrays(variant)
    _check_expressions(variant)
    shape = _trial_shape(variant)
    if not variant.supports(shape, TRIAL_DEVICE):
        _check_plan(variant, shape)
        variant.arguments(shape, TRIAL_DEVICE)
        variant.strides(shape)


def _check_plan(variant: Variant, shape: Mapping[str, int]) -> None:
    """Check that there is a launch at a shape, or at a larger one: a block of several tiles may have none."""
    try:
        variant.plan(shape, TRIAL_DEVICE)
    except UserError as error:
        try:
            variant.plan({name: 16 * size for name, size in shape.items()}, TRIAL_DEVICE)
        except UserError:
            raise error from None


def _check_requires(variant: Variant) -> None:
    front, path = variant.kernel.front, variant.kernel.path
    allowed = ("arch", "conditions", *variant.operation.dimensions)
    for name in front.requires:
        if name not in allowed:
            raise UserError.unknown(path, "key", name, allowed, "requires")
    conditions = front.requires.get("conditions", [])
    texts = conditions if isinstance(conditions, list) else [None]
    if not all(isinstance(condition, str | int | float) for condition in texts):
        raise UserError(path, "requires.conditions", conditions, "a list of expressions")
    least = front.requires.get("arch", 0)
    if isinstance(least, bool) or not isinstance(least, int):
        raise UserError(path, "requires.arch", least, "compute capability times ten, e.g. 75")


def _check_places(variant: Variant) -> None:
    """Check that the file has only keys that its operation and its provider can have, and lists of their lengths."""
    front, path, operation = variant.kernel.front, variant.kernel.path, variant.operation
    probe, compiled = front.operation == "probe", variant.kernel.provider == "nvrtc"
    holds = {"probe": probe, "not probe": not probe, "not compiled": not compiled}
    holds |= {"no rows": not operation.stride_names(), "no beta": "beta" not in operation.scalars}
    for key, condition, problem in PLACES:
        if holds[condition] and getattr(front, key):
            problem = f"{key}: {problem.format(operation=front.operation)}"
            raise UserError.because(path, problem, "Remove the key", key)
    for key in Launched.model_fields if front.launches else ():
        if key in front.model_fields_set:
            problem = f"{key}: each entry of `launches` has its own"
            raise UserError.because(path, problem, "Move the key into `launches`", key)
    for before, launched in variant.launched:
        for key in ("grid", "block", "cluster"):
            texts = getattr(launched, key)
            if texts is not None and not 1 <= len(texts) <= 3:
                raise UserError(path, f"{before}{key}", texts, "one to three expressions")


def _check_names(variant: Variant) -> None:
    """Check that declared names are new, that their texts use known ones, and folders of headers."""
    front, path, operation = variant.kernel.front, variant.kernel.path, variant.operation
    words = (*operation.dimensions, *DEVICE_NAMES, *architectures.NAMES, *WORDS)
    taken = [(f"macros.{name}", name) for name in front.macros if name in words]
    earlier = {*variant.names, *operation.dimensions, *DEVICE_NAMES}
    for name, meaning in front.let.items():
        if names_in(name) != {name} or name in (*earlier, *FUNCTIONS, "arch"):
            taken.append((f"let.{name}", name))
        elif not taken:
            _refuse_unknown(path, f"let.{name}", names_in(meaning), earlier)
        earlier.add(name)
    if front.operation != "probe":
        plain = _operation_names(variant)
        taken += [(f"buffers.{name}", name) for name in front.buffers if name in plain]
        maps = [name for name in front.tensor_maps if name in (*plain, *front.buffers)]
        taken += [(f"tensor_maps.{name}", name) for name in maps]
    for key, name in taken:
        problem = f"{key}: the name {name} already has a meaning"
        raise UserError.because(path, problem, "Choose another name", key)
    variant.kernel.compiler_options(variant.names)
    if front.cubin is not None:
        variant.kernel.formatted("cubin", front.cubin, variant.names)
    for name in front.compiler.include:
        if not includes.allowed(path.parent / name, path.parent):
            problem = f"compiler.include: {name} lies outside the kernel file's folder"
            remedy = f"Allow it with --include FOLDER, or in {includes.VARIABLE}"
            raise UserError.because(path, problem, remedy, "compiler.include")
        if not (path.parent / name).is_dir():
            raise UserError(path, "compiler.include", name, "folders that exist")
    if front.work is not None:
        scalars = {name for case in front.cases.values() for name in case.scalars}
        allowed = {*front.macros, *DEVICE_NAMES, *front.buffers, *scalars}
        for key, text in (("work.flop", front.work.flop), ("work.byte", front.work.byte)):
            _refuse_unknown(path, key, names_in(text), allowed)


def _refuse_unknown(path: Path, key: str, names: Set[str], allowed: Set[str]) -> None:
    for name in sorted(names - allowed):
        raise UserError.unknown(path, "name", name, allowed, key)


def _check_expressions(variant: Variant) -> None:
    """Check that every name in expressions exists, and that dtypes and layouts do."""
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
              for index, argument in enumerate(launch.arguments) for text in leaves([argument])
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
                valid_names = {*keywords, *front.let} | allowed
                if text == name and keywords:
                    raise UserError(path, key, name, valid_names)
                raise UserError.unknown(path, "name", name, valid_names, key)
    for key, keywords in (("dtypes", SIZES), ("layouts", LAYOUTS)):
        for name, value in getattr(variant, key).items():
            if value not in keywords:
                raise UserError(path, f"{key}.{name}", value, keywords)
    for name in operation.needs_dtypes:
        dtypes = operation.allowed_dtypes(name, variant.dtypes)
        if variant.dtypes[name] not in dtypes:
            raise UserError(path, f"dtypes.{name}", variant.dtypes[name], dtypes)


def _trial_shape(variant: Variant) -> dict[str, int]:
    """Return sizes that the front matter's divisors allow."""
    front, shape = variant.kernel.front, {}
    for name in variant.operation.dimensions:
        divisor = variant.integer(f"requires.{name}", front.requires.get(name, 1), {})
        if divisor < 1:
            allowed = "a positive divisor"
            raise UserError(variant.kernel.path, f"requires.{name}", divisor, allowed)
        shape[name] = math.lcm(TRIAL_SIZE, divisor)
    return shape


def _operation_names(variant: Variant) -> tuple[str, ...]:
    """Return the names that arguments may have without a declaration: arrays, sizes, scalars."""
    operation = variant.operation
    return (*operation.operands, *operation.dimensions, *operation.scalars)


def _check_arrays(variant: Variant) -> None:
    """Check scratch memory and tensor maps, and that keys about arrays name each that the operation has."""
    front, path, operation = variant.kernel.front, variant.kernel.path, variant.operation
    operands = tuple(operation.operands)
    for name, buffer in front.buffers.items():
        if buffer.expect is not None or buffer.report is not None:
            problem = f"buffers.{name}: only a probe's buffers have expect and report"
            raise UserError.because(path, problem, "Remove these keys", f"buffers.{name}")
    for name, tensor_map in front.tensor_maps.items():
        if not any(name in leaves(launch.arguments) for _, launch in variant.kernel.launches):
            problem = f"tensor_maps.{name}: no launch takes this map"
            remedy = "Add it to `arguments`, or remove it"
            raise UserError.because(path, problem, remedy, f"tensor_maps.{name}")
        if tensor_map.of not in (memory := (*operands, *front.buffers)):
            raise UserError(path, f"tensor_maps.{name}.of", tensor_map.of, memory)
    for name in operation.needs_dtypes:
        if name not in front.dtypes:
            allowed = f"a dtype for each of {', '.join(operation.needs_dtypes)}"
            raise UserError(path, f"dtypes.{name}", None, allowed)
    if not front.dtypes:
        raise UserError(path, "dtypes", None, "a dtype of each array")
    declared = (*_operation_names(variant), *front.buffers, *front.tensor_maps)
    # An operation without operands takes those that the arguments name.
    for key, kind, names, valid_names in (
        ("dtypes", "array", front.dtypes, (*operands, "accumulate")),
        ("layouts", "array", front.layouts, operands),
        ("arguments", "name", variant.plain_arguments, declared),
    ):
        for name in names if operands else ():
            if name not in valid_names:
                raise UserError.unknown(path, kind, name, valid_names, key)
    if operation.tiles and front.tile is not None and len(front.tile) != len(operation.tiles):
        allowed = f"one expression for each of {', '.join(operation.tiles)}"
        raise UserError(path, "tile", front.tile, allowed)


def _check_strides(variant: Variant) -> None:
    """Check that the operation has these strides, and that they use earlier names only."""
    front, path, names = variant.kernel.front, variant.kernel.path, variant.operation.stride_names()
    for name in front.strides:
        if name not in names:
            raise UserError.unknown(path, "stride", name, names, "strides")
        if name in (*front.macros, *front.let):
            problem = f"strides.{name}: a macro or `let` has this name"
            raise UserError.because(path, problem, "Rename the macro or `let`", f"strides.{name}")
    earlier = {*variant.names, *front.let, *variant.operation.dimensions}
    for name in names:
        used = names_used(variant.kernel, front.strides.get(name))
        _refuse_unknown(path, f"strides.{name}", used, earlier)
        earlier.add(name)
