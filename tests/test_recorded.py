"""Recorded figures: merging, reading by key, and telling stale ones from missing ones."""

import itertools
import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samples import a_job
from tilewave.command import main, parser
from tilewave.commands.record import adopted
from tilewave.compiling.sass import places
from tilewave.errors import UserError
from tilewave.records import model, tables
from tilewave.records import recorded as recorded_module
from tilewave.records.recorded import LOST, Recorded, adopt, folders, merge, merge_accesses
from tilewave.stages import measuring
from tilewave.stages.jobs import Planned

ENVIRONMENTS = {"gpu1": {"gpu": "NVIDIA H200", "sms": 132}, "host": {"gpu": None}}


def timed(case, key, value=1.0, environment="gpu1"):
    return model.result(
        "time",
        case,
        model.OK,
        key=key,
        environment=environment,
        source="events",
        figures=[{"metric": "duration", "value": value, "unit": "us"}],
        samples={"duration_us": [value, value + 1]},
        notes={"throttle": ""},
    )


def counted(case, key, wavefronts):
    row = {"address": 16, "opcode": "LDS.64", "wavefronts_shared": wavefronts}
    return model.result(
        "counters",
        case,
        model.OK,
        key=key,
        environment="gpu1",
        source="counters",
        instructions=[row],
    )


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "nvidia_h200"
    results = [timed("a@64", "k1"), timed("b@64", "k2", 2.0), counted("a@64", "c1", 8)]
    counts = merge(path, results, ENVIRONMENTS, {"a.sm_90": {"code": "x"}})
    assert counts == {"added": 3, "replaced": 0, "kept": 0}
    return path


def samples(folder, *keys):
    table = Recorded(folder).long_table("samples", set(keys))
    return [row["value"] for row in table.to_pylist()]


def test_get_by_stage_and_key(folder):
    found = Recorded(folder).get("time", "k2")
    assert found["figures"] == [{"metric": "duration", "value": 2.0, "unit": "us"}]
    assert found["notes"] == {"throttle": ""}
    assert (found["source"], found["environment"]) == ("recorded:nvidia_h200", "gpu1")
    assert Recorded(folder).get("check", "k2") is None
    assert Recorded(folder).get("time", "k3") is None


def test_long_tables(folder):
    assert samples(folder, "k1", "k2") == [1.0, 2.0, 2.0, 3.0]
    assert samples(folder, "k1") == [1.0, 2.0]
    assert samples(folder) == []
    rows = Recorded(folder).long_table("instructions", {"c1"}).to_pylist()
    assert rows == [{"key": "c1", "address": 16, "opcode": "LDS.64", "wavefronts_shared": 8}]


def test_samples_of_instructions_have_a_table_of_their_own(folder, tmp_path):
    row = {"address": 16, "samples": 3, "stall_wait": 3}
    made = model.result(
        model.SAMPLE, "a@64", model.OK, key="s1", environment="gpu1", source="samples",
        instructions=[row], notes={"rules": [{"title": "Tail Effect"}]},
    )  # fmt: skip
    merge(folder, [made], {"gpu1": {**ENVIRONMENTS["gpu1"], "commit": "abc", "dirty": False}}, {})
    recorded = Recorded(folder)
    assert recorded.long_table("stalls", {"s1"}).to_pylist() == [{"key": "s1", **row}]
    assert recorded.long_table("instructions", {"s1"}).to_pylist() == []
    assert recorded.instructions({"s1", "c1"})["s1"] == [row]
    found = recorded.get(model.SAMPLE, "s1")
    assert found["notes"]["rules"] == [{"title": "Tail Effect"}]
    table = tables.instructions_table([found], recorded, lambda variant, function: {}, "stalls")
    assert table[["case", "samples", "line"]].to_numpy().tolist() == [["a@64", 3, 0]]
    adopt(tmp_path / "other", folder)
    there = Recorded(tmp_path / "other").long_table("stalls", {"s1"}).to_pylist()
    assert there == [{"key": "s1", **row}]


def test_environments_and_compiled(folder):
    recorded = Recorded(folder)
    assert recorded.main_environment == "gpu1"
    assert recorded.environments == {"gpu1": ENVIRONMENTS["gpu1"]}  # only those that are used
    assert recorded.compiled == {"a.sm_90": {"code": "x"}}
    assert folders(folder.parent) == [folder]
    assert folders(folder / "nowhere") == []


