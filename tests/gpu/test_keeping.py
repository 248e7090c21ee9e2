"""Resources that a worker keeps from one case to the next: buffers of the same sizes, a cubin."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from samples import a_job
from tilewave.gpu import buffers, session, timing
from tilewave.kernel.job import Job


class FakeMemory:
    """A memory that records its allocations in ``log``, which all instances share."""

    log: list[str]

    def __init__(self, gpu: Any) -> None:
        self.gpu = gpu

    def new(self, name: str, nbytes: int) -> buffers.DeviceBuffer:
        if nbytes > self.gpu.memory:
            raise MemoryError
        self.log.append(f"{name}{nbytes}")
        return buffers.DeviceBuffer(name, len(self.log) << 20, nbytes, self.gpu)

    def close(self) -> None:
        self.log.append("free")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(FakeMemory, "log", [], raising=False)
    monkeypatch.setattr(buffers, "DeviceMemory", FakeMemory)
    return FakeMemory.log


GPU = SimpleNamespace(memory=1 << 30, l2_bytes=1000, free_bytes=lambda: 1 << 30, sync=lambda: None)


def product(m: int, dtype: str = "f16") -> Job:
    dtypes = {"a": dtype, "b": dtype, "c": "f32", "accumulate": "f32"}
    return a_job(shape={"m": m, "n": 8, "k": 8}, dtypes=dtypes, seed=7)


def test_buffers_of_the_same_sizes_are_allocated_once_and_filled_for_every_case(log):
    filled: list[tuple[int, str, int]] = []
    support = SimpleNamespace(
        fill=lambda buffer, dtype, seed, stream: filled.append((buffer.pointer, dtype, stream))
    )
    session: Any = SimpleNamespace(gpu=GPU, support=support)
    kept = buffers.KeptBuffers(GPU)  # type: ignore[arg-type]
    # 512 bytes a set, and 2000 are to be exceeded: four sets.
    first, cold = timing.fill_sets(session, product(8), kept)  # type: ignore[arg-type]
    assert len(first) == 4 and cold and len(log) == 1 + 12
    streams = [stream for _, _, stream in filled]
    assert len(set(streams)) == 12
    again, _ = timing.fill_sets(session, product(8, "bf16"), kept)  # type: ignore[arg-type]
    assert timing.pointers_of(again) == timing.pointers_of(first) and len(log) == 13
    assert [stream for _, _, stream in filled[12:]] == streams
    assert {dtype for _, dtype, _ in filled[12:]} == {"bf16", "f32"}
    other, _ = timing.fill_sets(session, product(16), kept)  # type: ignore[arg-type]
    assert len(other) == 3 and log[13] == "free" and log[14:17] == ["a256", "b128", "c512"]


def test_buffers_that_do_not_fit_leave_nothing_behind(log: list[str]) -> None:
    kept = buffers.KeptBuffers(GPU)  # type: ignore[arg-type]

    def allocate(memory: Any) -> buffers.Sets:
        return [{"a": memory.new("a", 1), "b": memory.new("b", 2 << 30)}]

    for _ in range(2):
        with pytest.raises(MemoryError):
            kept.sets({"a": 1, "b": 2 << 30}, allocate)
    assert log == ["free", "a1", "free"] * 2


def test_cubins_stay_loaded_for_launches_of_the_same_kind(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "MODULES", 2)
    monkeypatch.setattr(session, "Module", lambda image: [image])
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    job = a_job(cubin=str(tmp_path / "one"))
    opened = session.Session(GPU)  # type: ignore[arg-type]
    first = opened.module(job)
    more_shared = replace(job, launch=replace(job.launch, shared_bytes=1 << 16))
    other = replace(job, cubin=str(tmp_path / "two"))
    assert opened.module(more_shared) is not first
    assert opened.module(replace(job, shape={"m": 1})) is first
    assert opened.module(other) == [b"two"]
    assert opened.module(job) is first
    opened.close()
    assert opened.module(job) is not first
