"""The studies' figures in three formats, with their data and a sidecar that names their sources."""

from pathlib import Path

from tilewave.pipeline import rules
from tilewave.report import figures

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        inputs, outputs, cores = snakemake.input, snakemake.output, snakemake.threads
        study = snakemake.wildcards.get("study")
        studies = [study] if study else list(run.project.plan.studies)
        progress = rules.follow(run.project, "figures", "studies", studies)
        drawing = rules.cores(run, cores)
        paths = [*outputs]
        if "done" in outputs.keys():  # noqa: SIM118
            tables = run.project.reports / "tables"
            paths += [tables / f"{name}.csv" for name in run.project.summarised_studies]
        summary, failed = figures.write_all(
            run.project, studies, inputs, paths, drawing, progress.done
        )
        rules.say(f"  figures: {summary} in {progress.spent}")
        for name, failure in failed.items():
            rules.say(f"  {name} was not drawn: {failure.sentence}; the log has the traceback")
            run.note(f"{name}\n{failure.trace}\n")
        if "done" in outputs.keys():  # noqa: SIM118
            Path(outputs.done).write_text(f"{summary}\n")
        elif failed:
            raise SystemExit(1)
