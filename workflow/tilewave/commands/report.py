"""``tilewave report``: the workflow, run in the folder that one is in, for a config or for own kernels."""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tilewave.basics import validation
from tilewave.basics.errors import HERE, UserError
from tilewave.basics.paths import RECORDED, ROOT
from tilewave.commands import flags
from tilewave.commands.unlock import unlock
from tilewave.pipeline import outputs, own_study, parameters
from tilewave.pipeline import project as projects
from tilewave.pipeline.config import parse
from tilewave.records.environment import fingerprint, has_gpu
from tilewave.records.recorded import folders
from tilewave.records.store import write_where_other

WRITTEN = Path(own_study.RESULTS) / "config.yaml"
CONFIGS = (Path("config.yaml"), Path("config") / "config.yaml", WRITTEN)
"""Where a config is looked for, in this order."""
QUIET = ("host", "progress", "reason", "rules")
"""Of what Snakemake says: jobs tell of themselves, and errors are shown."""


def add(commands: Any) -> None:
    """Add the parser of this subcommand."""
    parser = commands.add_parser(
        "report", help="compile, check, time and profile kernels, and write the pages",
        description="Run the workflow in this folder and write its pages. With --kernels the studies are "
        f"made up for these kernels, and written to {WRITTEN}; else they are those of config.yaml.",
    )  # fmt: skip
    parser.add_argument(
        "--kernels", nargs="+", metavar="FOLDER", help="folders of kernels, or kernel files"
    )
    parser.add_argument(
        "--shapes", nargs="+", default=[], metavar="SHAPE",
        help="with --kernels: 4096, or 512x256x128; default: what the machine can do in short",
    )  # fmt: skip
    flags.add_operations(parser)
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="studies, kernels, dtypes, shapes: a,b,c"
    )
    parser.add_argument(
        "--configfile",
        type=Path,
        metavar="FILE",
        help="a config; `shipped` is Tilewave's full study",
    )
    parser.add_argument("--cores", default="all", metavar="N", help="default: %(default)s")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Write the report; the exit code. Raises UserError."""
    return workflow(_config(options), "report", options.cores, options.only)


def latest() -> Path:
    """The config of this folder. Raises UserError where there is none."""
    config = next((path for path in CONFIGS if path.is_file()), None)
    if config is None:
        allowed = "--kernels FOLDER, --configfile FILE, or a config.yaml in this folder"
        raise UserError(HERE, "config", None, allowed)
    return config


def _config(options: argparse.Namespace) -> Path:
    file: Path | None = options.configfile
    if options.kernels is None:
        for flag in ("shapes", "operations"):
            value = getattr(options, flag)
            if value:
                raise UserError(HERE, f"--{flag}", value, "with --kernels; a config has its own")
        if file is None:
            return latest()
        return ROOT / "config" / "config.yaml" if file == Path("shipped") else file
    if file is not None:
        raise UserError(HERE, "--configfile", str(file), "one of --kernels and --configfile")
    for folder in options.kernels:
        if not Path(folder).expanduser().exists():
            raise UserError(HERE, "--kernels", folder, "a folder or kernel file that exists")
    timed = has_gpu(fingerprint()) or bool(folders(Path.cwd() / RECORDED))
    document = own_study.config(
        options.kernels,
        options.shapes,
        timed=timed,
        operation_folders=flags.use_operations(options),
    )
    checked = parse(document, WRITTEN)
    outputs.check(checked, WRITTEN)
    parameters.mark(checked.output.results, checked.output.reports)
    text = "# Made by `tilewave report --kernels`; a copy in ./config.yaml is yours to change.\n"
    write_where_other(WRITTEN, text + yaml.safe_dump(document, sort_keys=False, width=100))
    return WRITTEN


def workflow(config: Path, rule: str, cores: str = "all", only: str = "") -> int:
    """Run a rule of the workflow in this folder, and say where the page is; the exit code.

    Raises UserError for mistakes in the config and in the kernels, before anything runs.
    """
    page = _project(config, only).reports / "index.html"
    if unlock(Path.cwd()):
        return 1
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--configfile", str(config), "--cores", cores, "--quiet", *QUIET, "--", rule]
    if only:
        command[-2:-2] = ["--config", f"only={only}"]
    code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    if rule == "report" and page.is_file():
        print(f"The report is in {page.resolve()}")
    return code


def _project(config: Path, only: str) -> projects.Project:
    """What the run will be about."""
    document = validation.read_mapping(config, config)
    return projects.load(
        document | ({"only": only} if only else {}), config, files=[config], thorough=False
    )
