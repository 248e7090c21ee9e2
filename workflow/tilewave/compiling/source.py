"""The lines of code in a kernel's text, without comments, front matter and empty lines.
These are no part of a compilation's key. `moved` maps the lines of an older text to the present ones."""

import functools
import re
from collections.abc import Mapping

# Literals are matched so that a comment mark inside them is no comment. An unterminated literal is matched to
# the place where it must end: a new search from each one would take hours in a bad file.
TOKEN = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\((?:.*?\)(?P=mark)"|.*)'
    r'|"(?:\\.|[^"\\\n])*+"?'
    r"|'(?:\\.|[^'\\\n]){0,200}+'"
    r"|(?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
TELLS_LINES = re.compile(r"\b(?:__LINE__|assert|source_location)\b")
"""Code that contains its own line number, so that a moved line is different code."""


@functools.lru_cache(maxsize=1024)
def code_lines(text: str) -> tuple[tuple[int, str], ...]:
    """Return (line number, code) of every line that has code."""
    bare = TOKEN.sub(
        lambda match: " " + "\n" * match[0].count("\n") if match["comment"] else match[0], text
    ).splitlines()
    return tuple((number, line.strip()) for number, line in enumerate(bare, 1) if line.strip())


def line_numbers(text: str) -> list[int]:
    return [number for number, _ in code_lines(text)]


@functools.lru_cache(maxsize=1024)
def code(text: str) -> str:
    """Return the text for a compilation's key."""
    bare = "\n".join(line for _, line in code_lines(text))
    return f"{bare}\n{line_numbers(text)}" if TELLS_LINES.search(bare) else bare


def moved(before: Mapping[str, list[int]], now: Mapping[str, str]) -> dict[str, dict[int, int]]:
    """Return file -> line then -> line now, for files whose lines moved. before: their `line_numbers`."""
    by_file = {}
    for name, old in before.items():
        new = line_numbers(now.get(name, ""))
        if new != old and len(new) == len(old):
            by_file[name] = dict(zip(old, new))
    return by_file
