"""The page: every figure with its table, source and statuses."""

from tilewave.report import page
from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        page.write(job.project, snakemake.input, snakemake.output[0])  # noqa: F821
