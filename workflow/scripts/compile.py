"""Compile the variants of a batch of kernels that are not compiled yet, and list their SASS."""

from pathlib import Path

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        given, threads = snakemake.params, snakemake.threads  # noqa: F821
        told = run.compile_kernels(job, given.kernels.split(", "), threads, given.wanted)
        Path(snakemake.output[0]).write_text(told)  # noqa: F821
