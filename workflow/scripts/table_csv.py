"""A tidy table as CSV."""

import pandas as pd

if __name__ == "__main__":
    table = pd.read_parquet(snakemake.input[0])
    table.to_csv(snakemake.output[0], index=False, lineterminator="\n")
