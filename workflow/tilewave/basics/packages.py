"""Versions of the installed packages and of NVRTC."""

import contextlib
from collections.abc import Iterable
from importlib import metadata

# Packages whose version can change a figure.
MEASURING = "cuda-bindings cuda-core nvidia-cuda-nvrtc nvidia-cublas".split()
MEASURING += "nvmath-python nvtx numpy numba".split()
OTHERS = "cuda-python ncu-report nvidia-cuda-runtime nvidia-cuda-nvdisasm nvidia-ml-py"
PACKAGES = [*MEASURING, *OTHERS.split(), "pandas", "pyarrow", "snakemake"]


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
