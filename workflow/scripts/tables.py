"""All results in tidy tables, what is known of compilations, and of accesses to shared memory."""

from tilewave.pipeline import rules, watching
from tilewave.records import measured

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        given, made = snakemake.input, snakemake.output
        pipeline = run.pipeline(given.compiled, threads=snakemake.threads)
        found = measured.read(*given.measured, *given.executed)
        tables = rules.tables(run, pipeline, found)
        tables.write(made, pipeline.cores)
        drawn = watching.drawn(pipeline)
        rules.write(made.accesses, drawn)
        rules.write(made.kernels, tables.about_kernels(rules.listings(pipeline, drawn)))
