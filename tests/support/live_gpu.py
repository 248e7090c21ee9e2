"""Cases that are checked on a GPU, where there is one."""

from pathlib import Path
from typing import Any

import pytest

import executing_support as support
from tilewave.gpu.session import Session
from tilewave.records import environment

live = pytest.mark.skipif(
    not environment.has_gpu(environment.fingerprint()), reason="there is no GPU here"
)


def checked(
    session: Session, path: Path, shape: Any, macros: dict[str, Any] | None = None, wrong: str = ""
) -> None:
    """Check a case on the GPU: it is right, or wrong for this reason."""
    from tilewave.gpu.check import check

    found = check(session, support.job(path, shape, macros))
    verdict = "wrong" if wrong else "correct"
    assert (found.status, found.verdict) == ("ok", verdict), found.reason
    assert wrong in found.reason
