"""All results in tidy tables, the compiled variants, and the accesses to shared memory."""

from tilewave.pipeline import rules, watching
from tilewave.records import measured

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        inputs, outputs = snakemake.input, snakemake.output
        pipeline = run.pipeline(inputs.compiled, threads=snakemake.threads)
        results = measured.read(*inputs.measured, *inputs.executed)
        tables = rules.tables(run, pipeline, results).write(outputs, pipeline.cores)
        drawn = watching.drawn(pipeline)
        rules.write(outputs.accesses, drawn)
        rules.write(outputs.kernels, pipeline.about_kernels(rules.listings(pipeline, drawn)))
        list(tables)
