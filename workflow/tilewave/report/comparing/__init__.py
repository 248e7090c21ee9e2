"""Comparison of two versions of kernels: times, counts, verdicts and code.
`sides` runs each side, `changes` compares their tables (pure), `output` formats the comparison."""
