"""Write the shared-memory excess of the run's cases as the baseline that later runs must reproduce."""

from tilewave.report import baseline
from tilewave.stages import rules

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        rules.say(baseline.write(run.project, snakemake.input.target, snakemake.input.records))
