"""Two runs side by side: what is faster, what is slower, and what of the counts has changed.

`sides` finds what is compared, `changes` compares two tables (pure), `telling` says it.
"""
