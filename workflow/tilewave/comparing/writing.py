"""Where a comparison goes: the terminal, and the files that are asked for."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tilewave.comparing import pairing, telling
from tilewave.comparing.changes import Comparison
from tilewave.errors import UserError
from tilewave.project import Project
from tilewave.records.store import write_atomically


def write(
    made: Comparison, document: Path | None, markdown: Path | None, page: Path | None
) -> None:
    """Print a comparison, and write it as JSON, as Markdown and, into a folder, as a page."""
    print(telling.text(made), end="")
    if document:
        write_atomically(document, (json.dumps(made.document(), indent=1) + "\n").encode())
    if markdown:
        write_atomically(markdown, telling.markdown(made).encode())
    if page:
        from tilewave.comparing import page as pages  # draws: matplotlib takes a second to load

        print(f"The page is {pages.write(page, made).resolve()}")


def of_project(project: Project) -> None:
    """Compare what a config names as ``base`` and ``head``, and write all files into ``compare/`` of its
    reports. Raises UserError."""
    config = project.config
    if not config.base:
        raise UserError(project.where, "base", config.base, "a folder, a git revision or A..B")
    asked = pairing.Asked(config.kernel_folders, operations=config.operation_folders)
    folder = project.reports / "compare"
    with tempfile.TemporaryDirectory(prefix="tilewave-") as work:
        made = pairing.compared(str(config.base), str(config.head) or None, asked, Path(work))
        write(made, folder / "comparison.json", folder / "comparison.md", folder)
