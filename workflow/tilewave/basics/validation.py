"""Mistakes that pydantic and PyYAML find in a document, as `UserError`."""

import functools
import math
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

from tilewave.basics.errors import HERE, UNPRINTABLE, UserError, shown
from tilewave.basics.files import MOST_BYTES, not_utf8
from tilewave.basics.tables import table_beside

WIDEST = range(-(2**63), 2**64)
"""Whole numbers that fit in 64 bits, signed or unsigned."""
MOST_VALUES, MOST_DEPTH = 20_000, 64
"""Limits of a document: its keys and values, and the levels of nesting."""
PHRASES: dict[str, str] = table_beside(__file__)
"""pydantic's phrases, as patterns, and what a message says instead."""


class Described(BaseModel):
    """A model whose keys are described in the YAML document beside its module, by class and key."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        table = _descriptions(str(sys.modules[cls.__module__].__file__))
        for name, text in table.get(cls.__name__, {}).items():
            cls.model_fields[name].description = text
        cls.model_rebuild(force=True)


_descriptions = functools.cache(table_beside)


class NoYaml(UserError):
    """Text that is not YAML, or data that no document may hold. The caller adds the file (`moved`)."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A loader that refuses a repeated key, where YAML's parsers take the last one.
    It is libyaml's where PyYAML has it: ten times faster, and every job reads all front matter."""

    def flatten_mapping(self, node: Any) -> None:
        keys: set[str] = set()
        for key, _ in () if hasattr(node, "flat") else node.value:
            name = str(key.value)
            if name in keys:
                line = f"line {key.start_mark.line + 1}"
                problem = f"{line}: the key {name} stands twice"
                raise NoYaml.because(HERE, problem, "Keep one of them", line)
            keys.add(name)
        node.flat = True  # keys that were merged into it may stand there again
        super().flatten_mapping(node)


def yaml_of(text: str) -> Any:
    """Return the content of a YAML document. Raises NoYaml."""
    try:
        data = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1 if mark else 1}"
        why = str(getattr(error, "problem", None) or "it cannot be read")
        why = why.replace("could not determine a constructor for the tag", "unknown tag")
        remedy = "Correct the line, or put text with special characters in quotation marks"
        raise NoYaml.because(HERE, f"{line} is not YAML: {why}", remedy, line) from error
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        # PyYAML's own reader fails so at a tag (`!!int x`) or a date with a 99th day.
        problem = f"a value cannot be read: {error}"
        raise NoYaml.because(HERE, problem, "Put it in quotation marks", "line 1") from error
    check_data(data)
    return data


def check_data(data: Any) -> None:
    """Refuse data that no document may hold. Raises NoYaml for types that YAML lacks, control characters,
    keys that are no text, numbers not finite or over 64 bits, more than `MOST_VALUES` or `MOST_DEPTH`."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), data)]
    count = 0
    while waiting:
        path, value = waiting.pop()
        key = ".".join(path) or "the document"
        count += 1
        if len(path) > MOST_DEPTH or count > MOST_VALUES:
            most = f"{MOST_DEPTH} levels" if len(path) > MOST_DEPTH else f"{MOST_VALUES} values"
            problem = f"{path[0]} has more than {most}"
            raise NoYaml.because(HERE, problem, "Make it smaller", path[0])
        if allowed := _allowed_instead(value):
            plain = value if isinstance(value, int | float) else str(value)
            raise NoYaml(HERE, key, plain, allowed)
        if isinstance(value, Mapping):
            for name in value:
                if not isinstance(name, str) or UNPRINTABLE.search(name):
                    problem = f"{key} has the key {shown(name)}, which is not text without control characters"
                    raise NoYaml.because(HERE, problem, "Put the key in quotation marks", key)
            waiting += (((*path, name), item) for name, item in value.items())
        elif isinstance(value, list | tuple):
            waiting += (((*path, str(at)), item) for at, item in enumerate(value))


def _allowed_instead(value: Any) -> str:
    """Return what is allowed instead of a value; empty where the value is allowed."""
    if isinstance(value, str):
        return "text without control characters" if UNPRINTABLE.search(value) else ""
    if value is None or isinstance(value, bool | Mapping | list | tuple):
        return ""
    if isinstance(value, int):
        return "" if value in WIDEST else "whole numbers of 64 bits"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "a finite number"
    return "text in quotation marks, numbers, true, false, lists and mappings"


def _key_path(location: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    """Return an error's location without pydantic's branches of a union (``only.str``)."""
    kept = []
    for part in location:
        is_key = isinstance(data, Mapping) and part in data
        if not is_key and isinstance(data, list) and isinstance(part, int):
            is_key = part < len(data)
        if is_key:
            data = data[part]
            kept.append(part)
    return tuple(kept)


def _first_problem(error: ValidationError, data: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return path and details of pydantic's first problem; ``msg`` says what each branch of a union allows."""
    details = error.errors()
    ends = [detail["loc"][-1:] * (detail["type"] == "missing") for detail in details]
    paths = [_key_path(detail["loc"], data) + end for detail, end in zip(details, ends)]
    longest = max((path for path in paths if path[: len(paths[0])] == paths[0]), key=len)
    same = [detail for detail, path in zip(details, paths) if path == longest]
    allowed = " or ".join(dict.fromkeys(_phrase(str(detail["msg"])) for detail in same))
    return longest, {**same[0], "msg": allowed}


