"""What pydantic and YAML find wrong with a document, in the words of UserError."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from tilewave.errors import UserError

YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML was built with it: every job reads all front matter, and it is ten times
faster."""
MOST_NODES, MOST_DEPTH = 20_000, 64
"""Keys and values of a document, aliases counted as what they stand for; and how deep they may lie."""
WIDEST = range(-(2**63), 2**64)
"""Whole numbers that 64 bits hold, with a sign or without."""


class NoYaml(ValueError):
    """Text that is no YAML, or more than is read (limit); place: line or key."""

    def __init__(self, place: str, problem: str, allowed: str, limit: bool = True) -> None:
        super().__init__(problem)
        self.place, self.allowed, self.limit = place, allowed, limit


def yaml_of(text: str) -> Any:
    """What a YAML document holds. Raises NoYaml.

    Its size is known before anything is built of it: aliases of aliases multiply, and libyaml's reader
    ends the process where lists are nested a hundred thousand times.
    """
    try:
        _check_size(text)
        found = yaml.load(text, YAML_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1 if mark else 1}"
        raise NoYaml(
            line, str(getattr(error, "problem", None) or "no YAML"), "YAML", False
        ) from error
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        if isinstance(error, NoYaml):
            raise
        # Of a tag (`!!int x`) or a date of the 99th of a month PyYAML's own reader knows nothing.
        raise NoYaml("line 1", f"a value that is none: {error}", "YAML", False) from error
    _check_numbers(found, ())
    return found


def _check_size(text: str) -> None:
    known: dict[str, tuple[int, int]] = {}  # size and levels of what has an anchor
    above: list[tuple[str | None, int, int]] = []  # the same of what is open, with its anchor
    for event in yaml.parse(text, YAML_LOADER):
        place = f"line {event.start_mark.line + 1 if event.start_mark else 1}"
        anchor, size, levels = getattr(event, "anchor", None), 1, 0
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size, levels = above.pop()
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in known:
                raise NoYaml(place, f"*{event.anchor}", "aliases of what stands before them")
            anchor, (size, levels) = None, known[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            above.append((anchor, 1, 1))
        elif not isinstance(event, yaml.ScalarEvent):
            continue
        if len(above) + levels > MOST_DEPTH:
            raise NoYaml(place, f"more than {MOST_DEPTH} levels", f"{MOST_DEPTH} levels at most")
        if isinstance(event, yaml.CollectionStartEvent):
            continue
        if anchor is not None:
            known[anchor] = size, levels
        if above:
            name, so_far, deepest = above[-1]
            above[-1] = name, so_far + size, max(deepest, levels + 1)
            size += so_far
        if size > MOST_NODES:
            problem = f"more than {MOST_NODES} keys and values"
            raise NoYaml(place, problem, f"{MOST_NODES} at most, aliases counted each time")


def _check_numbers(found: Any, above: tuple[Any, ...]) -> None:
    if isinstance(found, int) and found not in WIDEST:
        key = ".".join(map(str, above))
        raise NoYaml(key, "a number of more than 64 bits", "whole numbers of 64 bits")
    if isinstance(found, float) and not math.isfinite(found):
        raise NoYaml(".".join(map(str, above)), str(found), "finite numbers", False)
    inside: Iterable[tuple[Any, Any]] = found.items() if isinstance(found, dict) else ()
    if isinstance(found, (list, tuple, set)):
        inside = enumerate(found)
    for key, value in inside:
        if isinstance(key, int) and key not in WIDEST:
            key = "a number"
        _check_numbers(value, (*above, key))


def _place(location: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    """An error's location without what is no key of the document: pydantic puts the branch of a
    union (``only.str``) among the keys."""
    kept = []
    for part in location:
        known = isinstance(data, Mapping) and part in data
        if not known and isinstance(data, list) and isinstance(part, int):
            known = part < len(data)
        if known:
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


def _known_keys(model: type[BaseModel], location: tuple[Any, ...]) -> list[str]:
    """The keys that a model knows where ``location``, which ends in a key that it does not, is."""
    models = [model]
    for part in location[:-1]:
        fields = [one.model_fields for one in models]
        aliases = [{f.alias or name: f for name, f in one.items()} for one in fields]
        inner = [f.annotation for one in aliases for key, f in one.items() if key == part]
        # A place in a list, a name in a mapping: the models are those that the field named.
        models = [found for one in inner for found in _models(one)] or models
    return [field.alias or name for one in models for name, field in one.model_fields.items()]


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
            allowed = _known_keys(model, location) or "no key"
            raise UserError(where, key, location[-1], allowed) from error
        if detail["type"] == "missing":
            raise UserError(where, key, None, "a value: the key is required") from error
        raise UserError(where, key, detail.get("input"), detail["msg"]) from error


def key_twice(text: str) -> str | None:
    """The first key that stands twice in one mapping of a YAML document, with those above it.

    YAML forbids it, and parsers take the last one all the same. None also for text that is no YAML.
    """
    try:
        root = yaml.compose(text, Loader=YAML_LOADER)
    except yaml.YAMLError:
        return None
    seen: set[int] = set()

    def walk(node: yaml.Node | None, above: tuple[str, ...]) -> tuple[str, ...] | None:
        if node is None or id(node) in seen:
            return None
        seen.add(id(node))
        inside: list[tuple[str, yaml.Node]] = []
        if isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
                if name and name in keys:
                    return (*above, name)
                keys.add(name)
                inside.append((name, value))
        elif isinstance(node, yaml.SequenceNode):
            inside = [(str(index), value) for index, value in enumerate(node.value)]
        for name, value in inside:
            found = walk(value, (*above, name))
            if found:
                return found
        return None

    found = walk(root, ())
    return ".".join(found) if found else None
