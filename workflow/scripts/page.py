"""The pages: what was found, a page for each study and each kernel."""

from tilewave.report import site
from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        given, index, cores = snakemake.input, snakemake.output[0], snakemake.threads  # noqa: F821
        progress = run.follow(job.project, "pages", "kernels", job.project.plan.kernels)
        site.write(job.project, given, index, run.cores(job, cores), progress.done)
        run.say(f"  pages: {len(job.project.plan.kernels)} kernels in {progress.spent}")
