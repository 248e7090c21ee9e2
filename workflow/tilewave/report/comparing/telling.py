"""A comparison for a terminal, as Markdown and as JSON; and whether it fails a run."""

import re
from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from tilewave.basics.columns import columns, count
from tilewave.basics.errors import HERE, UserError
from tilewave.kernel import result
from tilewave.records.counters.catalogue import EXCESS
from tilewave.report.cells import cell
from tilewave.report.comparing.changes import Comparison
from tilewave.theory import ratios

RULES = {
    "wrong": "a case that was right is not any more, or a kernel has a mistake now",
    "slower": "a case is slower, by so many percent at least: slower:3%",
    "excess": "shared-memory wavefronts beyond the ideal have grown",
    "registers": "a kernel takes more registers",
    "spills": "a kernel spills more",
}
SHOWN = 40
FIRST = (ratios.SLOWER, ratios.FASTER, ratios.AMBIGUOUS, ratios.NOT_COMPARABLE, ratios.SAME)
"""Verdicts in the order in which a reader wants them."""
_RULE = re.compile(r"(?P<name>[a-z]+)(?::(?P<percent>\d+(?:\.\d+)?)%?)?")
_SLOWER_ONLY = "a percentage behind slower only"


# ----------------------------------------------------------------------------------------- fails a run


def rules(text: str) -> dict[str, float]:
    """``slower:3%,excess`` as rule -> percent. Raises UserError for anything else."""
    found = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        match = _RULE.fullmatch(part)
        if match is None or match["name"] not in RULES:
            raise UserError(HERE, "--fail-on", part, sorted(RULES))
        if match["percent"] and match["name"] != "slower":
            raise UserError(HERE, "--fail-on", part, _SLOWER_ONLY)
        found[match["name"]] = float(match["percent"] or 0)
    return found


def failures(made: Comparison, wanted: dict[str, float]) -> list[str]:
    """What of the comparison breaks the rules, a line each."""

    def grown(name: str) -> list[str]:
        rows = made.counts[
            (made.counts["count"] == name) & (made.counts["after"] > made.counts["before"])
        ]
        return [f"{row.case}: {named(name)} {count(row.before)} to {count(row.after)}"
                for row in rows.itertuples()]  # fmt: skip

    def wrong() -> list[str]:
        rows = made.verdicts[(made.verdicts["before"] == result.CORRECT)]
        told = [f"{row.case}: {row.before}, now {row.after}" for row in rows.itertuples()]
        return [*told, *(f"left out: {why}" for why in made.spoilt)]

    def slower() -> list[str]:
        rows = made.times[made.times["verdict"] == ratios.SLOWER]
        rows = rows[rows["ratio"] >= 1 + wanted["slower"] / 100]
        return [f"{row.case}: {percent(row.ratio)}" for row in rows.itertuples()]

    tried: dict[str, Callable[[], list[str]]] = {
        "wrong": wrong, "slower": slower, "excess": lambda: grown(EXCESS),
        "registers": lambda: grown("registers"), "spills": lambda: grown("spill_bytes"),
    }  # fmt: skip
    return [line for name in wanted for line in tried[name]()]


# ----------------------------------------------------------------------------------------------- words


def percent(ratio: float) -> str:
    """A ratio of times in words."""
    return f"{abs(ratio - 1) * 100:.1f} % {'slower' if ratio > 1 else 'faster'}"


def named(count: str) -> str:
    """A count's name in words."""
    return count.replace("_", " ")


def amount(value: float) -> str:
    """A count, a whole number but for percentages."""
    return count(value) if value == int(value) else f"{value:.1f}"


# ---------------------------------------------------------------------------------------------- tables


def times(made: Comparison) -> pd.DataFrame:
    """The times as a reader sees them: by verdict, the largest change first."""
    place = {word: at for at, word in enumerate(FIRST)}
    rows = made.times.assign(far=-(made.times["ratio"].astype(float) - 1).abs())
    rows = rows.sort_values(
        ["verdict", "far"], key=lambda one: one.map(place) if one.name == "verdict" else one
    )
    change, low, high = (
        (100 * (rows[name].astype(float) - 1)).round(2) for name in ("ratio", "low", "high")
    )
    told = pd.DataFrame({
        "case": rows["case"], "before (us)": rows["before_us"], "after (us)": rows["after_us"],
        "change (%)": change, "from (%)": low, "to (%)": high,
        "judged": rows["verdict"], "why": rows["why"],
    })  # fmt: skip
    return told if told["why"].any() else told.drop(columns="why")


def counts(rows: pd.DataFrame) -> pd.DataFrame:
    """Counts as a reader sees them, with their change; from 0 there is none in percent."""
    change = 100 * (rows["after"] / rows["before"].where(rows["before"] != 0) - 1)
    return pd.DataFrame({
        "case": rows["case"], "count": rows["count"].map(named), "before": rows["before"],
        "after": rows["after"], "change (%)": change.astype(float),
    })  # fmt: skip


def _parts(made: Comparison) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, head and rows of each table that has any."""
    apart = replace(made, times=made.times[made.times["verdict"] != ratios.SAME])
    lines = made.lines.rename(columns={"before": "excess before", "after": "excess after"})
    told = {
        "Results that are judged otherwise": made.verdicts,
        "Times": times(apart),
        "Counts and resources that differ": counts(made.counts),
        "Lines whose excess wavefronts differ": lines,
    }
    return [
        (title, list(table), [[cell(one) for one in row] for row in table.itertuples(index=False)])
        for title, table in told.items()
        if len(table)
    ]


def timed(made: Comparison) -> str:
    """How many cases are faster, the same, slower, ..."""
    said = made.times["verdict"].value_counts()
    told = [f"{said[name]} {name}" for name in ratios.VERDICTS if name in said]
    return ", ".join(told) or "nothing timed on both"


def counted(made: Comparison) -> str:
    """In how many cases counts differ."""
    cases = made.counts["case"].nunique()
    return f"counts differ in {cases}" if cases else "no count differs"


def headline(made: Comparison) -> str:
    """The comparison in a sentence."""
    sides = f"{made.before.label} to {made.after.label}"
    return f"{sides}: {made.compared} cases in both; {timed(made)}; {counted(made)}"


def alone(made: Comparison) -> list[str]:
    """The kernels that one side alone has, and the files that were left out."""
    told = (("only before", made.gone), ("only now", made.new))
    named = [f"{word}: {', '.join(names)}" for word, names in told if names]
    return [*named, *(f"left out: {why}" for why in made.left_out)]


def text(made: Comparison) -> str:
    """For a terminal."""
    out = [headline(made), *(f"  {line}" for line in alone(made))]
    for title, head, rows in _parts(made):
        out += ["", title, *columns(head, rows[:SHOWN], text_columns=len(head))]
        if len(rows) > SHOWN:
            out.append(f"  and {len(rows) - SHOWN} more (--json has all)")
    return "\n".join(out) + "\n"


def markdown(made: Comparison) -> str:
    """For a step summary or a pull request."""

    def row(cells: list[str]) -> str:
        return "| " + " | ".join(one.replace("|", "\\|") for one in cells) + " |"

    out = [f"**{headline(made)}**", "", *alone(made)]
    for title, head, rows in _parts(made):
        out += ["", f"### {title}", "", row(head), row(["---"] * len(head))]
        out += map(row, rows[:SHOWN])
        if len(rows) > SHOWN:
            out += ["", f"and {len(rows) - SHOWN} more"]
    return "\n".join(out) + "\n"
