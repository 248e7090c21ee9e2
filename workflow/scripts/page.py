"""The pages: what was found, a page for each study and each kernel."""

from tilewave.report import site
from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        site.write(job.project, snakemake.input, snakemake.output[0], snakemake.threads)  # noqa: F821
