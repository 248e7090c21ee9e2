"""The best variant of each shape and dtype, as the races found it."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        best = run.best(job)
        best.to_csv(snakemake.output[0], index=False, lineterminator="\n")  # noqa: F821
        run.say(f"{len(best)} shapes in {snakemake.output[0]}")  # noqa: F821
