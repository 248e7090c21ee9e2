"""The launches in anyone's report of Nsight Compute, read without a GPU."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.gpu.facts import ATTRIBUTES
from tilewave.gpu.ncu.instructions import instructions_of, places_of, start_of, value_of
from tilewave.gpu.ncu.report import load_report, scaled
from tilewave.gpu.ncu.samples import rules_of, samples_of
from tilewave.records.counters import catalogue
from tilewave.records.counters.catalogue import ELAPSED
from tilewave.records.counters.figures import derived
from tilewave.theory.occupancy import WARP

TIME, CLOCK = "gpu__time_duration.sum", "gpc__cycles_elapsed.max"


@dataclass(frozen=True)
class ProfiledLaunch:
    """A profiled launch.

    metrics: numbers by ncu's names, times in ns, and derived ones. device: facts of the GPU, as in an environment.
    rows: instructions with counters or samples, and file, line and text of their source, or else their SASS as text.
    rules: the findings of ncu's rules, as from `samples.rules_of`.
    """

    name: str
    metrics: Mapping[str, float]
    device: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    rules: Sequence[Mapping[str, Any]]


def _numbers(action: Any) -> dict[str, float]:
    read = {name: value_of(action, name) for name in action.metric_names()}
    values = {name: float(value) for name, value in read.items() if catalogue.usable(value)}
    if TIME in values:
        values[TIME] = scaled(TIME, values[TIME], action)
    # The section SpeedOfLight counts the cycles of the clusters of SMs, which share the SMs' clock.
    if CLOCK in values:
        values.setdefault(ELAPSED, values[CLOCK])
    return values | {figure["metric"]: figure["value"] for figure in derived(values)}


def _device(action: Any, values: Mapping[str, float]) -> dict[str, Any]:
    attribute = "device__attribute_{}".format
    names = {fact: attribute(name.lower()) for fact, name in ATTRIBUTES.items()}
    facts = {fact: int(values[name]) for fact, name in names.items() if name in values}
    if "max_threads_per_sm" in facts:
        facts["max_warps_per_sm"] = facts["max_threads_per_sm"] // WARP
    parts = [values.get(attribute(f"compute_capability_{part}")) for part in ("major", "minor")]
    gpu = str(value_of(action, attribute("display_name")) or "")
    capability = "" if None in parts else ".".join(f"{part:.0f}" for part in parts)
    return {**facts, "gpu": gpu, "compute_capability": capability}


def _rows(action: Any) -> Iterator[dict[str, Any]]:
    start = start_of(action)
    if start is None:
        return
    executed, rows = action.metric_by_name("inst_executed"), dict[int, dict[str, Any]]()
    for address, index in places_of(executed).items():
        if address >= start and catalogue.usable(count := executed.value(index)):
            offset = address - start
            rows[offset] = {"address": offset, "opcode": "", "executed": int(count)}
    for row in (*instructions_of(action), *(samples_of(action) or ())):
        rows.setdefault(row["address"], {"opcode": ""}).update(row)
    texts = {name: text.splitlines() for name, text in action.source_files().items()}
    for address, row in sorted(rows.items()):
        source = action.source_info(start + address)
        if source is None:
            sass = row.get("sass") or str(action.sass_by_pc(start + address) or "")
            yield row | {"file": "", "line": 0, "text": " ".join(sass.split())}
            continue
        file, line = source.file_name(), int(source.line())
        lines = texts.get(file, [])
        text = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        yield row | {"file": Path(file).name, "line": line, "text": text}


def of_report(path: Path, kernel: str = "") -> list[ProfiledLaunch]:
    """Return the launches of kernels whose name contains ``kernel``. A further launch of a kernel has its
    number behind the name. Raises UserError for a file that is no report."""
    try:
        report = load_report(path)
    except ImportError as error:
        remedy = "Install ncu-report, which is in tilewave[ncu]"
        raise UserError.because(str(path), f"reports cannot be read: {error}", remedy) from None
    except (OSError, RuntimeError) as error:
        problem = f"the report cannot be read: {error}"
        raise UserError.because(str(path), problem, "Write it again with `ncu -o`") from None
    launches: list[ProfiledLaunch] = []
    counted: dict[str, int] = {}
    for profiled in report:
        for action in map(profiled.__getitem__, range(profiled.num_actions())):
            name = str(action.name())
            counted[name] = counted.get(name, 0) + 1
            if kernel in name:
                number = f" ({counted[name]})" if counted[name] > 1 else ""
                values, rows = _numbers(action), list(_rows(action))
                facts, rules = _device(action, values), rules_of(action)
                launches.append(ProfiledLaunch(name + number, values, facts, rows, rules))
    if not launches:
        problem = f"the report has no kernel{kernel and f' with {kernel} in its name'}"
        remedy = f"It has {', '.join(counted) or 'nothing: profile with `ncu --set full -o FILE`'}"
        raise UserError.because(str(path), problem, remedy)
    return launches
