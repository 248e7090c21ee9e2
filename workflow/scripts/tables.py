"""All results in tidy tables, what is known of compilations, and of accesses to shared memory."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        made, cores = snakemake.output, snakemake.threads  # noqa: F821
        tables = run.tables(job)
        tables.write(made, run.cores(job, cores))
        drawn = run.accesses(job, cores)
        run.write(made.accesses, drawn)
        run.write(made.compiled, tables.about_kernels(run.listings(job, drawn, cores)))
