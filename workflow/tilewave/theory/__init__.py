"""Closed forms: what a launch should show before anything is measured. Pure, no I/O."""
