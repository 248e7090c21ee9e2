"""The store: it has complete files only, also after a killed writer; damaged ones count as missing."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from tilewave.kernel import result
from tilewave.kernel.result import Result
from tilewave.records.store import Store, write_atomically


def timed(status=result.OK, **more):
    more = {"key": "ab12", "environment": "here", "figures": [{"metric": "x", "value": 1.5}]} | more
    return Result("time", "kernel@64", status, "why", **more)


DOCUMENT = timed().document()


@pytest.mark.parametrize("value", [1.5, float("nan")])
def test_environment_stage_and_key_all_count(store, value):
    kept = timed(figures=[{"metric": "x", "value": value}])
    store.put(kept)
    assert repr(store.get("here", "time", "ab12")) == repr(kept)
    for place in ("there time ab12", "here check ab12", "here time ab13"):
        assert store.get(*place.split()) is None


@pytest.mark.parametrize(
    "damage",
    [
        *(b"", b'{"schema_version": 1, "sta', b"[]", b"null", b"\xff\xfe\x00", b'{"case": 1}'),
        b"[" * 10_000 + b"]" * 10_000,
        DOCUMENT | {"status": "fine"},
        DOCUMENT | {"figures": [{"value": 1.5}]},
        {name: value for name, value in DOCUMENT.items() if name != "notes"},
        DOCUMENT | {"key": "ab13"},
        DOCUMENT | {"schema_version": result.SCHEMA_VERSION + 1},
    ],
)
def test_damaged_file_counts_as_missing(store, damage):
    store.put(timed())
    (path,) = store.root.rglob("*.json")
    path.write_bytes(damage if isinstance(damage, bytes) else json.dumps(damage).encode())
    assert store.get("here", "time", "ab12") is None
    path.write_text(json.dumps(DOCUMENT))
    assert store.get("here", "time", "ab12") == timed()


@pytest.mark.parametrize("status", result.STATUSES)
def test_a_failure_of_this_machine_is_retried(store, status):
    # A library that lacks a product still lacks it in the next run.
    lasting = status in (result.OK, result.UNSUPPORTED) or status in result.FAILURES
    assert timed(status).keepable is lasting
    store.put(timed(status))
    assert (store.get("here", "time", "ab12") is not None) is lasting


@pytest.mark.parametrize("empty", [{"key": ""}, {"environment": ""}])
def test_result_without_key_or_environment_is_not_kept(store, empty):
    store.put(timed(**empty))
    assert not list(store.root.rglob("*.json"))


def test_write_that_is_cut_short_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "file.json"
    write_atomically(path, b"old")
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                write_atomically(path, b"new")
        assert path.read_bytes() == b"old"
        assert list(path.parent.iterdir()) == [path]


def test_closed_lists():
    with pytest.raises(ValueError, match="status 'fine'"):
        timed("fine")
    with pytest.raises(ValueError, match="verdict 'right'"):
        timed(verdict="right")


def test_accesses_are_in_a_document_where_there_are_any():
    assert "accesses" not in DOCUMENT
    for stored in (timed(), timed(accesses=[{"opcode": "LDS"}])):
        assert Result.of_document(json.loads(json.dumps(stored.document()))) == stored


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
    """Two writers write the same entries at a time."""
    chance = random.Random(1)
    for _ in range(2):
        both = [writer(tmp_path), writer(tmp_path)]
        for process in both:
            assert process.stdout.readline() == "begun\n"
        time.sleep(chance.uniform(0, 0.05))
        for process in both:
            process.kill()
            process.communicate()
        left = entries(tmp_path)
        assert len(left) == 7 and all(entry and entry.status == result.OK for entry in left)


def test_a_full_disk_leaves_no_half_entry(tmp_path):
    said = writer(tmp_path, FULL + WRITER).communicate()[1].splitlines()[-1]
    assert "UserError" in said and "cannot be written (File too large)" in said
    assert [path for path in Path(tmp_path).rglob("*") if path.is_file()] == []
