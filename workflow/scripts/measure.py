"""Check, time, tune, count and sample the cases of a part."""

from tilewave.pipeline import rules
from tilewave.records import measured

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        cores = snakemake.threads
        pipeline = run.pipeline(snakemake.input.compiled, snakemake.wildcards.scatteritem, cores)
        results = rules.measure_part(run, pipeline, cores)
        measured.write(
            snakemake.output[0],
            (outcome for outcomes in results.values() for outcome in outcomes.values()),
        )
