"""Tilewave: compile, check, time and profile CUDA kernel variants, and compare them in figures.

Data flows one way: kernel files -> variants -> cubins -> results -> tables -> figures -> page.
"""

__version__ = "0.1.0"
