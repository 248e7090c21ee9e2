"""Processes that run a list of jobs and report each result at once, and the code that starts them."""
