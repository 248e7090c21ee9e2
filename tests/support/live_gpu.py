"""Checks of cases on a GPU, if there is one."""

from pathlib import Path
from typing import Any

import pytest

import executing_support as support
from tilewave.gpu.session import Session
from tilewave.records import environment

absent = not environment.has_gpu(environment.fingerprint())
live = pytest.mark.skipif(absent, reason="there is no GPU here")


def checked(
    session: Session, path: Path, shape: Any, macros: dict[str, Any] | None = None, wrong: str = ""
) -> None:
    """Check a case on the GPU, and assert that it is right, or wrong for this reason."""
    from tilewave.gpu.check import check

    outcome = check(session, support.job(path, shape, macros))
    verdict = "wrong" if wrong else "correct"
    assert (outcome.status, outcome.verdict) == ("ok", verdict), outcome.reason
    assert wrong in outcome.reason
