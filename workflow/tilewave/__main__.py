"""``python -m tilewave``: see `tilewave.command`."""

import sys

from tilewave.garbage import collect_seldom

if __name__ == "__main__":
    collect_seldom()

    from tilewave.command import main

    sys.exit(main())
