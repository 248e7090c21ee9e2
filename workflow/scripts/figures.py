"""The studies' figures, in three formats, with their data and a sidecar that says where they came from."""

from pathlib import Path

from tilewave.pipeline import rules
from tilewave.report import figures

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        given, made, cores = snakemake.input, snakemake.output, snakemake.threads
        asked = snakemake.wildcards.get("study")
        studies = [asked] if asked else list(run.project.plan.studies)
        progress = rules.follow(run.project, "figures", "studies", studies)
        drawing = rules.cores(run, cores)
        every = [*made]
        if "done" in made.keys():  # noqa: SIM118
            tables = run.project.reports / "tables"
            every += [tables / f"{name}.csv" for name in run.project.summarised_studies]
        told, failed = figures.write_all(run.project, studies, given, every, drawing, progress.done)
        rules.say(f"  figures: {told} in {progress.spent}")
        for name, why in failed.items():
            rules.say(f"  {name} was not drawn: {why.sentence}; the log has the traceback")
            run.note(f"{name}\n{why.trace}\n")
        if "done" in made.keys():  # noqa: SIM118
            Path(made.done).write_text(f"{told}\n")
        elif failed:
            raise SystemExit(1)
