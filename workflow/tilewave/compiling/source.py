"""What of a kernel's text the compiler acts on: its lines of code, without comments.

A comment, front matter or an empty line changes no machine code, so a compilation's key leaves them
out. They move the lines behind them, though: `moved` says where a line of an older text stands now.
"""

import functools
import re
from collections.abc import Mapping

# Literals are matched so that what looks like a comment inside one is none. One without an end is matched
# to where it must end: a search for the end that begins anew at each of them takes hours in a bad file.
TOKEN = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\((?:.*?\)(?P=mark)"|.*)'
    r'|"(?:\\.|[^"\\\n])*+"?'
    r"|'(?:\\.|[^'\\\n]){0,200}+'"
    r"|(?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
TELLS_LINES = re.compile(r"\b(?:__LINE__|assert|source_location)\b")
"""Code that holds the number of its own line, so that a moved line is other code."""


def _without_comment(match: re.Match[str]) -> str:
    comment = match["comment"]
    return match[0] if comment is None else " " + "\n" * comment.count("\n")


@functools.lru_cache(maxsize=1024)
def code_lines(text: str) -> tuple[tuple[int, str], ...]:
    """(line number, code) of every line that is more than comment and space."""
    bare = TOKEN.sub(_without_comment, text).splitlines()
    return tuple((number, line.strip()) for number, line in enumerate(bare, 1) if line.strip())


def line_numbers(text: str) -> list[int]:
    """The numbers of the lines with code."""
    return [number for number, _ in code_lines(text)]


@functools.lru_cache(maxsize=1024)
def code(text: str) -> str:
    """The text as a compilation's key has it."""
    lines = code_lines(text)
    bare = "\n".join(line for _, line in lines)
    return f"{bare}\n{line_numbers(text)}" if TELLS_LINES.search(bare) else bare


def moved(before: Mapping[str, list[int]], now: Mapping[str, str]) -> dict[str, dict[int, int]]:
    """File -> line number when it was compiled -> line number now, of the files whose lines moved.

    before: the `line_numbers` of each file then; now: their texts, of the same code.
    """
    by_file = {}
    for name, old in before.items():
        new = line_numbers(now.get(name, ""))
        if new != old and len(new) == len(old):
            by_file[name] = dict(zip(old, new))
    return by_file
