"""The times of some cases in all recordings, as one table."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        run.history(job).to_parquet(snakemake.output.history, index=False)  # noqa: F821
