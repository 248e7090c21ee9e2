"""A study's summary: the few figures that answer its question, one row a variant."""

from tilewave import plots
from tilewave.report import figures
from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        name = snakemake.wildcards.study  # noqa: F821
        study = figures.study_data(job.project, name, snakemake.input)  # noqa: F821
        table = plots.summary(job.project.config.studies[name].plot, study)
        table.to_csv(snakemake.output[0], index=False, lineterminator="\n")  # noqa: F821
