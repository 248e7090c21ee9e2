"""Lines of a long job at the terminal: what it does, how far it is, and how long it will take. They go to
standard error, one at most every `TERMINAL_S` or `LOG_S`. The stage prints the end, with its counts."""

import contextlib
import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from tilewave.basics.errors import printable

TERMINAL_S, LOG_S = 3.0, 30.0
"""Seconds between lines at a terminal, and in a file or a CI job."""
PATIENCE_S = 5.0
"""Seconds after which a step that was expected to be short says that it goes on."""
NAMED = 3
"""Number of studies that a line names."""


def say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)


@contextlib.contextmanager
def patience(text: str) -> Iterator[None]:
    """Print a line when a step has taken `PATIENCE_S`, and whenever it has taken twice as long."""
    done, start = threading.Event(), time.monotonic()

    def repeat() -> None:
        while not done.wait(max(PATIENCE_S, time.monotonic() - start)):
            say(f"{text} ({duration(time.monotonic() - start)})")

    threading.Thread(target=repeat, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def duration(seconds: float) -> str:
    """Return a duration as text: ``4 s``, ``71 s``, ``12 min``, ``1.5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def about(seconds: float) -> str:
    """Return an estimate in round numbers: ``4 s``, ``70 s``, ``12 min``."""
    return duration(round(seconds, -1) if 10 <= seconds < 120 else max(seconds, 1))


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")


class Progress:
    """A job on its way through its items. what: its name (``execute``). unit: the items' name (``cases``).
    studies: of each item, by its name. weights: cost of each item relative to the others; default 1."""

    def __init__(
        self,
        what: str,
        unit: str,
        studies: Mapping[str, Sequence[str]],
        weights: Mapping[str, float] | None = None,
        *,
        tell: Callable[[str], object] = say,
        every_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._unit, self._studies = what, unit, studies
        self._weights = weights or dict.fromkeys(studies, 1.0)
        self._tell, self._clock = tell, clock
        self._every = every_s or (TERMINAL_S if sys.stderr.isatty() else LOG_S)
        self._begun = self._last_line = clock()
        self._done: dict[str, None] = {}
        self._first: tuple[float, float] | None = None  # when the first item was done, its weight
        if studies:
            tell(f"  {what}: {len(studies)} {unit}{self._whose()}")

    def _whose(self) -> str:
        """Return the studies that the items are for, each with its number of items."""
        counts = Counter(itertools.chain.from_iterable(self._studies.values()))
        listed = _listed([f"{name} ({count})" for name, count in counts.most_common()])
        return f" for {listed}" if listed else ""

    def done(self, name: str) -> None:
        """Count an item that ended. A name that is not among the items does not count."""
        if name not in self._studies or name in self._done:
            return
        self._done[name] = None
        now = self._clock()
        if self._first is None:
            self._first = now, self._weights[name]
        if len(self._done) == len(self._studies) or now - self._last_line < self._every:
            return
        self._last_line = now
        far = f"{len(self._done)} of {len(self._studies)} {self._unit}"
        studies = self._studies[name]
        whose = f" ({_listed(studies)})" if studies else ""
        spent = f"{duration(now - self._begun)} so far{self._remaining(now)}"
        self._tell(f"  {self._what}: {far}, {spent}: {name}{whose}")

    def _remaining(self, now: float) -> str:
        """Return the time that remains, at the pace since the first item: before it, processes start."""
        assert self._first is not None
        since, weight = self._first
        done = sum(self._weights[name] for name in self._done) - weight
        if done <= 0 or now <= since:
            return ""
        remaining = sum(weight for name, weight in self._weights.items() if name not in self._done)
        return f", about {about((now - since) * remaining / done)} left"

    @property
    def spent(self) -> str:
        return duration(self._clock() - self._begun)
