"""How often a process looks for cycles of objects that nobody needs."""

import atexit
import gc


def collect_seldom() -> None:
    """Of tables, figures and decoded programs there are many objects and few cycles.

    As often as Python looks for cycles by itself it took an eighth of the time of a figure, and when a process
    ends, where all its memory is given back anyway, 0.2 s more.
    """
    gc.set_threshold(100_000, 50, 100)
    gc.freeze()
    atexit.register(gc.freeze)
