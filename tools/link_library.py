"""Make `python -m tilewave` work with this environment's Python in every folder.

Writes a .pth file into the environment's site-packages. Its path is relative to that folder, so a
checkout that was moved with its environment still works.
"""

import os
import sysconfig
from pathlib import Path


def main() -> None:
    site = Path(sysconfig.get_paths()["purelib"]).resolve()
    library = Path(__file__).resolve().parent.parent / "workflow"
    (site / "tilewave.pth").write_text(os.path.relpath(library, site) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
