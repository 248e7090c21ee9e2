"""Facts of a GPU from the driver and NVML, and versions of the libraries.
``python -m tilewave.gpu.facts [--gpu N]`` prints them as a line of JSON (`records.environment.probe`)."""

import argparse
import contextlib
import json
import re
from typing import Any
from uuid import UUID

from tilewave.basics.packages import nvrtc_version
from tilewave.basics.tables import table_beside
from tilewave.records import environment as machine

ATTRIBUTES: dict[str, str] = table_beside(__file__)
"""Device facts, and the name of their CUdevice_attribute."""


def _cublas_version() -> str:
    """Return cuBLASLt's version (130102 for 13.1.2), empty without nvmath."""
    with contextlib.suppress(Exception):  # no package or no library
        from nvmath.bindings import cublasLt  # type: ignore[import-not-found, unused-ignore]

        return str(cublasLt.get_version())
    return ""


def uuid_text(raw: bytes) -> str:
    """Return ``GPU-`` and the sixteen bytes in the format of nvidia-smi."""
    return f"GPU-{UUID(bytes=raw)}"


def _device_facts(gpu_index: int | None, nvrtc: str) -> dict[str, Any]:
    """Return the driver's facts of a device. Raises RuntimeError, also if NVRTC is too new for the driver."""
    from cuda.bindings import driver

    def ask(result: tuple[Any, ...]) -> Any:
        if int(result[0]) != 0:
            raise RuntimeError(getattr(result[0], "name", str(result[0])))
        return result[1] if len(result) > 1 else None

    ask(driver.cuInit(0))
    version = int(ask(driver.cuDriverGetVersion()))
    cuda = f"{version // 1000}.{version % 1000 // 10}"
    if nvrtc and version // 1000 < int(nvrtc.partition(".")[0]):
        versions = f"the driver supports CUDA {cuda}, NVRTC is {nvrtc}"
        raise RuntimeError(f"{versions}: install a newer driver to run its code")
    device = ask(driver.cuDeviceGet(gpu_index or 0))

    def attribute(name: str) -> int:
        kind = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(ask(driver.cuDeviceGetAttribute(kind, device)))

    facts: dict[str, Any] = {name: attribute(key) for name, key in ATTRIBUTES.items()}
    major, minor = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
    warp = attribute("WARP_SIZE")
    facts |= {
        "gpu": ask(driver.cuDeviceGetName(256, device)).split(b"\0")[0].decode().strip(),
        "uuid": uuid_text(bytes(ask(driver.cuDeviceGetUuid(device)).bytes)[:16]),
        "compute_capability": f"{major}.{minor}",
        "arch": 10 * major + minor,
        "cuda": cuda,
        "max_warps_per_sm": facts["max_threads_per_sm"] // warp,
        "memory_bytes": int(ask(driver.cuDeviceTotalMem(device))),
    }
    return facts


def _sensor_facts(uuid: str) -> dict[str, Any]:
    """Return NVML's facts: power limit (W), clocks (MHz), driver version. Empty without nvidia-ml-py."""
    try:
        import pynvml as nvml  # type: ignore[import-not-found, unused-ignore]

        nvml.nvmlInit()
    except Exception:  # no package, no library, no driver
        return {}
    facts: dict[str, Any] = {}

    def ask(key: str, function: str, *arguments: Any, scale: float | None = None) -> None:
        with contextlib.suppress(Exception):  # not supported on this device
            value: Any = getattr(nvml, function)(*arguments)
            value = value.decode() if isinstance(value, bytes) else value
            facts[key] = value if scale is None else value * scale

    with contextlib.suppress(Exception):  # NVML cannot see the device (a slice, a container)
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        ask("driver", "nvmlSystemGetDriverVersion")
        ask("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", handle, scale=1e-3)
        ask("sm_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM)
        ask("memory_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM)
    nvml.nvmlShutdown()
    return facts


def probe_here(gpu_index: int | None = None) -> dict[str, Any]:
    """Return the environment from this process, which initialises CUDA. See `environment.probe`."""
    path = machine.find_ncu()
    output = machine.output_of([path, "--version"]) if path else ""
    match = re.search(r"Version\s+(\d+\.\d+\.\d+)", output)
    environment = machine.cpu_environment()
    del environment["gpu_reason"]
    with contextlib.suppress(Exception):  # a missing package or library raises various types
        environment["nvrtc"] = nvrtc_version()
    environment |= {
        "driver": machine.driver_version() or None,
        "cublas": _cublas_version(),
        "ncu": match.group(1) if match else "",
    }
    try:
        environment |= _device_facts(gpu_index, environment["nvrtc"])
        environment |= _sensor_facts(environment["uuid"])
    except Exception as error:  # no package, no libcuda, no device, no such device
        environment["gpu_reason"] = f"{type(error).__name__}: {error}".splitlines()[0]
    environment["id"] = machine.environment_id(environment)
    return environment


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=None)
    print(json.dumps(probe_here(parser.parse_args(arguments).gpu)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
