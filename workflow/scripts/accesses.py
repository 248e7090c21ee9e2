"""Where the lanes of accesses to shared memory stand, of a case of each variant."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        run.write(snakemake.output[0], run.accesses(job, snakemake.threads))  # noqa: F821
