"""``tilewave report``: run the workflow in this folder, for a config or for given kernels."""

import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import yaml

from tilewave.basics import validation
from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import RECORDED, ROOT, child_environment
from tilewave.commands import flags
from tilewave.commands.unlock import unlock
from tilewave.kernel import result
from tilewave.pipeline import kernels_study, outputs, parameters
from tilewave.pipeline import project as projects
from tilewave.pipeline.config import parse
from tilewave.records.environment import fingerprint, has_gpu
from tilewave.records.folder import folders
from tilewave.records.store import write_where_other
from tilewave.report import verdict

WRITTEN = Path(kernels_study.RESULTS) / "config.yaml"
CONFIGS = (Path("config.yaml"), Path("config") / "config.yaml", WRITTEN)
"""The configs of a folder, in the order in which they are looked for."""
QUIET = ("host", "progress", "reason", "rules")
"""Parts of Snakemake's output that are hidden: jobs print their own progress, and errors stay."""


def add(commands: Any) -> None:
    flags.command(commands, "report", run, "operations", "run", written=str(WRITTEN))


def run(options: Namespace) -> int:
    """Return the report's exit code, with --kernels 1 if a case failed, 3 if none was checked. Raises UserError."""
    try:
        code = workflow(_config(options), "report", options.cores, options.only)
    except UserError as error:
        if error.value not in options.shapes:
            raise
        allowed = "a size, or sizes separated by x, as in 512x256x128"
        raise UserError(HERE, "--shapes", error.value, allowed) from error
    text = Path(kernels_study.RESULTS) / "verdict.txt"
    if options.kernels is not None and code == result.RIGHT and text.is_file():
        return result.UNCLEAR if verdict.UNCHECKED in text.read_text() else code
    return code


def latest() -> Path:
    """Return the config of this folder. Raises UserError if there is none."""
    config = next((path for path in CONFIGS if path.is_file()), None)
    if config is None:
        remedy = "Give --kernels FOLDER or --configfile FILE, or write a config.yaml"
        raise UserError.because(HERE, "this folder has no config", remedy)
    return config


def _config(options: Namespace) -> Path:
    flags.allow_headers(options)
    file: Path | None = options.configfile
    if options.kernels is None:
        for flag in ("shapes", "operations"):
            if getattr(options, flag):
                remedy = f"Add --kernels; a config names its own {flag}"
                raise UserError.because(HERE, f"--{flag} is given without --kernels", remedy)
        if file is None:
            return latest()
        return ROOT / "config" / "config.yaml" if file == Path("shipped") else file
    if file is not None:
        problem = "--kernels and --configfile exclude each other"
        raise UserError.because(HERE, problem, "Give one of --kernels and --configfile")
    for folder in options.kernels:
        if not Path(folder).expanduser().exists():
            raise UserError(HERE, "--kernels", folder, "a folder or kernel file that exists")
    timed = has_gpu(fingerprint()) or bool(folders(Path.cwd() / RECORDED))
    operation_folders = flags.use_operations(options)
    document = kernels_study.config(
        options.kernels, options.shapes, timed=timed, operation_folders=operation_folders
    )
    checked = parse(document, WRITTEN)
    outputs.check(checked, WRITTEN)
    parameters.mark(checked.output.results, checked.output.reports)
    text = "# Written by `tilewave report --kernels`. To change it, copy it to ./config.yaml.\n"
    write_where_other(WRITTEN, text + yaml.safe_dump(document, sort_keys=False, width=100))
    return WRITTEN


def workflow(config: Path, rule: str, cores: str = "all", only: str = "") -> int:
    """Run a rule here, print the page's path, and return the exit code. Raises UserError before anything runs."""
    document = validation.read_mapping(config, config) | ({"only": only} if only else {})
    # Nothing is compiled for it.
    page = projects.load(document, config, files=[config], thorough=False).reports / "index.html"
    if unlock(Path.cwd()):
        return 1
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--configfile", str(config), "--cores", cores, "--quiet", *QUIET, "--", rule]
    if only:
        command[-2:-2] = ["--config", f"only={only}"]
    code = subprocess.run(command, env=child_environment(), stdin=subprocess.DEVNULL).returncode
    if rule == "report" and page.is_file():
        print(f"The report is in {page.resolve()}")
    return code
