"""All results in tidy tables, and what is known of compilations."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        tables, compiled = run.tables(job)
        for name, table in tables.items():
            table.to_parquet(snakemake.output[name], index=False)  # noqa: F821
        run.write(snakemake.output.compiled, compiled)  # noqa: F821
