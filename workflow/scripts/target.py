"""Which GPU the run is about: the live one, else a recorded one."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        run.write(snakemake.output[0], run.target(job))  # noqa: F821
