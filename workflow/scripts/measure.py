"""Execute, check, time, profile or race what a batch of kernels has to measure."""

from pathlib import Path

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        given = snakemake.params  # noqa: F821
        kernels = given.kernels.split(", ")
        Path(snakemake.output[0]).write_text(
            run.measure(job, given.stage, kernels, snakemake.threads)
        )  # noqa: F821
