"""Execute the machine code of the cases of a part."""

from tilewave.pipeline import rules
from tilewave.records import measured

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        cores = snakemake.threads
        pipeline = run.pipeline(snakemake.input.compiled, snakemake.wildcards.scatteritem, cores)
        executed = rules.execute_part(run, pipeline, cores)
        measured.write(snakemake.output[0], executed.values())
