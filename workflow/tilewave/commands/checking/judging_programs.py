"""What a file's program (`programs`) says of its kernels: faults, and what main prints of their results."""

import contextlib
import re
import tempfile
import textwrap
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any

from tilewave.commands.checking.host_code import PATTERNS
from tilewave.commands.checking.programs import (
    ALL,
    LAST,
    TURNED,
    ProgramRun,
    ReachedLaunch,
    Row,
    Unsuited,
    executions,
)  # fmt: skip
from tilewave.execution.places import sentence
from tilewave.kernel import result

MOST_QUOTED = 70
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?\b")
SMALL = 1e-3
"""The largest difference that main may print of results that it accepts."""


class Programs:
    """What the programs of files say of their kernels. Each is executed once."""

    def __init__(self, options: Namespace, machine: Any, home: Path) -> None:
        self._options, self._machine, self._home = options, machine, home
        self._runs: dict[Path, list[ProgramRun]] = {}

    def runs(self, path: Path) -> list[ProgramRun]:
        """Return the executions of a file's program; none if it cannot be executed."""
        if path not in self._runs:
            home, runs = Path(tempfile.mkdtemp(dir=self._home)), list[ProgramRun]()
            with contextlib.suppress(Unsuited):
                for ran in executions(path, self._options, self._machine, home):
                    runs.append(ran)
                    if not (ran.smaller and any(ran.faults.values())):
                        break  # a fault with smaller constants must come at two choices of them
            self._runs[path] = runs
        return self._runs[path]

    def judged(self, document: Row, path: Path) -> Row:
        """Return the document of a kernel that is not decided, with what its file's program says of it."""
        name = document["kernel"]
        runs = [ran for ran in self.runs(path) if any(of.name == name for of in ran.launches)]
        if not runs:
            return document
        ran = runs[-1]
        launch = next(of for of in ran.launches if of.name == name)
        where = f"as launched in line {launch.line} of {launch.file}"
        smaller = f" (with smaller constants than the file's: {', '.join(ran.smaller)})"
        smaller = smaller if ran.smaller else ""
        places = [{(of["kind"], of["line"]) for of in ran.faults[name]} for ran in runs]
        faults = [
            of for of in ran.faults[name] if (of["kind"], of["line"]) in set.intersection(*places)
        ]
        if faults and ran.whole and (not ran.smaller or runs[1:]):
            text = f"{name} is not right, {where}: {sentence(faults[0])}{smaller}"
            more = {"findings": faults, "exit_code": result.NOT_RIGHT}
            return document | more | {"sentence": text}
        if any(places):
            return document
        if name in ran.without and ran.whole:
            text = f"{name} is right, {where}: it takes no array, and ends without a fault{smaller}"
            return document | {"sentence": text, "exit_code": result.RIGHT}
        accepts, every = _accepts(ran, name, ALL), _accepts(ran, name, LAST)
        turned = bool(accepts and every) and _accepts_turned(ran, launch)
        if accepts and every and not turned and (ran.whole or ran.filled):
            text = f"{name} is right, {where}: {every}{smaller}"
            return document | {"sentence": text, "exit_code": result.RIGHT}
        if (refused := _refused(ran, name)) and ran.whole and not ran.smaller:
            text = (
                f"{name} is not right, {where}: main prints {_quoted(refused)}, which depends on it"
            )
            return document | {"sentence": text, "exit_code": result.NOT_RIGHT}
        but = "and accepts them in another order, too" if turned else "but not in the last ones"
        also = f"; {accepts}, {but}" if accepts else ""
        printed = next(filter(_refuses, ran.said), "")
        also = f"; main prints {_quoted(printed)}" if printed and not accepts else also
        also = f"no race, uninitialised read or invalid access was found{also}{smaller}"
        return document | {"sentence": f"{document['sentence']}; {where}, {also}"}


def _accepts_turned(ran: ProgramRun, launch: ReachedLaunch) -> bool:
    """Return whether main accepts a kernel's results in another order, too."""
    with contextlib.suppress(Unsuited):
        return ran.spoilt(launch.name, TURNED) == ran.said
    return False


def _accepts(ran: ProgramRun, name: str, how: str) -> str:
    """Return how main accepts a kernel's results, and not such other ones; else empty."""
    try:
        other = ran.spoilt(name, how)
    except Unsuited:
        return ""
    here = [*(Counter(ran.said) - Counter(other)).elements()]
    there = [*(Counter(other) - Counter(ran.said)).elements()]
    good = [of for of in here if PATTERNS["passes"].search(of) or _is_small(of)]
    bad = [*filter(_refuses, there)]
    if any(map(_refuses, here)) or not (good or bad) or any(map(_is_small, there)):
        return ""
    prints = f"prints {_quoted(good[-1])}" if good else "ends"
    spoilt = "the last elements" if how == LAST else "its results"
    return f"main {prints}, and {_quoted((bad or there or ['nothing'])[0])} with other values in {spoilt}"


def _refused(ran: ProgramRun, name: str) -> str:
    """Return the first line in which main refuses a kernel's results, and no other's; else empty."""
    lines, names = [*filter(_refuses, ran.said)], {launch.name for launch in ran.launches}
    if PATTERNS["coarse"].search(name):  # its results differ by what it rounds
        lines = [line for line in lines if not PATTERNS["difference"].search(line)]
    with contextlib.suppress(Unsuited):
        for other in names if lines else ():
            spoilt = ran.spoilt(other, ALL)
            lines = [line for line in lines if (line in spoilt) == (other != name)]
        return next(iter(lines), "")
    return ""


def _refuses(line: str) -> bool:
    """Return whether a line says that results are wrong."""
    return bool(PATTERNS["fails"].search(PATTERNS["none"].sub("", line))) and not _is_small(line)


def _is_small(line: str) -> bool:
    """Return whether a line names differences, all small, or a result and what is expected, which are equal."""
    numbers = PATTERNS["difference"].findall(line)
    if not numbers and PATTERNS["compared"].search(line):
        pair = NUMBER.findall(line)
        return len(pair) == 2 and pair[0] == pair[1]
    return bool(numbers) and all(abs(float(of)) <= SMALL for of in numbers)


def _quoted(line: str) -> str:
    return repr(textwrap.shorten(line, MOST_QUOTED))
