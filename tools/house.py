"""The picture of docs/data.md: the workflow's rules with the files that flow, and the library's packages with their imports.

Rules come from workflow/Snakefile and the files that it includes, packages and layers from the table of docs/data.md.
tests/test_house.py holds the packages to their layers.
"""

from __future__ import annotations

import ast
import functools
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
"""Room, or `__main__.py` -> its floor."""
TEXTS = {
    path.relative_to(LIBRARY).as_posix(): path.read_text("utf-8")
    for path in sorted(LIBRARY.rglob("*.py"))
}
MODULES = {
    ".".join(["tilewave", *path[:-3].split("/")]).removesuffix(".__init__"): path for path in TEXTS
}


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return the library's files, parsed."""
    return {path: ast.parse(text) for path, text in TEXTS.items()}


def imported(tree: ast.Module) -> set[str]:
    """Return the library's files that a module imports, at any level of its text."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            candidates = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in MODULES else node.module for name in candidates}
    return {MODULES[name] for name in names if name in MODULES}


@functools.cache
def imports() -> dict[str, set[str]]:
    """Return the library's files that each file imports."""
    return {
        path: imported(tree) - {path, "__init__.py"}
        for path, tree in trees().items()
        if path != "__init__.py"
    }


def room(path: str) -> str:
    """Return the room of a file."""
    return path.partition("/")[0]


def used(name: str) -> list[str]:
    """Return the rooms that a room imports, highest first."""
    files = (needed for path, needed in imports().items() if room(path) == name)
    rooms = {room(to) for needed in files for to in needed}
    return [used_room for used_room in FLOORS if used_room in rooms - {name}]


INCLUDE = re.compile(r'^include: "(.*)"', re.MULTILINE)
RULE = re.compile(r"^(?:use rule \w+ as|rule) (\w+)(?: with)?:\n((?:(?:    .*)?\n)+)", re.MULTILINE)
ORDER = re.compile(r"^ruleorder:.*", re.MULTILINE)
PART = re.compile(r"^    (input|output):\n((?:        .*\n)+)", re.MULTILINE)


class Rule(NamedTuple):
    """A rule with the patterns of its files."""

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]


def _paths(*positional: str | Iterable[str], **named: str | Iterable[str]) -> list[str]:
    """Return the arguments of `input` or `output` as patterns."""
    lists = (
        [argument] if isinstance(argument, str) else argument
        for argument in (*positional, *named.values())
    )
    return [re.sub(r"\{\w+\}", "*", path) for paths in lists for path in paths]


def rules() -> list[Rule]:
    """Return the workflow's rules, in the order of its text."""
    names: dict[str, Any] = {
        "RESULTS": "results",
        "REPORTS": "reports",
        "CHECKOUT": True,
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
    parsed = []
    for text in [main, *((WORKFLOW / path).read_text("utf-8") for path in INCLUDE.findall(main))]:
        if text is not main:
            exec(ORDER.sub("", RULE.sub("", text)), names)  # the names that its rules use
        for name, body in RULE.findall(text):
            parts = {
                kind: eval(f"paths({arguments})", names) for kind, arguments in PART.findall(body)
            }
            parsed.append(Rule(name, parts.get("input", []), parts.get("output", [])))
    return parsed


def needed(all_rules: Sequence[Rule], target: str = "report") -> list[Rule]:
    """Return a rule and all that it needs, in their order."""
    wanted = {path for rule in all_rules if rule.name == target for path in rule.inputs}
    chain = [rule for rule in all_rules if rule.name == target]
    for rule in reversed(all_rules):
        if wanted.intersection(rule.outputs):
            chain.insert(0, rule)
            wanted.update(rule.inputs)
    return chain


def flows(chain: Sequence[Rule]) -> list[tuple[str, int, list[int]]]:
    """Return pattern, writer and readers of each folder, and of single files that a rule reads or that come last."""
    files = []
    for at, rule in enumerate(chain):
        groups: dict[str, list[str]] = {}
        for path in rule.outputs:
            folder = path.rpartition("/")[0]
            groups.setdefault(folder if "/" in folder else path, []).append(path)
        for group, paths in groups.items():
            readers = [
                n for n, reader in enumerate(chain) if not set(paths).isdisjoint(reader.inputs)
            ]
            kinds = {Path(path).suffix for path in paths}
            label = f"{group}/*{kinds.pop() if len(kinds) == 1 else ''}" if paths[1:] else paths[0]
            if readers or group not in paths or rule is chain[-1]:
                files.append((label, at, readers))
    return files


WIDTH, LEFT, STEP, LINE = 900, 182, 88, 17
BOLD = 'font-weight="bold"'


def _text(x: float, y: float, text: str, size: int = 10, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" {more}>{html.escape(text)}</text>\n'


def _box(x: float, y: float, width: float, height: float) -> str:
    geometry = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {geometry} rx="4" fill="#e8eef6" stroke="#5b7aa0"/>\n'


def _workflow() -> tuple[str, int]:
    """Return the rules in a row, a line for each file from its writer to its last reader, and the height so far."""
    all_rules = rules()
    main = needed(all_rules)
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
    further = ", ".join(rule.name for rule in all_rules if rule not in main)
    note = f"Square: writes. Dot: reads. Other rules, asked for by name or file: {further}."
    return drawn + _text(20, end + 18, note), end + 18


def _room(name: str, uses: list[str], box: tuple[float, float, float, float]) -> str:
    x, y, width, _ = box
    texts = [text for path, text in TEXTS.items() if room(path) == name]
    thousands = round(sum(text.count("\n") for text in texts) / 500) / 2
    size = f"{thousands:g}k lines" if thousands else "under 250 lines"
    about = f"{len(texts)} file{'s' * (len(texts) > 1)}, {size}"
    drawn = _box(*box) + _text(x + 10, y + 17, name, 13, BOLD)
    drawn += _text(x + width - 10, y + 17, about, 10, 'text-anchor="end"')
    return drawn + "".join(_text(x + 10, y + 32 + 13 * at, line) for at, line in enumerate(uses))


def drawing() -> str:
    """Return the picture as SVG."""
    drawn, y = _workflow()
    title = "The packages of the library: each imports from its own layer and those below"
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
