"""A kernel: its file, variants, launch, job, operation and result."""
