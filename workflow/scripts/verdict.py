"""Fail the run, after the page is written, where a figure was not drawn, or where the config is strict and a
case is not right."""

from pathlib import Path

from tilewave.report import verdict
from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        given = snakemake.input  # noqa: F821
        text = verdict.judge(job.project, given.cases, given.records, given.figures)
        Path(snakemake.output[0]).write_text(text)  # noqa: F821
