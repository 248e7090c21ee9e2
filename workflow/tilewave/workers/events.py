"""The event file of a worker: one JSON object a line, appended and flushed.

{"event": "waiting"}                           another process holds the GPU
{"event": "ready", "gpu": uuid or null}        the GPU is locked, the helper kernels are loaded
{"event": "started", "index": i, "case": id}
{"event": "finished", "index": i, "case": id, "result": {...}}
{"event": "failed", "status": ..., "reason": ...}   no job can run (no GPU, ...)
"""

import json
import os
from pathlib import Path
from typing import Any

UNREPORTED = 88
"""Exit code of a worker that cannot write its event file."""


class Events:
    """The event file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def send(self, event: str, **more: Any) -> None:
        """Append an event. End the process if that fails, because its results would be lost."""
        try:
            self._file.write(json.dumps({"event": event, **more}) + "\n")
            self._file.flush()
        except OSError:
            os._exit(UNREPORTED)  # a normal exit would try to write the file again
