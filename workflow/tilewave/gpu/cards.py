"""Several GPUs of one machine: which of them take part, and jobs that go on where one is lost.

A GPU is named by its UUID. `probe` says which there are, `measured` runs jobs on one after another: on
the first that is free, and what that one leaves on the next.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewave import environment
from tilewave import target as targets
from tilewave.config import Config
from tilewave.errors import UserError
from tilewave.gpu.clocks import SLOWED, throttle_words
from tilewave.gpu.device import CHOICE_VARIABLE, gpu_lock
from tilewave.jobs import Job
from tilewave.processes import Result, result
from tilewave.records.model import NOT_MEASURED

WAIT_S, POLL_S = 60.0, 5.0
"""How long a job waits for a busy GPU before it takes another one, and how often it looks."""
MOST_USED = 5
"""Percent of the time, of NVML's last sample, that a free GPU may be running kernels."""
MOST_MEMORY = 0.5
"""Share of a GPU's memory that others may hold."""

LOST = "is lost"

Keep = Callable[[Result], None]
Run = Callable[[list[Job], Keep], object]


def probe(config: Config, where: object) -> dict[str, Any]:
    """This machine's environment (see `target.probe`). With `gpus` in the config the first of those,
    with ``taking_part``: the environments with each of those; and ``left_out``: why others do not, by UUID.

    Raises UserError for one that is named and not there.
    """
    if config.gpus is None:
        return targets.probe(config.gpu)
    seen = environment.probe_all()
    if not seen[0].get("gpu"):
        return seen[0]
    chosen = seen if config.gpus == "all" else [_named(one, seen, where) for one in config.gpus]
    chosen = list({one["uuid"]: one for one in chosen}.values())
    whole = [one for one in chosen if " MIG " not in one["gpu"]]
    if not whole:
        raise UserError(where, "gpus", chosen[0]["gpu"], "whole GPUs: MIG's slices share one")
    first = whole[0]
    cards = [one for one in whole if targets.device(one) == targets.device(first)]
    left_out = {one["uuid"]: f"a slice: {one['gpu']}" for one in chosen if one not in whole}
    left_out |= {
        one["uuid"]: f"{one['gpu']}, not {first['gpu']}" for one in whole if one not in cards
    }
    names = [one["uuid"] for one in cards]
    cards = [{**one, "cards": names} if len(names) > 1 else one for one in cards]
    return {**cards[0], "taking_part": cards, "left_out": left_out}


def _named(name: int | str, seen: Sequence[dict[str, Any]], where: object) -> dict[str, Any]:
    """The GPU of an index or of (the beginning of) a UUID."""
    if str(name).isdigit():  # Snakemake's --config leaves numbers of a list as text
        found = list(seen[int(name) : int(name) + 1])
    else:
        found = [one for one in seen if one["uuid"].lower().startswith(str(name).lower())]
    if len(found) != 1:
        there = [f"{number}: {one['uuid']}" for number, one in enumerate(seen)]
        raise UserError(where, "gpus", name, there)
    return found[0]


