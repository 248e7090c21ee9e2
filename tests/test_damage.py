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
from test_recorded import ENVIRONMENTS, counted, timed
from tilewave import target
from tilewave.config import Config
from tilewave.errors import UserError
from tilewave.records import model
from tilewave.records.recorded import Recorded, folders, merge, merge_accesses

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
def damaged(draw, data):
    """Bytes that are not these: bits turned, cut, doubled, or others."""
    way = draw(st.sampled_from(["flip", "cut", "double", "insert", "other", "json"]))
    place = draw(st.integers(0, max(0, len(data) - 1)))
    if way == "flip" and data:
        made = bytearray(data)
        made[place] ^= 1 << draw(st.integers(0, 7))
        return bytes(made)
    return {
        "cut": data[:place],
        "double": data[:place] + data[place // 2 :],
        "insert": data[:place] + draw(st.binary(min_size=1)) + data[place:],
        "json": json.dumps(draw(JSON)).encode(),
    }.get(way, draw(st.binary()))


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


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "nvidia_h200"
    row = counted("b@64", "k2", 8)
    more = [
        row | {"key": key, "stage": stage}
        for key, stage in (("k3", model.SAMPLE), ("k4", model.EXECUTE))
    ]
    compiled = {"a.sm_90": {"key": "l1", "sha256": "0" * 64, "code": "c"}}
    results = [timed("a@64", "ab12"), row, *more]
    merge(folder, results, ENVIRONMENTS, compiled, {"l1": ("sass", {"a.cu": [1]})})
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


def test_a_damaged_recording_is_read_without_what_is_damaged(whole, tmp_path):
    expected, here = everything(Recorded(whole)), {"id": "h", "gpu": None}
    settings_ = Config.model_validate(config(target="auto"))

    @many
    @given(st.data())
    def damage(data):
        folder = tmp_path / "root" / "nvidia_h200"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        names = data.draw(
            st.sets(st.sampled_from(sorted(one.name for one in folder.iterdir())), min_size=1)
        )
        for name in sorted(names):
            path = folder / name
            put(path, data.draw(damaged(path.read_bytes())), data.draw)

        found = Recorded(folder)
        told = everything(found)
        assert len(found.told) == len(found.damage)
        for name, value in told.items():
            rest = value if isinstance(value, list) else [value]
            assert value == expected[name] or not any(rest) or "SHA256SUMS" in names or (
                name in ("results", "instructions")), name  # fmt: skip
        aim = target.resolve(settings_, here, folder.parent, "test.yaml")
        assert (aim["recorded"] is None) == (not found.main_environment)
        assert aim["damaged"] == (found.told if folders(folder.parent) else [])
        try:
            merge(folder, [timed("a@64", "ab12")], ENVIRONMENTS, {})
        except UserError:
            assert found.damage

    damage()
