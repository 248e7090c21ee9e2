"""The environment of a measurement, and the abilities of this machine.

`fingerprint` reads files only, so that it can run while the workflow's graph is built. It changes when the
machine gains a GPU, another driver, counter permission or another ncu. `probe` asks the driver in a separate
process (`gpu.facts`), because a process that has initialised CUDA cannot be forked.
"""

import glob
import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewave.basics import paths as home
from tilewave.basics.packages import MEASURING, package_versions

DRIVER_VERSION = Path("/proc/driver/nvidia/version")
DRIVER_PARAMETERS = Path("/proc/driver/nvidia/params")
LIBCUDA_PLACES = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
    "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/cuda/compat",
)  # fmt: skip
# Newest first; the matches of a glob are tried in descending order of version.
NCU_PLACES = (
    "/usr/local/cuda/bin/ncu", "/usr/local/cuda-*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda*/nsight-compute-*/ncu",
)  # fmt: skip
ANSWER_S = 60.0
"""Seconds until the driver must have answered."""
# Keys that `environment_id` covers, besides the measuring packages.
IDENTITY = (
    "gpu", "uuid", "compute_capability", "driver", "cuda", "nvrtc", "cublas", "power_limit_w", "cpu",
    "python",
)  # fmt: skip


def _text(path: Path) -> str:
    """Return a file's text, empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def driver_version(text: str | None = None) -> str:
    """Return the version of the kernel module from /proc/driver/nvidia/version, empty without one."""
    text = _text(DRIVER_VERSION) if text is None else text
    match = re.search(r"Kernel Module\b.*?\s(\d+\.\d+(?:\.\d+)?)\b", text)
    return match.group(1) if match else ""


def counter_permission(parameters: str | None = None) -> str:
    """Return who may read counters, by RmProfilingAdminOnly: ``all users``, ``administrators`` or ``unknown``."""
    parameters = _text(DRIVER_PARAMETERS) if parameters is None else parameters
    match = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", parameters, re.MULTILINE)
    if not match:
        return "unknown"
    return "administrators" if int(match.group(1)) else "all users"


def find_ncu() -> str | None:
    """Return the path of Nsight Compute's command line, on PATH or in an install folder."""
    if on_path := shutil.which("ncu"):
        return on_path

    def version(path: str) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", path)]

    paths = (sorted(glob.glob(pattern), key=version, reverse=True) for pattern in NCU_PLACES)
    flat = itertools.chain.from_iterable(paths)
    return next((path for path in flat if os.access(path, os.X_OK)), None)


def _has_libcuda() -> bool:
    """Return whether a driver library lies where the loader looks (it is not loaded)."""
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(":"), *LIBCUDA_PLACES]
    if any(os.path.exists(os.path.join(folder, "libcuda.so.1")) for folder in folders if folder):
        return True
    try:  # the loader's cache lists libraries in other folders by name
        return b"libcuda.so.1" in Path("/etc/ld.so.cache").read_bytes()
    except OSError:
        return False


def fingerprint() -> dict[str, Any]:
    """Return what this machine can measure, from files alone, in milliseconds. ncu: its resolved path."""
    path = find_ncu()
    devices = sorted(path for path in glob.glob("/dev/nvidia*") if re.search(r"nvidia\d+$", path))
    about = map(Path, sorted(glob.glob("/proc/driver/nvidia/gpus/*/information")))
    text = "\n".join(map(_text, about))
    return {
        "driver": driver_version(),
        "devices": devices or glob.glob("/dev/dxg"),  # of WSL
        "libcuda": _has_libcuda(),
        "gpus": re.findall(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE),
        "counter_permission": counter_permission(),
        "administrator": os.geteuid() == 0,
        "ncu": os.path.realpath(path) if path else None,
        "visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def has_gpu(machine: Mapping[str, Any]) -> bool:
    hidden = machine["visible_devices"] in ("", "-1")
    return bool(machine["libcuda"] and machine["devices"] and not hidden)


NO_NCU = (
    "Nsight Compute (ncu) was not found on PATH, in /usr/local/cuda*/bin or in "
    "/opt/nvidia/nsight-compute: install it, or put its ncu on PATH"
)


def cpu_model() -> str:
    text = _text(Path("/proc/cpuinfo"))
    for key in ("model name", "Model", "Hardware"):
        match = re.search(rf"^{key}\s*:\s*(.+?)\s*$", text, re.MULTILINE)
        if match:
            return match.group(1)
    return platform.processor() or platform.machine()


def output_of(command: list[str], cwd: Path | None = None) -> str:
    """Return a command's output, empty if it fails."""
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 20}
    try:
        done = subprocess.run(command, cwd=cwd, check=False, **how)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def commit() -> dict[str, Any]:
    """Return the commit of this checkout or wheel, and whether tracked files differ from it."""
    if home.INSTALLED:  # a repository around an installed package is another project's
        built_from: dict[str, Any] = json.loads(home.BUILT_FROM.read_text(encoding="utf-8"))
    else:
        changed = output_of(["git", "status", "--porcelain", "--untracked-files=no"], home.ROOT)
        built_from = {
            "commit": output_of(["git", "rev-parse", "HEAD"], home.ROOT),
            "dirty": bool(changed),
        }
    if built_from["commit"]:
        return built_from
    # A copy without its history, as in a container, may get its commit from the environment.
    return {"commit": os.environ.get("TILEWAVE_COMMIT", ""), "dirty": False}


def environment_id(environment: Mapping[str, Any]) -> str:
    """Return twelve hex digits over all that affects a measurement.
    Not the commit: keys hold the measured code. Nor ncu: a machine that gains it keeps its timings."""
    packages = environment.get("packages") or {}
    parts = {key: environment.get(key) for key in IDENTITY}
    parts["packages"] = {name: packages.get(name) for name in MEASURING}
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def cpu_environment(why: str = "") -> dict[str, Any]:
    """Return the environment of this machine without its GPU."""
    packages = package_versions()
    environment: dict[str, Any] = {
        **dict.fromkeys(IDENTITY),
        "nvrtc": packages.get("nvidia-cuda-nvrtc", ""),
        "cublas": "",
        "ncu": "",
        "cpu": cpu_model(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": packages,
        **commit(),
        "recorded": False,
        "gpu_reason": why,
    }
    environment["id"] = environment_id(environment)
    return environment


def probe(gpu_index: int | None = None) -> dict[str, Any]:
    """Return the environment of this machine, determined in a child process; what is missing raises nothing.
    gpu_index: CUDA's number, default 0. Without a usable GPU ``gpu`` is None, and ``gpu_reason`` says why."""
    if not has_gpu(fingerprint()):
        return cpu_environment("no NVIDIA driver, or no visible device")
    command = [sys.executable, "-m", "tilewave.gpu.facts"]
    command += [] if gpu_index is None else ["--gpu", str(gpu_index)]
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": ANSWER_S}
    try:
        done = subprocess.run(command, env=home.child_environment(), check=False, **how)
        environment: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return environment
    except subprocess.TimeoutExpired:
        return cpu_environment(f"the driver did not answer in {ANSWER_S:g} s")
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return cpu_environment(f"asking the driver failed: {last}")
