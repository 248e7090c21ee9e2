"""Check, time or profile the cases of one kernel: live, from the store, or from a recording."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        stage = snakemake.params.stage  # noqa: F821
        report = snakemake.params.get("report")  # noqa: F821
        document = run.measure_kernel(job, stage, snakemake.wildcards.kernel, report)  # noqa: F821
        run.write(snakemake.output[0], document)  # noqa: F821
