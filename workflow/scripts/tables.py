"""All results in tidy tables, as Parquet and CSV."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        tables = run.tables(job)
        for name, path in snakemake.output.items():  # noqa: F821
            table = tables[name.removesuffix("_csv")]
            if name.endswith("_csv"):
                table.to_csv(path, index=False, lineterminator="\n")
            else:
                table.to_parquet(path, index=False)
