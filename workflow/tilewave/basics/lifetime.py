"""Processes that end with the process that started them."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable


def _ask_for_death() -> None:
    """Let Linux kill this process when the thread that forked it ends (PR_SET_PDEATHSIG)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)


def ends_with_parent(parent: int) -> Callable[[], None]:
    """Return a function to run between fork and exec: the child dies with this process (Linux)."""

    def before_exec() -> None:
        _ask_for_death()
        if os.getppid() != parent:
            os._exit(1)

    return before_exec


FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals that come from outside: a kill, or memory that ran out."""


def ended_by(code: int) -> str:
    """Return the name of the signal in an exit code, in Python's form or a shell's; else empty."""
    number = -code if code < 0 else code - 128
    if number <= 0:
        return ""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the process group of a child, with the children of a wrapper."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def die_with_parent(started_by_thread: bool = False) -> None:
    """End this process when the one that started it ends.

    Linux does it at once (prctl, PR_SET_PDEATHSIG), but counts the *thread* that forked as the
    parent. For a short-lived thread (a profiler's), `started_by_thread` checks the parent twice a
    second instead, as on every other system.
    """
    if started_by_thread or not sys.platform.startswith("linux"):
        parent = os.getppid()

        def watch() -> None:
            while os.getppid() == parent:
                time.sleep(0.5)
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()
        return
    _ask_for_death()
