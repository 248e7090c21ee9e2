"""Tilewave: compile, check, time and profile CUDA kernel variants, and compare them in figures.
Data flows one way: kernel files -> variants -> cubins -> results -> tables -> figures -> page."""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    del sys.path[0]  # the working folder may hold a `numpy.py` from elsewhere

__version__ = "1.0.0"
