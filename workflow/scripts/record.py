"""Merge a live run's results into the recorded figures of its GPU."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        run.say(run.record(job))
