"""The library's rooms: each imports only from floors below it, and a name means one thing."""

import ast
import itertools
import re
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import house
from house import FLOORS, room

EMPTY_NAME = re.compile("_*(one|found|told|made|known|own|mine|theirs|meant|asked|beyond|dear)_*")
"""Names that do not say what a value is."""


def test_every_module_is_in_a_room() -> None:
    assert {room(path) for path in house.imports()} == set(FLOORS)


def test_no_import_goes_upwards() -> None:
    pairs = [
        (path, imported)
        for path, needed in house.imports().items()
        for imported in needed
        if room(path) != room(imported)
    ]
    assert [pair for pair in pairs if FLOORS[room(pair[0])] < FLOORS[room(pair[1])]] == []
    rooms = {name: {room(b) for a, b in pairs if room(a) == name} for name in FLOORS}
    list(TopologicalSorter(rooms).static_order())  # raises CycleError, with the circle


def test_no_modules_import_each_other() -> None:
    list(TopologicalSorter(house.imports()).static_order())


def test_the_machine_needs_theory_and_basics_alone() -> None:
    machine = {path for path in house.imports() if path.startswith("execution/machine/")}
    needed = set(itertools.chain.from_iterable(house.imports()[path] for path in machine)) - machine
    assert {room(path) for path in needed} <= {"theory", "basics"}


def test_no_file_name_occurs_twice_in_a_room() -> None:
    names = Counter(
        (room(path), path.rpartition("/")[2])
        for path in house.imports()
        if not path.endswith("__init__.py") and "/families/" not in path
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_type_is_defined_twice() -> None:
    """Except `Options`, the name of a figure's options in each plot module."""
    names = Counter(
        node.name
        for path, tree in house.trees().items()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        and not (path.startswith("plots/") and node.name == "Options")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_names_say_what_they_hold() -> None:
    root = Path(__file__).resolve().parent.parent
    folders = [root / name for name in ("workflow", "tests", "tools")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    assert len(files) > 300
    attributes = {ast.arg: "arg", ast.Name: "id", ast.Attribute: "attr", ast.FunctionDef: "name"}
    names = [
        f"{path.relative_to(root)}:{node.lineno}: {name}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(getattr(node, "ctx", ast.Store()), ast.Store)
        and (name := getattr(node, attributes.get(type(node), ""), None))
        and EMPTY_NAME.fullmatch(name)
    ]
    assert names == []
