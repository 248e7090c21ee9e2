"""A tidy table as CSV."""

import pandas as pd

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        table = pd.read_parquet(snakemake.input[0])  # noqa: F821
        table.to_csv(snakemake.output[0], index=False, lineterminator="\n")  # noqa: F821
