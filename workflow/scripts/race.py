"""Race the candidates of all kernels: live, from the store, or from a recording."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        run.write(snakemake.output[0], run.race(job))  # noqa: F821
