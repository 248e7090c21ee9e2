"""docs/licences.md: the licences of all packages in requirements/*.txt, from their metadata.

    .venv/bin/python tools/licences.py [FOLDER ...]

Packages are looked up in this environment and in these folders (`pip install --target`). A package in none of
them, as one for another system, keeps its licence in the document.
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
    "base.txt: what `make report` installs": ("base",),
    "gpu.txt: besides, where an NVIDIA driver is": ("gpu",),
    "The others: tests, browser, Slurm, MCP, builds, audit": (
        "dev",
        "browser",
        "slurm",
        "mcp",
        "build",
        "supply",
    ),
}
"""Heading -> lock files. A package is listed under the first file that has it."""
NAMES = {
    "Apache-2.0": ("Apache 2.0", "Apache License, Version 2.0", "Apache Software License"),
    "BSD": ("BSD License",),
    "MIT": ("MIT License", "MIT license"),
    "MPL-2.0": ("Mozilla Public License 2.0 (MPL 2.0)",),
    "PSF-2.0": ("PSF", "PSFL", "Python Software Foundation License"),
    "Public domain": ("Public Domain",),
}
"""A licence's short name -> the names that packages write."""

HEAD = """# Licences

`make licences` writes this page from the metadata of the packages in the lock files. A package is listed where it comes
first. `make sbom` lists the packages of one environment.

Tilewave's own files have the MIT licence ([LICENSE](../LICENSE)). No foreign package is part of the repository or of the
wheel: pip installs each under its own licence.

**Not open source** are {proprietary}. Installing them accepts NVIDIA's agreements in their `dist-info` folders, which say
what may be passed on. An image built from the `Dockerfile` contains them. On macOS none is installed. Nsight Compute and
the driver are never installed.
"""


def short_name(licence: str) -> str:
    """Return a licence's short name."""
    return next((short for short, names in NAMES.items() if licence in names), licence)


def licence_of(package: importlib.metadata.Distribution) -> str:
    """Return the licence in a package's metadata, else the first line of its licence file."""
    metadata = package.metadata.json
    short = str(metadata.get("license_expression") or metadata.get("license") or "").strip()
    if short not in ("", "UNKNOWN") and "\n" not in short:
        return short
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in metadata.get("classifier", [])
        if line.startswith("License :: ")
    ]
    if classifiers:
        return " / ".join(classifiers)
    for file in package.files or []:
        if ".dist-info/" in str(file) and "LICEN" in file.name.upper():
            return Path(str(file.locate())).read_text(encoding="utf-8-sig").split("\n")[0].strip()
    return "it does not say"


def locked(name: str) -> dict[str, tuple[str, str]]:
    """Return the pins of a lock file: package, with its version if it has several -> name and version."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^ ]+)", text, re.M)
    several = Counter(package for package, _ in pins)
    return {
        f"{pin[0]} {pin[1]}" if several[pin[0]] > 1 else pin[0]: (canonical(pin[0]), pin[1])
        for pin in pins
    }


def canonical(package: str) -> str:
    """Return a package's name as an index spells it."""
    return re.sub(r"[-_.]+", "-", package).lower()


def written(text: str, folders: Sequence[str] = ()) -> str:
    """Return the new document. text: the old one. Raises SystemExit for a package without a known licence."""
    documented = {
        package: licence
        for licence, packages in re.findall(r"^\| (.+) \| (`.+`) \|$", text, re.M)
        for package in re.findall(r"`(.+?)`", packages)
    }
    here = {
        (canonical(distribution.name), distribution.version): distribution
        for distribution in importlib.metadata.distributions(path=[*folders, *sys.path])
    }
    tables, listed, proprietary = "", set[str](), list[str]()
    for heading, files in LOCKS.items():
        rows = defaultdict(list)
        pins = [(file, *entry) for file in files for entry in locked(file).items()]
        for name, package, pin in pins:
            if package in listed:
                continue
            listed.add(package)
            if pin not in here and package not in documented:
                raise SystemExit(
                    f"{DOCUMENT.name}: {package} is not installed. Install requirements/{name}.txt here, "
                    "or with `pip install --target FOLDER`, and give this FOLDER"
                )
            licence = licence_of(here[pin]) if pin in here else documented[package]
            rows[short_name(licence)].append(f"`{package}`")
        tables += f"\n## {heading}\n\n| licence | packages |\n|---|---|\n"
        for licence in sorted(rows, key=str.lower):
            packages = ", ".join(sorted(rows[licence]))
            tables += f"| {licence} | {packages} |\n"
            if "NVIDIA" in licence or "Proprietary" in licence:
                proprietary.append(packages)
    return HEAD.format(proprietary=", ".join(proprietary)) + tables


if __name__ == "__main__":
    had = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.is_file() else ""
    DOCUMENT.write_text(written(had, sys.argv[1:]), encoding="utf-8")
