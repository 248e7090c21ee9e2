"""Put the library and the command `tilewave` into this environment, where a checkout is used as it is.

Writes a .pth file into the environment's site-packages and a script into its bin. Both are relative, so a
checkout that was moved with its environment still works.
"""

import os
import sysconfig
from pathlib import Path

COMMAND = """#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/python" -m tilewave "$@"
"""


def link(site: Path, scripts: Path) -> None:
    """Write both files into these folders."""
    library = Path(__file__).resolve().parent.parent / "workflow"
    (site / "tilewave.pth").write_text(os.path.relpath(library, site) + "\n", encoding="utf-8")
    command = scripts / "tilewave"
    command.write_text(COMMAND, encoding="utf-8")
    command.chmod(0o755)


if __name__ == "__main__":
    paths = sysconfig.get_paths()
    link(Path(paths["purelib"]).resolve(), Path(paths["scripts"]).resolve())
