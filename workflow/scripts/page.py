"""The pages: the index, and one page for each study and each kernel."""

from tilewave.pipeline import rules
from tilewave.report import site

if __name__ == "__main__":
    with rules.of_script(snakemake) as run:
        inputs, index, cores = snakemake.input, snakemake.output[0], snakemake.threads
        progress = rules.follow(run.project, "pages", "kernels", run.project.plan.kernels)
        site.write(run.project, inputs, index, rules.cores(run, cores), progress.done)
        rules.say(f"  pages: {len(run.project.plan.kernels)} kernels in {progress.spent}")
