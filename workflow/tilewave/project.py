"""One run's project: config, kernels and plan, loaded the same way by the DAG and by every job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewave.cases import Plan, expand, wants
from tilewave.config import Config, check_folders, parse
from tilewave.errors import UserError
from tilewave.kernels import Kernel, find_kernels
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store

LIBRARY = Path(__file__).parent
ROOT = LIBRARY.parent.parent


@dataclass(frozen=True)
class Project:
    """What a run is about, and where its folders are."""

    config: Config
    where: str
    kernels: dict[str, Kernel]
    plan: Plan
    recorded_root: Path

    @property
    def results(self) -> Path:
        return Path(self.config.output.results)

    @property
    def reports(self) -> Path:
        return Path(self.config.output.reports)

    @property
    def store(self) -> Store:
        """The store lies in the folder that the run works in."""
        return Store(Path(".tilewave").resolve())

    def recorded(self, target: Mapping[str, Any]) -> Recorded | None:
        """The recorded figures the target names, if any."""
        name = target["recorded"]
        return Recorded(self.recorded_root / name) if name else None

    def stage_path(self, stage: str, kernel: str) -> Path:
        """Where a stage's document of a kernel lies."""
        return self.results / stage / f"{kernel}.json"

    def stage_kernels(self, stage: str) -> list[str]:
        """Kernels with at least one case that the stage measures."""
        names = [
            request.case.variant.kernel.name
            for request in self.plan.requests.values()
            if wants(stage, request)
        ]
        return list(dict.fromkeys(names))

    def plan_digest(self, stage: str, of: str) -> str:
        """Digest of what the config asks of a stage, for one kernel or study where ``of`` says so.

        A job reruns when this changes, and only then: other studies' cases are not its business.
        """
        config = self.config
        parts: dict[str, Any] = {"target": config.target, "gpu": config.gpu}
        requests = [
            request
            for request in self.plan.requests.values()
            if of in ("", request.case.variant.kernel.name)
        ]
        if stage == "compile":
            variants = {request.case.variant.id for request in requests}
            parts |= {"variants": sorted(variants), "architectures": config.architectures}
        elif stage in ("check", "time", "counters"):
            section = {"check": config.check, "time": config.timing, "counters": config.counters}
            parts["how"] = section[stage].model_dump()
            parts["seed"] = config.seed
            parts["cases"] = [
                [r.case.id, sorted(r.counters) if stage == "counters" else ""]
                for r in requests
                if wants(stage, r)
            ]
        elif stage == "figure":
            parts["study"] = config.studies[of].model_dump(exclude={"cases", "time", "counters"})
            parts["cases"] = self.plan.studies[of]
            parts["style"] = config.style.model_dump()
        elif stage in ("tables", "page"):
            parts["cases"] = self.plan.studies
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def recorded_digest(self) -> str:
        """Digest of the recorded figures that a run may show; none where it measures live."""
        from tilewave.gpu.environment import fingerprint, has_gpu

        live = self.config.target == "auto" and has_gpu(fingerprint())
        if live or self.config.target == "live":
            return ""
        digest = hashlib.sha256()
        for path in sorted(self.recorded_root.glob("*/*")):
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()[:16]


def load(data: Mapping[str, Any], where: object, root: Path = ROOT) -> Project:
    """Check a config and expand it.

    Raises UserError for every mistake in the config or in a kernel file's front matter.
    """
    config = parse(data, where)
    kernels = find_kernels(check_folders(config, where, root))
    plan = expand(config, kernels, where)
    _check_names(config, kernels, where)
    return Project(config, str(where), kernels, plan, root / "resources" / "recorded")


def _check_names(config: Config, kernels: Mapping[str, Kernel], where: object) -> None:
    """Plots and rungs that are named must exist."""
    from tilewave import plots

    for name, study in config.studies.items():
        if study.plot not in plots.available():
            raise UserError(where, f"studies.{name}.plot", study.plot, plots.available())
        if study.options:
            plots.check_options(study.plot, study.options, where, f"studies.{name}.options")
    for kernel in kernels.values():
        before = kernel.front.follows
        if before is not None and before not in kernels:
            raise UserError(kernel.path, "follows", before, kernels)


def read(path: Path) -> Any:
    """A JSON document of an earlier stage."""
    return json.loads(path.read_text(encoding="utf-8"))


def library_digest(*rooms: str) -> str:
    """Digest of the library's modules in these rooms (files or folders).

    Given to rules as a parameter, so that a change of the code reruns what depends on it:
    Snakemake does not see the modules that a script imports.
    """
    digest = hashlib.sha256()
    for room in rooms:
        place = LIBRARY / room
        paths = [place] if place.is_file() else sorted(place.rglob("*"))
        for path in paths:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def config_name(configfiles: list[Any]) -> str:
    """The config file's path for error messages, relative where it can be."""
    path = Path(str(configfiles[-1])) if configfiles else ROOT / "config" / "config.yaml"
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return str(path)


def machine_fingerprint() -> str:
    """What this machine can measure, read from files: rules that need a GPU run again once it
    changes."""
    from tilewave.gpu.environment import fingerprint

    return json.dumps(fingerprint(), sort_keys=True)
