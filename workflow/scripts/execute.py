"""Execute the machine code of one kernel's cases on the CPU: check it and count."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        document = run.execute_kernel(job, snakemake.wildcards.kernel)  # noqa: F821
        run.write(snakemake.output[0], document)  # noqa: F821
