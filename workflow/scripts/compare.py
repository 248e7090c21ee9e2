"""Compare what the config's `base` and `head` name, and write the page."""

from tilewave.comparing import writing
from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        writing.of_project(job.project)
