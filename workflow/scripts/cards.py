"""How much several GPUs of one machine differ: one case timed on each."""

from tilewave.stages import run

if __name__ == "__main__":
    with run.job(snakemake) as job:  # noqa: F821
        run.write(snakemake.output[0], run.compare_cards(job))  # noqa: F821
