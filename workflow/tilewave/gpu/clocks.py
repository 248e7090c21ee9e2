"""Clock, power, temperature and throttle reasons of a GPU, through NVML by its UUID."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewave.records.counters.figures import figure

# nvml.h, nvmlClocksEventReason*. Idle and a limit that the user set are no throttling.
_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
}
SLOWED = 0x08 | 0x20 | 0x40 | 0x80
"""Reasons for which a GPU is not fit to be timed; a power cap is none, it comes with the load."""


def throttle_text(reasons: int) -> str:
    """The reasons in words, empty where there is none."""
    return ", ".join(word for bit, word in _REASONS.items() if reasons & bit)


class Clocks:
    """Samples taken while a measurement runs. Without nvidia-ml-py or NVML there are none."""

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self.reset()
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._nvml = pynvml
        except Exception:  # not installed, no NVML here, or a UUID it does not know
            self._nvml = None

    def reset(self) -> None:
        """Forget the samples."""
        self._counted: list[float] = []
        self._samples: dict[str, list[float]] = {"sm_clock": [], "power": [], "temperature": []}
        self._reasons = 0

    def sample(self) -> None:
        """Read once, about a millisecond; what a GPU does not offer is left out."""
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
        """Add an SM clock that was counted on the GPU: it stands for NVML's reading, which lags."""
        self._counted.append(mhz)

    def moved(self, share: float) -> bool:
        """Tell whether the counted clock has moved by more than the share; if so, only the last one is kept."""
        moved = bool(self._counted) and max(self._counted) > (1 + share) * min(self._counted)
        if moved:
            del self._counted[:-1]
        return moved

    def figures(self) -> list[dict[str, Any]]:
        """Medians: sm_clock (MHz), power (W), temperature (C)."""
        units = {"sm_clock": "MHz", "power": "W", "temperature": "C"}
        samples = self._samples | ({"sm_clock": self._counted} if self._counted else {})
        return [
            figure(name, float(np.median(values)), units[name])
            for name, values in samples.items()
            if values
        ]

    def throttle(self) -> str:
        """Reasons seen in any sample, empty where there was none."""
        return throttle_text(self._reasons)

    def slowed(self) -> str:
        """Those that are the machine's state and not the load's: heat, brakes. Empty where there was none."""
        return throttle_text(self._reasons & SLOWED)

    def close(self) -> None:
        if self._nvml is not None:
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()
            self._nvml = None
