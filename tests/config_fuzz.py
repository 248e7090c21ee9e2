"""Configs at random: from the schema, then mutated, as data and as text; and what must come of each.

    python tests/config_fuzz.py 10000 [SEED]

tries as many, prints the counts, and for each that broke the property what it was, as YAML.
"""

from __future__ import annotations

import collections
import copy
import datetime
import functools
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from samples import write_kernel
from tilewave import config_files, operations, plots, project
from tilewave.config import Config
from tilewave.errors import UserError
from tilewave.stages import work

WHERE = "fuzz.yaml"
LIMIT_S = 10
MOST_MEMORY = 2**30
KERNELS = ("first", "second")
WORDS = [
    "all", *KERNELS, "matmul_naive", "f32", "f64", "64", "64x65x7", "128 * sms", "each_dtype", "defaults",
    "product", "study", "matmul", "copy", "out", "a/b", "kernels", "ladder",
]  # fmt: skip
LOOP: list[Any] = []
LOOP.append({"a": LOOP})
WIDE: list[Any] = ["x", "y"]
for _ in range(40):
    WIDE = [WIDE, WIDE]
ODD: list[Any] = [
    None, True, False, -1, 0, 1, 0.5, 1e308, float("inf"), float("nan"), 2**31, 2**63, 10**30, 10**5000, "",
    " ", "a" * 300, "a" * 20_000, "a\nb", "a\0b", "\ud800", "9" * 5000, "1e400", "..", "../x", "/", "~", "~no/x",
    "/proc/self/x", "/dev/null", ".git", "{study}", "*", "$x$", "<b>", "a,b", "x" * 300 + "/y", "10**sms",
    "9**9**9**9", "sms - 511", "1e308 * 10 * sms", "1/0", "sms.__class__", "[1] * 10**9", "'%99999999d' % 1",
    "(lambda: 1)()", "(" * 150, "64x", "0x0x0", "x".join(["1"] * 60), "none", [], {}, [[]], [None], {"": 1},
    {None: 1}, {1: 2}, {"a": {"b": []}}, b"bytes", {1, 2}, datetime.date(2020, 1, 1), 1j, LOOP, WIDE,
    {"from": 1, "to": 10**9, "step": 1}, {"from": 1, "to": 10**30, "step": 1}, {"from": 3, "to": 1, "step": 1},
    {"m": {"from": 1, "to": 20_000, "step": 1}, "n": [1, 2], "k": 1}, {"m": 2**40, "n": 2**40, "k": 2**40},
    list(range(2000)), {str(n): n for n in range(2000)}, {"TILE": [16, 32] * 500},
]  # fmt: skip
BYTES = [b"\0", b"\xff", b"\xfe\xff", b"&a ", b"*a ", b"<<: ", b"!!int ", b"!!set ", b"? ", b"[" * 200, b"{",
         b"\t", b": ", b"---\n", b"...\n", b"%YAML 9\n", b"'", b"9" * 5000, b"\xc3\xa4", b"__use_yte__: true\n"]  # fmt: skip


