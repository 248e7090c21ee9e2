"""Recorded figures: merging, reading by key, and the difference of stale and missing ones."""

import hashlib
import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tilewave.basics import memory
from tilewave.basics.errors import UserError
from tilewave.compiling.sass import places
from tilewave.execution.lanes import captured
from tilewave.kernel import result
from tilewave.kernel.result import Result
from tilewave.pipeline import tables
from tilewave.records import recorded as recorded_module
from tilewave.records.folder import LOST, folders
from tilewave.records.recorded import Recorded, merge, merge_accesses

ENVIRONMENTS = {"gpu1": {"gpu": "NVIDIA H200", "sms": 132}, "host": {"gpu": None}}


def timed(case, key, value=1.0, environment="gpu1"):
    figures = [{"metric": "duration", "value": value, "unit": "us"}]
    more = {"samples": {"duration_us": [value, value + 1]}, "notes": {"throttle": ""}}
    more |= {"figures": figures, "environment": environment, "source": "events"}
    return Result("time", case, result.OK, key=key, **more)


def counted(case, key, wavefronts):
    row = {"address": 16, "opcode": "LDS.64", "wavefronts_shared": wavefronts}
    more = {"environment": "gpu1", "source": "counters", "instructions": [row]}
    return Result("counters", case, result.OK, key=key, **more)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "nvidia_h200"
    results = [timed("a@64", "k1"), timed("b@64", "k2", 2.0), counted("a@64", "c1", 8)]
    counts = merge(path, results, ENVIRONMENTS, {"a.sm_90": {"code": "x"}})
    assert counts == {"added": 3, "replaced": 0, "kept": 0}
    return path


