"""A machine with two GPUs, for processes that have this file's folder `gpu_machine` on their path: what the
driver would say, and a worker that measures nothing.

`TILEWAVE_FAKE` is a folder: ``hidden-UUID`` in it takes a GPU away, ``lose-UUID`` makes the worker lose it
at its second case; ``workers`` gets a line for each worker: GPU, begin, end, cases.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

UUIDS = ("GPU-aaaa0000-0000-0000-0000-000000000000", "GPU-bbbb0000-0000-0000-0000-000000000000")
FACTS = {
    "gpu": "NVIDIA H200",
    "compute_capability": "9.0",
    "driver": "580.1",
    "cuda": "13.0",
    "sms": 132,
}


def _folder() -> Path:
    return Path(os.environ["TILEWAVE_FAKE"])


def visible() -> list[str]:
    """The GPUs that a process sees now."""
    asked = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(UUIDS)).split(",")
    return [one for one in UUIDS if one in asked and not (_folder() / f"hidden-{one}").exists()]


def environments() -> list[dict[str, Any]]:
    """What `environment.probe_all` tells."""
    from tilewave import environment

    plain = environment.cpu_environment()
    found = [{**plain, **FACTS, "uuid": one} for one in visible()]
    found = [{**one, "id": environment.environment_id(one)} for one in found]
    return found or [plain | {"gpu_reason": "RuntimeError: CUDA_ERROR_NO_DEVICE"}]


def pretend() -> None:
    """Patch this process."""
    from tilewave import environment
    from tilewave.processes import supervisor

    environment.has_gpu = lambda found: True
    environment._asked = lambda *how: environments()
    supervisor.run_jobs.__kwdefaults__["module"] = "gpu_machine"  # type: ignore[index]


def main() -> int:
    """The worker (see `tilewave.gpu.worker`)."""
    from tilewave.gpu.device import gpu_lock

    parser = argparse.ArgumentParser()
    parser.add_argument("stage")
    parser.add_argument("jobs")
    parser.add_argument("--events")
    parser.add_argument("--cache")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--done", default="")
    asked = parser.parse_args()
    jobs = json.loads(Path(asked.jobs).read_text())

    def send(**event: Any) -> None:
        with open(asked.events, "a") as stream:
            stream.write(json.dumps(event) + "\n")

    seen = visible()
    if not seen:
        send(event="failed", status="not measured", reason="no usable GPU: CUDA_ERROR_NO_DEVICE")
        return 87
    with gpu_lock(seen[0]):
        begin, cases = time.time(), []
        send(event="ready", gpu=seen[0])
        for index, job in list(enumerate(jobs))[asked.start :]:
            send(event="started", index=index, case=job["case"])
            time.sleep(0.02 if asked.stage != "time" else 0.1)
            made: dict[str, Any] = {"status": "ok", "verdict": "correct", "notes": {"on": seen[0]}}
            if asked.stage == "time":
                made |= {"samples": {"duration_us": [2.0, 2.0], "baseline_us": [1.0, 1.0]}}
                made["figures"] = [{"metric": "duration", "value": 2.0, "unit": "us"}]
            if index == 1 and (_folder() / f"lose-{seen[0]}").exists():
                (_folder() / f"hidden-{seen[0]}").touch()
                made = {"status": "invalid access", "reason": "CUDA_ERROR_UNKNOWN (lost)"}
            cases.append(job["case"])
            send(event="finished", index=index, case=job["case"], result=made)
            if made["status"] != "ok":
                return 86
        with (_folder() / "workers").open("a") as stream:
            stream.write(json.dumps([seen[0], begin, time.time(), cases]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
