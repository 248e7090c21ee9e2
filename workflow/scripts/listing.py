"""The machine code of one variant."""

from tilewave.pipeline import rules

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        rules.listing(run, snakemake.wildcards.variant, snakemake.threads)