def held(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def samples(folder, *keys):
    return [row["value"] for row in Recorded(folder).long_table("samples", set(keys)).to_pylist()]


def test_get_by_stage_and_case(folder):
    recorded = Recorded(folder)
    stored = recorded.get("time", "b@64")
    assert stored.figures == [{"metric": "duration", "value": 2.0, "unit": "us"}]
    assert stored.notes == {"throttle": ""}
    assert (stored.source, stored.environment) == ("recorded:nvidia_h200", "gpu1")
    assert recorded.get("check", "b@64") is None and recorded.get("time", "c@64") is None
    assert samples(folder, "k1", "k2") == [1.0, 2.0, 2.0, 3.0]
    assert samples(folder) == []
    rows = recorded.long_table("instructions", {"c1"}).to_pylist()
    assert rows == [{"key": "c1", "address": 16, "opcode": "LDS.64", "wavefronts_shared": 8}]
    assert recorded.main_environment == "gpu1"
    used = {"gpu1": ENVIRONMENTS["gpu1"] | {"results": 3}}  # only those that are used
    assert recorded.environments == used and recorded.size == 3
    assert folders(folder / "nowhere") == []


def test_samples_of_instructions_have_a_separate_table(folder):
    row = {"address": 16, "samples": 3, "stall_wait": 3}
    more = {"instructions": [row], "notes": {"rules": [{"title": "Tail Effect"}]}}
    more |= {"key": "s1", "environment": "gpu1", "source": "samples"}
    sampled = Result(result.SAMPLE, "a@64", result.OK, **more)
    about = {**ENVIRONMENTS["gpu1"], "commit": "abc", "dirty": False}
    merge(folder, [sampled], {"gpu1": about}, {})
    recorded = Recorded(folder)
    assert recorded.long_table("stalls", {"s1"}).to_pylist() == [{"key": "s1", **row}]
    assert recorded.long_table("instructions", {"s1"}).to_pylist() == []
    assert recorded.instructions({"s1", "c1"})["s1"] == [row]
    stored = recorded.get(result.SAMPLE, "a@64")
    assert stored.notes["rules"] == [{"title": "Tail Effect"}]
    table = tables.instructions_table([stored], recorded, lambda variant, function: {}, "stalls")
    assert table[["case", "samples", "line"]].to_numpy().tolist() == [["a@64", 3, 0]]


def test_new_measurement_replaces_the_case_whatever_its_key(folder):
    counts = merge(folder, [timed("a@64", "k9", 5.0)], {"gpu2": {"gpu": "NVIDIA H200"}}, {})
    assert counts == {"added": 0, "replaced": 1, "kept": 2}
    recorded = Recorded(folder)
    assert recorded.get("time", "a@64").figures[0]["value"] == 5.0
    assert recorded.get("time", "b@64") and recorded.get("counters", "a@64")
    assert samples(folder, "k1", "k2", "k9") == [5.0, 6.0, 2.0, 3.0]
    assert recorded.compiled == {"a.sm_90": {"code": "x"}}
    merge(folder, [timed("a@64", "k9", 7.00049)], {}, {})  # they are kept to a nanosecond
    assert samples(folder, "k9") == [7.0, 8.0]


def test_merge_is_reproducible(folder, tmp_path):
    """The same results in another order give the same files: small diffs in the history."""
    other = tmp_path / "other"
    results = [counted("a@64", "c1", 8), timed("b@64", "k2", 2.0), timed("a@64", "k1")]
    merge(other, results, ENVIRONMENTS, {"a.sm_90": {"code": "x"}})
    assert held(folder) == held(other)


def test_long_tables_repeat_a_keys_rows_for_each_case(folder):
    """New and recorded results have rows; stale cases and cases without a key have none.
    A symbolic shape and its number share a key."""
    merge(folder, [timed("c@256*sms", "k5", 3.0), timed("c@33792", "k5", 3.0)], {}, {})
    recorded = Recorded(folder)
    taken = [recorded.get("time", case) for case in ("c@256*sms", "c@33792")]
    shared = [timed("d@2*32", "k6", 5.0), timed("d@64", "k6", 5.0)]
    stale = Result("time", "a@64", result.STALE, key="k1")
    keyless = Result("time", "e", result.OK)
    table = tables.samples_table([*taken, *shared, stale, keyless], recorded)
    assert list(table.columns[:4]) == ["case", "key", "environment", "source"]
    assert table["source"].tolist() == ["recorded:nvidia_h200"] * 4 + ["events"] * 4
    by_case = table.groupby("case", sort=False)["value"].apply(tuple).to_dict()
    taken, shared_cases = ["c@256*sms", "c@33792"], ["d@2*32", "d@64"]
    assert by_case == dict.fromkeys(taken, (3.0, 4.0)) | dict.fromkeys(shared_cases, (5.0, 6.0))
    assert recorded.get("time", "c@256*sms") and recorded.get("time", "c@33792")
    # A new measurement is that of every case with its key.
    merge(folder, [timed("c@33792", "k5", 8.0)], {}, {})
    by_case = {stored.case: stored for stored in Recorded(folder).results() if stored.key == "k5"}
    assert set(by_case) == {"c@256*sms", "c@33792"}
    assert {stored.figures[0]["value"] for stored in by_case.values()} == {8.0}
    assert samples(folder, "k5") == [8.0, 9.0]


@pytest.mark.parametrize("name", sorted(LOST))
@pytest.mark.parametrize("how", ["flipped", "cut", "missing", "folder", "loop", "unsigned"])
def test_a_damaged_file_is_skipped(tmp_path, name, how):
    """The loss is reported, and the other files still serve."""
    folder = tmp_path / "nvidia_h200"
    listings = {"l1": ("sass", {"a.cu": [1]})}
    merge(folder, [timed("a@64", "k1"), counted("a@64", "c1", 8)], ENVIRONMENTS,
          {"a.sm_90": {"key": "l1"}}, listings)  # fmt: skip
    merge_accesses(folder, [{"case": "a@64", "key": "e1", "address": 16}])
    whole, path, sums = Recorded(folder), folder / name, folder / "SHA256SUMS"
    assert whole.damage == {}
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    if how == "unsigned":
        signed = sums.read_text().splitlines(keepends=True)
        sums.write_text("".join(line for line in signed if not line.endswith(f"  {name}\n")))
    elif how in ("flipped", "cut"):
        path.write_bytes(data if how == "flipped" else data[: len(data) // 2])
    else:
        path.unlink()
        if how == "folder":
            path.mkdir()
        elif how == "loop":
            path.symlink_to(path.name)
    recording = Recorded(folder)
    assert list(recording.damage) == [name]
    assert f"nvidia_h200/{name} is damaged" in recording.warnings()[0]
    assert LOST[name] in recording.warnings()[0]
    useless = name in ("results.parquet", "environments.json")
    assert bool(recording.unusable) == useless
    assert recording.get("time", "a@64") == (None if useless else whole.get("time", "a@64"))
    for table in ("samples", "instructions"):
        there = recording.long_table(table, {"k1", "c1"}).num_rows
        assert bool(there) == (name != f"{table}.parquet")
    assert (recording.listing("l1") is None) == (name == "listings.parquet")
    assert bool(recording.accesses) == (name != "accesses.parquet")
    assert folders(folder.parent) == [folder]
    before = held(folder)
    with pytest.raises(UserError, match=name):
        merge(folder, [timed("b@64", "k2")], ENVIRONMENTS, {})
    assert before == held(folder)


def in_column(column, *cells, kind=None):
    """Return a change of a table: its first cells in this column, as a table of this type."""

    def changed(path):
        table = pq.ParquetFile(path).read()
        rest = table[column].to_pylist()[len(cells) :]
        values = [*cells, *rest] if kind is None else cells * len(table)
        array = pa.array(values, kind or table[column].type)
        pq.write_table(table.set_column(table.column_names.index(column), column, array), path)

    return changed


def in_entries(**more):
    """Return a change of a JSON document: further keys of its entries."""

    def changed(path):
        document = json.loads(path.read_text())
        path.write_text(json.dumps({name: {**entry, **more} for name, entry in document.items()}))

    return changed


def a_bomb(path):
    text = pa.DictionaryArray.from_arrays([0] * 300, ["x" * 1_000_000])
    table = pa.table(dict.fromkeys(("key", "lines", "sass"), text))
    pq.write_table(table, path, store_schema=False)


def many_columns(path):
    pq.write_table(pa.table({f"c{at}": [1] for at in range(101)}), path)


RESULTS, SAMPLES = "results.parquet", "samples.parquet"
ANOTHER_FORM = [
    ("compiled.json", lambda path: path.write_text("[1]")),
    (RESULTS, lambda path: path.write_bytes(b"")),
    (RESULTS, in_column("key", 1, kind=pa.int64())),
    *((RESULTS, in_column(column, None)) for column in ("stage", "case", "figures")),
    *((RESULTS, in_column(column, "other")) for column in ("stage", "status")),
    (RESULTS, in_column("verdict", "other", kind=pa.string())),
    (RESULTS, in_column("case", "\x1b[31ma@64")),
    *((RESULTS, in_column("figures", text)) for text in (
        "{", "1", "[1]", '[{"value": 1}]', '[{"metric": "m", "value": "x"}]', '[{"metric": "m", "value": NaN}]',
        "[" * 100_000,
    )),
    *((RESULTS, in_column("notes", text)) for text in (
        "[1]", '{"check": 5}', '{"rules": [{"title": 5}]}', '{"of_each_launch": {"a": ["x"]}}',
    )),
    (SAMPLES, in_column("value", "x", kind=pa.string())),
    (SAMPLES, in_column("value", float("inf"))),
    ("instructions.parquet", in_column("address", "x", kind=pa.string())),
    ("instructions.parquet", in_column("wavefronts_shared", "x", kind=pa.string())),
    ("instructions.parquet", many_columns),
    *(("environments.json", in_entries(**facts)) for facts in (
        {"sms": "many"}, {"sms": 0}, {"gpu": 5}, {"packages": [1]}, {"packages": {"a": 1}}, {"gpu": "\x1b"},
    )),
    *(("compiled.json", in_entries(**facts)) for facts in (
        {"key": 5}, {"resources": "x"}, {"resources": {"a": {"registers": "x"}}}, {"symbols": []},
    )),
    ("listings.parquet", in_column("lines", "{")),
    ("listings.parquet", in_column("sass", None)),
    ("listings.parquet", a_bomb),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change"), ANOTHER_FORM)
def test_a_signed_file_of_another_form_is_skipped(folder, monkeypatch, name, change):
    """It is named, nothing of it is used, and the rest is."""
    monkeypatch.setenv(memory.VARIABLE, "0.25")
    merge(folder, [], {}, {"a.sm_90": {"code": "x", "key": "l1"}}, {"l1": ("sass", {})})
    before, sums = (folder / name).read_bytes(), folder / "SHA256SUMS"
    change(folder / name)
    was, now = (hashlib.sha256(data).hexdigest() for data in (before, (folder / name).read_bytes()))
    sums.write_text(sums.read_text().replace(was, now))
    recording = Recorded(folder)
    assert list(recording.damage) == [name] and len(recording.warnings()[0].splitlines()) == 1
    reason = recording.damage[name]
    assert "it cannot be understood" in reason or "more memory than 0.25 GiB" in reason
    assert bool(recording.compiled) == (name != "compiled.json")
    assert bool(recording.results()) == (name not in (RESULTS, "environments.json"))
    assert recording.listing("l1") == (None if name == "listings.parquet" else ("sass", {}))
    assert samples(folder, "k1") == ([] if name == SAMPLES else [1.0, 2.0])


def test_accesses_that_cannot_be_drawn_are_executed_again(folder):
    merge_accesses(folder, [{"case": "a@64", "key": "e1", "opcode": "LDS", "sass": [16]}])
    rows = Recorded(folder).accesses["e1"]
    assert rows and not any(map(captured.are_patterns, (rows, None, [1], 5)))
    assert captured.are_patterns([])


def test_an_error_of_arrow_alone_is_damage(folder, monkeypatch):
    def capacity(data: bytes, name: str) -> None:
        raise pa.ArrowException("too large")

    monkeypatch.setattr(recorded_module.recorded_form, "table", capacity)
    assert "too large" in Recorded(folder).damage["results.parquet"]


def test_a_recording_without_checksums_is_damage(folder):
    (folder / "SHA256SUMS").unlink()
    recording = Recorded(folder)
    assert {"SHA256SUMS", "results.parquet", "environments.json"} <= recording.damage.keys()
    assert recording.damage["SHA256SUMS"] == "it is missing"
    assert recording.results() == [] and recording.unusable and recording.size == 0


@pytest.mark.parametrize("together", [recorded_module.TOGETHER, None])
def test_a_listing_is_read_with_few_others(folder, together, monkeypatch):
    """A listing is also read from a recording without groups, and the next merge writes groups."""
    every = 2 * recorded_module.TOGETHER + 1
    names = [f"l{number:02}" for number in range(every)]
    listings = {name: (f"sass {name}", {"a.cu": [1]}) for name in names}
    monkeypatch.setattr(recorded_module, "TOGETHER", together)
    merge(folder, [], {}, {f"{name}.sm_90": {"key": name} for name in names}, listings)
    monkeypatch.undo()
    path = folder / "listings.parquet"
    assert pq.ParquetFile(path).num_row_groups == (3 if together else 1)
    recording = Recorded(folder)
    assert {name: recording.listing(name) for name in reversed(names)} == listings
    assert recording.listing("none") is None and recording.places("none") is None
    merge(folder, [], {}, {"more.sm_90": {"key": "more"}}, {"more": ("sass", {})})
    assert pq.ParquetFile(path).num_row_groups == 3
    assert Recorded(folder).listing("more") == ("sass", {})
    assert Recorded(folder).listing(names[0]) == listings[names[0]]


def test_places_of_a_listing_are_no_listing(folder):
    listing = places(".text.k:\n        /*0000*/                   EXIT ;\n")
    merge(folder, [], {}, {"a.sm_90": {"key": "a", "sha256": "c"}}, {"a": (listing, {"a.cu": [1]})})
    recording = Recorded(folder)
    assert recording.listing("a") is None
    assert recording.places("a") == (listing, {"a.cu": [1]})


def test_a_recording_that_is_killed_while_it_is_written_is_whole(folder, monkeypatch):
    """Every file matches its checksum, whatever file was being written."""
    fresh = [timed("a@64", "k9", 5.0), timed("c@64", "k3"), counted("c@64", "c3", 2)]
    state = held(folder)
    for number in range(20):
        for name, data in state.items():
            (folder / name).write_bytes(data)
        left = itertools.count(number, -1)

        def write(path, data, left=left):
            if not next(left):
                raise KeyboardInterrupt
            path.write_bytes(data)

        with monkeypatch.context() as patch:
            patch.setattr(recorded_module, "write_atomically", write)
            try:
                merge(folder, fresh, {}, {"c.sm_90": {"code": "y"}})
                break
            except KeyboardInterrupt:
                assert Recorded(folder).damage == {}
        merge(folder, fresh, {}, {})  # the next one completes it
        assert samples(folder, "k9") == [5.0, 6.0]
    assert number > 4 and Recorded(folder).damage == {}


def touched(case, key, *places):
    return [{"case": case, "key": key, "opcode": "LDS", "sass": [at]} for at in places]


def test_accesses_of_a_case_replace_its_older_ones(folder):
    merge_accesses(folder, [*touched("b@64", "x2", 16), *touched("a@64", "x1", 32, 48)])
    assert [row["sass"] for row in Recorded(folder).accesses["x1"]] == [[32], [48]]
    merge_accesses(folder, touched("a@64", "x3", 64))
    by_key = {key: [row["sass"] for row in rows] for key, rows in Recorded(folder).accesses.items()}
    assert by_key == {"x3": [[64]], "x2": [[16]]}
    merge_accesses(folder, touched("c@64", "x2", 16))  # the same code by another name
    assert len(Recorded(folder).accesses["x2"]) == 1
    merge_accesses(folder, [])
    assert len(Recorded(folder).access_rows) == 3
