"""Clock, power, temperature and throttle reasons of a GPU, from NVML."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewave.basics.tables import table_beside
from tilewave.records.counters.figures import figure

_REASONS: dict[int, str] = table_beside(__file__)
SLOWED = 0x08 | 0x20 | 0x40 | 0x80
"""Reasons that make timings invalid. The power cap is not among them, because it follows from the load."""


def throttle_text(reasons: int) -> str:
    """Return the names of the reasons, empty if there are none."""
    return ", ".join(word for bit, word in _REASONS.items() if reasons & bit)


class Clocks:
    """Samples taken during a measurement; there are none without nvidia-ml-py or NVML."""

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self.reset()
        with contextlib.suppress(Exception):  # not installed, no NVML here, or an unknown UUID
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._nvml = pynvml

    def reset(self) -> None:
        self._counted: list[float] = []
        self._samples: dict[str, list[float]] = {"sm_clock": [], "power": [], "temperature": []}
        self._reasons = 0

    def sample(self) -> None:
        """Read all sensors once, in about a millisecond; skip those that the GPU lacks."""
        nvml, handle = self._nvml, self._handle
        if nvml is None:
            return
        reads: dict[str, Callable[[], Any]] = {
            "sm_clock": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0,
            "temperature": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        }
        for name, read in reads.items():
            with contextlib.suppress(Exception):
                self._samples[name].append(float(read()))
        with contextlib.suppress(Exception):
            self._reasons |= int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))

    def count(self, mhz: float) -> None:
        """Add an SM clock that was counted on the GPU. It replaces NVML's reading, which lags."""
        self._counted.append(mhz)

    def moved(self, share: float) -> bool:
        """Return whether the counted clock has moved by more than the share; if so, keep only the last count."""
        moved = bool(self._counted) and max(self._counted) > (1 + share) * min(self._counted)
        if moved:
            del self._counted[:-1]
        return moved

    def figures(self) -> list[dict[str, Any]]:
        """Return the medians: sm_clock (MHz), power (W), temperature (C)."""
        units = {"sm_clock": "MHz", "power": "W", "temperature": "C"}
        samples = self._samples | ({"sm_clock": self._counted} if self._counted else {})
        medians = {name: float(np.median(values)) for name, values in samples.items() if values}
        return [figure(name, median, units[name]) for name, median in medians.items()]

    def throttle(self) -> str:
        """Return the reasons in any sample, empty if there are none."""
        return throttle_text(self._reasons)

    def slowed(self) -> str:
        """Return the reasons that the machine causes and not the load: heat, brakes. Empty if there are none."""
        return throttle_text(self._reasons & SLOWED)

    def close(self) -> None:
        if self._nvml is not None:
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()
            self._nvml = None
