"""Write the shared-memory excess of the run's cases as the baseline that later runs must reproduce."""

from tilewave.report import baseline
from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        run.say(baseline.write(job.project, snakemake.input.target, snakemake.input.records))  # noqa: F821
