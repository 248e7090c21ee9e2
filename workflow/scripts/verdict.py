"""The verdict, after the page is written. The run fails if a figure was not drawn, or if the config is strict
and a case is not correct."""

from pathlib import Path

from tilewave.pipeline import rules
from tilewave.report import verdict

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        inputs = snakemake.input
        text = verdict.judge(run.project, inputs.cases, inputs.records, inputs.figures)
        Path(snakemake.output[0]).write_text(text)
