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
os.environ["PYTHONPATH"] = os.pathsep.join([LIBRARY, *filter(None, [os.environ.get("PYTHONPATH")])])

# A config given with --configfile stands alone: Snakemake would merge its studies into these.
if "studies" not in config:

    configfile: str(Path(workflow.basedir) / "config" / "config.yaml")


from tilewave import project
from tilewave.errors import UserError

try:
    PROJECT = project.load(config, project.config_name(workflow.configfiles))
except UserError as error:
    raise WorkflowError(str(error)) from None

RESULTS = PROJECT.config.output.results
REPORTS = PROJECT.config.output.reports


wildcard_constraints:
    kernel="|".join(PROJECT.plan.kernels),
    study="|".join(PROJECT.plan.studies),


localrules:
    report,


rule report:
    message:
        "The report is in {input.page}"
    input:
        page=f"{REPORTS}/index.html",
        verdict=f"{RESULTS}/verdict.txt",


include: "workflow/rules/compile.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/record.smk"
