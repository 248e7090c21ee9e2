"""Merge a live run's results into the recorded figures of its GPU."""

from tilewave.records import measured
from tilewave.stages import rules

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        given = snakemake.input
        pipeline = run.pipeline(given.compiled, threads=snakemake.threads)
        rules.say(rules.record(run, pipeline, measured.read(*given.measured, *given.executed)))
