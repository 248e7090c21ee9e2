"""What pydantic and YAML find wrong with a document, in the words of UserError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import ValidationError

YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML was built with it: every job reads all front matter, and it is ten times
faster."""


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


def first_problem(error: ValidationError, data: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
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
