"""Compile every variant of one kernel, and list its SASS."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        document = run.compile_kernel(job, snakemake.wildcards.kernel, snakemake.output.cubins)  # noqa: F821
        run.write(snakemake.output.document, document)  # noqa: F821
