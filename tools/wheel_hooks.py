"""Hooks of hatchling's build: the requirements and the commit."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

EXTRAS = ("gpu", "browser", "slurm", "mcp")
COMMIT = "commit.json"
CARRIED = {"wheel": f"tilewave/_home/{COMMIT}", "sdist": COMMIT}


def wanted(root: str, name: str, extra: str = "") -> list[str]:
    """Return the lines of requirements/NAME.in that ask for a package: before its line ``# [EXTRA]``, or after."""
    text = (Path(root) / "requirements" / f"{name}.in").read_text(encoding="utf-8")
    before, _, after = text.partition("\n# [")
    part = after.partition("]\n")[2] if extra else before
    return [line for line in map(str.strip, part.splitlines()) if line and line[0] != "#"]


class Requirements(MetadataHookInterface):  # type: ignore[misc]
    """The wheel's requirements, from requirements/*.in, where alone packages are named."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        metadata["dependencies"] = wanted(self.root, "base")
        execute, ncu = wanted(self.root, "base", "execute"), wanted(self.root, "gpu", "ncu")
        extras = {name: wanted(self.root, name) for name in EXTRAS}
        extras["dev"] = wanted(self.root, "test") + wanted(self.root, "lint")
        for name in ("gpu", "dev", "mcp"):
            extras[name] += execute
        extras["gpu"] += ncu
        metadata["optional-dependencies"] = extras | {"execute": execute, "ncu": ncu}


class Commit(BuildHookInterface[Any]):  # type: ignore[misc]
    """The wheel's commit, which its figures name: an installed package has no git to ask."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        kept = Path(self.root) / COMMIT  # of a source distribution, which has no git either
        if not kept.is_file():
            kept = Path(tempfile.mkdtemp(prefix="tilewave-")) / COMMIT
            commit = self._git("rev-parse", "HEAD")
            changed = self._git("status", "--porcelain", "--untracked-files=no")
            kept.write_text(json.dumps({"commit": commit, "dirty": bool(changed)}) + "\n")
        build_data["force_include"][str(kept)] = CARRIED[self.target_name]

    def _git(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                ["git", *arguments], cwd=self.root, capture_output=True, text=True
            )
        except OSError:  # no git here
            return ""
        return done.stdout.strip()
