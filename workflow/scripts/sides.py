"""What some studies show on each recorded GPU, as one table."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        made, cores = snakemake.output, snakemake.threads  # noqa: F821
        run.sides(job, cores).to_parquet(made.sides, index=False)
