"""The end of a run: its verdict is printed, and a strict run fails on it. Without pandas, which loads slowly."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewave.basics.columns import filled

MOST = 20
"""The most cases that are listed when a strict run fails."""


def announce(judged: Mapping[str, Any], figures_path: str | Path) -> str:
    """Return a run's summary and verdict, and print them with the problems to stderr.

    Unsupported and other unmeasured cases never fail a run. judged: `verdict.Verdict.document` and the config's
    ``strict``. figures_path: the file that marks the figures as drawn; deleted where one was not, so that the next run
    draws it. Raises SystemExit with code 1 where a figure was not drawn, a kernel file not read or a case interrupted;
    with `strict`, also where a case is wrong or failed; with `strict: release`, also where a recorded value is stale.
    """
    if judged["undrawn"]:
        Path(figures_path).unlink(missing_ok=True)
    print(filled(__file__, "ending", judged=judged, most=MOST), file=sys.stderr, flush=True)
    unaccepted = judged["strict"] and judged["problems"]
    if judged["undrawn"] or judged["unread"] or judged["interrupted"] or unaccepted:
        raise SystemExit(1)
    return f"{judged['counts']}{judged['sentence']}\n"