def _phrase(message: str) -> str:
    """Return pydantic's message as what is allowed: ``Input should be a valid list`` is ``a list``."""
    for pattern, phrase in PHRASES.items():
        message = re.sub(pattern, phrase, message)
    return message


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a field's type names, also inside lists, mappings and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _fields(model: type[BaseModel], location: tuple[Any, ...]) -> dict[str, str]:
    """Return key and description of the fields that a model allows beside the last key of ``location``."""
    models = [model]
    for part in location[:-1]:
        fields = [pair for owner in models for pair in owner.model_fields.items()]
        annotations = [field.annotation for name, field in fields if part == (field.alias or name)]
        # An index of a list or a name in a mapping is no field: the models stay.
        models = [inner for annotation in annotations for inner in _models(annotation)] or models
    pairs = [(field.alias or name, field) for m in models for name, field in m.model_fields.items()]
    return {key: " ".join((field.description or "").split()) for key, field in pairs}


M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], data: Mapping[str, Any], where: object, above: str = "") -> M:
    """Return the model of plain data, at the key ``above``. Raises UserError about the first wrong key."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        location, detail = _first_problem(error, data)
        key = ".".join(str(part) or "''" for part in (*filter(None, [above]), *location))
        if detail["type"] == "extra_forbidden":
            fields, parent = _fields(model, location), key.rpartition(".")[0]
            if not fields:
                problem = f"{parent or 'the file'} takes no keys"
                raise UserError.because(where, problem, f"Remove {location[-1]}", key) from error
            raise UserError.unknown(where, "key", location[-1], fields, parent) from error
        if detail["type"] == "missing":
            needed = _fields(model, location).get(location[-1]) or "a value"
            raise UserError(where, key, None, needed) from error
        raise UserError(where, key, detail.get("input"), detail["msg"]) from error


_adapter = functools.cache(TypeAdapter)


def of_document(kind: Any, document: Any) -> Any:
    """Return a value of a type, such as a dataclass, from JSON of its fields. Raises ValueError."""
    return _adapter(kind).validate_python(document)


def read_mapping(path: Path, where: object) -> dict[str, Any]:
    """Read a config file. Raises UserError where it cannot be read, or is no mapping in YAML."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            problem = f"the file has more than {MOST_BYTES} bytes"
            raise UserError.because(where, problem, "Name a config file")
        document = yaml_of(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise not_utf8(where, error) from error
    except NoYaml as error:
        raise error.moved(where, kind=UserError) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        problem = f"the file cannot be read: {why}"
        raise UserError.because(where, problem, "Name a config file") from error
    return mapping(document, where, "the file")


def mapping(document: Any, where: object, name: str) -> dict[str, Any]:
    """Return a document that is a mapping. ``name`` is the document's in the message. Raises UserError."""
    if isinstance(document, dict):
        return document
    kinds = {type(None): "nothing", list: "a list", str: "text", bool: "true or false"}
    problem = f"{name} holds {kinds.get(type(document), 'a number')} instead of a mapping of keys"
    raise UserError.because(where, problem, "Write KEY: VALUE, one key on a line", name)
