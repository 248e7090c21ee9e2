"""The machine code of one variant."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        told, cores = snakemake.wildcards, snakemake.threads  # noqa: F821
        run.listing(job, told.kernel, told.variant, cores)
