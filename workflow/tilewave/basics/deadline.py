"""A limit by the clock that does not run on while the whole process is stopped."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

ASLEEP_S = 5.0
"""Between two looks at a deadline lies less, unless the process was stopped: by SIGSTOP, as a scheduler
suspends a job."""
TELLING = 0.25
"""Share of the time after which the pace until then tells of the rest ..."""
SURELY = 4.0
"""... where at that pace it would take so many times the time that there is."""


@dataclass
class Deadline:
    """A time on the clock `time.monotonic`, None where there is no limit; `passed` has to be asked often."""

    at: float | None = None
    over: bool = False
    """Whether `passed` or `hopeless` was true."""
    _asleep: float = 0.0
    _looked: float = field(default_factory=time.monotonic)
    _begun: float = field(default_factory=time.monotonic)

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """One in so many seconds; none where they are 0."""
        return cls(time.monotonic() + seconds if seconds else None)

    def passed(self) -> bool:
        """Whether it is over; the time in which nobody could ask is added to it."""
        slept = self.slept()
        self.over |= self.at is not None and self._looked > self.at + slept
        return self.over

    def slept(self) -> float:
        """Seconds that did not count, until now."""
        now = time.monotonic()
        if now - self._looked > ASLEEP_S:
            self._asleep += now - self._looked
        self._looked = now
        return self._asleep

    def skip(self) -> None:
        """What passed since the last look does not count."""
        now = time.monotonic()
        self._asleep += now - self._looked
        self._looked = now

    def hopeless(self, done: float) -> bool:
        """Whether it will pass long before all is done, of which ``done`` is the share until the last look."""
        if self.at is None:
            return False
        used = (self._looked - self._begun - self._asleep) / (self.at - self._begun)
        self.over |= used > TELLING and used > SURELY * done
        return self.over
