"""The file in which a worker says what it does: one JSON object a line, appended and flushed.

{"event": "waiting"}                           another process holds what it needs
{"event": "ready", "gpu": uuid or null}        all is there (the GPU's lock, helper kernels)
{"event": "started", "index": i, "case": id}
{"event": "finished", "index": i, "case": id, "result": {...}}
{"event": "failed", "status": ..., "reason": ...}   no job can run (no GPU, ...)
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

UNREPORTED = 88
"""Exit code of a worker that cannot write to it."""


class Events:
    """The event file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def send(self, event: str, **more: Any) -> None:
        """Append an event; where that cannot be, the process ends: nobody would learn of what it does."""
        try:
            self._file.write(json.dumps({"event": event, **more}) + "\n")
            self._file.flush()
        except OSError:
            os._exit(UNREPORTED)  # closing the file would write, too