def strategy(schema: dict[str, Any], models: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a JSON schema describes, of words that mean something here."""
    if "$ref" in schema:
        return strategy(models[schema["$ref"].rpartition("/")[2]], models)
    if "anyOf" in schema:
        return st.one_of(*(strategy(one, models) for one in schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    low, high = schema.get("minimum", 0), schema.get("maximum", schema.get("exclusiveMaximum", 100))
    if kind == "object" and "properties" in schema:
        fields = {key: strategy(one, models) for key, one in schema["properties"].items()}
        needed = {key: fields.pop(key) for key in schema.get("required", [])}
        return st.fixed_dictionaries(needed, optional=fields)
    if kind == "object":
        patterns = schema.get("patternProperties", {})
        inner = schema.get("additionalProperties") or next(iter(patterns.values()), {})
        inside = strategy(inner, models) if isinstance(inner, dict) else anything()
        names = ["study", "other"] if patterns else [*"abcmnk", "TILE", "REAL", "dram"]
        least = schema.get("minProperties", 0)
        return st.dictionaries(st.sampled_from(names), inside, min_size=least, max_size=2)
    if "prefixItems" in schema:
        return st.tuples(*(strategy(one, models) for one in schema["prefixItems"])).map(list)
    if kind == "array":
        return st.lists(
            strategy(schema["items"], models), min_size=schema.get("minItems", 0), max_size=3
        )
    if kind == "integer":
        return st.integers(low, high) | st.integers(low, min(high, low + 200))
    if kind == "number":
        return st.floats(low, high)
    if kind == "boolean":
        return st.booleans()
    if kind == "null":
        return st.none()
    return st.sampled_from(WORDS) if kind == "string" else anything()


def anything() -> st.SearchStrategy[Any]:
    plain = st.sampled_from([*WORDS, 16, 32, [16, 32], {"from": 8, "to": 64, "step": 8}])
    return plain | st.sampled_from(ODD)


def _plausible(made: dict[str, Any], pick: Callable[[list[Any]], Any]) -> dict[str, Any]:
    """The same with names that exist, so that more of it is looked at."""
    made["kernel_folders"] = ["kernels"]
    for key in ("target", "architectures", "operation_folders", "plot_folders", "parts", "only"):
        if key in made and pick([0, 1, 1, 1]):
            del made[key]
    if "output" in made:
        made["output"] = {"results": pick(["out/r", "r"]), "reports": pick(["out/p", "p"])}
    for study in made["studies"].values():
        study["plot"] = pick(sorted(PLOTS))
        study["options"] = {}
        for block in study["cases"]:
            block["kernels"] = pick(["all", ["first"], ["second"], list(KERNELS)])
            block["operation"] = "matmul"
            block["macros"] = pick(
                ["each_dtype", "product", "one_at_a_time", "defaults", {"TILE": [16, 32]}]
            )
            block["shapes"] = pick(
                [[64], ["64x65x7", "128 * sms"], [{"m": [1, 2], "n": 3, "k": 4}]]
            )
            for key in ("dtypes", "providers", "most", "without"):
                block.pop(key, None)
    return made


PLOTS = {
    name: plots.options_of(name)
    for name in ("ladder", "correctness", "split_k", "traffic", "latency")
}


def _places(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if above:
        yield above
    inside = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, one in list(inside):
        if len(above) < 8:
            yield from _places(one, (*above, key))


@functools.cache
def _of(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    schema = model.model_json_schema()
    return strategy(schema, schema.get("$defs", {}))


@st.composite
def configs(draw: Any) -> Any:
    """A config, or something like one: plain data, or the bytes of a file."""
    made: Any = copy.deepcopy(draw(_of(Config)))  # it is changed below, ODD is not

    def pick(some: list[Any]) -> Any:
        return copy.deepcopy(draw(st.sampled_from(some)))

    if draw(st.integers(0, 3)):
        made = _plausible(made, pick)
        for study in made["studies"].values():
            model = PLOTS[study["plot"]]
            if model is not None and model.model_fields:
                study["options"] = copy.deepcopy(draw(_of(model)))
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
        if not (places := list(_places(made))):
            break
        *above, last = pick(places)
        inside = made
        for key in above:
            inside = inside[key]
        how = draw(st.sampled_from(["odd", "odd", "odd", "gone", "named", "deeper"]))
        if how == "odd":
            inside[last] = pick(ODD)
        elif how == "gone":
            del inside[last]
        elif how == "named" and isinstance(inside, dict):
            inside[pick(["x", "", "a.b", "a\nb", 7, "\ud800", "y" * 300])] = inside.pop(last)
        else:
            inside[last] = [inside[last]]
    if draw(st.integers(0, 3)):
        return made
    text = bytearray(_text(made))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        text[at : at + draw(st.sampled_from([0, 0, 1, 5]))] = pick(BYTES)
    return bytes(text)


def _text(made: Any) -> bytes:
    try:
        return yaml.safe_dump(made, allow_unicode=True).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, ValueError, RecursionError, MemoryError):
        return b"studies: {}\n"


# ------------------------------------------------------------------------------------ the property


def prepare(folder: Path) -> None:
    """What the configs find where the run works: two small kernels and no recording, so that a plan takes no
    time."""
    (folder / "resources" / "recorded").mkdir(parents=True)
    for name in KERNELS:
        write_kernel(folder / "kernels", name)
    os.chdir(folder)


def outcome(one: Any, folder: Path) -> str:
    """What became of it: `plan`, or the kind of the refusal. Raises AssertionError where it is neither."""
    for modules in (operations.MODULES, plots.MODULES):
        modules.use([])
    before = {*os.listdir(folder), ".tilewave", WHERE}
    try:
        if isinstance(one, bytes):
            Path(WHERE).write_bytes(one)
            one = config_files.read(Path(WHERE), WHERE)
        made = project.load(one, WHERE)
        if len(made.plan.requests) < 50:
            work.find(made)  # what the Snakefile does next
        told = "plan"
    except UserError as error:
        message = str(error)
        assert "\n" not in message and "; allowed: " in message, message
        assert error.where_file.endswith((WHERE, ".cu")) and error.key, message
        assert len(message) < 100_000, "a long line"
        told = "refused"
    assert set(os.listdir(folder)) <= before, os.listdir(folder)
    return told


def _timed_out(*_: object) -> None:
    raise TimeoutError(f"more than {LIMIT_S} s")


def run(count: int, start: int) -> int:
    """Try as many; 0 where nothing was found."""
    counts: collections.Counter[str] = collections.Counter()
    found: dict[str, str] = {}
    slowest = 0.0
    signal.signal(signal.SIGALRM, _timed_out)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        prepare(folder)
        outcome({}, folder)  # with what is imported once
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MOST_MEMORY,) * 2)

        @seed(start)
        @settings(max_examples=count, database=None, deadline=None, phases=[Phase.generate],
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(configs())
        def each(one: Any) -> None:
            nonlocal slowest
            began = time.monotonic()
            signal.alarm(LIMIT_S)
            try:
                counts[outcome(one, folder)] += 1
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                counts["broken"] += 1
                last = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"
                if place not in found:
                    found[place] = f"{str(error)[:300]}\n{repr(one)[:3000]}"
            finally:
                signal.alarm(0)
                slowest = max(slowest, time.monotonic() - began)

        each()
        os.chdir("/")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({**counts, "slowest_s": round(slowest, 2), "peak_mb": peak, "seed": start}))
    for place, told in found.items():
        print(f"\n{place}: {told}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(
        run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.getrandbits(32))
    )
