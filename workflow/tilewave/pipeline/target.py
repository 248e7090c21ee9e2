"""The target: the GPU whose figures a run shows, live or recorded.

Jobs resolve symbolic shapes and ``arch: auto`` for it. The answer is one JSON document that every
later stage reads, so that they all speak of the same device.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.kernel.variants import DEVICE_NAMES
from tilewave.pipeline.config import Config
from tilewave.records.environment import environment_id, fingerprint
from tilewave.records.environment import probe as ask
from tilewave.records.recorded import Recorded, folders

FALLBACK_ARCH = 90  # compiled for where neither a GPU nor a recorded one says otherwise


def probe(gpu: int) -> dict[str, Any]:
    """This machine's environment with its id; the driver is asked in a child process."""
    found = ask(gpu)
    return found | {"id": environment_id(found)}


def probe_others(gpu: int, here: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The environments of this machine's other GPUs of the kind of ``here``, by CUDA's number."""
    numbers = range(len(fingerprint()["gpus"])) if here.get("gpu") else ()
    found = {number: probe(number) for number in numbers if number != gpu}
    return {number: one for number, one in found.items() if one.get("gpu") == here["gpu"]}


def device(environment: dict[str, Any]) -> dict[str, Any]:
    """What expressions may ask of the device, plus ``arch`` (compute capability times ten)."""
    found = {name: environment[name] for name in DEVICE_NAMES if environment.get(name) is not None}
    capability = environment.get("compute_capability")
    if capability:
        major, minor = str(capability).split(".")
        found["arch"] = int(major) * 10 + int(minor)
    return found


def resolve(
    config: Config,
    here: dict[str, Any],
    recorded_root: Path,
    where: object,
    others: Mapping[int, dict[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The target document. here: the GPU's environment; others: those of more GPUs of its kind, by number.

    Keys: live, label, recorded (folder name or null), environment (id), environments (id ->
    environment), device, arch, reason (why it is not live), host (this machine's environment id),
    machine (digest of what this machine can measure), node (its name), damaged (a line about each
    recorded file that is left out), gpus (environment id -> CUDA's number of each GPU that may measure).
    """
    shipped = {path.name: Recorded(path) for path in folders(recorded_root)}
    gpu = here.get("gpu")
    if config.target not in ("auto", "live") and config.target not in shipped:
        raise UserError(where, "target", config.target, ["auto", "live", *shipped])
    damaged = [line for one in shipped.values() for line in one.warnings]
    known = {one["id"]: one for one in (here, *others.values())}
    gpus = {one["id"]: number for number, one in {config.gpu: here, **others}.items()}
    base = {"host": here["id"], "environments": known, "damaged": damaged, **_machine()}
    usable = {name: one for name, one in shipped.items() if one.main_environment}
    most = max(usable, key=lambda name: (usable[name].size, name), default="")
    name = config.target if config.target != "auto" else most
    live = bool(gpu) and config.target in ("auto", "live")
    if live or config.target == "live" or name not in usable:
        reason = "" if gpu else (here.get("gpu_reason") or "no NVIDIA GPU on this machine")
        found = device(here)
        return base | {
            "live": live,
            "label": gpu or "no GPU",
            "recorded": None,
            "environment": here["id"],
            "device": found,
            "arch": found.get("arch", FALLBACK_ARCH),
            "reason": reason,
            "gpus": gpus if live else {},
        }
    recorded = usable[name]
    environment = recorded.environments[recorded.main_environment]
    missing = here.get("gpu_reason") or "no NVIDIA GPU on this machine"
    reason = "recorded figures were asked for" if gpu else missing
    return base | {
        "live": False,
        "label": environment["gpu"],
        "recorded": name,
        "environment": recorded.main_environment,
        "environments": {**base["environments"], **recorded.environments},
        "device": device(environment),
        "arch": device(environment).get("arch", FALLBACK_ARCH),
        "reason": reason,
        "gpus": {},
    }


def _machine() -> dict[str, str]:
    """What a job on another node of a cluster is not told by its own files."""
    found = json.dumps(fingerprint(), sort_keys=True)
    machine = hashlib.sha256(found.encode()).hexdigest()[:12]
    return {"machine": machine, "node": platform.node()}


def of_another_node(target: Mapping[str, Any], gpu: int, where: object) -> None:
    """Refuse to measure on another node than the one that the target was asked on, where its GPU (or its
    CPU, where no GPU measures) is not the same: a figure would be filed as another card's.

    Raises UserError that names both.
    """
    here = _machine()
    if here.items() <= target.items():
        return
    found, wanted = probe(gpu), target["environments"][target["host"]]
    if found["id"] != target["host"]:
        known, aim = (
            f"{one.get('gpu') or one['cpu']} {one.get('uuid') or ''}" for one in (found, wanted)
        )
        raise UserError(where, "node", f"{known} on {here['node']}", f"{aim} of {target['node']}")
