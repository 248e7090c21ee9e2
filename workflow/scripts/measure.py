"""Execute, check, time, profile or race what a batch of kernels has to measure."""

from pathlib import Path

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        given, cores = snakemake.params, snakemake.threads  # noqa: F821
        told = run.measure(job, given.stage, given.kernels.split(", "), cores)
        Path(snakemake.output[0]).write_text(told)  # noqa: F821
