"""Subcommands of `tilewave`, a module each; `tilewave.__main__` lists them. ``add(commands)`` gives argparse
a parser, and sets ``run``: a function from the parsed options to the exit code."""

from tilewave.basics.garbage import collect_seldom

collect_seldom()  # here, before the commands and what they need are imported

SCHEMA_VERSION = 1
"""Version of the JSON documents of all commands."""
