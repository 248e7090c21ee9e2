"""The best variant of each shape and dtype, from the tuning runs."""

from tilewave.pipeline import rules
from tilewave.report import study_tables

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        best = study_tables.best(run, snakemake.input.compiled, snakemake.threads)
        best.to_csv(snakemake.output[0], index=False, lineterminator="\n")
        rules.say(f"  tune: {len(best)} rows in {snakemake.output[0]}")
