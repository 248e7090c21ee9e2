"""The licences of all that requirements/*.txt lock, as their packages say them: docs/licences.md.

    .venv/bin/python tools/licences.py [FOLDER ...]

Packages are looked for in this environment and in folders of further ones (`pip install --target`). One that
is in none of them, because it is for another system or nobody asked for it, keeps the licence that the
document has.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "licences.md"
LOCKS = {
    "base": "what `make report` installs",
    "gpu": "besides, where an NVIDIA driver is",
    "dev": "`make test` and `make lint`",
    "browser": "`make browser`",
    "slurm": "`make slurm`",
    "build": "what builds packages that have no wheel",
    "supply": "`make audit` and `make sbom`",
}
"""Lock file -> what it is for. A package stands where it comes first."""

HEAD = """# Licences

Written by `make licences`, from what the packages of the lock files say of themselves; a package stands where it
comes first. `make sbom` lists those of one environment.

Tilewave's own files have the MIT licence ([LICENSE](../LICENSE)). No package of others is vendored, in the
repository or in the wheel: pip gets them from its index, each under its own licence.

**Not open source** are {proprietary}. Whoever installs them accepts NVIDIA's agreements, which lie in the packages'
`dist-info` folders (of the compiler and its kin the CUDA Toolkit's End User License Agreement) and say what may be
passed on. An image built from the `Dockerfile` contains them. On macOS none of them is installed; Nsight Compute
and the driver never are.
"""


def said(package: importlib.metadata.Distribution) -> str:
    """What a package's metadata say of its licence, else the first line of its licence file."""
    metadata = package.metadata.json
    short = str(metadata.get("license_expression") or metadata.get("license") or "").strip()
    if short not in ("", "UNKNOWN") and "\n" not in short:
        return short
    told = [
        line.rpartition(" :: ")[2]
        for line in metadata.get("classifier", [])
        if line.startswith("License :: ")
    ]
    if told:
        return " / ".join(told)
    for file in package.files or []:
        if ".dist-info/" in str(file) and "LICEN" in file.name.upper():
            return Path(str(file.locate())).read_text(encoding="utf-8-sig").split("\n")[0].strip()
    return "it does not say"


def locked(name: str) -> dict[str, tuple[str, str]]:
    """What a lock file pins: a package, with its version where there are several -> name and version."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^ ]+)", text, re.M)
    several = Counter(package for package, _ in pins)
    return {
        f"{pin[0]} {pin[1]}" if several[pin[0]] > 1 else pin[0]: (canonical(pin[0]), pin[1])
        for pin in pins
    }


def canonical(package: str) -> str:
    """A package's name as an index spells it."""
    return re.sub(r"[-_.]+", "-", package).lower()


def written(text: str, folders: Sequence[str] = ()) -> str:
    """The document, which had this text. Raises SystemExit for a package of which nothing is known."""
    known = {
        package: licence
        for licence, packages in re.findall(r"^\| (.+) \| (`.+`) \|$", text, re.M)
        for package in re.findall(r"`(.+?)`", packages)
    }
    here = {
        (canonical(one.name), one.version): one
        for one in importlib.metadata.distributions(path=[*folders, *sys.path])
    }
    tables, told, proprietary = "", set[str](), list[str]()
    for name, purpose in LOCKS.items():
        rows = defaultdict(list)
        for package, pin in locked(name).items():
            if package in told:
                continue
            told.add(package)
            if pin not in here and package not in known:
                raise SystemExit(
                    f"{DOCUMENT.name}: {package} is not installed; install requirements/{name}.txt, "
                    "here or by `pip install --target FOLDER`, and name the folder"
                )
            rows[said(here[pin]) if pin in here else known[package]].append(f"`{package}`")
        tables += f"\n## {name}.txt: {purpose}\n\n| licence | packages |\n|---|---|\n"
        for licence in sorted(rows, key=str.lower):
            packages = ", ".join(sorted(rows[licence]))
            tables += f"| {licence} | {packages} |\n"
            if "NVIDIA" in licence or "Proprietary" in licence:
                proprietary.append(packages)
    return HEAD.format(proprietary=", ".join(proprietary)) + tables


if __name__ == "__main__":
    had = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.is_file() else ""
    DOCUMENT.write_text(written(had, sys.argv[1:]), encoding="utf-8")
