"""The end of a run: its verdict is printed, and a strict run fails on it. Without pandas, which loads slowly."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MOST = 20
"""The most cases that are listed when a strict run fails."""


def announce(judged: Mapping[str, Any], figures_path: str | Path) -> str:
    """Return a run's summary and verdict, and print them with the problems to stderr.

    Unsupported and other unmeasured cases never fail a run. judged: `verdict.Verdict.document` and the config's
    ``strict``. figures_path: the file that marks the figures as drawn; deleted where one was not, so that the next run
    draws it. Raises SystemExit with code 1 where a figure was not drawn, a kernel file not read or a case interrupted;
    with `strict`, also where a case is wrong or failed; with `strict: release`, also where a recorded value is stale.
    """
    undrawn, unread, problems = judged["undrawn"], judged["unread"], judged["problems"]
    strict = judged["strict"]
    lines = [judged["counts"].rstrip("\n")]
    if undrawn:
        Path(figures_path).unlink(missing_ok=True)
        lines.append("Error: these figures were not drawn. The next run draws them again:")
        lines += [f"  {name}: {why}" for name, why in undrawn.items()]
    if unread:
        lines.append("Error: these kernel files were skipped. Correct them or remove them:")
        lines += [f"  {why}" for why in unread.values()]
    if strict and problems:
        how = str(strict).lower()
        lines.append(f"Error: strict is {how}, and these cases are wrong or failed:")
        lines += [f"  {line}" for line in problems[:MOST]]
        if len(problems) > MOST:
            lines.append(f"  and {len(problems) - MOST} more; the report lists all of them")
    print("\n".join([*lines, judged["sentence"]]), file=sys.stderr, flush=True)
    if undrawn or unread or judged["interrupted"] or (strict and problems):
        raise SystemExit(1)
    return f"{judged['counts']}{judged['sentence']}\n"
