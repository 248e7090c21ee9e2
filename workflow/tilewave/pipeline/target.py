"""The target: the GPU whose figures a run shows, live or recorded, and for which shapes and ``auto`` are
resolved. It is one JSON document, so that all later stages mean the same device."""

import hashlib
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.kernel.trial import FALLBACK_ARCH
from tilewave.kernel.variants import device
from tilewave.pipeline.config import Config
from tilewave.records.environment import fingerprint, probe
from tilewave.records.folder import folders
from tilewave.records.recorded import Recorded


def probe_others(gpu: int, here: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return the environments of this machine's other GPUs of the same kind, by CUDA's number."""
    numbers = range(len(fingerprint()["gpus"])) if here.get("gpu") else ()
    others = {number: probe(number) for number in numbers if number != gpu}
    return {number: other for number, other in others.items() if other.get("gpu") == here["gpu"]}


def resolve(
    config: Config,
    here: dict[str, Any],
    recorded_root: Path,
    where: object,
    other_gpus: Mapping[int, dict[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the target document. here: the GPU's environment. other_gpus: those of its kind, by number.

    Keys: live, label, recorded (folder name or null), environment (id), environments (id -> environment), device,
    arch, reason (why it is not live), host (this machine's environment id), machine (digest of what this machine can
    measure), node, damaged (lines), gpus (environment id -> CUDA's number of each GPU that may measure).
    """
    shipped = {path.name: Recorded(path) for path in folders(recorded_root)}
    gpu, auto = here.get("gpu"), config.target == "auto"
    by_number = {config.gpu: here, **other_gpus}
    usable = {name: recorded for name, recorded in shipped.items() if recorded.main_environment}
    most = max(usable, key=lambda name: (usable[name].size, name), default="")
    live = bool(gpu) and config.target in ("auto", "live")
    recorded = None if live else usable.get(most if auto else config.target)
    identity, environments = here["id"], {entry["id"]: entry for entry in by_number.values()}
    if recorded is not None:
        identity = recorded.main_environment
        environments |= recorded.environments
    facts = device(environments[identity])
    damaged = [folder.warnings(in_use=recorded in (None, folder)) for folder in shipped.values()]
    reason = here.get("gpu_reason") or "no NVIDIA GPU on this machine"
    if gpu:
        reason = "" if recorded is None else "the config's target is a recording"
    return {
        "host": here["id"],
        "environments": environments,
        "damaged": [line for lines in damaged for line in lines],
        **_machine(),
        "live": live,
        "label": environments[identity].get("gpu") or "no GPU",
        "recorded": recorded and recorded.name,
        "environment": identity,
        "device": facts,
        "arch": facts.get("arch", FALLBACK_ARCH),
        "reason": reason,
        "gpus": {entry["id"]: number for number, entry in by_number.items()} if live else {},
    }


def _machine() -> dict[str, str]:
    """Return what differs between the nodes of a cluster: name, and digest of what each can measure."""
    text = json.dumps(fingerprint(), sort_keys=True)
    machine = hashlib.sha256(text.encode()).hexdigest()[:12]
    return {"machine": machine, "node": platform.node()}


def of_another_node(target: Mapping[str, Any], gpu: int, where: object) -> None:
    """Refuse to measure on a node whose GPU (or CPU, without a GPU) is not the target's. Raises UserError."""
    here = _machine()
    if here.items() <= target.items():
        return
    environment, expected = probe(gpu), target["environments"][target["host"]]
    if environment["id"] != target["host"]:
        cards = (
            f"{entry.get('gpu') or entry['cpu']} {entry.get('uuid') or ''}".strip()
            for entry in (environment, expected)
        )
        problem = f"node {here['node']} has {next(cards)}, but the run is about {next(cards)}"
        remedy = f"Run all jobs on nodes like {target['node']}, or plan again on this node"
        raise UserError.because(where, problem, remedy, "node")
