"""One study's figure, in three formats, with its data and a sidecar that says where it came from."""

from tilewave.report import figures
from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        study = figures.study_data(job.project, snakemake.wildcards.study, snakemake.input)  # noqa: F821
        figures.write(job.project, study, snakemake.output)  # noqa: F821
