"""All results in tidy tables, what is known of compilations, and of accesses to shared memory."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        tables, compiled = run.tables(job)
        for name, table in tables.items():
            table.to_parquet(snakemake.output[name], index=False)  # noqa: F821
        run.write(snakemake.output.compiled, compiled)  # noqa: F821
        accesses = run.accesses(job, snakemake.threads)  # noqa: F821
        run.write(snakemake.output.accesses, accesses)  # noqa: F821
