"""Tests of whole runs, minutes each, marked long: `make long`."""

import contextlib
from pathlib import Path

import psutil
import pytest

import small_study


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker("long")


@pytest.fixture
def run_folder(tmp_path):
    """An empty folder with the study; afterwards processes in it are ended."""
    folder = tmp_path.resolve()
    (folder / "small.yaml").write_text(small_study.STUDY)
    yield folder
    for process in small_study.processes_in(folder):
        with contextlib.suppress(psutil.Error):
            process.kill()


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """The tables of an undisturbed run of the study."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "small.yaml").write_text(small_study.STUDY)
    small_study.Run(folder).passed()
    return small_study.tables(folder)
