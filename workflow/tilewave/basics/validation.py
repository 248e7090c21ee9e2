"""What pydantic and YAML find wrong with a document, in the words of UserError."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from tilewave.basics.errors import UserError
from tilewave.basics.files import MOST_BYTES

WIDEST = range(-(2**63), 2**64)
"""Whole numbers that 64 bits hold, with a sign or without."""
MOST_VALUES, MOST_DEPTH = 20_000, 64
"""Of a document: keys and values, and how deep they may lie."""


class NoYaml(ValueError):
    """Text that is no YAML, or data that no document may hold; place: line or key."""

    def __init__(self, place: str, found: object, allowed: str) -> None:
        super().__init__(place)
        self.place, self.found, self.allowed = place, found, allowed


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's where PyYAML was built with it: every job reads all front matter, and it is ten times faster.
    It refuses a key that stands twice, of which YAML's parsers take the last."""

    def flatten_mapping(self, node: Any) -> None:
        keys: set[str] = set()
        for key, _ in () if hasattr(node, "flat") else node.value:
            name = str(key.value)
            if name in keys:
                line = f"line {key.start_mark.line + 1}"
                raise NoYaml(line, f"the key {name} twice", "each key once")
            keys.add(name)
        node.flat = True  # keys that were merged into it may stand there again
        super().flatten_mapping(node)


def yaml_of(text: str) -> Any:
    """What a YAML document holds. Raises NoYaml."""
    try:
        data = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1 if mark else 1}"
        raise NoYaml(line, str(getattr(error, "problem", None) or "no YAML"), "YAML") from error
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        if isinstance(error, NoYaml):
            raise
        # Of a tag (`!!int x`) or a date of the 99th of a month PyYAML's own reader knows nothing.
        raise NoYaml("line 1", f"a value that is none: {error}", "YAML") from error
    check_data(data)
    return data


def check_data(data: Any) -> None:
    """Refuse what no document may hold anywhere: other types than YAML's plain ones, keys that are no text,
    numbers that are not finite or wider than 64 bits, more values or levels than there may be. Raises NoYaml."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), data)]
    count = 0
    while waiting:
        place, value = waiting.pop()
        count += 1
        allowed = _allowed_instead(value)
        if len(place) > MOST_DEPTH:
            place, value, allowed = place[:1], "deeper nesting", f"at most {MOST_DEPTH} levels"
        elif count > MOST_VALUES:
            place, value, allowed = place[:1], "more values", f"at most {MOST_VALUES} values"
        if allowed:
            raise NoYaml(".".join(place) or "file", value, allowed)
        if isinstance(value, Mapping):
            for name in value:
                if not isinstance(name, str):
                    raise NoYaml(".".join(place) or "file", name, "keys that are text")
            waiting += (((*place, name), item) for name, item in value.items())
        elif isinstance(value, list | tuple):
            waiting += (((*place, str(at)), item) for at, item in enumerate(value))


def _allowed_instead(value: Any) -> str:
    """What is allowed instead of a value by itself; empty for one that is."""
    if value is None or isinstance(value, bool | str | Mapping | list | tuple):
        return ""
    if isinstance(value, int):
        return "" if value in WIDEST else "whole numbers of 64 bits"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "a finite number"
    return "text, numbers, true, false, lists and mappings"


def _place(location: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    """An error's location without what is no key of the document: pydantic puts the branch of a
    union (``only.str``) among the keys."""
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
    """Place and details of the first thing pydantic found in ``data``.

    Where a value fits no branch of a union, ``msg`` tells what each branch wants of it.
    """
    details = error.errors()
    places = [
        _place(detail["loc"], data) + detail["loc"][-1:] * (detail["type"] == "missing")
        for detail in details
    ]
    longest = max(
        (place for place in places if place[: len(places[0])] == places[0]),
        key=len,
    )
    same = [detail for detail, place in zip(details, places) if place == longest]
    wanted = " or ".join(dict.fromkeys(str(detail["msg"]) for detail in same))
    return longest, {**same[0], "msg": wanted}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a field's type names, however deep in lists, mappings and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _valid_keys(model: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """The keys that a model knows where ``location``, which ends in a key that it does not, is."""
    models = [model]
    for part in location[:-1]:
        fields = [model.model_fields for model in models]
        aliases = [{f.alias or name: f for name, f in fields_of.items()} for fields_of in fields]
        inner = [f.annotation for named in aliases for key, f in named.items() if key == part]
        # A place in a list, a name in a mapping: the models are those that the field named.
        models = [model for annotation in inner for model in _models(annotation)] or models
    return [field.alias or name for model in models for name, field in model.model_fields.items()]


M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], data: Mapping[str, Any], where: object, above: str = "") -> M:
    """The model of plain data, which stand at the key ``above`` of the document.

    Raises UserError: the first key that is missing or unknown, or whose value is not allowed.
    """
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        location, detail = _first_problem(error, data)
        key = ".".join(str(part) or "''" for part in (*filter(None, [above]), *location))
        if detail["type"] == "extra_forbidden":
            allowed = _valid_keys(model, location) or "no key"
            raise UserError(where, key, location[-1], allowed) from error
        if detail["type"] == "missing":
            raise UserError(where, key, None, "a value: the key is required") from error
        raise UserError(where, key, detail.get("input"), detail["msg"]) from error


def read_mapping(path: Path, where: object) -> dict[str, Any]:
    """What a config file holds. Raises UserError where it cannot be read, or is no mapping in YAML."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UserError(where, "file", "a larger file", f"at most {MOST_BYTES} bytes")
        document = yaml_of(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        byte = error.object[error.start : error.start + 1]
        raise UserError(where, f"byte {error.start}", byte, "text in UTF-8") from error
    except NoYaml as error:
        raise UserError(where, error.place, error.found, error.allowed) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(where, "file", why, "a config file that can be read") from error
    if not isinstance(document, dict):
        kind = "nothing" if document is None else type(document).__name__
        raise UserError(where, "file", kind, "a mapping of keys")
    return document
