"""Tests of whole runs, minutes each: `make long`. All here are marked so."""

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
def place(tmp_path):
    """An empty folder with the study; what still works there is ended."""
    folder = tmp_path.resolve()
    (folder / "small.yaml").write_text(small_study.STUDY)
    yield folder
    for one in small_study.left(folder):
        with contextlib.suppress(psutil.Error):
            one.kill()


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """What the study finds when nobody disturbs it."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "small.yaml").write_text(small_study.STUDY)
    small_study.Run(folder).passed()
    return small_study.tables(folder)
