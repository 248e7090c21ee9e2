"""Sessions of Nsight Compute: counting, sampling, and reading of reports."""
