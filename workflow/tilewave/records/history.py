"""Recorded figures over time: what each commit that changed a folder of recordings says of some cases."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewave.records import model
from tilewave.records.recorded import Recorded, folders

if TYPE_CHECKING:
    import pandas as pd

TIMES = "samples.parquet"
FILES = ("environments.json", "compiled.json", "results.parquet", TIMES)
"""What of a recording is read."""
FACTS = ("gpu", "uuid", "driver", "cuda", "nvrtc", "cublas")
COLUMNS = [
    "place", "recording", "date", "case", "key", "code", *FACTS, "sm_mhz", "held_back", "index", "duration_us",
    "baseline_us",
]  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """A folder of recorded figures as a commit has it; without a commit as it is now."""

    folder: Path
    commit: str = ""
    date: str = ""

    @property
    def name(self) -> str:
        return self.commit[:7] or self.folder.name


def _git(folder: Path, *words: str) -> bytes:
    """What git says in a folder, nothing where it fails: no checkout, or no git at all."""
    try:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return b""


def recordings(named: Iterable[Path]) -> list[Recording]:
    """Recordings of these folders, or of the folders of recordings in them, oldest first: one for each
    commit that changed the times, and one of the files as they are where no commit has them."""
    found: list[tuple[float, Recording]] = []
    for path in named:
        for folder in [path] if (path / "environments.json").is_file() else folders(path):
            log = (
                _git(folder, "log", "--reverse", "--format=%ct %H %cs", "--", TIMES)
                .decode()
                .splitlines()
            )
            for line in log:
                seconds, commit, date = line.split()
                found.append((float(seconds), Recording(folder, commit, date)))
            if not log or _git(folder, "status", "--porcelain", "--", TIMES):
                found.append((float("inf"), Recording(folder)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def digest(named: Iterable[Path]) -> str:
    """Digest of what `table` reads."""
    made = hashlib.sha256()
    for one in recordings(named):
        made.update(f"{one.folder}\0{one.commit}\0".encode())
        if not one.commit:
            made.update((one.folder / TIMES).read_bytes())
    return made.hexdigest()[:16]


def _read(one: Recording, work: Path) -> Recorded:
    """A recording, its files written below ``work`` where they are a commit's."""
    if not one.commit:
        return Recorded(one.folder)
    folder = work / one.commit / one.folder.name
    folder.mkdir(parents=True)
    for name in FILES:
        if content := _git(one.folder, "show", f"{one.commit}:./{name}"):
            (folder / name).write_bytes(content)
    return Recorded(folder)


def _rows(held: Recorded, cases: Collection[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each of the cases that was timed, and its samples with what is known of them."""
    import pandas as pd

    timed = {
        made["case"]: made
        for made in held.results()
        if made["case"] in cases and made["stage"] == "time" and made["status"] == model.OK
    }
    keys = {made["key"] for made in timed.values()}
    long = held.long_table("samples", keys).to_pandas()
    codes = {name.rpartition(".")[0]: one.get("code", "") for name, one in held.compiled.items()}
    for case, made in timed.items():
        series = long[long["key"] == made["key"]].pivot(
            index="index", columns="series", values="value"
        )
        facts = held.environments.get(made["environment"], {})
        told: dict[str, Any] = {name: facts.get(name) or "" for name in FACTS}
        clocks = (one["value"] for one in made["figures"] if one["metric"] == "sm_clock")
        told |= {
            "sm_mhz": next(clocks, float("nan")),
            "held_back": made["notes"].get("throttle", ""),
        }
        yield case, pd.DataFrame({
            "case": case, "key": made["key"], "code": codes.get(case.partition("@")[0], ""),
            **told, "gpu": told["gpu"] or facts.get("cpu", ""), "index": series.index,
            **{name: series.get(name, float("nan")) for name in ("duration_us", "baseline_us")},
        })  # fmt: skip


def table(named: Iterable[Path], cases: Collection[str]) -> pd.DataFrame:
    """A row a sample: the recording by its place in time, name and date (empty where no commit has it), case,
    key, digest of the machine code, facts of the environment, the SMs' clock under the last block (MHz) and
    what held the clocks back, durations of the case and of the baseline (us). A measurement that a later recording only repeats is listed once, in the first that has it."""
    import pandas as pd  # not where the workflow asks for `digest`: it takes long to load

    made: list[pd.DataFrame] = []
    last: dict[tuple[str, str], Any] = {}
    with tempfile.TemporaryDirectory(prefix="tilewave-") as work:
        for place, one in enumerate(recordings(named)):
            for case, rows in _rows(_read(one, Path(work)), cases):
                told = rows["duration_us"].tolist()
                if last.get((case, str(one.folder))) == told:
                    continue
                last[case, str(one.folder)] = told
                made.append(rows.assign(place=place, recording=one.name, date=one.date))
    return pd.concat(made, ignore_index=True)[COLUMNS] if made else pd.DataFrame(columns=COLUMNS)
