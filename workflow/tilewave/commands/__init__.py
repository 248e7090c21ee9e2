"""Subcommands of `tilewave`, a module each.

A module has ``add(commands)``, which gives its parser to argparse's subparsers and sets ``run`` to a
function from the parsed options to the exit code. `tilewave.__main__` lists them.
"""

from tilewave.basics.garbage import collect_seldom

collect_seldom()  # here, before the commands and what they need are imported

SCHEMA_VERSION = 1
"""Version of the JSON documents of all commands."""
