"""Compile a part of the interpreter that executes machine code, once for all executions."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        run.write(snakemake.output[0], run.interpreter(job, int(snakemake.wildcards.part)))  # noqa: F821
