"""The smallest set of kernel files that keeps study *best* fast: every shape and dtype at 95 % of cuBLAS or more,
and a wanted number of them at 100 %. Reads the tables of a finished report.

    python tools/smallest_set.py                  # at least three quarters at 100 %
    python tools/smallest_set.py --at-least 75    # entries at 100 %
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave.theory import tuning_run

PLACE = ["dtype", "m", "n", "k"]
BASELINE = "cublas"


def shares(tables: Path, study: str) -> pd.DataFrame:
    """Return each kernel file's best share of cuBLAS's speed in percent: one row per entry, one column per file."""
    cases = pd.read_parquet(tables / "cases.parquet", columns=["case", "kernel", "studies", *PLACE])
    cases = cases[cases["studies"].map(lambda names: study in json.loads(names))]
    records = pd.read_parquet(tables / "records.parquet")
    records = records[(records["status"] == "ok") & (records["stage"] == "tune")]
    records = records[records["case"].isin(set(cases["case"]))].set_index("case")
    durations = records.loc[records["metric"] == "tune_duration", "value"]
    behind = records[records["metric"] == "tune_behind"]
    leaders = dict(zip(behind.index, zip(behind["text"], behind["value"])))
    cases["us"] = cases["case"].map(tuning_run.durations(durations.to_dict(), leaders))
    fastest = cases.dropna(subset="us").groupby([*PLACE, "kernel"], sort=False)["us"].min()
    table = fastest.unstack("kernel")
    return table.rdiv(100 * table[BASELINE], axis=0).drop(columns=BASELINE)


def smallest(table: pd.DataFrame, least: float, at_least: int) -> list[str]:
    """Return the fewest files of which one has ``least`` percent at each entry, and 100 percent at ``at_least``.

    Of sets of that size it is the one with most entries at 100 percent."""
    enough = {name: frozenset(table.index[table[name] >= least]) for name in table}
    faster = {name: frozenset(table.index[table[name] >= 100]) for name in table}
    choices = {entry: [name for name in table if entry in enough[name]] for entry in table.index}
    if hopeless := [entry for entry, names in choices.items() if not names]:
        raise SystemExit(f"No file has {least:g} % at {hopeless[0]}")

    def covers(taken: tuple[str, ...], most: int) -> Iterator[tuple[str, ...]]:
        """Yield sets of at most ``most`` files with one of each entry's choices."""
        covered = frozenset[Any]().union(*(enough[name] for name in taken))
        open_entries = [entry for entry in table.index if entry not in covered]
        if not open_entries:
            yield taken
        elif len(taken) < most:
            for name in min((choices[entry] for entry in open_entries), key=len):
                yield from covers((*taken, name), most)

    def at_100(names: Iterable[str]) -> int:
        return len(frozenset[Any]().union(*(faster[name] for name in names)))

    for most in range(1, len(enough) + 1):
        sets = {tuple(sorted(names)) for names in covers((), most)}
        filled = {
            (*names, *more)
            for names in sets
            for more in combinations(
                [name for name in table if name not in names], most - len(names)
            )
        }
        best = max(sorted(filled), key=at_100, default=())
        if best and at_100(best) >= at_least:
            return sorted(best)
    raise SystemExit(f"{at_100(table)} entries have 100 %; {at_least} were asked for")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, default=Path("results/tables"))
    parser.add_argument("--study", default="best")
    parser.add_argument("--least", type=float, default=95.0, help="percent of cuBLAS, everywhere")
    parser.add_argument("--at-least", type=int, help="entries at 100 %%; default: three quarters")
    arguments = parser.parse_args()
    table = shares(arguments.tables, arguments.study)
    wanted = arguments.at_least if arguments.at_least is not None else -(-3 * len(table) // 4)
    names = smallest(table, arguments.least, wanted)
    for kept, title in ((table, "all files"), (table[names], "the smallest set")):
        best = kept.max(axis=1)
        print(
            f"{kept.shape[1]:3} files, {title}: {(best >= arguments.least).sum()} of {len(best)} entries at "
            f"{arguments.least:g} % or more, {(best >= 100).sum()} at 100 %, the least {best.min():.1f} %"
        )
    print(*names, sep="\n")


if __name__ == "__main__":
    main()
