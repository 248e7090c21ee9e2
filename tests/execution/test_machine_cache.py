"""The compiled interpreter is cached by all that it depends on, where no other user can write."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

from samples import ROOT
from tilewave.basics import cache
from tilewave.basics.errors import UserError

COMPILE = "from tilewave.execution.machine import compiling, handlers; compiling.compile_units(['special'], saying=print)"
IMPORTED = (
    "import sys, tilewave.execution.machine.building as b; b.imported();"
    "from tilewave.execution.machine import compiling as c; files = {str(p) for p in c.sources()};"
    "ours = {n: m.__file__ for n, m in sys.modules.items() if n.startswith('tilewave.') and not hasattr(m, '__path__')};"
    # of the families it is the numbers, see below
    "rules = {'families', *(f'families.{n}' for n in vars(c.families)), 'form', 'operands', 'registry'};"
    "known = {'tilewave.basics.cache', 'tilewave.basics.deadline', 'tilewave.basics.errors', 'tilewave.basics.paths', 'tilewave.basics.tables', 'tilewave.theory.opcodes', *(f'tilewave.execution.machine.{n}' for n in rules)};"
    "print(*(n for n in ours.keys() - known if ours[n] not in files))"
)


def ran(library, cache, code):
    """Run code in a process with another copy of the library, and return its output."""
    env = {**os.environ, "PYTHONPATH": str(library), "TILEWAVE_CACHE": str(cache)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def copied(to):
    """Copy the library to another checkout."""
    shutil.copytree(ROOT / "workflow" / "tilewave", to / "tilewave")
    return to


def test_a_second_checkout_compiles_nothing_but_what_changed(tmp_path):
    first, second = copied(tmp_path / "one"), copied(tmp_path / "elsewhere" / "two")
    os.utime(second / "tilewave" / "execution" / "machine" / "special.py", (1, 1))
    cache = tmp_path / "cache"
    assert "compiling the interpreter" in ran(first, cache, COMPILE)
    assert ran(second, cache, COMPILE) == ""
    plain, rules = "# a change", "RULES = ('a change',)"
    for changes, again in (
        ({"launch.py": plain, "families/control.py": rules}, False),
        ({"families/control.py": "NUMBER = 1"}, True),
    ):
        for name, change in changes.items():
            with (second / "tilewave" / "execution" / "machine" / name).open("a") as file:
                file.write(f"\n{change}\n")
        assert ("compiling" in ran(second, cache, COMPILE)) == again, changes
    assert {path.stat().st_mode & 0o777 for path in (cache / "machine").glob("*")} == {0o700}


def test_what_is_not_part_of_the_key_is_not_compiled(tmp_path):
    assert ran(ROOT / "workflow", tmp_path, IMPORTED) == ""


@pytest.mark.parametrize("shared_part", ["folder", "kind", "link"])
def test_a_folder_that_others_can_write_is_refused(shared_part, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWAVE_CACHE", str(tmp_path / "cache"))
    folder = cache.folder("machine", "0123")
    assert cache.folder("machine", "0123") == folder
    if shared_part == "link":
        folder.rename(tmp_path / "theirs")
        folder.symlink_to(tmp_path / "theirs")
    else:
        (folder if shared_part == "folder" else folder.parent).chmod(0o770)
    with pytest.raises(UserError, match="only you can write"):
        cache.folder("machine", "0123")


def test_a_store_that_everybody_can_write_is_refused(tmp_path):
    store = cache.owned(tmp_path / ".tilewave")
    assert store.stat().st_mode & 0o777 == 0o700
    for mode, left in ((0o755, 0o755), (0o775, 0o755), (0o700, 0o700)):
        store.chmod(mode)
        assert cache.owned(store).stat().st_mode & 0o777 == left
    store.chmod(0o777)
    with pytest.raises(UserError, match="another user may have written"):
        cache.owned(store)


def test_somebody_elses_store_is_refused(tmp_path, monkeypatch):
    store = cache.owned(tmp_path / ".tilewave")
    uid = os.geteuid()
    if uid == 0:
        os.chown(store, 12345, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(UserError, match="store: ") if uid == 0 else contextlib.nullcontext():
        cache.owned(store)


def test_what_is_old_is_forgotten(tmp_path):
    (tmp_path / "ab").mkdir()
    old, new = (tmp_path / "ab" / f"{name}.cubin" for name in ("old", "new"))
    old.touch()
    new.touch()
    os.utime(old, (1, 1))
    cache.forget_old(tmp_path)
    assert not old.exists() and new.exists()
