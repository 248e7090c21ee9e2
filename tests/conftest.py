"""Fixtures that several tests share."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import keeping
from samples import ROOT
from tilewave.basics import paths
from tilewave.basics.garbage import collect_seldom
from tilewave.kernel import front_matter, operations
from tilewave.pipeline import compiling
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store

if TYPE_CHECKING:
    from tilewave.gpu.session import Session

collect_seldom()

SHIPPED = ROOT / "resources" / "recorded"

LONGEST = {
    f"test_{name}.py"
    for name in (
        "comparing", "dag", "documents", "hostile", "ladder", "mma", "plots", "slurm", "warpgroups", "wgmma",
        "wrapping_operations",
    )
}  # fmt: skip
"""The longest test files, which come first, so that none of them runs alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the folder `long` unless it is asked for with `-m long`."""
    return (collection_path.name == "long" and "long" not in config.option.markexpr) or None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Keep pytest from collecting garbage at the end, which takes seconds and finds nothing."""
    gc.freeze()


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, empty, without user-defined operations."""
    monkeypatch.setenv("TILEWAVE_OPERATIONS", "")
    (tmp_path / "alone").mkdir()
    monkeypatch.chdir(tmp_path / "alone")
    yield tmp_path / "alone"
    operations.MODULES.use([])


@pytest.fixture(scope="session", autouse=True)
def shipped_kernels_are_read_once() -> Iterator[None]:
    """Reading them is half the time of loading a project, which a hundred tests do."""
    read = front_matter.load_kernel
    once = functools.cache(read)

    def load(path: Path) -> front_matter.Kernel:
        return once(path) if paths.is_shipped(path) else read(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(front_matter, "load_kernel", load)
        yield


@pytest.fixture(scope="session", autouse=True)
def shipped_recordings_are_read_once() -> Iterator[None]:
    """Files without damage are kept. Beginning a run looks for damage, which takes as long as the run."""
    load = Recorded._load
    kept: dict[tuple[Path, str, Callable[..., Any]], Any] = {}

    def once(self: Recorded, name: str, parse: Callable[..., Any]) -> Any:
        key = self.folder, name, parse
        if key in kept:
            return kept[key]
        content = load(self, name, parse)
        if self.folder.parent == SHIPPED and name not in self._lost:
            kept[key] = content
        return content

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorded, "_load", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def nvdisasm_runs_for_new_code_only() -> Iterator[None]:
    keeping.places()  # read before the processes that compile are forked
    listed = functools.partial(compiling.compile_now, listing_of=keeping.of_trial)
    stored = functools.partial(keeping.stored, read=compiling._stored)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "compile_now", listed)
        patch.setattr(compiling, "_stored", stored)
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_need_outlast_the_power() -> Iterator[None]:
    """Without fsync, a thousand compilations are written quickly to the store of a fresh clone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are executed as on three SMs, so that a small product has several tiles for each."""
    import executing_support as support

    support.with_sms(monkeypatch, 3)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """A worker's session on the GPU, for tests that are `live_gpu.live`."""
    from tilewave.gpu.device import open_gpu
    from tilewave.gpu.session import Session

    opened = Session(open_gpu())
    yield opened
    opened.close()
