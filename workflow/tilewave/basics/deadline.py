"""A time limit that pauses while the whole process is stopped."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

ASLEEP_S = 5.0
"""A longer time between two calls of `passed` means that the process was stopped, as a scheduler
suspends a job by SIGSTOP."""
TELLING = 0.25
"""Share of the time after which the pace predicts the rest ..."""
SURELY = 4.0
"""... if at that pace the job would take so many times the limit."""


@dataclass
class Deadline:
    """A time of `time.monotonic`, None without a limit. Call `passed` more often than every `ASLEEP_S`."""

    at: float | None = None
    over: bool = False
    """True once `passed` or `hopeless` was true."""
    _asleep: float = 0.0
    _looked: float = field(default_factory=lambda: time.monotonic())
    _begun: float = field(default_factory=lambda: time.monotonic())

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Make a deadline in so many seconds; 0 means no limit."""
        return cls(time.monotonic() + seconds if seconds else None)

    def passed(self) -> bool:
        """Return whether the time is over. Time in which the process was stopped does not count."""
        slept = self.slept()
        self.over |= self.at is not None and self._looked > self.at + slept
        return self.over

    def slept(self, least: float = ASLEEP_S) -> float:
        """Return the seconds until now that do not count: the pauses of more than ``least`` seconds."""
        now = time.monotonic()
        if now - self._looked > least:
            self._asleep += now - self._looked
        self._looked = now
        return self._asleep

    def skip(self) -> None:
        """Exclude the time since the last look."""
        self.slept(0.0)

    def hopeless(self, done: float) -> bool:
        """Return whether the time is over long before a job ends. done: the job's share at the last look."""
        if self.at is None:
            return False
        used = (self._looked - self._begun - self._asleep) / (self.at - self._begun)
        self.over |= used > TELLING and used > SURELY * done
        return self.over
