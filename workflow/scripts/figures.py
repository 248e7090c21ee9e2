"""The studies' figures, in three formats, with their data and a sidecar that says where they came from."""

from pathlib import Path

from tilewave.report import figures
from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        given, made = snakemake.input, snakemake.output  # noqa: F821
        studies = snakemake.params.studies  # noqa: F821
        told = figures.write_all(job.project, studies, given, made, snakemake.threads)  # noqa: F821
        run.say(f"  figures: {told}")
        if "done" in made.keys():  # noqa: SIM118
            Path(made.done).write_text(f"{told}\n")
