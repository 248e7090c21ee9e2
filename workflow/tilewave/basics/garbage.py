"""The garbage collector, set for many objects and few cycles."""

import atexit
import gc


def collect_seldom() -> None:
    """Look for cycles of unused objects less often, and not when the process ends: few objects have any. With
    Python's defaults the search took an eighth of the time of a figure, and 0.2 s at the end of a process."""
    gc.set_threshold(100_000, 50, 100)
    gc.freeze()
    atexit.register(gc.freeze)
