"""Content keys: two measurements with the same key measured the same thing in the same way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Raised when the way of measuring changes, so that older figures are not taken for new ones.
METHOD_VERSION = {"check": 1, "time": 1, "tune": 1, "counters": 1, "execute": 1}

# What of a job decides the figure. Paths, case names and limits do not.
PARTS = (
    "provider",
    "operation",
    "entry",
    "grid",
    "block",
    "shared_bytes",
    "cluster",
    "arguments",
    "shape",
    "dtypes",
    "layouts",
    "probe",
    "seed",
)
# Parts that most jobs do not have: absent from the key where they are empty, so that the keys of
# figures recorded before such a part existed stay what they were.
RARE_PARTS = ("scratch", "work", "device", "tensor_maps")
STAGE_PARTS = {
    "check": (),
    "time": ("baseline", "timing"),
    # Not the rivals: a kernel that is added leaves what was raced before as it is.
    "tune": ("timing",),
    "counters": ("instruction", "metrics", "sections", "clock_control", "cache_control"),
    "execute": ("versions",),
}


def digest(parts: Mapping[str, Any]) -> str:
    """SHA-256 of canonical JSON."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def key(stage: str, code: str, job: Mapping[str, Any]) -> str:
    """Key of a job: its code (digest of the cubin's code, or of a host kernel's source), its
    launch, its inputs and the method."""
    names = (*PARTS, *STAGE_PARTS[stage])
    return digest(
        {
            "stage": stage,
            "method_version": METHOD_VERSION[stage],
            "code": code,
            **{name: job.get(name) for name in names},
            **{name: job[name] for name in RARE_PARTS if job.get(name)},
        }
    )