def test_new_measurement_replaces_the_case_whatever_its_key(folder):
    counts = merge(folder, [timed("a@64", "k9", 5.0)], {"gpu2": {"gpu": "NVIDIA H200"}}, {})
    assert counts == {"added": 0, "replaced": 1, "kept": 2}
    recorded = Recorded(folder)
    assert recorded.get("time", "k1") is None
    assert recorded.get("time", "k9")["figures"][0]["value"] == 5.0
    assert recorded.get("time", "k2") and recorded.get("counters", "c1")
    assert samples(folder, "k1", "k2", "k9") == [5.0, 6.0, 2.0, 3.0]
    assert recorded.compiled == {"a.sm_90": {"code": "x"}}


def test_same_key_again_is_not_doubled(folder):
    merge(folder, [timed("a@64", "k1", 7.0)], {}, {})
    assert samples(folder, "k1") == [7.0, 8.0]


def test_merge_is_reproducible(folder, tmp_path):
    """The same results in another order give the same files: small diffs in the history."""
    other = tmp_path / "other"
    results = [counted("a@64", "c1", 8), timed("b@64", "k2", 2.0), timed("a@64", "k1")]
    merge(other, results, ENVIRONMENTS, {"a.sm_90": {"code": "x"}})
    for name in ("results.parquet", "environments.json", "compiled.json"):
        assert (folder / name).read_bytes() == (other / name).read_bytes()


def test_two_cases_of_one_key(folder):
    """A symbolic shape and the number it resolves to share a key; each case has its samples."""
    merge(folder, [timed("c@256*sms", "k5", 3.0), timed("c@33792", "k5", 3.0)], {}, {})
    recorded = Recorded(folder)
    assert recorded.has_case("time", "c@256*sms")
    assert recorded.has_case("time", "c@33792")
    assert samples(folder, "k5") == [3.0, 4.0]


def test_long_tables_repeat_a_keys_rows_for_each_case(folder):
    """Own rows and recorded ones; stale cases and cases without a key have none."""
    merge(folder, [timed("c@256*sms", "k5", 3.0), timed("c@33792", "k5", 3.0)], {}, {})
    recorded = Recorded(folder)
    taken = [recorded.get("time", "k5") | {"case": case} for case in ("c@256*sms", "c@33792")]
    own = [timed("d@2*32", "k6", 5.0), timed("d@64", "k6", 5.0)]
    stale = model.result("time", "a@64", model.STALE, key="k1")
    table = tables.samples_table(
        [*taken, *own, stale, model.result("time", "e", model.OK)], recorded
    )
    assert list(table.columns[:4]) == ["case", "key", "environment", "source"]
    rows = [(row.case, row.source, row.value) for row in table.itertuples()]
    assert rows == [
        (case, source, value)
        for case, source, values in (
            ("c@256*sms", "recorded:nvidia_h200", (3.0, 4.0)),
            ("c@33792", "recorded:nvidia_h200", (3.0, 4.0)),
            ("d@2*32", "events", (5.0, 6.0)),
            ("d@64", "events", (5.0, 6.0)),
        )
        for value in values
    ]


def test_a_new_measurement_is_that_of_every_case_with_its_key(folder):
    merge(folder, [timed("c@256*sms", "k5", 3.0), timed("c@33792", "k5", 3.0)], {}, {})
    merge(folder, [timed("c@33792", "k5", 8.0)], {}, {})
    found = {made["case"]: made for made in Recorded(folder).results() if made["key"] == "k5"}
    assert set(found) == {"c@256*sms", "c@33792"}
    assert {made["figures"][0]["value"] for made in found.values()} == {8.0}
    assert samples(folder, "k5") == [8.0, 9.0]


