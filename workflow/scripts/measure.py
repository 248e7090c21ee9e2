"""Execute, check, time, profile or race what a batch of kernels has to measure."""

from pathlib import Path

from tilewave.stages import run, work

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        stage = snakemake.params.stage  # noqa: F821
        kernels = work.find(job.project, decide=False).kernels(stage, snakemake.wildcards.batch)  # noqa: F821
        Path(snakemake.output[0]).write_text(run.measure(job, stage, kernels, snakemake.threads))  # noqa: F821
