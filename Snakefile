# Tilewave, a table of contents. `snakemake --cores 1 report` runs it all.
import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

min_version("9.0")

# Jobs import the library from here, and so do the processes they start.
LIBRARY = str(Path(workflow.basedir) / "workflow")
sys.path.insert(0, LIBRARY)
FOUND = os.environ.get("PYTHONPATH")
# Many processes start, and each would read the library and its packages anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.update(PYTHONPATH=os.pathsep.join([LIBRARY, FOUND] if FOUND else [LIBRARY]))

from tilewave import library, outputs, plots, project, report
from tilewave.config import read as read_config
from tilewave.errors import UserError
from tilewave.stages import work
from tilewave.stages.work import BATCHED

SHIPPED = Path(workflow.basedir) / "config" / "config.yaml"

# A config given with --configfile stands alone: Snakemake would merge its studies into these.
if "studies" not in config:
    try:
        read_config(SHIPPED, project.config_name([SHIPPED]))
    except UserError as error:
        raise WorkflowError(str(error)) from None

    configfile: str(SHIPPED)


try:
    PROJECT = project.load(
        config,
        project.config_name(workflow.configfiles),
        files=workflow.configfiles,
        checked=not workflow.is_main_process,
    )
    if workflow.is_main_process:
        for reason in (*PROJECT.left_out.values(), *PROJECT.no_kernels.values()):
            print(f"Left out: {reason}", file=sys.stderr)
    WORK = work.find(PROJECT, decide=workflow.is_main_process, nodes=workflow.nodes)
except UserError as error:
    raise WorkflowError(str(error)) from None
os.environ.update(TILEWAVE_CONFIG=PROJECT.where)


# Read only under `--sdm apptainer`, which was not tried: the image says which Python and system the
# packages of requirements/base.txt are locked for, and must get them and the GPU (--nv) from you.
container: "docker://python:3.12-slim-bookworm"


RESULTS = PROJECT.config.output.results
REPORTS = PROJECT.config.output.reports


# Before the first job, and not in a dry run.
onstart:
    outputs.mark(PROJECT.config)


wildcard_constraints:
    batch=r"\d+",
    study="|".join(PROJECT.plan.studies),
    printed="pdf|png",
    drawn="svg|pdf|png",


localrules:
    report,


rule report:
    input:
        page=f"{REPORTS}/index.html",
        verdict=f"{RESULTS}/verdict.txt",
    message:
        "The report is in {input.page}"


include: "workflow/rules/measure.smk"
include: "workflow/rules/tune.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/report.smk"
