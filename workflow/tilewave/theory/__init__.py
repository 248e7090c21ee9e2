"""Closed forms that predict a launch before it is measured. Pure, no I/O."""
