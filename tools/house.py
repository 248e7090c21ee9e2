"""The picture of docs/data.md: the workflow's rules with the files that flow, and the library's rooms with what they use.

Rules are read from workflow/Snakefile and the files that it includes, rooms and floors from the table of docs/data.md,
and what a room uses from its imports. tests/test_house.py holds the rooms to their floors.
"""

from __future__ import annotations

import ast
import html
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import MagicMock

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / "workflow"
LIBRARY = WORKFLOW / "tilewave"

ROW = re.compile(r"^\| (\d) \| `([\w.]+)/?` \|", re.MULTILINE)
FLOORS = {
    name: int(floor) for floor, name in ROW.findall((ROOT / "docs/data.md").read_text("utf-8"))
}
"""Room, or the door `__main__.py` -> its floor."""
TEXTS = {
    path.relative_to(LIBRARY).as_posix(): path.read_text("utf-8")
    for path in sorted(LIBRARY.rglob("*.py"))
}
FILES = {path: ast.parse(text) for path, text in TEXTS.items()}
MODULES = {
    ".".join(["tilewave", *path[:-3].split("/")]).removesuffix(".__init__"): path for path in FILES
}


def imported(tree: ast.Module) -> set[str]:
    """The library's files that a module imports, wherever in its text."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{one.name}" for one in node.names}
            names |= {one if one in MODULES else node.module for one in whole}
    return {MODULES[one] for one in names if one in MODULES}


IMPORTS = {
    path: imported(tree) - {path, "__init__.py"}
    for path, tree in FILES.items()
    if path != "__init__.py"
}


def room(path: str) -> str:
    """The room of a file."""
    return path.partition("/")[0]


def used(name: str) -> list[str]:
    """The rooms that a room imports, highest first."""
    rooms = {room(to) for path, others in IMPORTS.items() if room(path) == name for to in others}
    return [one for one in FLOORS if one in rooms - {name}]


INCLUDE = re.compile(r'^include: "(.*)"', re.MULTILINE)
RULE = re.compile(r"^(?:use rule \w+ as|rule) (\w+)(?: with)?:\n((?:(?:    .*)?\n)+)", re.MULTILINE)
ORDER = re.compile(r"^ruleorder:.*", re.MULTILINE)
PART = re.compile(r"^    (input|output):\n((?:        .*\n)+)", re.MULTILINE)


class Rule(NamedTuple):
    """A rule, and the patterns of its files."""

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]


def _paths(*given: str | Iterable[str], **named: str | Iterable[str]) -> list[str]:
    """The arguments of `input` or `output` as patterns."""
    lists = ([one] if isinstance(one, str) else one for one in (*given, *named.values()))
    return [re.sub(r"\{\w+\}", "*", path) for paths in lists for path in paths]


def rules() -> list[Rule]:
    """The workflow's rules, in the order of its text."""
    names: dict[str, Any] = {
        "RESULTS": "results",
        "REPORTS": "reports",
        "STUDIES": ["*"],
        "gather": SimpleNamespace(parts=lambda pattern: pattern),
        "expand": lambda patterns, **values: patterns,
        "directory": lambda paths: paths,
        "report": lambda path, **about: path,
        "Path": Path,
        "paths": _paths,
        "parameters": MagicMock(narrowed=lambda config: False),
        "config": MagicMock(),
    }
    main = (WORKFLOW / "Snakefile").read_text("utf-8")
    found = []
    for text in [main, *((WORKFLOW / path).read_text("utf-8") for path in INCLUDE.findall(main))]:
        if text is not main:
            exec(ORDER.sub("", RULE.sub("", text)), names)  # the names that its rules use
        for name, body in RULE.findall(text):
            parts = {kind: eval(f"paths({given})", names) for kind, given in PART.findall(body)}
            found.append(Rule(name, parts.get("input", []), parts.get("output", [])))
    return found


def needed(every: Sequence[Rule], target: str = "report") -> list[Rule]:
    """The rules that a rule needs, and itself, in their order."""
    wanted = {path for rule in every if rule.name == target for path in rule.inputs}
    found = [rule for rule in every if rule.name == target]
    for rule in reversed(every):
        if wanted.intersection(rule.outputs):
            found.insert(0, rule)
            wanted.update(rule.inputs)
    return found


