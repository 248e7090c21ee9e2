"""The studies' figures, in three formats, with their data and a sidecar that says where they came from."""

from pathlib import Path

from tilewave.report import figures
from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        given, made, cores = snakemake.input, snakemake.output, snakemake.threads  # noqa: F821
        studies = snakemake.params.studies  # noqa: F821
        progress = run.follow(job.project, "figures", "studies", studies)
        drawing = run.cores(job, cores)
        every = [*made]
        if "done" in made.keys():  # noqa: SIM118
            tables = job.project.reports / "tables"
            every += [tables / f"{name}.csv" for name in job.project.summarised_studies]
        told, failed = figures.write_all(job.project, studies, given, every, drawing, progress.done)
        run.say(f"  figures: {told} in {progress.spent}")
        for name, why in failed.items():
            run.say(f"  {name} was not drawn: {why.sentence}; the log has the traceback")
            job.note(f"{name}\n{why.trace}\n")
        if "done" in made.keys():  # noqa: SIM118
            Path(made.done).write_text(f"{told}\n")
        elif failed:
            raise SystemExit(1)
