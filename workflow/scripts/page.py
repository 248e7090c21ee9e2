"""The pages: the index, and one page for each study and each kernel."""

from tilewave.pipeline import rules
from tilewave.report import site

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        inputs, outputs, cores = snakemake.input, snakemake.output, snakemake.threads
        progress = rules.follow(run.project, "pages", "kernels", run.project.plan.kernels)
        drawing = rules.cores(run, cores)
        judged = site.write(run.project, inputs, outputs[0], drawing, progress.done)
        rules.write(outputs.judged, {**judged.document, "strict": run.project.config.strict})
        rules.say(f"  pages: {len(run.project.plan.kernels)} kernels in {progress.spent}")
