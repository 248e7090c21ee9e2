"""The smallest set of kernel files that keeps study *best* as fast as it is: every shape and dtype at 95 % of cuBLAS
or more, and as many of them at 100 % as are asked for. Reads the tables of a finished report.

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

from tilewave.theory import racing

PLACE = ["dtype", "m", "n", "k"]
BASELINE = "cublas"


def shares(tables: Path, study: str) -> pd.DataFrame:
    """Percent of cuBLAS's speed that each kernel file's fastest variant has: a row an entry, a column a file."""
    cases = pd.read_parquet(tables / "cases.parquet", columns=["case", "kernel", "studies", *PLACE])
    cases = cases[cases["studies"].map(lambda names: study in json.loads(names))]
    records = pd.read_parquet(tables / "records.parquet")
    records = records[(records["status"] == "ok") & (records["stage"] == "tune")]
    records = records[records["case"].isin(set(cases["case"]))].set_index("case")
    own = records.loc[records["metric"] == "tune_duration", "value"]
    behind = records[records["metric"] == "tune_behind"]
    leaders = dict(zip(behind.index, zip(behind["text"], behind["value"])))
    cases["us"] = cases["case"].map(racing.durations(own.to_dict(), leaders))
    fastest = cases.dropna(subset="us").groupby([*PLACE, "kernel"], sort=False)["us"].min()
    table = fastest.unstack("kernel")
    return table.rdiv(100 * table[BASELINE], axis=0).drop(columns=BASELINE)


def smallest(table: pd.DataFrame, least: float, at_least: int) -> list[str]:
    """The fewest files of which one has ``least`` percent at each entry, and at ``at_least`` entries 100 percent;
    of sets of that size the one with most entries at 100 percent."""
    enough = {name: frozenset(table.index[table[name] >= least]) for name in table}
    faster = {name: frozenset(table.index[table[name] >= 100]) for name in table}
    choices = {entry: [name for name in table if entry in enough[name]] for entry in table.index}
    if hopeless := [entry for entry, names in choices.items() if not names]:
        raise SystemExit(f"No file has {least:g} % at {hopeless[0]}")

    def covers(taken: tuple[str, ...], most: int) -> Iterator[tuple[str, ...]]:
        """Sets of at most so many files that are enough everywhere: one of each entry's choices is among them."""
        known = frozenset[Any]().union(*(enough[name] for name in taken))
        open_entries = [entry for entry in table.index if entry not in known]
        if not open_entries:
            yield taken
        elif len(taken) < most:
            for name in min((choices[entry] for entry in open_entries), key=len):
                yield from covers((*taken, name), most)

    def at_100(names: Iterable[str]) -> int:
        return len(frozenset[Any]().union(*(faster[name] for name in names)))

    for most in range(1, len(enough) + 1):
        sets = {tuple(sorted(one)) for one in covers((), most)}
        filled = {
            (*one, *more)
            for one in sets
            for more in combinations([name for name in table if name not in one], most - len(one))
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
    asked = parser.parse_args()
    table = shares(asked.tables, asked.study)
    wanted = asked.at_least if asked.at_least is not None else -(-3 * len(table) // 4)
    names = smallest(table, asked.least, wanted)
    for kept, what in ((table, "all files"), (table[names], "the smallest set")):
        best = kept.max(axis=1)
        print(
            f"{kept.shape[1]:3} files, {what}: {(best >= asked.least).sum()} of {len(best)} entries at "
            f"{asked.least:g} % or more, {(best >= 100).sum()} at 100 %, the least {best.min():.1f} %"
        )
    print(*names, sep="\n")


if __name__ == "__main__":
    main()
