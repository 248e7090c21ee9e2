"""``python -m tilewave``: see `tilewave.command`."""

import sys

from tilewave.command import main

if __name__ == "__main__":
    sys.exit(main())
