"""Compile the variants of a part that are not compiled yet."""

from tilewave.pipeline import rules

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        entries = rules.compile_part(run, snakemake.wildcards.scatteritem, snakemake.threads)
        rules.write(snakemake.output[0], entries)