def condition(uuid: str) -> str:
    """Why a GPU on which this run does nothing is not fit to measure on now; empty where it is, or
    where NVML cannot tell."""
    try:
        import pynvml as nvml

        nvml.nvmlInit()
    except Exception:  # no package, no library, no driver
        return ""
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        used = nvml.nvmlDeviceGetUtilizationRates(handle).gpu
        slowed = SLOWED & int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        others = len(nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except nvml.NVMLError_GpuIsLost:
        return LOST
    except nvml.NVMLError:  # not NVML's to see (a container), or not supported
        return ""
    finally:
        nvml.nvmlShutdown()
    if slowed:
        return f"is slowed down: {throttle_words(slowed)}"
    if used > MOST_USED:
        return f"is busy: {used} % of the time ({others} processes)"
    if memory.used > MOST_MEMORY * memory.total:
        return (
            f"is busy: {memory.used / memory.total:.0%} of its memory is taken ({others} processes)"
        )
    return ""


def _awaited(uuid: str, say: Callable[[str], None]) -> str:
    """Wait for a GPU, `WAIT_S` at most; why it is left out, empty once it is fit.

    Another run that measures there is waited for without a limit, as it waits for this one.
    """
    with gpu_lock(uuid, lambda: say(f"{uuid}: another run measures there; waiting")):
        end = time.monotonic() + WAIT_S
        while why := condition(uuid):
            if why == LOST:
                return why
            if time.monotonic() > end:
                return f"{why}, for {WAIT_S:g} s"
            say(f"{uuid} {why}; waiting")
            time.sleep(POLL_S)
    return ""


@contextlib.contextmanager
def _only(uuid: str) -> Iterator[None]:
    """Processes that are started meanwhile see this GPU and no other, and have a temporary folder of
    their own: there ncu has the lock by which one on another GPU would wait for this one."""
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        told = {"CUDA_VISIBLE_DEVICES": uuid, CHOICE_VARIABLE: uuid, "TMPDIR": folder}
        before = {name: os.environ.get(name) for name in told}
        os.environ.update(told)
        try:
            yield
        finally:
            _restore(before)


def _restore(before: Mapping[str, str | None]) -> None:
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def _suspicious(made: Result) -> bool:
    """Whether a GPU that is lost could be the reason for a result."""
    return made["status"] == NOT_MEASURED or "CUDA_ERROR_" in made["reason"]


def _lost(suspects: Sequence[Result]) -> str:
    """Why the GPU under which these results came is lost; empty where they are the cases' own."""
    if not suspects:
        return ""
    refused = [made["reason"] for made in suspects if "no usable GPU" in made["reason"]]
    if refused:
        return f"{LOST}: {refused[0]}"
    here = environment.probe()
    return "" if here.get("gpu") else f"{LOST}: {here.get('gpu_reason')}"


def _on_one(waiting: Sequence[Job], keep: Keep, run: Run) -> str:
    """Run jobs on the one GPU that is visible; why it is lost, empty where it is not.

    ``keep`` gets what the loss of the GPU cannot have spoilt; of a race nothing before all of it is.
    """
    group = {job.case: job.group or job.case for job in waiting}
    together: dict[str, list[str]] = {}
    for case, name in group.items():
        together.setdefault(name, []).append(case)
    held: dict[str, Result] = {}

    def finished(made: Result) -> None:
        held[made["case"]] = made
        names = together[group[made["case"]]]
        if all(name in held and not _suspicious(held[name]) for name in names):
            for name in names:
                keep(held.pop(name))

    run(list(waiting), finished)
    gone = _lost([made for made in held.values() if _suspicious(made)])
    if not gone:
        for made in held.values():
            keep(made)
    return gone


def measured(
    cards: Mapping[str, str],
    waiting: Sequence[Job],
    keep: Keep,
    run: Run,
    say: Callable[[str], None],
) -> list[Result]:
    """Results of jobs that one GPU measures, and the next one where that is lost or not free.

    cards: UUID -> environment id, in the order in which they are tried. ``run`` measures jobs where
    the process's variables say, and calls its second argument for each result. ``keep`` gets each with its ``environment``. Jobs that no GPU measured are *not measured* with what
    was wrong with each GPU, and the next run tries them again.
    """
    kept: dict[str, Result] = {}
    why: list[str] = []

    def finished(made: Result) -> None:
        kept[made["case"]] = made
        keep(made)

    for uuid, identity in cards.items():
        left = [job for job in waiting if job.case not in kept]
        if not left:
            break
        wrong = _awaited(uuid, say)
        if not wrong:
            with _only(uuid):
                wrong = _on_one(
                    left,
                    lambda made, identity=identity: finished(made | {"environment": identity}),  # type: ignore[misc]
                    run,
                )
        if wrong:
            why.append(f"{uuid} {wrong}")
            say(f"{why[-1]}; {sum(job.case not in kept for job in left)} cases are left")
    reason = f"no GPU was left: {'; '.join(why)}"
    for job in waiting:
        if job.case not in kept:
            finished(result(job, job.stage, NOT_MEASURED, reason, notes={"interrupted": reason}))
    return [kept[job.case] for job in waiting]
