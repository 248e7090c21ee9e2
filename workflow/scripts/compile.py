"""Compile the variants of a batch of kernels that are not compiled yet, and list their SASS."""

from pathlib import Path

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        kernels = snakemake.params.kernels.split(", ")  # noqa: F821
        Path(snakemake.output[0]).write_text(run.compile_kernels(job, kernels, snakemake.threads))  # noqa: F821
