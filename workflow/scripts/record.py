"""Merge a live run's results into the recorded values of its GPU."""

from tilewave.pipeline import rules
from tilewave.records import measured

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        inputs = snakemake.input
        pipeline = run.pipeline(inputs.compiled, threads=snakemake.threads)
        rules.say(rules.record(run, pipeline, measured.read(*inputs.measured, *inputs.executed)))
