"""Comparison of two runs: times, counts, verdicts and code.

`sides` reads or runs each side, `changes` compares their tables (pure), `output` formats the comparison.
"""
