"""Recordings whose bytes are damaged, in every way that hypothesis thinks of.

    TILEWAVE_EXAMPLES=5000 pytest tests/test_damage.py

tries as many; without it, a few.
"""

import json
import os
import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from samples import config
from tilewave import target
from tilewave.config import Config
from tilewave.errors import UserError
from tilewave.records import model
from tilewave.records.recorded import LOST, Recorded, folders, merge, merge_accesses

EXAMPLES = int(os.environ.get("TILEWAVE_EXAMPLES", 12))
many = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@st.composite
def damaged(draw, data, document=None):
    """Bytes that are not these: bits turned, cut, doubled, replaced, or the document in another form."""
    ways = ["flip", "cut", "double", "insert", "other", "json"]
    way = draw(st.sampled_from(ways if document is None else [*ways, "field", "field", "field"]))
    made = bytearray(data)
    place = draw(st.integers(0, max(0, len(data) - 1)))
    if way == "flip":
        for one in [place, *draw(st.lists(st.integers(0, len(data) - 1), max_size=3))]:
            made[one] ^= 1 << draw(st.integers(0, 7))
        return bytes(made)
    if way == "cut":
        return bytes(made[:place])
    if way == "double":
        return bytes(made[:place] + made[place // 2 :])
    if way == "insert":
        return bytes(made[:place]) + draw(st.binary(min_size=1)) + bytes(made[place:])
    if way == "other":
        return draw(st.binary())
    if way == "json":
        return json.dumps(draw(JSON)).encode()
    # With one field of another kind or none.
    name = draw(st.sampled_from(sorted(document)))
    changed = {one: value for one, value in document.items() if one != name}
    if draw(st.booleans()):
        changed[name] = draw(JSON)
    return json.dumps(changed).encode()


def put(path, data, draw):
    """The bytes, or what is no file at all, in a file's place."""
    what = draw(st.sampled_from(["bytes"] * 8 + ["missing", "folder", "loop"]))
    path.unlink()
    if what == "bytes":
        path.write_bytes(data)
    elif what == "folder":
        (path / "more").mkdir(parents=True)
    elif what == "loop":
        path.symlink_to(path.name)


MADE = model.result(
    "time", "a@64", model.OK, key="ab12", environment="here", source="events",
    figures=[{"metric": "duration", "value": 1.5, "unit": "us"}], samples={"duration_us": [1.0, 2.0]},
    notes={"limit_s": 3},
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def not_synced():
    """The disk need not have every example."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "nvidia_h200"
    gpu = {"gpu": "NVIDIA H200", "sms": 132, "compute_capability": "9.0", "commit": "abc"}
    row = {"address": 16, "opcode": "LDS", "wavefronts_shared": 8}
    results = [
        MADE,
        MADE | {"case": "b@64", "key": "k2", "stage": "counters", "samples": {}, "instructions": [row]},
        MADE | {"case": "b@64", "key": "k3", "stage": model.SAMPLE, "samples": {}, "instructions": [row]},
        MADE | {"case": "b@64", "key": "k4", "stage": model.EXECUTE, "samples": {}, "instructions": [row]},
    ]  # fmt: skip
    compiled = {"a.sm_90": {"key": "l1", "sha256": "0" * 64, "code": "c"}}
    merge(folder, results, {"here": gpu}, compiled, {"l1": ("sass", {"a.cu": [1]})})
    merge_accesses(folder, [{"case": "b@64", "key": "k4", "address": 16}])
    return folder


def everything(recorded):
    """All that a run may ask of a recording."""
    return {
        "results": recorded.results(),
        "one": recorded.get("time", "ab12"),
        "environment": recorded.main_environment,
        "environments": recorded.environments,
        "compiled": recorded.compiled,
        "listing": recorded.listing("l1"),
        "by cubin": recorded.listing_of_cubin("0" * 64),
        "accesses": recorded.accesses,
        "instructions": recorded.instructions({"k2", "k3"}),
        "samples": recorded.long_table("samples", {"ab12"}).to_pylist(),
    }


@pytest.mark.parametrize("signed", [True, False])
def test_a_damaged_recording_is_read_without_what_is_damaged(whole, tmp_path, signed):
    documents = {
        name: json.loads((whole / name).read_bytes()) for name in LOST if name.endswith(".json")
    }
    expected, here = everything(Recorded(whole)), {"id": "h", "gpu": None}
    settings_ = Config.model_validate(config(target="auto"))

    @many
    @given(st.data())
    def damage(data):
        folder = tmp_path / "root" / "nvidia_h200"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        if not signed:
            (folder / "SHA256SUMS").unlink()
        names = data.draw(
            st.sets(st.sampled_from(sorted(one.name for one in folder.iterdir())), min_size=1)
        )
        for name in sorted(names):
            path = folder / name
            put(path, data.draw(damaged(path.read_bytes(), documents.get(name))), data.draw)

        found = Recorded(folder)
        told = everything(found)
        assert len(found.told) == len(found.damage)
        if signed:
            for name, value in told.items():
                rest = value if isinstance(value, list) else [value]
                assert value == expected[name] or not any(rest) or "SHA256SUMS" in names or (
                    name in ("results", "instructions")), name  # fmt: skip
        aim = target.resolve(settings_, here, folder.parent, "test.yaml")
        assert (aim["recorded"] is None) == (not found.main_environment)
        assert aim["damaged"] == (found.told if folders(folder.parent) else [])
        try:
            merge(folder, [MADE], {"here": {"gpu": "NVIDIA H200"}}, {})
        except UserError:
            assert found.damage

    damage()