def flipped(path, place=None):
    """The file with a bit turned over in its middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if place is None else place] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("name", sorted(LOST))
@pytest.mark.parametrize("how", ["flipped", "cut", "missing", "folder", "loop"])
def test_a_damaged_file_is_left_out(tmp_path, name, how, signed):
    """And what is lost is said; the rest is as it was."""
    folder = tmp_path / "nvidia_h200"
    listings = {"l1": ("sass", {"a.cu": [1]})}
    merge(folder, [timed("a@64", "k1"), counted("a@64", "c1", 8)], ENVIRONMENTS,
          {"a.sm_90": {"key": "l1"}}, listings)  # fmt: skip
    merge_accesses(folder, [{"case": "a@64", "key": "e1", "address": 16}])
    whole, path = Recorded(folder), folder / name
    assert whole.damage == {}
    if not signed:
        (folder / "SHA256SUMS").unlink()
        if how == "flipped" or (
            how == "missing" and name not in ("results.parquet", "environments.json")
        ):
            pytest.skip("nobody can tell")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    if how == "flipped":
        path.write_bytes(data)
        flipped(path)
    elif how != "cut":
        path.unlink()
        if how == "folder":
            path.mkdir()
        elif how == "loop":
            path.symlink_to(path.name)
    found = Recorded(folder)
    assert list(found.damage) == [name] and f"nvidia_h200/{name} is damaged" in found.told[0]
    assert LOST[name] in found.told[0]
    useless = name in ("results.parquet", "environments.json")
    assert bool(found.unusable) == useless
    assert found.get("time", "k1") == (None if useless else whole.get("time", "k1"))
    for table in ("samples", "instructions"):
        there = found.long_table(table, {"k1", "c1"}).num_rows
        assert bool(there) == (name != f"{table}.parquet")
    assert (found.listing("l1") is None) == (name == "listings.parquet")
    assert bool(found.accesses) == (name != "accesses.parquet")
    assert folders(folder.parent) == ([] if not signed and name == "environments.json"
                                      and how in ("missing", "loop") else [folder])  # fmt: skip
    if folders(folder.parent):
        before = (folder / "results.parquet").read_bytes() if name != "results.parquet" else b""
        with pytest.raises(UserError, match=name):
            merge(folder, [timed("b@64", "k2")], ENVIRONMENTS, {})
        assert not before or (folder / "results.parquet").read_bytes() == before


@pytest.mark.parametrize("facts", [{"compute_capability": "y.0"}, {"gpu": 3}])
def test_facts_of_another_form_are_damage_where_nothing_is_signed(folder, facts):
    (folder / "SHA256SUMS").unlink()
    (folder / "environments.json").write_text(json.dumps({"gpu1": ENVIRONMENTS["gpu1"] | facts}))
    assert list(Recorded(folder).damage) == ["environments.json"]


@pytest.mark.parametrize("together", [recorded_module.TOGETHER, None])
def test_a_listing_is_read_with_few_others(folder, together, monkeypatch):
    """Of a recording from before they had groups it is found, too, and the next one that is merged has them."""
    every = 2 * recorded_module.TOGETHER + 1
    names = [f"l{number:02}" for number in range(every)]
    listings = {name: (f"sass {name}", {"a.cu": [1]}) for name in names}
    monkeypatch.setattr(recorded_module, "TOGETHER", together)
    merge(folder, [], {}, {f"{name}.sm_90": {"key": name} for name in names}, listings)
    monkeypatch.undo()
    path = folder / "listings.parquet"
    assert pq.ParquetFile(path).num_row_groups == (3 if together else 1)
    found = Recorded(folder)
    assert {name: found.listing(name) for name in reversed(names)} == listings
    assert found.listing("none") is None and found.places("none") is None
    merge(folder, [], {}, {"more.sm_90": {"key": "more"}}, {"more": ("sass", {})})
    assert pq.ParquetFile(path).num_row_groups == 3
    assert Recorded(folder).listing("more") == ("sass", {})
    assert Recorded(folder).listing(names[0]) == listings[names[0]]


def test_places_of_a_listing_are_no_listing(folder):
    told = places(".text.k:\n        /*0000*/                   EXIT ;\n")
    merge(folder, [], {}, {"a.sm_90": {"key": "a", "sha256": "c"}}, {"a": (told, {"a.cu": [1]})})
    found = Recorded(folder)
    assert found.listing("a") is None and found.listing_of_cubin("c") is None
    assert found.places("a") == (told, {"a.cu": [1]})


def test_samples_are_recorded_to_a_nanosecond(folder):
    merge(folder, [timed("a@64", "k9", 5.00049)], ENVIRONMENTS, {})
    assert samples(folder, "k9") == [5.0, 6.0]


def test_listings_may_be_none(folder):
    pq.write_table(pa.table({}), folder / "listings.parquet")
    (folder / "SHA256SUMS").unlink()
    assert Recorded(folder).listing("none") is None


def test_a_result_of_a_damaged_recording_says_so(folder):
    flipped(folder / "results.parquet")
    (made,) = collect(Recorded(folder), ("a@64", "k1", "nvrtc"))["results"]
    assert (made["status"], made["source"]) == (model.NOT_MEASURED, "")
    assert made["reason"].endswith("results.parquet of NVIDIA H200 is damaged")


def test_a_recording_that_is_killed_while_it_is_written_is_whole(folder, monkeypatch):
    """Whatever file it was at: what is there is what its checksum is of."""
    fresh = [timed("a@64", "k9", 5.0), timed("c@64", "k3"), counted("c@64", "c3", 2)]
    state = {path.name: path.read_bytes() for path in folder.iterdir()}
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


CLEAN = {name: {**facts, "commit": "abc"} for name, facts in ENVIRONMENTS.items()}


def elsewhere(tmp_path, *results, environments=CLEAN, compiled=None):
    """The recorded folder of another checkout."""
    path = tmp_path / "other" / "resources" / "recorded" / "nvidia_h200"
    merge(path, list(results), environments, compiled or {})
    return path


def test_adopting_takes_over_what_is_new(folder, tmp_path):
    """Results with their samples, instructions and code; what both hold alike is not touched."""
    code = {"c.sm_90": {"code": "y"}, "a.sm_90": {"code": "older"}, "d.sm_90": {"code": "z"}}
    other = elsewhere(
        tmp_path, timed("a@64", "k1"), timed("c@64", "k5", 5.0), counted("c@64", "c5", 3),
        timed("b@64", "k2", 9.0), compiled=code,
    )  # fmt: skip
    assert adopt(folder, other) == {"added": 2, "replaced": 1, "kept": 2}
    recorded = Recorded(folder)
    assert recorded.get("time", "k2")["figures"][0]["value"] == 9.0
    assert samples(folder, "k1") == [1.0, 2.0]
    assert samples(folder, "k2", "k5") == [9.0, 10.0, 5.0, 6.0]
    rows = recorded.long_table("instructions", {"c1", "c5"}).to_pylist()
    assert {row["key"]: row["wavefronts_shared"] for row in rows} == {"c1": 8, "c5": 3}
    # The code of variants of which nothing new came stays what it was here.
    assert recorded.compiled == {"a.sm_90": {"code": "x"}, "c.sm_90": {"code": "y"}}
    assert adopt(folder, other) == {"added": 0, "replaced": 0, "kept": 5}


def test_adopting_may_keep_what_is_here(folder, tmp_path):
    other = elsewhere(tmp_path, timed("b@64", "k2", 9.0), timed("c@64", "k5", 5.0))
    assert adopt(folder, other, keep=True) == {"added": 1, "replaced": 0, "kept": 3}
    assert samples(folder, "k2", "k5") == [2.0, 3.0, 5.0, 6.0]


def test_a_folder_adopted_whole_is_the_same(folder, tmp_path):
    other = elsewhere(tmp_path, timed("a@64", "k1"), counted("a@64", "c1", 8))
    copy = tmp_path / "copy"
    adopt(copy, other)
    for path in other.iterdir():
        assert path.read_bytes() == (copy / path.name).read_bytes(), path.name


@pytest.mark.parametrize("facts", [{"commit": ""}, {"commit": "abc", "dirty": True}])
def test_adopted_figures_name_a_clean_commit(folder, tmp_path, facts):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = elsewhere(tmp_path, timed("c@64", "k5"), environments={"gpu1": facts})
    with pytest.raises(UserError, match=r"gpu1\.commit"):
        adopt(folder, other)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("below", ["", "resources/recorded", "resources/recorded/nvidia_h200"])
def test_record_from_a_checkout(tmp_path, below, capsys):
    elsewhere(tmp_path, timed("c@64", "k5", 5.0))
    here = tmp_path / "here"
    options = parser().parse_args(["record", "--from", str(tmp_path / "other" / below)])
    (line,) = adopted(options, here)
    assert line.endswith("nvidia_h200: 1 added, 0 replaced, 0 kept")
    assert samples(here / "resources" / "recorded" / "nvidia_h200", "k5") == [5.0, 6.0]
    # Nor from a folder without figures, nor from itself.
    assert main(["record", "--from", str(tmp_path / "nowhere")]) == 2
    assert "--from: found" in capsys.readouterr().err
    with pytest.raises(UserError, match="another folder"):
        adopted(parser().parse_args(["record", "--from", str(here)]), here)


def collect(recorded, *jobs, target=None, store=None):
    """Stage `time` on a machine with no GPU."""
    planned = [
        Planned(
            SimpleNamespace(id=case),
            a_job(stage="time", case=case, key=key, provider=provider),
            None,
        )
        for case, key, provider in jobs
    ]
    away = {"live": False, "host": "laptop", "environment": "gpu1", "label": "NVIDIA H200",
            "reason": "no NVIDIA GPU on this machine"}  # fmt: skip
    store = store or SimpleNamespace(get=lambda *_: None, put=lambda _: None)

    def measure(waiting, finished):
        for job in waiting:
            finished(model.result("time", job.case, model.OK))
        return []

    sources = measuring.Sources(away | (target or {}), store, recorded)
    return measuring.collect(planned, sources, measure)


def test_matching_key_is_shown_other_keys_are_stale_and_new_cases_missing(folder):
    jobs = [("a@64", "k1", "nvrtc"), ("b@64", "changed", "nvrtc"), ("new@64", "k7", "nvrtc")]
    document = collect(Recorded(folder), *jobs)
    first, second, third = document["results"]
    assert (first["status"], first["source"]) == (model.OK, "recorded:nvidia_h200")
    assert second["status"] == model.STALE
    assert second["figures"] == []
    assert "NVIDIA H200" in second["reason"]
    assert third["status"] == model.NOT_MEASURED
    assert "no recorded figure" in third["reason"]
    assert document["counts"] == {"measured": 0, "reused": 0, "recorded": 1}


def test_no_recording_says_why():
    (made,) = collect(None, ("a@64", "k1", "nvrtc"))["results"]
    assert (made["status"], made["reason"]) == (model.NOT_MEASURED, "no NVIDIA GPU on this machine")


def test_host_kernels_are_measured_here_where_nothing_is_recorded():
    document = collect(None, ("cpu@64", "k1", "cpu"))
    (made,) = document["results"]
    assert (made["status"], made["environment"], made["key"]) == (model.OK, "laptop", "k1")
    assert document["counts"]["measured"] == 1


def test_cases_of_one_key_are_measured_once():
    jobs = [("cpu@2*32", "k1", "cpu"), ("cpu@64", "k1", "cpu"), ("cpu@65", "k2", "cpu")]
    document = collect(None, *jobs)
    assert [made["case"] for made in document["results"]] == ["cpu@2*32", "cpu@64", "cpu@65"]
    assert [made["key"] for made in document["results"]] == ["k1", "k1", "k2"]
    assert document["counts"] == {"measured": 2, "reused": 1, "recorded": 0}


def test_recorded_host_figures_come_before_this_machines(tmp_path):
    """A page of recorded figures shows the host that was recorded, whatever the store holds."""
    folder = tmp_path / "nvidia_h200"
    merge(folder, [timed("cpu@64", "k1", 4.0, "host")], ENVIRONMENTS, {})
    mine = timed("cpu@64", "k1", 9.0, "laptop")
    store = SimpleNamespace(get=lambda *_: mine, put=lambda _: None)
    (made,) = collect(Recorded(folder), ("cpu@64", "k1", "cpu"), store=store)["results"]
    assert (made["environment"], made["figures"][0]["value"]) == ("host", 4.0)
    live = {"live": True, "environment": "laptop"}
    (made,) = collect(Recorded(folder), ("cpu@64", "k1", "cpu"), store=store, target=live)[
        "results"
    ]
    assert made["figures"][0]["value"] == 9.0
    (made,) = collect(Recorded(folder), ("cpu@65", "k2", "cpu"), store=store)["results"]
    assert made["environment"] == "laptop"


def touched(case, key, *places):
    return [{"case": case, "key": key, "opcode": "LDS", "sass": [at]} for at in places]


def test_accesses_of_a_case_replace_its_older_ones(folder):
    merge_accesses(folder, [*touched("b@64", "x2", 16), *touched("a@64", "x1", 32, 48)])
    assert [row["sass"] for row in Recorded(folder).accesses["x1"]] == [[32], [48]]
    merge_accesses(folder, touched("a@64", "x3", 64))
    assert Recorded(folder).accesses == {
        "x3": [{"opcode": "LDS", "sass": [64]}],
        "x2": [{"opcode": "LDS", "sass": [16]}],
    }
    merge_accesses(folder, touched("c@64", "x2", 16))  # the same code by another name
    assert len(Recorded(folder).accesses["x2"]) == 1
    merge_accesses(folder, [])
    assert len(Recorded(folder).access_rows) == 3


@pytest.mark.parametrize(("keep", "key"), [(False, "x2"), (True, "x1")])
def test_accesses_are_adopted_with_the_rest(folder, tmp_path, keep, key):
    other = tmp_path / "other"
    merge(other, [], {}, {})
    merge_accesses(folder, touched("a@64", "x1", 16))
    merge_accesses(other, touched("a@64", "x2", 32) + touched("b@64", "x3", 48))
    adopt(folder, other, keep)
    assert set(Recorded(folder).accesses) == {key, "x3"}
