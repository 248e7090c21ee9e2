#!/bin/sh
# Makes the virtual environment $VENV with the first of $PYTHON that is new enough.
# If none is, it prints one line with the versions it found.
set -eu

found=""
for candidate in $PYTHON; do
    # A name on PATH may be a shim that runs nothing, so each candidate must print its version.
    version=$("$candidate" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        if ! "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            found="$found $candidate $version without the venv module (on Debian and Ubuntu: the package python3-venv),"
            continue
        fi
        echo "Making $VENV with $candidate $version"
        exec "$candidate" -m venv --clear "$VENV"
    fi
    found="$found $candidate $version,"
done
found=${found%,}
echo "Error: Tilewave needs Python 3.11 or newer. Found:${found:- no Python at all} (tried: $PYTHON). Choose one with PYTHON=/path/to/python3" >&2
exit 1
