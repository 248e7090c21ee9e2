"""Processes that are killed while they write, and disks that are full. `tests/long/test_disturbed_runs.py` does it to runs."""

import random
import subprocess
import sys
import time
from pathlib import Path

from tilewave.kernel import result
from tilewave.records.store import Store

WRITER = """
import sys; from pathlib import Path
from tilewave.kernel.result import OK, Result; from tilewave.records.store import Store
store = Store(Path(sys.argv[1])); notes = {"text": "x" * 200_000}
for number in range(100_000):
    key = f"{number % 7:02d}"
    store.put(Result("time", "a@64", OK, key=key, environment="here", notes=notes))
    if number == 7: print("begun", flush=True)
"""
FULL = """
import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
"""


def writer(folder, code=WRITER):
    pipe, command = subprocess.PIPE, [sys.executable, "-c", code, str(folder)]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)


def entries(folder):
    store = Store(folder)
    return [store.get("here", "time", path.stem) for path in folder.rglob("[!.]*.json")]


def test_what_a_killed_writer_left_is_whole(tmp_path):
    """Two at a time, of the same entries."""
    chance = random.Random(1)
    for _ in range(2):
        both = [writer(tmp_path), writer(tmp_path)]
        for one in both:
            assert one.stdout.readline() == "begun\n"
        time.sleep(chance.uniform(0, 0.05))
        for one in both:
            one.kill()
            one.communicate()
        found = entries(tmp_path)
        assert len(found) == 7 and all(made and made.status == result.OK for made in found)


def test_a_full_disk_leaves_no_half_entry(tmp_path):
    full = writer(tmp_path, FULL + WRITER)
    said = full.communicate()[1].splitlines()[-1]
    assert "UserError" in said and "writing it: found 'File too large'" in said
    assert [path for path in Path(tmp_path).rglob("*") if path.is_file()] == []