def flows(chain: Sequence[Rule]) -> list[tuple[str, int, list[int]]]:
    """Pattern, writer and readers of what flows: folders, and files beside them that a rule reads or that come last."""
    found = []
    for at, rule in enumerate(chain):
        groups: dict[str, list[str]] = {}
        for path in rule.outputs:
            folder = path.rpartition("/")[0]
            groups.setdefault(folder if "/" in folder else path, []).append(path)
        for group, paths in groups.items():
            readers = [n for n, one in enumerate(chain) if not set(paths).isdisjoint(one.inputs)]
            kinds = {Path(path).suffix for path in paths}
            label = f"{group}/*{kinds.pop() if len(kinds) == 1 else ''}" if paths[1:] else paths[0]
            if readers or group not in paths or rule is chain[-1]:
                found.append((label, at, readers))
    return found


WIDTH, LEFT, STEP, LINE = 900, 182, 88, 17
BOLD = 'font-weight="bold"'


def _text(x: float, y: float, words: str, size: int = 10, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" {more}>{html.escape(words)}</text>\n'


def _box(x: float, y: float, width: float, height: float) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="4" fill="#e8eef6" stroke="#5b7aa0"/>\n'


def _workflow() -> tuple[str, int]:
    """The rules in a row, with a line for each file from the rule that writes it to the last that reads it; and the
    picture's height so far."""
    every = rules()
    main = needed(every)
    chain = [rule for rule in main if rule.outputs]
    files = flows(chain)
    end = 72 + LINE * len(files)
    drawn = _text(20, 24, "The rules, and the files that flow", 13, BOLD)
    middle = [LEFT + STEP * (at + 0.5) for at in range(len(chain))]
    for rule, x in zip(chain, middle, strict=True):
        drawn += _box(x - STEP / 2 + 6, 38, STEP - 12, 24)
        drawn += _text(x, 54, rule.name, 12, f'text-anchor="middle" {BOLD}')
        drawn += f'<path d="M{x:g} 62V{end}" stroke="#d5dbe3"/>\n'
    for number, (label, writer, readers) in enumerate(files):
        y, begin = 64 + LINE * (number + 1), middle[writer]
        drawn += _text(20, y + 4, label)
        line = f"M{begin:g} {y}H{middle[max([writer, *readers])]:g}"
        drawn += f'<path d="{line}" stroke="#5b7aa0" stroke-width="2"/>\n'
        drawn += f'<rect x="{begin - 5:g}" y="{y - 5}" width="10" height="10" fill="#c2571a"/>\n'
        for reader in readers:
            drawn += f'<circle cx="{middle[reader]:g}" cy="{y}" r="4.5" fill="#1f5f9f"/>\n'
    others = ", ".join(rule.name for rule in every if rule not in main)
    note = f"Square: writes. Dot: reads. Other rules, asked for by name or file: {others}."
    return drawn + _text(20, end + 18, note), end + 18


def _room(name: str, uses: list[str], place: tuple[float, float, float, float]) -> str:
    x, y, width, _ = place
    texts = [text for path, text in TEXTS.items() if room(path) == name]
    thousands = round(sum(text.count("\n") for text in texts) / 500) / 2
    size = f"{thousands:g}k lines" if thousands else "under 250 lines"
    about = f"{len(texts)} file{'s' * (len(texts) > 1)}, {size}"
    drawn = _box(*place) + _text(x + 10, y + 17, name, 13, BOLD)
    drawn += _text(x + width - 10, y + 17, about, 10, 'text-anchor="end"')
    return drawn + "".join(_text(x + 10, y + 32 + 13 * at, line) for at, line in enumerate(uses))


def drawing() -> str:
    """The picture as SVG."""
    drawn, y = _workflow()
    title = "The rooms of the library: each imports from its own floor and those below"
    drawn += _text(20, y + 36, title, 13, BOLD)
    y += 48
    for floor in sorted(set(FLOORS.values()), reverse=True):
        names = [name for name in FLOORS if FLOORS[name] == floor]
        width = (WIDTH - 50) / len(names) - 10
        uses = [f"uses {', '.join(used(name)) or 'no other'}" for name in names]
        lines = [textwrap.wrap(line, int(width / 5.6)) for line in uses]
        height = 24 + 13 * max(map(len, lines))
        drawn += _text(20, y + 18, str(floor), 13)
        for at, name in enumerate(names):
            drawn += _room(name, lines[at], (40 + (width + 10) * at, y, width, height))
        y += height + 8
    size = f'viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">\n'
        f'<rect width="{WIDTH}" height="{y}" fill="white"/>\n{drawn}</svg>\n'
    )
