"""Versions of the installed packages and of NVRTC."""

import contextlib
from collections.abc import Iterable
from importlib import metadata

from tilewave.basics.tables import table_beside

TABLES = table_beside(__file__)
MEASURING: list[str] = TABLES["measuring"]
PACKAGES = [*MEASURING, *TABLES["others"]]


def package_versions(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    versions = {}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def nvrtc_version() -> str:
    """Return NVRTC's version, e.g. ``13.0.88``. Raises the error of cuda.bindings without the library."""
    from cuda.bindings import nvrtc

    error, major, minor = nvrtc.nvrtcVersion()
    if error:
        raise RuntimeError(f"nvrtcVersion: {error}")
    wheel = "".join(package_versions(["nvidia-cuda-nvrtc"]).values())
    return wheel if wheel.startswith(f"{major}.{minor}.") else f"{major}.{minor}"
