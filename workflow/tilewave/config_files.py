"""Config files as plain data, within bounds: whatever is named as one, reading it ends soon.

Snakemake reads a `--configfile` itself, before any line of the Snakefile, and ends in a traceback, or not at
all, where it cannot; `make` and `tilewave` look here first.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewave.errors import UserError
from tilewave.validation import MOST_DEPTH, MOST_NODES, WIDEST, NoYaml, key_twice, yaml_of

MOST_BYTES = 500_000
MOST_TEXT = 10_000
TEMPLATE = "__use_yte__"
"""The key with which Snakemake takes a config for a template, whose expressions it runs as Python."""
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def read(path: Path, where: object) -> dict[str, Any]:
    """The config that a file holds. Raises UserError for whatever is no config, and what would not end."""
    text = _text(path, where)
    try:
        data = yaml_of(text)
    except NoYaml as error:
        raise UserError(where, error.place or "file", str(error), error.allowed) from error
    twice = key_twice(text)
    if twice:
        raise UserError(where, twice, "the key twice", "each key once")
    if not isinstance(data, dict):
        kind = "nothing" if data is None else type(data).__name__
        raise UserError(where, "file", kind, "a mapping of keys")
    check_data(data, where)
    return data


def _text(path: Path, where: object) -> str:
    """A file's text. Raises UserError where it is none, or too long for a config."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            kind = "a folder" if stat.S_ISDIR(about.st_mode) else "no regular file"
            raise UserError(where, "file", kind, "a config file in YAML")
        if about.st_size > MOST_BYTES:
            raise UserError(where, "file", f"{about.st_size} bytes", f"at most {MOST_BYTES} bytes")
        # What calls itself a regular file may still have no end, or nothing to read for hours: /proc.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as opened:
            return (opened.read(MOST_BYTES) or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start : error.start + 1]
        raise UserError(where, f"byte {error.start}", byte, "text in UTF-8") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(where, "file", why, "a config file that can be read") from error


def _inside(value: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a mapping, places and values of a list; nothing of anything else."""
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)


def check_data(data: Mapping[str, Any], where: object) -> None:
    """Refuse what no config may hold anywhere: other types than YAML's plain ones, keys that are no text,
    numbers that are not finite or wider than 64 bits, text that is too long or has control characters,
    too many values or levels.

    For data of any origin, a loop among them. Raises UserError.
    """
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), data)]
    count = 0
    while waiting:
        place, value = waiting.pop()
        key = ".".join(map(str, place)) or "file"
        count += 1
        if count > MOST_NODES:
            allowed = f"at most {MOST_NODES} values, aliases written out"
            raise UserError(where, place[0], "more values", allowed)
        if len(place) > MOST_DEPTH:
            raise UserError(where, place[0], "deeper nesting", f"at most {MOST_DEPTH} levels")
        allowed = _refused(value)
        if allowed:
            raise UserError(where, key, value, allowed)
        for name, one in _inside(value):
            if isinstance(value, Mapping) and (not isinstance(name, str) or _refused(name)):
                raise UserError(where, key, name, "keys that are text of one line")
            waiting.append(((*place, name), one))
    if TEMPLATE in data:
        raise UserError(where, TEMPLATE, data[TEMPLATE], "a config that is no template")


def _refused(value: Any) -> str:
    """What is allowed instead of a value by itself; empty for one that is."""
    if isinstance(value, str):
        if len(value) > MOST_TEXT:
            return f"text of at most {MOST_TEXT} letters"
        return "text without control characters" if UNPRINTABLE.search(value) else ""
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int):
        return "" if value in WIDEST else "whole numbers of 64 bits"
    if isinstance(value, float):
        return "" if abs(value) < float("inf") else "a finite number"
    plain = isinstance(value, Mapping | list | tuple)
    return "" if plain else "text, numbers, true, false, lists and mappings"
